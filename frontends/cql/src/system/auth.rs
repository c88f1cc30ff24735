//! `system_auth`: roles, and what they may do.

use tessera_core::engine::BoxFuture;

use super::{Cell, Cells, Row, Source, SystemTable};
use crate::error::Result;

pub(super) const TABLES: &[SystemTable] = &[
    SystemTable {
        name: "roles",
        comment: "role definitions",
        columns: "role text PRIMARY KEY, is_superuser boolean, can_login boolean, \
                  salted_hash text, member_of set<text>",
        rows: roles,
    },
    SystemTable {
        name: "role_members",
        comment: "role memberships lookup table",
        columns: "role text, member text, PRIMARY KEY (role, member)",
        rows: members,
    },
    SystemTable {
        name: "role_permissions",
        comment: "permissions granted to db roles",
        columns: "role text, resource text, permissions set<text>, PRIMARY KEY (role, resource)",
        rows: permissions,
    },
    SystemTable {
        name: "resource_role_permissons_index",
        comment: "index of db roles with permissions granted on a resource",
        columns: "resource text, role text, PRIMARY KEY (resource, role)",
        rows: permissions,
    },
];

fn roles<'a>(source: &'a Source<'a>) -> BoxFuture<'a, Result<Vec<Row>>> {
    Box::pin(async move {
        let roles = source.service.roles.all().await?;
        let rows = roles.iter().map(|(name, role)| {
            let cells = Cells::of(source.table)
                .with("role", name)
                .with("is_superuser", role.is_superuser)
                .with("can_login", role.can_login);
            let cells = match &role.password {
                Some(hashed) => cells.with("salted_hash", hashed),
                None => cells,
            };
            let cells = match role.member_of.is_empty() {
                true => cells,
                false => cells.with("member_of", Cell::list(&role.member_of)),
            };
            cells.row()
        });
        Ok(rows.collect())
    })
}

fn members<'a>(source: &'a Source<'a>) -> BoxFuture<'a, Result<Vec<Row>>> {
    Box::pin(async move {
        let mut rows = Vec::new();
        for (member, role) in source.service.roles.all().await?.iter() {
            rows.extend(role.member_of.iter().map(|of| {
                Cells::of(source.table)
                    .with("role", of)
                    .with("member", member)
                    .row()
            }));
        }
        Ok(rows)
    })
}

fn permissions<'a>(source: &'a Source<'a>) -> BoxFuture<'a, Result<Vec<Row>>> {
    Box::pin(async move {
        let mut rows = Vec::new();
        for (name, role) in source.service.roles.all().await?.iter() {
            rows.extend(role.permissions.iter().map(|(resource, permissions)| {
                Cells::of(source.table)
                    .with("role", name)
                    .with("resource", resource)
                    .with("permissions", Cell::list(permissions))
                    .row()
            }));
        }
        Ok(rows)
    })
}
