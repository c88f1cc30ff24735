//! The table of commands: one file for each family, one row for each command.

pub(crate) mod aggregate;
mod apply_ops;
pub(crate) mod asked;
mod bulk_write;
mod capped;
mod catalog;
mod changing;
pub(crate) mod cluster_parameters;
mod coll_mod;
mod count;
pub(crate) mod create;
mod cursors;
mod custom_action;
mod explain;
mod fast;
pub(crate) mod find;
mod find_and_modify;
pub(crate) mod hello;
mod indexes;
mod insert;
mod login;
mod merge_users;
mod parameters;
mod plan_cache;
pub(crate) mod repeats;
mod replication;
mod roles;
pub(crate) mod server;
mod sessions;
mod stage_options;
mod statements;
pub(crate) mod stats;
pub(crate) mod status;
mod testing;
mod transactions;
mod update;
mod users;
mod validate;
pub(crate) mod view;

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::command::Command;

const FAMILIES: &[&[Command]] = &[
    aggregate::COMMANDS,
    apply_ops::COMMANDS,
    bulk_write::COMMANDS,
    capped::COMMANDS,
    catalog::COMMANDS,
    cluster_parameters::COMMANDS,
    coll_mod::COMMANDS,
    count::COMMANDS,
    crate::sharding::CHUNK_COMMANDS,
    crate::sharding::CLUSTER_COMMANDS,
    crate::sharding::INSIGHT_COMMANDS,
    crate::sharding::COLLECTION_COMMANDS,
    crate::sharding::CONSISTENCY_COMMANDS,
    create::COMMANDS,
    cursors::COMMANDS,
    custom_action::COMMANDS,
    explain::COMMANDS,
    find::COMMANDS,
    find_and_modify::COMMANDS,
    hello::COMMANDS,
    indexes::COMMANDS,
    insert::COMMANDS,
    login::COMMANDS,
    merge_users::COMMANDS,
    parameters::COMMANDS,
    plan_cache::COMMANDS,
    replication::COMMANDS,
    roles::COMMANDS,
    server::COMMANDS,
    sessions::COMMANDS,
    stats::COMMANDS,
    status::COMMANDS,
    testing::COMMANDS,
    transactions::COMMANDS,
    update::COMMANDS,
    users::COMMANDS,
    validate::COMMANDS,
];

/// Every command.
pub(crate) fn all() -> impl Iterator<Item = &'static Command> {
    FAMILIES.iter().copied().flatten()
}

/// The command of this name.
pub(crate) fn find(name: &str) -> Option<&'static Command> {
    static BY_NAME: OnceLock<HashMap<&'static str, &'static Command>> = OnceLock::new();
    let by_name = BY_NAME.get_or_init(|| {
        let names = |command: &'static Command| {
            let aliases = command.aliases.iter().copied();
            let names = std::iter::once(command.name).chain(aliases);
            names.map(move |name| (name, command))
        };
        all().flat_map(names).collect()
    });
    by_name.get(name).copied()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_name_is_given_twice() {
        let mut names = HashSet::new();
        for command in all() {
            for name in std::iter::once(&command.name).chain(command.aliases) {
                assert!(names.insert(*name), "{name}");
            }
        }
    }
}
