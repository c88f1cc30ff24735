//! `system_auth`: roles, and what they may do.

use super::{SystemTable, empty};

pub(super) const TABLES: &[SystemTable] = &[
    empty(
        "roles",
        "role definitions",
        "role text PRIMARY KEY, is_superuser boolean, can_login boolean, salted_hash text, \
         member_of set<text>",
    ),
    empty(
        "role_members",
        "role memberships lookup table",
        "role text, member text, PRIMARY KEY (role, member)",
    ),
    empty(
        "role_permissions",
        "permissions granted to db roles",
        "role text, resource text, permissions set<text>, PRIMARY KEY (role, resource)",
    ),
];
