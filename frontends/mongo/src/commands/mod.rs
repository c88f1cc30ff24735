//! The table of commands: one file for each family, one row for each command.

pub(crate) mod asked;
mod catalog;
mod changing;
mod count;
mod create;
mod cursors;
mod fast;
mod find;
mod find_and_modify;
mod indexes;
mod insert;
pub(crate) mod server;
mod statements;
mod stats;
mod transactions;
mod update;
mod view;

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::command::Command;

const FAMILIES: &[&[Command]] = &[
    catalog::COMMANDS,
    count::COMMANDS,
    create::COMMANDS,
    cursors::COMMANDS,
    find::COMMANDS,
    find_and_modify::COMMANDS,
    indexes::COMMANDS,
    insert::COMMANDS,
    server::COMMANDS,
    crate::sharding::CLUSTER_COMMANDS,
    crate::sharding::COLLECTION_COMMANDS,
    transactions::COMMANDS,
    stats::COMMANDS,
    update::COMMANDS,
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
