//! Every command with every built-in role and with none, held against what MongoDB documents; and
//! the same as a document for people, which is kept current here.

mod attacks;
mod commands;
mod cursors;
mod roles;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use bson::{Bson, Document, doc};

use self::commands::{Row, To, rows};
use self::roles::{DIFFERENCES, ROLES, Role};
use crate::client::{Client, Service};
use crate::login::connect_as;

/// The database that roles belong to, if they are not of `admin`.
const OWN: &str = "shop";
const DATABASES: [&str; 2] = [OWN, "other"];

/// What an action is done to.
#[derive(Debug)]
enum Resource<'a> {
    Cluster,
    Any,
    Database(&'a str),
    Collection(&'a str, &'a str),
}

impl<'a> Resource<'a> {
    fn parse(text: &'a str, database: &'a str) -> Self {
        let named = |name: &'a str| if name == "db" { database } else { name };
        match text {
            "cluster" => Self::Cluster,
            "any" => Self::Any,
            text => match text.split_once('.') {
                Some((of, name)) => Self::Collection(named(of), name),
                None => Self::Database(named(text)),
            },
        }
    }

    /// Whether it lies where a role's actions apply.
    fn is_in(&self, place: &str, own: &str) -> bool {
        let ordinary = |name: &str| !name.starts_with("system.") || name == "system.js";
        let apart = |name: &str| name == "local" || name == "config";
        let place = match place.strip_prefix("own") {
            Some(rest) => format!("{own}{rest}"),
            None => place.to_owned(),
        };
        match (place.as_str(), self) {
            ("all", _) | ("cluster", Self::Cluster) | ("any", Self::Any) => true,
            ("any", Self::Database(database)) => !apart(database),
            ("any", Self::Collection(database, name)) => !apart(database) && ordinary(name),
            (place, Self::Database(database)) => place == *database,
            (place, Self::Collection(database, name)) => match place.split_once('.') {
                Some((of, only)) => (of == "*" || of == *database) && only == *name,
                None => place == *database && ordinary(name),
            },
            _ => false,
        }
    }
}

/// Whether a role of a database allows an action.
fn allows(role: &Role, own: &str, action: &str, on: &Resource<'_>) -> bool {
    let direct = role.allows.iter().any(|(place, actions)| {
        let acts = |known: &str| known == action || known == "anyAction";
        on.is_in(place, own) && actions.split_whitespace().any(acts)
    });
    direct
        || role.contains.iter().any(|contained| {
            let (name, database) = contained.split_once('@').unwrap_or((contained, own));
            allows(find_role(name), database, action, on)
        })
}

fn find_role(name: &str) -> &'static Role {
    ROLES.iter().find(|role| role.name == name).unwrap()
}

/// What a row expects: of nobody, of a user without roles, and of one with a role.
fn expected(row: &Row, role: Option<&Role>, database: &str) -> bool {
    match row.needs {
        "anyone" | "user" => return true,
        _ => {}
    }
    let Some(role) = role else {
        return false;
    };
    let own = if role.in_admin { "admin" } else { OWN };
    let has = |need: &str| {
        let (negated, need) = match need.strip_prefix("not ") {
            Some(need) => (true, need),
            None => (false, need),
        };
        let (action, resource) = need.split_once(' ').unwrap();
        allows(role, own, action, &Resource::parse(resource, database)) != negated
    };
    let mut ways = row.needs.split(" or ");
    ways.any(|needs| needs.split(", ").all(has))
}

async fn is_refused(client: &mut Client, row: &Row, database: &str) -> bool {
    let to = match row.to {
        To::Database => database,
        To::Admin => "admin",
    };
    let reply = client.run(to, (row.example)(database)).await;
    let code = |reply: &Document| reply.get_i32("code").unwrap_or(0);
    code(&reply) == 13
}

async fn walk(client: &mut Client, role: Option<&Role>, wrong: &mut Vec<String>) {
    for row in rows().filter(|row| row.name != "logout") {
        for database in DATABASES {
            let allowed = !is_refused(client, row, database).await;
            if allowed != expected(row, role, database) {
                let who = role.map_or("nobody", |role| role.name);
                let (name, case) = (row.name, row.case);
                wrong.push(format!("{who}: {name} {case} on {database}: {allowed}"));
            }
        }
    }
}

#[tokio::test]
async fn every_command_asks_every_role_what_mongodb_asks() {
    let service = Service::guarded().await;
    let mut root = connect_as(&service, "admin", ("root", "secret")).await;
    let mut wrong = Vec::new();
    let mut stranger = service.connect();
    for row in rows().filter(|row| row.name != "logout") {
        let refused = is_refused(&mut stranger, row, OWN).await;
        if refused == (row.needs == "anyone") {
            wrong.push(format!("before login: {} {}", row.name, row.case));
        }
    }
    let some = |role: &'static Role| Some(role);
    for (number, role) in std::iter::once(None)
        .chain(ROLES.iter().map(some))
        .enumerate()
    {
        let name = format!("user{number}");
        let roles: Vec<Bson> = role
            .map(|role| {
                let database = if role.in_admin { "admin" } else { OWN };
                Bson::from(doc! { "role": role.name, "db": database })
            })
            .into_iter()
            .collect();
        let create = doc! {
            "createUser": &name, "pwd": "pw", "roles": roles, "mechanisms": ["SCRAM-SHA-256"],
        };
        root.must("admin", create).await;
        for database in DATABASES {
            root.run(database, doc! { "create": "c" }).await;
        }
        let mut client = connect_as(&service, "admin", (&name, "pw")).await;
        walk(&mut client, role, &mut wrong).await;
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[tokio::test]
async fn every_command_has_a_row() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let listed = client.must("admin", doc! { "listCommands": 1 }).await;
    let listed = listed.get_document("commands").unwrap();
    let rows: BTreeSet<&str> = rows().map(|row| row.name).collect();
    let listed: BTreeSet<&str> = listed.keys().map(String::as_str).collect();
    let missing: Vec<_> = listed.difference(&rows).collect();
    assert!(missing.is_empty(), "without a row: {missing:?}");
    let gone: Vec<_> = rows.difference(&listed).collect();
    assert!(gone.is_empty(), "not there any more: {gone:?}");
}

fn document() -> String {
    let mut text = String::from(
        "# MongoDB privileges\n\n\
         What each command needs when authentication is on, and what the built-in roles allow. A \
         need is an action on a resource: the cluster, any\n\
         (all databases but `local` and `config`), db (the database of the command), or a \
         collection of it. This page is generated by a\n\
         test that compares it with the server: \
         `TESSERA_WRITE_DOCS=1 cargo test -p tessera-mongo --test behaviour privileges`.\n\n\
         ## Commands\n\n| command | case | needs |\n|---|---|---|\n",
    );
    for row in rows() {
        let needs = match row.needs {
            "anyone" => "nothing, not even a login".to_owned(),
            "user" => "a login".to_owned(),
            needs => needs.replace(" or ", "; or "),
        };
        writeln!(text, "| {} | {} | {needs} |", row.name, row.case).unwrap();
    }
    text.push_str("\n## Built-in roles\n\n| role | of | contains | allows |\n|---|---|---|---|\n");
    for role in ROLES {
        let of = if role.in_admin {
            "admin"
        } else {
            "each database"
        };
        let allows: Vec<String> = role
            .allows
            .iter()
            .map(|(place, actions)| {
                let actions: Vec<&str> = actions.split_whitespace().collect();
                format!("on `{place}`: {}", actions.join(", "))
            })
            .collect();
        let (name, contains) = (role.name, role.contains.join(", "));
        writeln!(
            text,
            "| {name} | {of} | {contains} | {} |",
            allows.join("; ")
        )
        .unwrap();
    }
    text.push_str("\n## Differences from MongoDB\n\n| what | how |\n|---|---|\n");
    for (what, how) in DIFFERENCES {
        writeln!(text, "| {what} | {how} |").unwrap();
    }
    text
}

#[test]
fn the_document_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/mongodb-privileges.md");
    let text = document();
    if std::env::var_os("TESSERA_WRITE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == text,
        "docs/mongodb-privileges.md is out of date: TESSERA_WRITE_DOCS=1 writes it"
    );
}
