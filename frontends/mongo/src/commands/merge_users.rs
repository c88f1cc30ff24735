//! `_mergeAuthzCollections`, with which mongorestore restores users and roles, from collections
//! that it filled with their documents.

use bson::{Bson, Document};
use tessera_mongo_language::error::bad_value;

use crate::access::{Access, Action, Need};
use crate::auth::{Role, User};
use crate::collection::Namespace;
use crate::command::Command;
use crate::failure::Result;
use crate::fields::{BOOL, Field, Fields, STRING, optional};
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::sharding::rows;

pub(crate) const COMMANDS: &[Command] = &[Command::new(
    "_mergeAuthzCollections",
    "Restores users and roles from collections with their documents.",
    Access::Decide(needs),
    |service, session, request| Box::pin(merge(service, session, request)),
)
.admin_only()
.writes()];

const FIELDS: &[Field] = &[
    optional(USERS, STRING),
    optional(ROLES, STRING),
    optional("db", STRING),
    optional("drop", BOOL),
];
const USERS: &str = "tempUsersCollection";
const ROLES: &str = "tempRolesCollection";

/// The documents may grant anything to anybody, so that rights on single databases do not do.
fn needs(request: &Request<'_>) -> Result<Vec<Need>> {
    /// No database can be called so: what is allowed there is allowed everywhere.
    const EVERYWHERE: &str = "$";
    const ACTIONS: [Action; 6] = [
        Action::CreateUser,
        Action::DropUser,
        Action::CreateRole,
        Action::DropRole,
        Action::GrantRole,
        Action::RevokeRole,
    ];
    let on_all = ACTIONS.map(|action| Need::on_database(action, EVERYWHERE));
    let mut needs = on_all.to_vec();
    let fields = Fields::of(request, FIELDS)?;
    for source in [USERS, ROLES] {
        if let Some(source) = source_of(&fields, source)? {
            let (database, collection) = (source.database(), source.collection());
            needs.push(Need::on_collection(Action::Find, database, collection));
        }
    }
    Ok(needs)
}

fn source_of(fields: &Fields<'_>, name: &str) -> Result<Option<Namespace>> {
    let source = fields.str(name).map(Namespace::parse);
    Ok(source.transpose()?)
}

async fn merge(service: &Service, _: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let fields = Fields::of(request, FIELDS)?;
    let (users, roles) = (source_of(&fields, USERS)?, source_of(&fields, ROLES)?);
    if users.is_none() && roles.is_none() {
        let message = format!("Must provide at least one of \"{USERS}\" and \"{ROLES}\"");
        return Err(bad_value(message).into());
    }
    let database = fields.str("db").filter(|database| !database.is_empty());
    let taken = |of: &str| database.is_none_or(|database| database == of);
    let drops = fields.bool("drop").unwrap_or(false);
    // All are read before any is changed: a document that is none leaves everything as it was.
    let users = read(service, users, User::read).await?;
    let roles = read(service, roles, Role::read).await?;
    if let Some(mut roles) = roles {
        roles.retain(|role| taken(&role.name.database));
        merge_roles(service, roles, drops.then_some(&taken)).await?;
    }
    if let Some(mut users) = users {
        users.retain(|user| taken(&user.name.database));
        merge_users(service, users, drops.then_some(&taken)).await?;
    }
    Ok(Reply::ok())
}

async fn read<T>(
    service: &Service,
    source: Option<Namespace>,
    read: fn(&Document) -> Option<T>,
) -> Result<Option<Vec<T>>> {
    let Some(source) = source else {
        return Ok(None);
    };
    let rows = rows::all(service, &source).await?;
    let damaged = |row: &Document| {
        let id = row.get("_id").unwrap_or(&Bson::Null);
        bad_value(format!(
            "the document with _id {id} of {source} is no user or role"
        ))
    };
    let each = rows
        .iter()
        .map(|row| Ok(read(row).ok_or_else(|| damaged(row))?));
    each.collect::<Result<_>>().map(Some)
}

/// Puts roles in place of those of the same names, and drops others of the databases that `drops`
/// names.
async fn merge_roles(
    service: &Service,
    roles: Vec<Role>,
    drops: Option<&(dyn Fn(&str) -> bool + Sync)>,
) -> Result<()> {
    let store = &service.store;
    for role in &roles {
        service.users.put_role(store, role).await?;
    }
    let Some(drops) = drops else {
        return Ok(());
    };
    let (old, damaged) = service.users.all_roles(store).await?;
    let old = old.into_iter().map(|role| role.name);
    for name in old.chain(damaged.into_iter().map(|lost| lost.name)) {
        let is_new = roles.iter().any(|role| role.name == name);
        if drops(&name.database) && !is_new {
            service.users.drop_role(store, &name).await?;
        }
    }
    Ok(())
}

/// Puts users in place of those of the same names, and drops others of the databases that `drops`
/// names. Those of the server's settings are not stored, and stay.
async fn merge_users(
    service: &Service,
    users: Vec<User>,
    drops: Option<&(dyn Fn(&str) -> bool + Sync)>,
) -> Result<()> {
    let store = &service.store;
    for user in &users {
        service.users.put_user(store, user).await?;
    }
    let Some(drops) = drops else {
        return Ok(());
    };
    let (old, damaged) = service.users.stored(store).await?;
    let old = old.into_iter().map(|user| user.name);
    for name in old.chain(damaged.into_iter().map(|lost| lost.name)) {
        let is_new = users.iter().any(|user| user.name == name);
        if drops(&name.database) && !is_new {
            service.users.drop_user(store, &name).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use crate::client::Client;

    async fn names(client: &mut Client, command: &str, list: &str) -> Vec<String> {
        let info = doc! { command: { "forAllDBs": true } };
        let info = match command {
            "usersInfo" => info,
            _ => doc! { command: 1 },
        };
        let reply = client.run("shop", info).await;
        let found = reply.get_array(list).unwrap().iter();
        let mut names: Vec<String> = found
            .map(|it| it.as_document().unwrap().get_str("_id").unwrap().to_owned())
            .collect();
        names.sort();
        names
    }

    /// As mongodump reads them and mongorestore sends them.
    #[tokio::test]
    async fn users_and_roles_come_back_from_a_dump() {
        let mut client = Client::new().await;
        for (database, user) in [("shop", "a"), ("shop", "b"), ("other", "c")] {
            let privilege = doc! {
                "resource": { "db": database, "collection": "c" }, "actions": ["find", "insert"],
            };
            let role = doc! { "createRole": user, "privileges": [privilege], "roles": [] };
            let create = doc! {
                "createUser": user, "pwd": "secret", "roles": [user, "read"],
                "customData": { "n": [1, { "x": null }] },
            };
            client.run(database, role).await;
            client.run(database, create).await;
        }
        let version = client
            .find("admin", "system.version", doc! { "_id": "authSchema" })
            .await;
        assert_eq!(version, [doc! { "_id": "authSchema", "currentVersion": 5 }]);
        let users = client.find("admin", "system.users", doc! {}).await;
        let roles = client.find("admin", "system.roles", doc! {}).await;
        let shown = client
            .run("shop", doc! { "usersInfo": 1, "showCredentials": true })
            .await;
        client.insert("admin", "tempusers", users.clone()).await;
        client.insert("admin", "temproles", roles.clone()).await;
        for database in ["shop", "other"] {
            client
                .run(database, doc! { "dropAllUsersFromDatabase": 1 })
                .await;
            client
                .run(database, doc! { "dropAllRolesFromDatabase": 1 })
                .await;
        }
        let late = doc! { "createUser": "late", "pwd": "secret", "roles": [] };
        client.run("shop", late).await;
        let merge = |database: &str, drop: bool| {
            doc! {
                "_mergeAuthzCollections": 1,
                "tempUsersCollection": "admin.tempusers",
                "tempRolesCollection": "admin.temproles",
                "drop": drop, "db": database, "writeConcern": { "w": "majority" },
            }
        };
        client.run("admin", merge("shop", false)).await;
        let found = names(&mut client, "usersInfo", "users").await;
        assert_eq!(found, ["shop.a", "shop.b", "shop.late"]);
        client.run("admin", merge("", true)).await;
        let found = names(&mut client, "usersInfo", "users").await;
        assert_eq!(found, ["other.c", "shop.a", "shop.b"]);
        assert_eq!(
            names(&mut client, "rolesInfo", "roles").await,
            ["shop.a", "shop.b"]
        );
        assert_eq!(client.find("admin", "system.users", doc! {}).await, users);
        assert_eq!(client.find("admin", "system.roles", doc! {}).await, roles);
        let again = client
            .run("shop", doc! { "usersInfo": 1, "showCredentials": true })
            .await;
        assert_eq!(again.get("users"), shown.get("users"));
    }

    #[tokio::test]
    async fn what_is_no_user_changes_nothing() {
        let mut client = Client::new().await;
        let create = doc! { "createUser": "a", "pwd": "secret", "roles": [] };
        client.run("shop", create).await;
        client
            .insert("admin", "t", vec![doc! { "_id": "shop.b", "user": "b" }])
            .await;
        let merge = doc! {
            "_mergeAuthzCollections": 1, "tempUsersCollection": "admin.t", "drop": true, "db": "",
        };
        assert_ne!(client.code("admin", merge).await, 0);
        assert_eq!(
            client
                .code("admin", doc! { "_mergeAuthzCollections": 1 })
                .await,
            2
        );
        assert_eq!(names(&mut client, "usersInfo", "users").await, ["shop.a"]);
    }
}
