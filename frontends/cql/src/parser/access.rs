//! Roles and permissions.

use nom::Parser;

use super::drop::signature;
use super::lexer::TokenKind;
use super::mistake::{Read, no_choice, refuse};
use super::name::{keyspace_name, role_name, table_name};
use super::property::map;
use super::tokens::{
    Tokens, after_keyword, conjunction, has_keywords, if_exists, if_not_exists, keyword, keywords,
    list, string, symbol,
};
use crate::statement::{Access, ListPermissions, Permission, Resource, RoleOptions, Statement};

fn done(input: Tokens<'_>, access: Access) -> Read<'_, Statement> {
    Ok((input, Statement::Access(access)))
}

pub(super) fn create_role(input: Tokens<'_>) -> Read<'_, Statement> {
    let (input, if_not_exists) = if_not_exists(input)?;
    let (input, name) = role_name(input)?;
    let (input, options) = after_keyword(input, "with", role_options)?;
    let options = options.unwrap_or_default();
    done(
        input,
        Access::CreateRole {
            name,
            if_not_exists,
            options,
        },
    )
}

pub(super) fn alter_role(input: Tokens<'_>) -> Read<'_, Statement> {
    let (input, if_exists) = if_exists(input)?;
    let (input, name) = role_name(input)?;
    let (input, options) = after_keyword(input, "with", role_options)?;
    let options = options.unwrap_or_default();
    done(
        input,
        Access::AlterRole {
            name,
            if_exists,
            options,
        },
    )
}

pub(super) fn drop_role(input: Tokens<'_>) -> Read<'_, Statement> {
    let (input, if_exists) = if_exists(input)?;
    let (input, name) = role_name(input)?;
    done(input, Access::DropRole { name, if_exists })
}

/// A user is a role that may log in.
pub(super) fn create_user(input: Tokens<'_>) -> Read<'_, Statement> {
    let (input, if_not_exists) = if_not_exists(input)?;
    let (input, name) = user_name(input, USER)?;
    let (input, mut options) = user_options(input)?;
    options.can_login = Some(true);
    options.is_superuser = Some(options.is_superuser.unwrap_or(false));
    done(
        input,
        Access::CreateRole {
            name,
            if_not_exists,
            options,
        },
    )
}

pub(super) fn alter_user(input: Tokens<'_>) -> Read<'_, Statement> {
    let (input, if_exists) = if_exists(input)?;
    let (input, name) = user_name(input, USER)?;
    let (input, options) = user_options(input)?;
    done(
        input,
        Access::AlterRole {
            name,
            if_exists,
            options,
        },
    )
}

pub(super) fn drop_user(input: Tokens<'_>) -> Read<'_, Statement> {
    let (input, if_exists) = if_exists(input)?;
    let (input, name) = user_name(input, USER)?;
    done(input, Access::DropRole { name, if_exists })
}

const USER: &str = "user names and USER is deprecated, please use ROLE";

/// The name of a user: its capitals count.
fn user_name<'t>(input: Tokens<'t>, what: &str) -> Read<'t, String> {
    match input.next() {
        (rest, Some(token)) if matches!(token.kind, TokenKind::Word | TokenKind::String) => {
            Ok((rest, token.text.clone().into_owned()))
        }
        (_, Some(token)) if token.kind == TokenKind::QuotedName => refuse(
            input,
            format!("Quoted strings are are not supported for {what}"),
        ),
        _ => no_choice(input),
    }
}

fn user_options(input: Tokens<'_>) -> Read<'_, RoleOptions> {
    let mut options = RoleOptions::default();
    let (input, ()) = if input.is_keyword("with") {
        let (input, is_hashed) = has_keywords(input.skip(1), &["hashed"])?;
        let (input, ()) = keyword("password").parse(input)?;
        let (input, password) = string(input)?;
        if is_hashed {
            options.hashed_password = Some(password);
        } else {
            options.password = Some(password);
        }
        (input, ())
    } else {
        (input, ())
    };
    let (input, is_superuser) = has_keywords(input, &["superuser"])?;
    let (input, is_not) = has_keywords(input, &["nosuperuser"])?;
    if is_superuser || is_not {
        options.is_superuser = Some(is_superuser);
    }
    Ok((input, options))
}

/// One option of a role.
enum RoleOption {
    Password(String),
    HashedPassword(String),
    Superuser(bool),
    Login(bool),
    Options(Vec<(String, String)>),
    Datacenters(Vec<String>),
    AddressGroups(Vec<String>),
}

fn role_options(input: Tokens<'_>) -> Read<'_, RoleOptions> {
    let (rest, found) = conjunction(role_option)(input)?;
    let mut options = RoleOptions::default();
    for option in found {
        let is_new = match option {
            RoleOption::Password(text) => options.password.replace(text).is_none(),
            RoleOption::HashedPassword(text) => options.hashed_password.replace(text).is_none(),
            RoleOption::Superuser(is_so) => options.is_superuser.replace(is_so).is_none(),
            RoleOption::Login(is_so) => options.can_login.replace(is_so).is_none(),
            RoleOption::Options(map) => options.options.replace(map).is_none(),
            RoleOption::Datacenters(names) => options.datacenters.replace(names).is_none(),
            RoleOption::AddressGroups(names) => options.address_groups.replace(names).is_none(),
        };
        if !is_new {
            return refuse(input, "Multiple definitions for property");
        }
    }
    if options.password.is_some() && options.hashed_password.is_some() {
        let words = "Options 'password' and 'hashed password' are mutually exclusive";
        return refuse(input, words);
    }
    Ok((rest, options))
}

fn role_option(input: Tokens<'_>) -> Read<'_, RoleOption> {
    if input.is_keyword("access") {
        return access_option(input.skip(1));
    }
    let (input, is_hashed) = has_keywords(input, &["hashed"])?;
    let word = ["password", "superuser", "login", "options"]
        .into_iter()
        .find(|word| input.is_keyword(word) && (!is_hashed || *word == "password"));
    let Some(word) = word else {
        return no_choice(input);
    };
    let (input, ()) = symbol("=").parse(input.skip(1))?;
    match word {
        "password" => {
            let (input, text) = string(input)?;
            let option = if is_hashed {
                RoleOption::HashedPassword
            } else {
                RoleOption::Password
            };
            Ok((input, option(text)))
        }
        "options" => map(input).map(|(input, map)| (input, RoleOption::Options(map))),
        _ => {
            let (input, is_so) = boolean(input)?;
            let option = if word == "login" {
                RoleOption::Login
            } else {
                RoleOption::Superuser
            };
            Ok((input, option(is_so)))
        }
    }
}

fn boolean(input: Tokens<'_>) -> Read<'_, bool> {
    match input.next() {
        (rest, Some(token)) if token.kind == TokenKind::Boolean => {
            Ok((rest, token.text.eq_ignore_ascii_case("true")))
        }
        _ => super::mistake::expected(input, "BOOLEAN"),
    }
}

/// `ACCESS TO ALL DATACENTERS`, `ACCESS FROM CIDRS {…}` and the like.
fn access_option(input: Tokens<'_>) -> Read<'_, RoleOption> {
    let (input, is_to) = has_keywords(input, &["to"])?;
    let (input, ()) = if is_to {
        (input, ())
    } else {
        keyword("from").parse(input)?
    };
    let (input, is_all) = has_keywords(input, &["all"])?;
    let (input, ()) = keyword(if is_to { "datacenters" } else { "cidrs" }).parse(input)?;
    let (input, names) = if is_all {
        (input, Vec::new())
    } else {
        let (input, ()) = symbol("{").parse(input)?;
        let (input, names) = list(string)(input)?;
        let (input, ()) = symbol("}").parse(input)?;
        (input, names)
    };
    let option = if is_to {
        RoleOption::Datacenters
    } else {
        RoleOption::AddressGroups
    };
    Ok((input, option(names)))
}

pub(super) fn add_identity(input: Tokens<'_>) -> Read<'_, Statement> {
    let (input, ()) = keyword("identity").parse(input)?;
    let (input, if_not_exists) = if_not_exists(input)?;
    let (input, identity) = user_name(input, "identity")?;
    let (input, ()) = keywords(&["to", "role"])(input)?;
    let (input, role) = user_name(input, "identity")?;
    done(
        input,
        Access::AddIdentity {
            identity,
            role,
            if_not_exists,
        },
    )
}

pub(super) fn drop_identity(input: Tokens<'_>) -> Read<'_, Statement> {
    let (input, if_exists) = if_exists(input)?;
    let (input, identity) = user_name(input, "identity")?;
    done(
        input,
        Access::DropIdentity {
            identity,
            if_exists,
        },
    )
}

pub(super) fn grant(input: Tokens<'_>) -> Read<'_, Statement> {
    if !is_permissions(input) {
        let (input, role) = role_name(input)?;
        let (input, ()) = keyword("to").parse(input)?;
        let (input, to) = role_name(input)?;
        return done(input, Access::GrantRole { role, to });
    }
    let (input, (permissions, resource)) = permissions_on(input)?;
    let (input, ()) = keyword("to").parse(input)?;
    let (input, role) = role_name(input)?;
    done(
        input,
        Access::Grant {
            permissions,
            resource,
            role,
        },
    )
}

pub(super) fn revoke(input: Tokens<'_>) -> Read<'_, Statement> {
    if !is_permissions(input) {
        let (input, role) = role_name(input)?;
        let (input, ()) = keyword("from").parse(input)?;
        let (input, from) = role_name(input)?;
        return done(input, Access::RevokeRole { role, from });
    }
    let (input, (permissions, resource)) = permissions_on(input)?;
    let (input, ()) = keyword("from").parse(input)?;
    let (input, role) = role_name(input)?;
    done(
        input,
        Access::Revoke {
            permissions,
            resource,
            role,
        },
    )
}

pub(super) fn list_access(input: Tokens<'_>) -> Read<'_, Statement> {
    if input.is_keyword("users") {
        return done(input.skip(1), Access::ListUsers);
    }
    if input.is_keyword("roles") {
        let (input, of) = after_keyword(input.skip(1), "of", role_name)?;
        let (input, is_not_recursive) = has_keywords(input, &["norecursive"])?;
        return done(
            input,
            Access::ListRoles {
                of,
                is_recursive: !is_not_recursive,
            },
        );
    }
    let (input, permissions) = permissions(input)?;
    let (input, resource) = after_keyword(input, "on", resource)?;
    let (input, of) = after_keyword(input, "of", role_name)?;
    let (input, is_not_recursive) = has_keywords(input, &["norecursive"])?;
    let is_recursive = !is_not_recursive;
    let list = ListPermissions {
        permissions,
        resource,
        of,
        is_recursive,
    };
    done(input, Access::ListPermissions(list))
}

fn permission_at(input: Tokens<'_>) -> Option<Permission> {
    Permission::ALL
        .iter()
        .copied()
        .find(|permission| input.is_keyword(permission.name()))
}

/// Whether permissions follow, and not the name of a role.
fn is_permissions(input: Tokens<'_>) -> bool {
    let goes_on = |places| {
        input.is_keyword_ahead(places, "on")
            || input.is_keyword_ahead(places, "permission")
            || input.is_keyword_ahead(places, "permissions")
            || input.is_symbol_ahead(places, ",")
    };
    (permission_at(input).is_some() || input.is_keyword("all")) && goes_on(1)
}

fn permissions(input: Tokens<'_>) -> Read<'_, Vec<Permission>> {
    if input.is_keyword("all") {
        let input = input.skip(1);
        let skip = usize::from(input.is_keyword("permissions"));
        return Ok((input.skip(skip), Permission::ALL.to_vec()));
    }
    list(|input| match permission_at(input) {
        Some(permission) => {
            let input = input.skip(1);
            Ok((
                input.skip(usize::from(input.is_keyword("permission"))),
                permission,
            ))
        }
        None => no_choice(input),
    })(input)
}

/// Permissions, and the resource that they are on.
fn permissions_on(input: Tokens<'_>) -> Read<'_, (Vec<Permission>, Resource)> {
    let (input, permissions) = permissions(input)?;
    let (input, ()) = keyword("on").parse(input)?;
    let (input, resource) = resource(input)?;
    let (input, permissions) = applicable(input, permissions, &resource)?;
    Ok((input, (permissions, resource)))
}

/// Those of the permissions that can be had on this kind of resource.
fn applicable<'t>(
    input: Tokens<'t>,
    permissions: Vec<Permission>,
    resource: &Resource,
) -> Read<'t, Vec<Permission>> {
    use Permission::{
        Alter, Authorize, Create, Describe, Drop, Execute, Modify, Select, SelectMasked, Unmask,
    };
    let (kind, known): (&str, &[Permission]) = match resource {
        Resource::AllKeyspaces | Resource::Keyspace(_) | Resource::AllTables(_) => (
            "DataResource",
            &[
                Create,
                Alter,
                Drop,
                Select,
                Modify,
                Authorize,
                Unmask,
                SelectMasked,
            ],
        ),
        Resource::Table(_) => (
            "DataResource",
            &[Alter, Drop, Select, Modify, Authorize, Unmask, SelectMasked],
        ),
        Resource::AllRoles => ("RoleResource", &[Create, Alter, Drop, Authorize, Describe]),
        Resource::Role(_) => ("RoleResource", &[Alter, Drop, Authorize]),
        Resource::AllFunctions | Resource::AllFunctionsIn(_) => (
            "FunctionResource",
            &[Create, Alter, Drop, Authorize, Execute],
        ),
        Resource::Function(_) => ("FunctionResource", &[Alter, Drop, Authorize, Execute]),
        Resource::AllBeans | Resource::Bean(_) => (
            "JMXResource",
            &[Authorize, Describe, Execute, Modify, Select],
        ),
    };
    let kept: Vec<Permission> = permissions
        .into_iter()
        .filter(|permission| known.contains(permission))
        .collect();
    if kept.is_empty() {
        let words =
            format!("Resource type {kind} does not support any of the requested permissions");
        return refuse(input, words);
    }
    Ok((input, kept))
}

fn resource(input: Tokens<'_>) -> Read<'_, Resource> {
    if input.is_keyword("all") && !input.is_symbol_ahead(1, ".") {
        return all_of(input.skip(1));
    }
    if input.is_keyword("keyspace") {
        let (input, name) = keyspace_name(input.skip(1))?;
        return Ok((input, Resource::Keyspace(name)));
    }
    let follows_name = |places| {
        input
            .ahead(places)
            .is_some_and(|token| !matches!(token.kind, TokenKind::Symbol | TokenKind::End))
            && !input.is_keyword_ahead(places, "to")
            && !input.is_keyword_ahead(places, "from")
            && !input.is_keyword_ahead(places, "of")
    };
    if input.is_keyword("role") && follows_name(1) {
        let (input, name) = role_name(input.skip(1))?;
        return Ok((input, Resource::Role(name)));
    }
    if input.is_keyword("function") && follows_name(1) {
        let (input, signature) = signature(input.skip(1))?;
        return Ok((input, Resource::Function(signature)));
    }
    let is_bean = input.is_keyword("mbean") || input.is_keyword("mbeans");
    if is_bean && input.is_kind_ahead(1, TokenKind::String) {
        let (input, bean) = string(input.skip(1))?;
        return Ok((input, Resource::Bean(bean)));
    }
    let is_table = input.is_keyword("table") || input.is_keyword("columnfamily");
    let (input, name) = table_name(input.skip(usize::from(is_table)))?;
    Ok((input, Resource::Table(name)))
}

fn all_of(input: Tokens<'_>) -> Read<'_, Resource> {
    let in_keyspace = |input| {
        let (input, ()) = keywords(&["in", "keyspace"])(input)?;
        keyspace_name(input)
    };
    if input.is_keyword("keyspaces") {
        return Ok((input.skip(1), Resource::AllKeyspaces));
    }
    if input.is_keyword("roles") {
        return Ok((input.skip(1), Resource::AllRoles));
    }
    if input.is_keyword("mbeans") {
        return Ok((input.skip(1), Resource::AllBeans));
    }
    if input.is_keyword("tables") {
        let (input, name) = in_keyspace(input.skip(1))?;
        return Ok((input, Resource::AllTables(name)));
    }
    if !input.is_keyword("functions") {
        return no_choice(input);
    }
    if !input.is_keyword_ahead(1, "in") {
        return Ok((input.skip(1), Resource::AllFunctions));
    }
    let (input, name) = in_keyspace(input.skip(1))?;
    Ok((input, Resource::AllFunctionsIn(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::parse;

    #[test]
    fn statements_of_every_kind_are_read() {
        for (text, expected) in [
            ("CREATE ROLE r", "CreateRole { name: \"r\""),
            (
                "CREATE ROLE IF NOT EXISTS 'R x' WITH PASSWORD = 'p' AND LOGIN = true AND \
                 SUPERUSER = false AND OPTIONS = {'a': 'b'} AND ACCESS TO ALL DATACENTERS \
                 AND ACCESS FROM CIDRS {'x'}",
                "CreateRole { name: \"R x\", if_not_exists: true",
            ),
            ("ALTER ROLE r WITH HASHED PASSWORD = 'x'", "AlterRole"),
            (
                "DROP ROLE IF EXISTS \"R\"",
                "DropRole { name: \"R\", if_exists: true",
            ),
            ("CREATE USER u WITH PASSWORD 'p' SUPERUSER", "CreateRole"),
            ("ALTER USER u NOSUPERUSER", "AlterRole"),
            ("DROP USER u", "DropRole"),
            (
                "GRANT SELECT ON ks.t TO r",
                "Grant { permissions: [Select], resource: Table",
            ),
            ("GRANT ALL PERMISSIONS ON KEYSPACE ks TO r", "Grant"),
            (
                "GRANT CREATE PERMISSION, ALTER ON ALL KEYSPACES TO r",
                "Grant",
            ),
            ("GRANT MODIFY ON ALL TABLES IN KEYSPACE k TO r", "Grant"),
            ("GRANT EXECUTE ON FUNCTION ks.f(int) TO r", "Grant"),
            ("GRANT EXECUTE ON ALL FUNCTIONS IN KEYSPACE k TO r", "Grant"),
            ("GRANT AUTHORIZE ON ALL ROLES TO r", "Grant"),
            ("GRANT ALTER ON ROLE x TO r", "Grant"),
            ("GRANT SELECT ON ALL MBEANS TO r", "Grant"),
            ("GRANT a TO b", "GrantRole"),
            ("REVOKE a FROM b", "RevokeRole"),
            ("REVOKE SELECT ON t FROM r", "Revoke {"),
            (
                "LIST ROLES OF r NORECURSIVE",
                "ListRoles { of: Some(\"r\"), is_recursive: false",
            ),
            ("LIST ROLES", "ListRoles { of: None, is_recursive: true"),
            ("LIST USERS", "ListUsers"),
            ("LIST ALL PERMISSIONS", "ListPermissions"),
            ("LIST SELECT ON ks.t OF r", "ListPermissions"),
            ("ADD IDENTITY 'i' TO ROLE 'r'", "AddIdentity"),
            ("DROP IDENTITY IF EXISTS 'i'", "DropIdentity"),
        ] {
            let parsed = parse(text).unwrap_or_else(|error| panic!("{text}: {}", error.message));
            let Statement::Access(access) = parsed.statement else {
                panic!("{text}")
            };
            let access = format!("{access:?}");
            assert!(access.starts_with(expected), "{text}: {access}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, message) in [
            (
                "CREATE ROLE r WITH PASSWORD = 'a' AND HASHED PASSWORD = 'b'",
                "Options 'password' and 'hashed password' are mutually exclusive",
            ),
            (
                "GRANT EXECUTE ON ks.t TO r",
                "Resource type DataResource does not support any of the requested permissions",
            ),
            (
                "CREATE USER \"u\"",
                "Quoted strings are are not supported for user names and USER is deprecated, \
                 please use ROLE",
            ),
            (
                "DROP ROLE ?",
                "Bind variables cannot be used for role names",
            ),
            (
                "CREATE ROLE r WITH LOGIN = 1",
                "line 1:27 mismatched input '1' expecting BOOLEAN \
                 (...ROLE r WITH LOGIN = [1])",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err().message, message, "{text}");
        }
    }
}
