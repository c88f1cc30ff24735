//! Commands about users, roles and logins.

use bson::doc;

use super::{Row, admin, at, on};

pub(super) const ROWS: &[Row] = &[
    admin(
        "_mergeAuthzCollections",
        "",
        "createUser any, dropUser any, createRole any, dropRole any, grantRole any, \
         revokeRole any, find admin.tempusers",
        |_| doc! { "_mergeAuthzCollections": 1, "tempUsersCollection": "admin.tempusers" },
    ),
    at(
        "authenticate",
        "",
        "anyone",
        |_| doc! { "authenticate": 1, "mechanism": "MONGODB-X509" },
    ),
    at(
        "connectionStatus",
        "",
        "anyone",
        |_| doc! { "connectionStatus": 1 },
    ),
    at(
        "createRole",
        "",
        "createRole db",
        |_| doc! { "createRole": "r", "privileges": [], "roles": [] },
    ),
    at(
        "createRole",
        "with a role",
        "createRole db, grantRole db",
        |_| doc! { "createRole": "r", "privileges": [], "roles": ["read"] },
    ),
    at(
        "createRole",
        "with a role of another database",
        "createRole db, grantRole elsewhere",
        |_| {
            doc! { "createRole": "r", "privileges": [], "roles": [{ "role": "read",
            "db": "elsewhere" }] }
        },
    ),
    at(
        "createRole",
        "with a privilege on a database",
        "createRole db, grantRole elsewhere",
        |_| doc! { "createRole": "r", "privileges": [on("elsewhere", "")], "roles": [] },
    ),
    at(
        "createRole",
        "with a privilege on a collection",
        "createRole db, grantRole elsewhere",
        |_| doc! { "createRole": "r", "privileges": [on("elsewhere", "c")], "roles": [] },
    ),
    at(
        "createRole",
        "with a privilege on all databases",
        "createRole db, grantRole admin",
        |_| doc! { "createRole": "r", "privileges": [on("", "")], "roles": [] },
    ),
    at(
        "createRole",
        "with a privilege on a collection of all databases",
        "createRole db, grantRole admin",
        |_| doc! { "createRole": "r", "privileges": [on("", "c")], "roles": [] },
    ),
    at(
        "createRole",
        "with a privilege on the cluster",
        "createRole db, grantRole admin",
        |_| {
            doc! { "createRole": "r", "privileges": [{ "resource": { "cluster": true },
            "actions": ["killop"] }], "roles": [] }
        },
    ),
    at(
        "createRole",
        "with a privilege on everything",
        "createRole db, grantRole admin",
        |_| {
            doc! { "createRole": "r", "privileges": [{ "resource": { "anyResource": true },
            "actions": ["anyAction"] }], "roles": [] }
        },
    ),
    at(
        "createRole",
        "with restrictions",
        "createRole db, setAuthenticationRestriction db",
        |_| {
            doc! { "createRole": "r", "privileges": [], "roles": [],
            "authenticationRestrictions": [] }
        },
    ),
    at(
        "createUser",
        "",
        "createUser db",
        |_| doc! { "createUser": "", "pwd": "x", "roles": [] },
    ),
    at(
        "createUser",
        "with a role",
        "createUser db, grantRole elsewhere",
        |_| doc! { "createUser": "", "pwd": "x", "roles": [{ "role": "read", "db": "elsewhere" }] },
    ),
    at(
        "createUser",
        "with restrictions",
        "createUser db, setAuthenticationRestriction db",
        |_| doc! { "createUser": "", "pwd": "x", "roles": [], "authenticationRestrictions": [] },
    ),
    at(
        "dropAllRolesFromDatabase",
        "",
        "dropRole db",
        |_| doc! { "dropAllRolesFromDatabase": 1 },
    ),
    at(
        "dropAllUsersFromDatabase",
        "",
        "dropUser db",
        |_| doc! { "dropAllUsersFromDatabase": 1 },
    ),
    at("dropRole", "", "dropRole db", |_| doc! { "dropRole": "r" }),
    at("dropUser", "", "dropUser db", |_| doc! { "dropUser": "u" }),
    at(
        "grantPrivilegesToRole",
        "on the database",
        "grantRole db",
        |db| doc! { "grantPrivilegesToRole": "r", "privileges": [on(db, "c")] },
    ),
    at(
        "grantPrivilegesToRole",
        "on another",
        "grantRole elsewhere",
        |_| doc! { "grantPrivilegesToRole": "r", "privileges": [on("elsewhere", "")] },
    ),
    at(
        "grantPrivilegesToRole",
        "on everything",
        "grantRole admin",
        |_| {
            doc! { "grantPrivilegesToRole": "r", "privileges": [{ "resource": {
            "anyResource": true }, "actions": ["anyAction"] }] }
        },
    ),
    at(
        "grantRolesToRole",
        "",
        "grantRole elsewhere",
        |_| doc! { "grantRolesToRole": "r", "roles": [{ "role": "read", "db": "elsewhere" }] },
    ),
    at(
        "grantRolesToUser",
        "",
        "grantRole elsewhere",
        |_| doc! { "grantRolesToUser": "u", "roles": [{ "role": "read", "db": "elsewhere" }] },
    ),
    at(
        "invalidateUserCache",
        "",
        "invalidateUserCache cluster",
        |_| doc! { "invalidateUserCache": 1 },
    ),
    at("logout", "", "anyone", |_| doc! { "logout": 1 }),
    at(
        "revokePrivilegesFromRole",
        "",
        "revokeRole elsewhere",
        |_| doc! { "revokePrivilegesFromRole": "r", "privileges": [on("elsewhere", "c")] },
    ),
    at(
        "revokePrivilegesFromRole",
        "on the cluster",
        "revokeRole admin",
        |_| {
            doc! { "revokePrivilegesFromRole": "r", "privileges": [{ "resource": {
            "cluster": true }, "actions": ["killop"] }] }
        },
    ),
    at(
        "revokeRolesFromRole",
        "",
        "revokeRole elsewhere",
        |_| doc! { "revokeRolesFromRole": "r", "roles": [{ "role": "read", "db": "elsewhere" }] },
    ),
    at(
        "revokeRolesFromUser",
        "",
        "revokeRole elsewhere",
        |_| doc! { "revokeRolesFromUser": "u", "roles": [{ "role": "read", "db": "elsewhere" }] },
    ),
    at(
        "rolesInfo",
        "of a database",
        "viewRole db",
        |_| doc! { "rolesInfo": 1 },
    ),
    at(
        "rolesInfo",
        "of another database",
        "viewRole elsewhere",
        |_| doc! { "rolesInfo": { "role": "r", "db": "elsewhere" } },
    ),
    at("saslContinue", "", "anyone", |_| doc! { "saslContinue": 1 }),
    at("saslStart", "", "anyone", |_| doc! { "saslStart": 1 }),
    at(
        "updateRole",
        "its privileges",
        "revokeRole any, grantRole elsewhere",
        |_| doc! { "updateRole": "r", "privileges": [on("elsewhere", "c")] },
    ),
    at(
        "updateRole",
        "its roles",
        "revokeRole any, grantRole elsewhere",
        |_| doc! { "updateRole": "r", "roles": [{ "role": "read", "db": "elsewhere" }] },
    ),
    at(
        "updateRole",
        "its restrictions",
        "revokeRole any, setAuthenticationRestriction db",
        |_| doc! { "updateRole": "r", "authenticationRestrictions": [] },
    ),
    at(
        "updateUser",
        "the password of another",
        "changePassword db",
        |_| doc! { "updateUser": "u", "pwd": "x" },
    ),
    at(
        "updateUser",
        "the mechanisms of another",
        "changePassword db",
        |_| doc! { "updateUser": "u", "mechanisms": ["SCRAM-SHA-256"] },
    ),
    at(
        "updateUser",
        "with digestPassword alone",
        "changePassword db",
        |_| doc! { "updateUser": "u", "digestPassword": true },
    ),
    at(
        "updateUser",
        "the data of another",
        "changeCustomData db",
        |_| doc! { "updateUser": "u", "customData": {} },
    ),
    at(
        "updateUser",
        "the roles",
        "revokeRole any, grantRole elsewhere",
        |_| doc! { "updateUser": "u", "roles": [{ "role": "read", "db": "elsewhere" }] },
    ),
    at(
        "updateUser",
        "the restrictions",
        "setAuthenticationRestriction db",
        |_| doc! { "updateUser": "u", "authenticationRestrictions": [] },
    ),
    at(
        "usersInfo",
        "of a database",
        "viewUser db",
        |_| doc! { "usersInfo": 1 },
    ),
    at(
        "usersInfo",
        "of another database",
        "viewUser elsewhere",
        |_| doc! { "usersInfo": { "user": "u", "db": "elsewhere" } },
    ),
    at(
        "usersInfo",
        "of all databases",
        "viewUser cluster",
        |_| doc! { "usersInfo": { "forAllDBs": true } },
    ),
];
