//! The permissions of a request after its credentials are checked: every operation of the service
//! checks its grant first.

use crate::address::EntityAddress;
use crate::error::{Code, Result, ServiceError};

/// An operation that needs permission, and its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action<'a> {
    GetProperties,
    SetProperties,
    GetStats,
    /// Lists tables, or looks one up.
    QueryTables,
    CreateTable,
    DeleteTable,
    GetAcl,
    SetAcl,
    /// Reads many entities, within [`Grant::key_range`].
    QueryEntities {
        table: &'a str,
    },
    ReadEntity(EntityName<'a>),
    InsertEntity(EntityName<'a>),
    UpdateEntity(EntityName<'a>),
    MergeEntity(EntityName<'a>),
    /// Inserts, or replaces or merges what is there.
    UpsertEntity(EntityName<'a>),
    DeleteEntity(EntityName<'a>),
}

/// The entity of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntityName<'a> {
    pub(crate) table: &'a str,
    pub(crate) partition_key: &'a str,
    pub(crate) row_key: &'a str,
}

impl<'a> EntityName<'a> {
    pub(crate) fn of(address: &'a EntityAddress) -> Self {
        let EntityAddress {
            table,
            partition_key,
            row_key,
        } = address;
        Self {
            table,
            partition_key,
            row_key,
        }
    }
}

/// The permissions of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant(pub(super) Scope);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Signed with the account's key: everything.
    Owner,
    /// A bearer token: everything but access policies.
    Token,
    /// An account signature: its resource types and permissions.
    Account {
        resource_types: Letters,
        permissions: Letters,
    },
    /// A table's signature: entities of one table, perhaps only some of them.
    Table {
        table: String,
        permissions: Letters,
        range: Option<KeyRange>,
    },
}

impl Grant {
    /// Refuses actions that the credentials do not allow.
    pub(crate) fn check(&self, action: Action<'_>) -> Result<()> {
        match &self.0 {
            Scope::Owner => Ok(()),
            Scope::Token => match action {
                Action::GetAcl | Action::SetAcl => Err(Code::AuthorizationFailure.into()),
                _ => Ok(()),
            },
            Scope::Account {
                resource_types,
                permissions,
            } => check_account(action, *resource_types, *permissions),
            Scope::Table {
                table,
                permissions,
                range,
            } => check_table(action, table, *permissions, range.as_ref()),
        }
    }

    /// The entities to which queries are restricted; none if there is no restriction.
    pub(crate) fn key_range(&self) -> Option<&KeyRange> {
        match &self.0 {
            Scope::Table { range, .. } => range.as_ref(),
            Scope::Owner | Scope::Token | Scope::Account { .. } => None,
        }
    }
}

fn check_account(action: Action<'_>, resource_types: Letters, permissions: Letters) -> Result<()> {
    let (resource_type, allowed) = match action {
        Action::GetProperties | Action::GetStats => ("s", permissions.all("r")),
        Action::SetProperties => ("s", permissions.all("w")),
        Action::QueryTables => ("c", permissions.all("l")),
        Action::CreateTable => ("c", permissions.all("c") || permissions.all("w")),
        Action::DeleteTable => ("c", permissions.all("d")),
        _ => match entity_permissions(action) {
            Some(letters) => ("o", permissions.all(letters)),
            // The service keeps access policies to the account's keys.
            None => {
                return Err(outside(
                    "access policies, which need the key of the account",
                ));
            }
        },
    };
    if !resource_types.all(resource_type) {
        return Err(Code::AuthorizationResourceTypeMismatch.into());
    }
    if !allowed {
        return Err(Code::AuthorizationPermissionMismatch.into());
    }
    Ok(())
}

fn check_table(
    action: Action<'_>,
    table: &str,
    permissions: Letters,
    range: Option<&KeyRange>,
) -> Result<()> {
    let (touched, keys) = match action {
        Action::QueryEntities { table } => (table, None),
        Action::ReadEntity(name)
        | Action::InsertEntity(name)
        | Action::UpdateEntity(name)
        | Action::MergeEntity(name)
        | Action::UpsertEntity(name)
        | Action::DeleteEntity(name) => (name.table, Some((name.partition_key, name.row_key))),
        _ => return Err(Code::AuthorizationFailure.into()),
    };
    if !table.eq_ignore_ascii_case(touched) {
        return Err(outside("another table than the one that was signed"));
    }
    if !entity_permissions(action).is_some_and(|letters| permissions.all(letters)) {
        return Err(Code::AuthorizationPermissionMismatch.into());
    }
    match (range, keys) {
        (Some(range), Some((partition_key, row_key)))
            if !range.contains(partition_key, row_key) =>
        {
            Err(outside("an entity outside of the signed range of keys"))
        }
        _ => Ok(()),
    }
}

/// The letters that an action on entities needs, all of them; none for other actions.
fn entity_permissions(action: Action<'_>) -> Option<&'static str> {
    match action {
        Action::QueryEntities { .. } | Action::ReadEntity(_) => Some("r"),
        Action::InsertEntity(_) => Some("a"),
        Action::UpdateEntity(_) | Action::MergeEntity(_) => Some("u"),
        Action::UpsertEntity(_) => Some("au"),
        Action::DeleteEntity(_) => Some("d"),
        _ => None,
    }
}

fn outside(what: &str) -> ServiceError {
    Code::AuthorizationFailure.because(format!("It is about {what}."))
}

/// A set of lowercase letters, which is how signatures list permissions and resource types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Letters(u32);

impl Letters {
    /// Other characters mean nothing to this service.
    pub(super) fn parse(text: &str) -> Self {
        let letters = text.bytes().filter(u8::is_ascii_lowercase);
        Self(letters.fold(0, |set, letter| set | 1 << (letter - b'a')))
    }

    /// Whether all these letters are in the set.
    pub(super) fn all(self, letters: &str) -> bool {
        let wanted = Self::parse(letters).0;
        self.0 & wanted == wanted
    }
}

/// The entities of a table from one key to another, both inclusive, ordered by partition key and
/// then row key. Each end is a partition key and a row key; a row key has a partition key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) start: (Option<String>, Option<String>),
    pub(crate) end: (Option<String>, Option<String>),
}

impl KeyRange {
    pub(crate) fn contains(&self, partition_key: &str, row_key: &str) -> bool {
        let after_start = match (self.start.0.as_deref(), self.start.1.as_deref()) {
            (None, _) => true,
            (Some(partition), None) => partition_key >= partition,
            (Some(partition), Some(row)) => (partition_key, row_key) >= (partition, row),
        };
        let before_end = match (self.end.0.as_deref(), self.end.1.as_deref()) {
            (None, _) => true,
            (Some(partition), None) => partition_key <= partition,
            (Some(partition), Some(row)) => (partition_key, row_key) <= (partition, row),
        };
        after_start && before_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: EntityName<'_> = EntityName {
        table: "people",
        partition_key: "m",
        row_key: "5",
    };

    /// An action, the least resource type and letters of an account signature that allow it, and
    /// the least letters of a table's signature; none if nothing does.
    type Row = (
        Action<'static>,
        Option<(&'static str, &'static str)>,
        Option<&'static str>,
    );

    const ACTIONS: &[Row] = &[
        (Action::GetProperties, Some(("s", "r")), None),
        (Action::SetProperties, Some(("s", "w")), None),
        (Action::GetStats, Some(("s", "r")), None),
        (Action::QueryTables, Some(("c", "l")), None),
        (Action::CreateTable, Some(("c", "c")), None),
        (Action::CreateTable, Some(("c", "w")), None),
        (Action::DeleteTable, Some(("c", "d")), None),
        (Action::GetAcl, None, None),
        (Action::SetAcl, None, None),
        (
            Action::QueryEntities { table: "people" },
            Some(("o", "r")),
            Some("r"),
        ),
        (Action::ReadEntity(NAME), Some(("o", "r")), Some("r")),
        (Action::InsertEntity(NAME), Some(("o", "a")), Some("a")),
        (Action::UpdateEntity(NAME), Some(("o", "u")), Some("u")),
        (Action::MergeEntity(NAME), Some(("o", "u")), Some("u")),
        (Action::UpsertEntity(NAME), Some(("o", "au")), Some("au")),
        (Action::DeleteEntity(NAME), Some(("o", "d")), Some("d")),
    ];

    fn account(resource_types: &str, permissions: &str) -> Grant {
        Grant(Scope::Account {
            resource_types: Letters::parse(resource_types),
            permissions: Letters::parse(permissions),
        })
    }

    fn table(name: &str, permissions: &str, range: Option<KeyRange>) -> Grant {
        Grant(Scope::Table {
            table: name.to_owned(),
            permissions: Letters::parse(permissions),
            range,
        })
    }

    fn code(grant: &Grant, action: Action<'_>) -> Option<Code> {
        grant.check(action).err().map(|error| error.code)
    }

    fn without<'a>(all: &'a str, letters: &'a str) -> impl Iterator<Item = String> + 'a {
        letters.chars().map(|letter| all.replace(letter, ""))
    }

    #[test]
    fn owners_may_do_everything_and_tokens_nothing_about_policies() {
        for (action, ..) in ACTIONS {
            assert_eq!(code(&Grant(Scope::Owner), *action), None);
            let acl = matches!(action, Action::GetAcl | Action::SetAcl);
            let expected = acl.then_some(Code::AuthorizationFailure);
            assert_eq!(code(&Grant(Scope::Token), *action), expected);
        }
    }

    #[test]
    fn account_signatures_allow_what_they_list() {
        for (action, needed, _) in ACTIONS {
            let Some((resource_type, letters)) = needed else {
                let grant = account("sco", "rwdlacup");
                assert_eq!(code(&grant, *action), Some(Code::AuthorizationFailure));
                continue;
            };
            assert_eq!(
                code(&account(resource_type, letters), *action),
                None,
                "{action:?}"
            );
            for others in without("sco", resource_type) {
                let expected = Some(Code::AuthorizationResourceTypeMismatch);
                assert_eq!(code(&account(&others, "rwdlacup"), *action), expected);
            }
            if *action == Action::CreateTable {
                continue;
            }
            for others in without("rwdlacup", letters) {
                let expected = Some(Code::AuthorizationPermissionMismatch);
                assert_eq!(
                    code(&account("sco", &others), *action),
                    expected,
                    "{action:?}"
                );
            }
        }
        let expected = Some(Code::AuthorizationPermissionMismatch);
        assert_eq!(code(&account("c", "rdlaup"), Action::CreateTable), expected);
    }

    #[test]
    fn table_signatures_allow_what_they_list_on_their_table() {
        for (action, _, needed) in ACTIONS {
            let Some(letters) = needed else {
                let grant = table("people", "raud", None);
                assert_eq!(code(&grant, *action), Some(Code::AuthorizationFailure));
                continue;
            };
            assert_eq!(
                code(&table("PEOPLE", letters, None), *action),
                None,
                "{action:?}"
            );
            let expected = Some(Code::AuthorizationFailure);
            assert_eq!(code(&table("person", "raud", None), *action), expected);
            for others in without("raud", letters) {
                let expected = Some(Code::AuthorizationPermissionMismatch);
                assert_eq!(code(&table("people", &others, None), *action), expected);
            }
        }
    }

    #[test]
    fn ranges_bound_single_entities_and_are_told_to_queries() {
        let range = KeyRange {
            start: (Some("n".to_owned()), None),
            end: (None, None),
        };
        let grant = table("people", "raud", Some(range.clone()));
        assert_eq!(grant.key_range(), Some(&range));
        assert_eq!(account("sco", "r").key_range(), None);
        for (action, _, needed) in ACTIONS {
            let query = matches!(action, Action::QueryEntities { .. });
            if needed.is_some() {
                let expected = (!query).then_some(Code::AuthorizationFailure);
                assert_eq!(code(&grant, *action), expected, "{action:?}");
            }
        }
    }

    #[test]
    fn ranges_are_inclusive_and_ordered_by_both_keys() {
        let side = |(partition, row): (&str, &str)| {
            let key = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            (key(partition), key(row))
        };
        let check = |start, end, inside: &[(&str, &str)], outside: &[(&str, &str)]| {
            let range = KeyRange {
                start: side(start),
                end: side(end),
            };
            for (partition, row) in inside {
                assert!(
                    range.contains(partition, row),
                    "{range:?} {partition} {row}"
                );
            }
            for (partition, row) in outside {
                assert!(
                    !range.contains(partition, row),
                    "{range:?} {partition} {row}"
                );
            }
        };
        check(("", ""), ("", ""), &[("", ""), ("a", "1"), ("z", "9")], &[]);
        check(("b", ""), ("", ""), &[("b", ""), ("c", "0")], &[("a", "9")]);
        check(("", ""), ("b", ""), &[("", ""), ("b", "9")], &[("ba", "")]);
        check(
            ("b", "5"),
            ("d", "5"),
            &[("b", "5"), ("b", "6"), ("c", "0"), ("d", "5")],
            &[("b", "4"), ("d", "51"), ("a", "9"), ("e", "0")],
        );
        check(
            ("b", "5"),
            ("b", "5"),
            &[("b", "5")],
            &[("b", "4"), ("b", "50")],
        );
    }
}
