//! Parsing URLs: an account, and a resource in it.
//!
//! The account stands in the host (`account.localhost`) or first in the path (`/account/table`). A
//! host that is an address or does not begin with a known account leaves it to the path.

use std::borrow::Cow;

use crate::error::{Code, Result, ServiceError};
use crate::head::Query;

/// The suffix of the account's name at the secondary endpoint of a geo-redundant account.
pub(crate) const SECONDARY: &str = "-secondary";

/// Something in an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// The account's table service.
    Service,
    /// `Tables`: the set of tables.
    Tables,
    /// `Tables('name')`.
    TableEntry(String),
    /// `name` or `name()`: the entities of a table.
    Table(String),
    /// `name(PartitionKey='…',RowKey='…')`.
    Entity(EntityAddress),
    /// `$batch`.
    Batch,
}

/// Names one entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntityAddress {
    pub(crate) table: String,
    pub(crate) partition_key: String,
    pub(crate) row_key: String,
}

/// A URL taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address<'a> {
    pub(crate) account: &'a str,
    /// Whether the account stood in the path.
    pub(crate) path_style: bool,
    pub(crate) resource: Resource,
}

/// Parses `host` and the percent-encoded `path`; `account` looks an account up by name.
pub(crate) fn locate<'a>(
    host: &str,
    path: &str,
    account: impl Fn(&str) -> Option<&'a str>,
) -> Result<Address<'a>> {
    let primary = |name: &str| account(name.strip_suffix(SECONDARY).unwrap_or(name));
    let path = path.strip_prefix('/').unwrap_or(path);
    if host.contains('.')
        && let Some(account) = primary(host.split(['.', ':']).next().unwrap_or_default())
    {
        return Ok(Address {
            account,
            path_style: false,
            resource: resource(&decode(path)?)?,
        });
    }
    let (first, rest) = cut(path, b'/').unwrap_or((path, ""));
    let first = decode(first)?;
    let account = primary(&first).ok_or_else(|| unknown_account(&first))?;
    // Some clients put the account into the path of the secondary endpoint twice.
    let rest = match first.strip_suffix(SECONDARY) {
        Some(primary) => match cut(rest, b'/').unwrap_or((rest, "")) {
            (again, rest) if again == primary => rest,
            _ => rest,
        },
        None => rest,
    };
    Ok(Address {
        account,
        path_style: true,
        resource: resource(&decode(rest)?)?,
    })
}

fn unknown_account(name: &str) -> ServiceError {
    let which = match name {
        "" => "The URL names no account.".to_owned(),
        name => format!("The account '{name}' does not exist here."),
    };
    let message = format!(
        "{which} Its name stands first in the path \
         (http://host:port/account/table) or first in the host (http://account.host:port/table)."
    );
    Code::ResourceNotFound.because(message)
}

/// Splits a text at the first of this ASCII byte. The parts of addresses are so short that a plain
/// loop is faster than a search made for long texts.
fn cut(text: &str, at: u8) -> Option<(&str, &str)> {
    let position = text.bytes().position(|byte| byte == at)?;
    Some((text.get(..position)?, text.get(position + 1..)?))
}

/// The text that was percent-encoded. A percent sign without two digits stands for itself.
fn decode(text: &str) -> Result<Cow<'_, str>> {
    let Some((plain, encoded)) = cut(text, b'%') else {
        return Ok(Cow::Borrowed(text));
    };
    let mut decoded = Vec::with_capacity(text.len());
    decoded.extend_from_slice(plain.as_bytes());
    // The byte after a percent sign.
    let mut rest = encoded.as_bytes();
    loop {
        match rest {
            [high, low, behind @ ..]
                if let (Some(high), Some(low)) = (hex_digit(*high), hex_digit(*low)) =>
            {
                decoded.push(high << 4 | low);
                rest = behind;
            }
            _ => decoded.push(b'%'),
        }
        let mut parts = rest.splitn(2, |byte| *byte == b'%');
        decoded.extend_from_slice(parts.next().unwrap_or_default());
        match parts.next() {
            Some(behind) => rest = behind,
            None => break,
        }
    }
    String::from_utf8(decoded).map(Cow::Owned).map_err(|_| {
        let message = "The URL holds a percent-encoded part that is not UTF-8.";
        Code::InvalidUri.because(message)
    })
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

fn resource(path: &str) -> Result<Resource> {
    let path = path.strip_suffix('/').unwrap_or(path);
    match path {
        "" => return Ok(Resource::Service),
        "Tables" | "Tables()" => return Ok(Resource::Tables),
        "$batch" => return Ok(Resource::Batch),
        _ => {}
    }
    let Some((name, predicate)) = cut(path, b'(') else {
        return Ok(Resource::Table(path.to_owned()));
    };
    let inside = predicate
        .strip_suffix(')')
        .ok_or_else(|| bad_predicate(path))?;
    if inside.is_empty() {
        return Ok(Resource::Table(name.to_owned()));
    }
    if name == "Tables" {
        let mut rest = inside;
        return match quoted(&mut rest) {
            Some(table) if rest.is_empty() => Ok(Resource::TableEntry(table)),
            _ => Err(bad_predicate(path)),
        };
    }
    let (partition_key, row_key) = keys(inside).ok_or_else(|| bad_predicate(path))?;
    Ok(Resource::Entity(EntityAddress {
        table: name.to_owned(),
        partition_key,
        row_key,
    }))
}

/// `PartitionKey='…',RowKey='…'`, in either order.
fn keys(mut text: &str) -> Option<(String, String)> {
    let (mut partition_key, mut row_key) = (None, None);
    loop {
        let (name, rest) = cut(text, b'=')?;
        text = rest.trim_start();
        let slot = match name.trim() {
            "PartitionKey" => &mut partition_key,
            "RowKey" => &mut row_key,
            _ => return None,
        };
        if slot.replace(quoted(&mut text)?).is_some() {
            return None;
        }
        text = text.trim_start();
        if text.is_empty() {
            return Some((partition_key?, row_key?));
        }
        text = text.strip_prefix(',')?;
    }
}

/// Takes a text in single quotes, in which a doubled quote stands for one.
fn quoted(rest: &mut &str) -> Option<String> {
    let (first, mut behind) = cut(rest.strip_prefix('\'')?, b'\'')?;
    let mut value = first.to_owned();
    while let Some(further) = behind.strip_prefix('\'') {
        let (part, rest) = cut(further, b'\'')?;
        value.push('\'');
        value.push_str(part);
        behind = rest;
    }
    *rest = behind;
    Some(value)
}

fn bad_predicate(path: &str) -> ServiceError {
    let why = format!(
        "'{path}' does not name an entity. Write table(PartitionKey='…',RowKey='…'), with each \
         quote inside a key doubled."
    );
    ServiceError::new(Code::InvalidInput, "Bad Request - Error in query syntax.").with_detail(why)
}

/// One parameter of a query string as it was sent.
struct Parameter<'a> {
    name: &'a str,
    value: &'a str,
    /// Whether both are without escapes.
    is_plain: bool,
}

impl<'a> Parameter<'a> {
    /// Takes the first parameter off a query, in one pass: every request with a signature has one
    /// to two hundred bytes.
    fn take(rest: &mut &'a str) -> Self {
        let (mut end, mut equals, mut is_plain) = (rest.len(), None, true);
        for (position, byte) in rest.bytes().enumerate() {
            match byte {
                b'&' => {
                    end = position;
                    break;
                }
                b'=' => {
                    equals.get_or_insert(position);
                }
                b'%' | b'+' => is_plain = false,
                _ => {}
            }
        }
        let pair = rest.get(..end).unwrap_or_default();
        *rest = rest.get(end + 1..).unwrap_or_default();
        let value = equals.and_then(|equals| pair.get(equals + 1..));
        Self {
            name: pair.get(..equals.unwrap_or(end)).unwrap_or_default(),
            value: value.unwrap_or_default(),
            is_plain,
        }
    }
}

/// The parameters of a query string.
pub(crate) fn query(text: &str) -> Result<Query<'_>> {
    // As many as an account signature has, and a few.
    let mut pairs = Vec::with_capacity(if text.is_empty() { 0 } else { 10 });
    let mut rest = text;
    while !rest.is_empty() {
        let parameter = Parameter::take(&mut rest);
        let Parameter { name, value, .. } = parameter;
        if parameter.is_plain {
            if !(name.is_empty() && value.is_empty()) {
                pairs.push((Cow::Borrowed(name), Cow::Borrowed(value)));
            }
            continue;
        }
        let name = decode(name)?;
        // A plus is a space, except in a signature: base64 has pluses, and never a space.
        let value = if name != "sig" && value.bytes().any(|byte| byte == b'+') {
            Cow::Owned(decode(&value.replace('+', " "))?.into_owned())
        } else {
            decode(value)?
        };
        pairs.push((name, value));
    }
    Ok(Query(pairs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(partition_key: &str, row_key: &str) -> Resource {
        Resource::Entity(EntityAddress {
            table: "t".to_owned(),
            partition_key: partition_key.to_owned(),
            row_key: row_key.to_owned(),
        })
    }

    fn check(host: &str, path: &str, expected: Option<(bool, Resource)>) {
        let address = locate(host, path, |name| (name == "acct").then_some("acct"));
        match (address, expected) {
            (Ok(address), Some((path_style, resource))) => {
                assert_eq!(address.account, "acct", "{path}");
                assert_eq!(address.path_style, path_style, "{path}");
                assert_eq!(address.resource, resource, "{path}");
            }
            (Err(_), None) => {}
            (found, expected) => panic!("{host} {path}: {found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn accounts_stand_in_the_path_or_in_the_host() {
        check("127.0.0.1:10002", "/acct", Some((true, Resource::Service)));
        check("localhost:10002", "/acct/", Some((true, Resource::Service)));
        check("acct.localhost:1", "/", Some((false, Resource::Service)));
        check("acct.localhost", "/Tables", Some((false, Resource::Tables)));
        check(
            "other.localhost",
            "/acct/t",
            Some((true, Resource::Table("t".into()))),
        );
        check("acct", "/acct/t", Some((true, Resource::Table("t".into()))));
        check("127.0.0.1", "/other/t", None);
        check("127.0.0.1", "/", None);
    }

    #[test]
    fn the_secondary_endpoint_is_the_same_account() {
        check("x", "/acct-secondary/", Some((true, Resource::Service)));
        check(
            "x",
            "/acct-secondary/acct/",
            Some((true, Resource::Service)),
        );
        check("acct-secondary.x", "/", Some((false, Resource::Service)));
    }

    #[test]
    fn resources_are_told_apart() {
        let table = |name: &str| Some((true, Resource::Table(name.into())));
        let found = |resource| Some((true, resource));
        check("x", "/acct/Tables", found(Resource::Tables));
        check(
            "x",
            "/acct/Tables('t')",
            found(Resource::TableEntry("t".into())),
        );
        check("x", "/acct/$batch", found(Resource::Batch));
        check("x", "/acct/%24batch", found(Resource::Batch));
        check("x", "/acct/t", table("t"));
        check("x", "/acct/t()", table("t"));
        check(
            "x",
            "/acct/t(PartitionKey='a',RowKey='b')",
            found(entity("a", "b")),
        );
        check(
            "x",
            "/acct/t(RowKey='b',PartitionKey='a')",
            found(entity("a", "b")),
        );
        check(
            "x",
            "/acct/t(PartitionKey='',RowKey='')",
            found(entity("", "")),
        );
        let quotes = "/acct/t(PartitionKey=%27it%27%27s%27, RowKey=%27a,b%29%27)";
        check("x", quotes, found(entity("it's", "a,b)")));
        for broken in [
            "/acct/t(",
            "/acct/t(PartitionKey='a')",
            "/acct/t(PartitionKey='a',PartitionKey='a')",
            "/acct/t(PartitionKey='a',RowKey='b'",
            "/acct/t(PartitionKey='a,RowKey='b')",
            "/acct/Tables(t)",
            "/acct/%ff",
        ] {
            check("x", broken, None);
        }
    }

    #[test]
    fn percent_signs_stand_for_bytes_or_for_themselves() {
        for (text, expected) in [
            ("", Some("")),
            ("plain", Some("plain")),
            ("%41%4a%4A", Some("AJJ")),
            ("a%C3%A9b", Some("a\u{e9}b")),
            ("100%", Some("100%")),
            ("%4", Some("%4")),
            ("%%41", Some("%A")),
            ("%zz\u{e9}", Some("%zz\u{e9}")),
            ("%C3", None),
            ("%ff", None),
        ] {
            assert_eq!(decode(text).ok().as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn query_strings_are_decoded_and_signatures_keep_their_pluses() {
        let query = query("$filter=a+eq%20%27%2B%27&sig=a+b%2Fc%3D&empty=&&$top").unwrap();
        for (name, value) in [("$filter", "a eq '+'"), ("sig", "a+b/c="), ("empty", "")] {
            assert_eq!(query.get(name), Some(value));
        }
        assert_eq!(query.get("$top"), Some(""));
        assert_eq!(query.get("missing"), None);
    }
}
