//! What permissions are for: keyspaces, tables, roles and functions, each below another.

use crate::catalog::Catalog;
use crate::statement::{Permission, Resource};

use Permission::{
    Alter, Authorize, Create, Describe, Drop, Execute, Modify, Select, SelectMasked, Unmask,
};

/// The resource and all above it, nearest first.
pub(super) fn chain(resource: &Resource) -> Vec<Resource> {
    let above = match resource {
        Resource::Table(name) => Some(Resource::AllTables(
            name.keyspace.clone().unwrap_or_default(),
        )),
        Resource::AllTables(keyspace) => Some(Resource::Keyspace(keyspace.clone())),
        Resource::Keyspace(_) => Some(Resource::AllKeyspaces),
        Resource::Role(_) => Some(Resource::AllRoles),
        Resource::Function(signature) => {
            let keyspace = signature.name.keyspace.clone().unwrap_or_default();
            Some(Resource::AllFunctionsIn(keyspace))
        }
        Resource::AllFunctionsIn(_) => Some(Resource::AllFunctions),
        Resource::Bean(_) => Some(Resource::AllBeans),
        Resource::AllKeyspaces
        | Resource::AllRoles
        | Resource::AllFunctions
        | Resource::AllBeans => None,
    };
    let mut chain = vec![resource.clone()];
    if let Some(above) = above {
        chain.append(&mut self::chain(&above));
    }
    chain
}

/// How a resource is written where roles are kept.
pub(super) fn key(resource: &Resource) -> String {
    match resource {
        Resource::AllKeyspaces => "data".to_owned(),
        Resource::Keyspace(keyspace) => format!("data/{keyspace}"),
        Resource::AllTables(keyspace) => format!("data/{keyspace}/*"),
        Resource::Table(name) => {
            let keyspace = name.keyspace.as_deref().unwrap_or_default();
            format!("data/{keyspace}/{}", name.name)
        }
        Resource::AllRoles => "roles".to_owned(),
        Resource::Role(role) => format!("roles/{role}"),
        Resource::AllFunctions => "functions".to_owned(),
        Resource::AllFunctionsIn(keyspace) => format!("functions/{keyspace}"),
        Resource::Function(signature) => {
            let keyspace = signature.name.keyspace.as_deref().unwrap_or_default();
            format!("functions/{keyspace}/{}", signature.name.name)
        }
        Resource::AllBeans => "mbean".to_owned(),
        Resource::Bean(name) => format!("mbean/{name}"),
    }
}

/// How a resource is shown, by the way it is kept.
pub(super) fn shown(key: &str) -> String {
    let parts: Vec<&str> = key.splitn(3, '/').collect();
    match parts.as_slice() {
        ["data"] => "<all keyspaces>".to_owned(),
        ["data", keyspace] => format!("<keyspace {keyspace}>"),
        ["data", keyspace, "*"] => format!("<all tables in {keyspace}>"),
        ["data", keyspace, table] => format!("<table {keyspace}.{table}>"),
        ["roles"] => "<all roles>".to_owned(),
        ["roles", role @ ..] => format!("<role {}>", role.join("/")),
        ["functions"] => "<all functions>".to_owned(),
        ["functions", keyspace] => format!("<all functions in {keyspace}>"),
        ["functions", keyspace, name] => format!("<function {keyspace}.{name}>"),
        ["mbean"] => "<all mbeans>".to_owned(),
        other => format!(
            "<mbean {}>",
            other.iter().skip(1).copied().collect::<Vec<_>>().join("/")
        ),
    }
}

/// The permissions that there are on a resource.
pub(super) fn applicable(resource: &Resource) -> &'static [Permission] {
    match resource {
        Resource::AllKeyspaces | Resource::Keyspace(_) | Resource::AllTables(_) => &[
            Create,
            Alter,
            Drop,
            Select,
            Modify,
            Authorize,
            Unmask,
            SelectMasked,
        ],
        Resource::Table(_) => &[Alter, Drop, Select, Modify, Authorize, Unmask, SelectMasked],
        Resource::AllRoles => &[Create, Alter, Drop, Authorize, Describe],
        Resource::Role(_) => &[Alter, Drop, Authorize],
        Resource::AllFunctions | Resource::AllFunctionsIn(_) => {
            &[Create, Alter, Drop, Authorize, Execute]
        }
        Resource::Function(_) => &[Alter, Drop, Authorize, Execute],
        Resource::AllBeans | Resource::Bean(_) => &[Select, Modify, Describe, Execute, Authorize],
    }
}

/// Whether what a resource names is there. Roles are looked for elsewhere.
pub(super) fn is_there(resource: &Resource, catalog: &Catalog) -> bool {
    match resource {
        Resource::Keyspace(keyspace)
        | Resource::AllTables(keyspace)
        | Resource::AllFunctionsIn(keyspace) => catalog.find(keyspace).is_some(),
        Resource::Table(name) => catalog.relation(name, None).is_ok(),
        // There are neither functions of users nor beans here.
        Resource::Function(_) | Resource::AllBeans | Resource::Bean(_) => false,
        Resource::AllKeyspaces
        | Resource::AllRoles
        | Resource::Role(_)
        | Resource::AllFunctions => true,
    }
}

/// The resource with the session's keyspace where it names none.
pub(super) fn complete(resource: &Resource, keyspace: Option<&str>) -> Resource {
    let mut resource = resource.clone();
    let name = match &mut resource {
        Resource::Table(name) => name,
        Resource::Function(signature) => &mut signature.name,
        _ => return resource,
    };
    if name.keyspace.is_none() {
        name.keyspace = keyspace.map(str::to_owned);
    }
    resource
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::QualifiedName;

    #[test]
    fn resources_are_named_as_cassandra_names_them() {
        let table = Resource::Table(QualifiedName {
            keyspace: Some("k".to_owned()),
            name: "t".to_owned(),
        });
        let chain: Vec<String> = chain(&table).iter().map(|r| shown(&key(r))).collect();
        assert_eq!(
            chain,
            [
                "<table k.t>",
                "<all tables in k>",
                "<keyspace k>",
                "<all keyspaces>"
            ]
        );
        for (resource, name) in [
            (Resource::Role("a/b".to_owned()), "<role a/b>"),
            (Resource::AllRoles, "<all roles>"),
            (
                Resource::AllFunctionsIn("k".to_owned()),
                "<all functions in k>",
            ),
            (Resource::AllBeans, "<all mbeans>"),
            (Resource::Bean("x".to_owned()), "<mbean x>"),
        ] {
            assert_eq!(shown(&key(&resource)), name);
        }
    }
}
