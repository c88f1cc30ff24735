//! Every kind of statement by name: one that is missing here does not compile.

use crate::statement::{Access, Drop, DropKind, Statement};

macro_rules! kinds {
    ($($name:literal: $pattern:pat,)*) => {
        /// All of them.
        pub(super) const KINDS: &[&str] = &[$($name),*];

        /// The kind of a statement.
        pub(super) fn kind(statement: &Statement) -> &'static str {
            match statement {
                $($pattern => $name,)*
            }
        }
    };
}

kinds! {
    "SELECT": Statement::Select(_),
    "INSERT": Statement::Insert(_),
    "INSERT JSON": Statement::InsertJson(_),
    "UPDATE": Statement::Update(_),
    "DELETE": Statement::Delete(_),
    "BATCH": Statement::Batch(_),
    "USE": Statement::Use(_),
    "TRUNCATE": Statement::Truncate(_),
    "CREATE KEYSPACE": Statement::CreateKeyspace(_),
    "ALTER KEYSPACE": Statement::AlterKeyspace { .. },
    "DROP KEYSPACE": Statement::Drop(Drop { kind: DropKind::Keyspace(_), .. }),
    "CREATE TABLE": Statement::CreateTable(_),
    "ALTER TABLE": Statement::AlterTable(_),
    "DROP TABLE": Statement::Drop(Drop { kind: DropKind::Table(_), .. }),
    "CREATE TYPE": Statement::CreateType(_),
    "ALTER TYPE": Statement::AlterType(_),
    "DROP TYPE": Statement::Drop(Drop { kind: DropKind::Type(_), .. }),
    "CREATE INDEX": Statement::CreateIndex(_),
    "DROP INDEX": Statement::Drop(Drop { kind: DropKind::Index(_), .. }),
    "CREATE MATERIALIZED VIEW": Statement::CreateView(_),
    "ALTER MATERIALIZED VIEW": Statement::AlterView { .. },
    "DROP MATERIALIZED VIEW": Statement::Drop(Drop { kind: DropKind::View(_), .. }),
    "CREATE FUNCTION": Statement::CreateFunction(_),
    "DROP FUNCTION": Statement::Drop(Drop { kind: DropKind::Function(_), .. }),
    "CREATE AGGREGATE": Statement::CreateAggregate(_),
    "DROP AGGREGATE": Statement::Drop(Drop { kind: DropKind::Aggregate(_), .. }),
    "CREATE TRIGGER": Statement::CreateTrigger { .. },
    "DROP TRIGGER": Statement::Drop(Drop { kind: DropKind::Trigger(..), .. }),
    "DESCRIBE": Statement::Describe(_),
    "CREATE ROLE": Statement::Access(Access::CreateRole { .. }),
    "ALTER ROLE": Statement::Access(Access::AlterRole { .. }),
    "DROP ROLE": Statement::Access(Access::DropRole { .. }),
    "GRANT": Statement::Access(Access::Grant { .. }),
    "REVOKE": Statement::Access(Access::Revoke { .. }),
    "GRANT of a role": Statement::Access(Access::GrantRole { .. }),
    "REVOKE of a role": Statement::Access(Access::RevokeRole { .. }),
    "LIST PERMISSIONS": Statement::Access(Access::ListPermissions(_)),
    "LIST ROLES": Statement::Access(Access::ListRoles { .. }),
    "LIST USERS": Statement::Access(Access::ListUsers),
    "ADD IDENTITY": Statement::Access(Access::AddIdentity { .. }),
    "DROP IDENTITY": Statement::Access(Access::DropIdentity { .. }),
}
