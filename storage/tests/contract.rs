//! The engine contract: one list of behaviours, run on every engine.
//!
//! A behaviour is an async function that takes a [`Harness`](harness::Harness), which opens the
//! engine. Adding one is a function in `contract/` and its name in the list below.

#[cfg(test)]
#[path = "postgres/cluster.rs"]
#[expect(dead_code, reason = "tests/postgres.rs uses the rest of it")]
mod cluster;
#[cfg(test)]
#[path = "contract/feed.rs"]
mod feed;
#[cfg(test)]
#[path = "contract/guards.rs"]
mod guards;
#[cfg(test)]
#[path = "contract/harness.rs"]
mod harness;
#[cfg(test)]
#[path = "contract/lifecycle.rs"]
mod lifecycle;
#[cfg(test)]
#[path = "contract/log.rs"]
mod log;
#[cfg(test)]
#[path = "contract/ranges.rs"]
mod ranges;
#[cfg(test)]
#[path = "contract/tidying.rs"]
mod tidying;
#[cfg(test)]
#[path = "contract/transactions.rs"]
mod transactions;

/// Makes one test of each behaviour for each engine.
macro_rules! contract {
    ($($module:ident :: { $($behaviour:ident),* $(,)? })*) => {
        contract!(@engine memory Memory $($($module $behaviour)*)*);
        contract!(@engine rocks_group RocksGroup $($($module $behaviour)*)*);
        contract!(@engine rocks_periodic RocksPeriodic $($($module $behaviour)*)*);
        contract!(@engine postgres Postgres $($($module $behaviour)*)*);
    };
    (@engine $engine:ident $kind:ident $($module:ident $behaviour:ident)*) => {
        #[cfg(test)]
        mod $engine {
            use crate::harness::{EngineKind, Harness};

            $(
                #[test]
                fn $behaviour() {
                    Harness::run(EngineKind::$kind, crate::$module::$behaviour);
                }
            )*
        }
    };
}

contract! {
    transactions::{
        a_commit_is_seen_by_the_next_snapshot_and_not_by_an_older_one,
        a_lost_update_is_refused,
        write_skew_is_refused_through_a_guard,
        a_guard_on_an_absent_key_refuses_its_creation_meanwhile,
        guards_alone_are_checked,
        writes_to_other_keys_do_not_conflict,
        an_old_transaction_of_untouched_keys_commits_beside_any_load,
        of_32_writers_of_one_unique_value_exactly_one_wins,
        tallies_of_32_writers_add_up_without_conflicts,
        tallies_follow_deletes_in_commit_order,
        the_sum_of_all_accounts_never_changes,
        counters_incremented_with_retries_count_every_success,
        an_empty_commit_is_done,
        versions_grow_and_snapshots_know_theirs,
    }
    guards::{
        two_guarded_deletes_of_one_absent_key_conflict,
        a_guarded_delete_conflicts_with_a_newer_put,
        two_puts_of_one_absent_key_conflict,
        two_guarded_deletes_of_one_present_key_conflict,
        a_guarded_delete_that_was_never_committed_refuses_nobody,
        a_refused_guarded_delete_succeeds_from_a_fresh_snapshot,
        a_guarded_delete_and_a_range_delete_apply_both,
        contenders_for_an_absent_key_keep_a_rule_among_them,
        an_old_contender_for_an_absent_key_is_refused,
        a_guarded_version_key_conflicts_with_every_change_of_it,
        writers_that_guard_one_key_do_not_conflict,
    }
    tidying::{
        tidying_leaves_every_sum_as_it_is,
        a_tally_of_nothing_is_gone_after_tidying,
        tidying_beside_writers_loses_nothing,
        an_old_snapshot_reads_and_commits_beside_tidying,
        what_only_looks_like_a_tally_stays,
    }
    ranges::{
        scans_return_the_range_in_order_and_in_reverse,
        pages_are_bounded_by_rows_and_by_bytes,
        a_page_has_at_least_one_entry,
        keys_only_scans_leave_values_out,
        empty_ranges_hold_nothing,
        long_scans_page_through_everything_once,
        scans_under_concurrent_writes_see_one_moment,
        a_range_delete_removes_exactly_its_range,
        a_range_delete_and_puts_apply_in_the_order_of_the_calls,
        a_range_delete_without_end_removes_the_rest,
        a_range_delete_conflicts_with_a_newer_write_in_it,
        a_write_conflicts_with_a_newer_range_delete_over_it,
        overlapping_range_deletes_conflict,
        scans_skip_long_runs_of_deleted_keys,
        approximate_size_follows_the_data,
    }
    log::{
        entries_come_with_their_commit_in_the_order_of_the_calls,
        stamps_of_commits_that_follow_each_other_grow,
        appending_never_conflicts_and_a_refused_commit_appends_nothing,
        the_log_is_read_as_anything_else_and_removed_by_ranges,
        only_what_belongs_to_the_log_can_be_appended,
        a_follower_beside_32_writers_sees_each_commit_once_whole_and_in_order,
        stamps_go_on_after_a_restart_and_begin_anew_in_a_checkpoint,
        a_copy_begins_an_epoch_behind_those_of_its_source,
        tending_the_log_keeps_what_is_new,
    }
    feed::{
        every_change_is_told_once_and_in_order_whatever_the_container_goes_through,
        a_feed_turned_on_beside_writers_tells_all_that_begins_later,
        nobody_following_leaves_the_log_empty,
        every_position_is_good_after_a_restart,
        positions_that_a_copy_or_a_backup_never_had_are_lost_and_the_others_good,
    }
    lifecycle::{
        multi_get_answers_in_order,
        long_keys_and_large_values_come_back_whole,
        what_is_over_a_limit_is_refused_and_nothing_is_applied,
        a_snapshot_held_over_many_commits_reads_its_moment_and_commits_or_conflicts,
        a_closed_engine_answers_unavailable,
        closing_answers_every_waiting_commit,
        reopening_finds_everything,
        an_engine_that_was_dropped_and_not_closed_opens_again_at_once,
        a_checkpoint_under_load_opens_and_is_consistent,
    }
}
