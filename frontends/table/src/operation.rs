//! The operation of a request: the table of verbs and resources.

use hyper::Method;

use crate::address::{EntityAddress, Resource};
use crate::error::{Code, Result, ServiceError};
use crate::head::Head;
use crate::header_names;

/// All operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    GetServiceProperties,
    SetServiceProperties,
    GetServiceStats,
    QueryTables,
    CreateTable,
    GetTable(String),
    DeleteTable(String),
    GetAcl(String),
    SetAcl(String),
    QueryEntities(String),
    InsertEntity(String),
    GetEntity(EntityAddress),
    UpdateEntity(EntityAddress, Update),
    DeleteEntity(EntityAddress),
    Batch,
}

/// The treatment of properties that an update does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Update {
    /// They are removed.
    Replace,
    /// They are kept.
    Merge,
}

impl Operation {
    /// The operation's name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::GetServiceProperties => "GetServiceProperties",
            Self::SetServiceProperties => "SetServiceProperties",
            Self::GetServiceStats => "GetServiceStats",
            Self::QueryTables => "QueryTables",
            Self::CreateTable => "CreateTable",
            Self::GetTable(_) => "GetTable",
            Self::DeleteTable(_) => "DeleteTable",
            Self::GetAcl(_) => "GetAcl",
            Self::SetAcl(_) => "SetAcl",
            Self::QueryEntities(_) => "QueryEntities",
            Self::InsertEntity(_) => "InsertEntity",
            Self::GetEntity(_) => "GetEntity",
            Self::UpdateEntity(..) => "UpdateEntity",
            Self::DeleteEntity(_) => "DeleteEntity",
            Self::Batch => "Batch",
        }
    }

    /// The operation of `head` on `resource`.
    pub(crate) fn of(head: &Head<'_>, resource: Resource) -> Result<Self> {
        let verb = Verb::of(head)?;
        let comp = head.query.get("comp");
        let operation = match (verb, resource, comp) {
            (verb, Resource::Service, Some(comp)) => Self::of_service(verb, comp)?,
            (Verb::Get, Resource::Tables, _) => Self::QueryTables,
            (Verb::Post, Resource::Tables, _) => Self::CreateTable,
            (Verb::Get, Resource::TableEntry(table), _) => Self::GetTable(table),
            (Verb::Delete, Resource::TableEntry(table), _) => Self::DeleteTable(table),
            (Verb::Get, Resource::Table(table), Some("acl")) => Self::GetAcl(table),
            (Verb::Put, Resource::Table(table), Some("acl")) => Self::SetAcl(table),
            (Verb::Get, Resource::Table(table), None) => Self::QueryEntities(table),
            (Verb::Post, Resource::Table(table), None) => Self::InsertEntity(table),
            (Verb::Get, Resource::Entity(entity), _) => Self::GetEntity(entity),
            (Verb::Put, Resource::Entity(entity), _) => Self::UpdateEntity(entity, Update::Replace),
            (Verb::Merge, Resource::Entity(entity), _) => Self::UpdateEntity(entity, Update::Merge),
            (Verb::Delete, Resource::Entity(entity), _) => Self::DeleteEntity(entity),
            (Verb::Post, Resource::Batch, _) => Self::Batch,
            (_, Resource::Service, None) => return Err(Code::InvalidUri.into()),
            (_, Resource::Table(_), Some(comp)) => return Err(unknown_comp(comp)),
            _ => return Err(Code::UnsupportedHttpVerb.into()),
        };
        Ok(operation)
    }

    /// Whether its answers, refusals included, are XML whatever the client asks for. Table storage
    /// has these operations, and Cosmos has not.
    pub(crate) fn answers_xml(&self) -> bool {
        matches!(
            self,
            Self::GetServiceProperties
                | Self::SetServiceProperties
                | Self::GetServiceStats
                | Self::GetAcl(_)
                | Self::SetAcl(_)
        )
    }

    fn of_service(verb: Verb, comp: &str) -> Result<Self> {
        match (verb, comp) {
            (Verb::Get, "properties") => Ok(Self::GetServiceProperties),
            (Verb::Put, "properties") => Ok(Self::SetServiceProperties),
            (Verb::Get, "stats") => Ok(Self::GetServiceStats),
            (_, "properties" | "stats") => Err(Code::UnsupportedHttpVerb.into()),
            _ => Err(unknown_comp(comp)),
        }
    }
}

fn unknown_comp(comp: &str) -> ServiceError {
    let why = format!("comp={comp} names nothing that this resource has");
    Code::InvalidQueryParameterValue.because(why)
}

/// The method of the operation, which the one on the wire may wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Get,
    Post,
    Put,
    Merge,
    Delete,
}

impl Verb {
    /// The method, or that in `X-HTTP-Method` of a POST: some networks pass no other methods.
    fn of(head: &Head<'_>) -> Result<Self> {
        let tunnelled = head.header(&header_names::METHOD);
        let name = match (tunnelled, head.method == Method::POST) {
            (None, _) => head.method.as_str(),
            (Some(name), true) => name,
            (Some(_), false) => return Err(Code::XMethodNotUsingPost.into()),
        };
        match name {
            "GET" => Ok(Self::Get),
            "POST" => Ok(Self::Post),
            "PUT" => Ok(Self::Put),
            "MERGE" | "PATCH" => Ok(Self::Merge),
            "DELETE" => Ok(Self::Delete),
            _ if tunnelled.is_some() => Err(Code::XMethodIncorrectValue.into()),
            _ => Err(Code::UnsupportedHttpVerb.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use hyper::HeaderMap;

    use super::*;
    use crate::address;

    fn check(method: &str, target: &str, tunnelled: Option<&str>, expected: Result<Operation>) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut headers = HeaderMap::new();
        if let Some(name) = tunnelled {
            headers.insert("x-http-method", name.parse().unwrap());
        }
        let head = Head {
            method: method.parse().unwrap(),
            path,
            query: address::query(query).unwrap(),
            headers,
            account: "a",
            path_style: true,
            speaks_atom: true,
            tls: false,
            peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        let address = address::locate("x", path, |_| Some("a")).unwrap();
        let found = Operation::of(&head, address.resource);
        assert_eq!(found, expected, "{method} {target}");
    }

    #[test]
    fn verbs_and_resources_name_operations() {
        let entity = || EntityAddress {
            table: "t".into(),
            partition_key: "p".into(),
            row_key: "r".into(),
        };
        let at_entity = "/a/t(PartitionKey='p',RowKey='r')";
        let merge = || Ok(Operation::UpdateEntity(entity(), Update::Merge));
        let replace = Ok(Operation::UpdateEntity(entity(), Update::Replace));
        check("PATCH", at_entity, None, merge());
        check("MERGE", at_entity, None, merge());
        check("POST", at_entity, Some("MERGE"), merge());
        check("POST", at_entity, Some("PATCH"), merge());
        check("PUT", at_entity, None, replace);
        check("GET", at_entity, None, Ok(Operation::GetEntity(entity())));
        check(
            "POST",
            at_entity,
            Some("DELETE"),
            Ok(Operation::DeleteEntity(entity())),
        );
        check(
            "GET",
            "/a/t()?$top=1",
            None,
            Ok(Operation::QueryEntities("t".into())),
        );
        check(
            "POST",
            "/a/t",
            None,
            Ok(Operation::InsertEntity("t".into())),
        );
        check(
            "GET",
            "/a/t?comp=acl",
            None,
            Ok(Operation::GetAcl("t".into())),
        );
        check(
            "GET",
            "/a/Tables('t')",
            None,
            Ok(Operation::GetTable("t".into())),
        );
        let properties = "/a/?restype=service&comp=properties";
        check("PUT", properties, None, Ok(Operation::SetServiceProperties));
        check("POST", "/a/$batch", None, Ok(Operation::Batch));
    }

    #[test]
    fn what_cannot_be_asked_is_refused() {
        let at_entity = "/a/t(PartitionKey='p',RowKey='r')";
        check(
            "POST",
            at_entity,
            None,
            Err(Code::UnsupportedHttpVerb.into()),
        );
        check("BREW", "/a/t", None, Err(Code::UnsupportedHttpVerb.into()));
        check(
            "GET",
            "/a/t",
            Some("MERGE"),
            Err(Code::XMethodNotUsingPost.into()),
        );
        check(
            "POST",
            at_entity,
            Some("BREW"),
            Err(Code::XMethodIncorrectValue.into()),
        );
        check("GET", "/a", None, Err(Code::InvalidUri.into()));
        check("GET", "/a/t?comp=x", None, Err(unknown_comp("x")));
    }
}
