//! EVENT, and the description of a schema change, which RESULT carries too.

use std::net::SocketAddr;

use crate::wire::writer::{put_socket_address, put_string, put_string_list};

/// What the server tells on its own.
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the protocol has it, and nothing here says it")
)]
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    Topology(NodeChange, SocketAddr),
    Status(NodeChange, SocketAddr),
    Schema(SchemaChange),
}

/// What happened to a node.
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the protocol has it, and nothing here says it")
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeChange {
    New,
    Removed,
    Up,
    Down,
}

/// What happened to a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeType {
    Created,
    Updated,
    Dropped,
}

/// A definition that changed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SchemaChange {
    pub(crate) change: ChangeType,
    pub(crate) keyspace: String,
    pub(crate) target: ChangeTarget,
}

/// What in the keyspace changed. Functions and aggregates exist from version 4.
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the protocol has it, and nothing here says it")
)]
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ChangeTarget {
    Keyspace,
    Table(String),
    Type(String),
    Function(String, Vec<String>),
    Aggregate(String, Vec<String>),
}

impl Event {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Topology(change, node) => put_node_change(out, "TOPOLOGY_CHANGE", *change, *node),
            Self::Status(change, node) => put_node_change(out, "STATUS_CHANGE", *change, *node),
            Self::Schema(change) => {
                put_string(out, "SCHEMA_CHANGE");
                change.put(out);
            }
        }
    }
}

fn put_node_change(out: &mut Vec<u8>, kind: &str, change: NodeChange, node: SocketAddr) {
    put_string(out, kind);
    let change = match change {
        NodeChange::New => "NEW_NODE",
        NodeChange::Removed => "REMOVED_NODE",
        NodeChange::Up => "UP",
        NodeChange::Down => "DOWN",
    };
    put_string(out, change);
    put_socket_address(out, node);
}

impl SchemaChange {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let change = match self.change {
            ChangeType::Created => "CREATED",
            ChangeType::Updated => "UPDATED",
            ChangeType::Dropped => "DROPPED",
        };
        put_string(out, change);
        let (kind, name, arguments) = match &self.target {
            ChangeTarget::Keyspace => ("KEYSPACE", None, None),
            ChangeTarget::Table(name) => ("TABLE", Some(name), None),
            ChangeTarget::Type(name) => ("TYPE", Some(name), None),
            ChangeTarget::Function(name, arguments) => ("FUNCTION", Some(name), Some(arguments)),
            ChangeTarget::Aggregate(name, arguments) => ("AGGREGATE", Some(name), Some(arguments)),
        };
        put_string(out, kind);
        put_string(out, &self.keyspace);
        if let Some(name) = name {
            put_string(out, name);
        }
        if let Some(arguments) = arguments {
            put_string_list(out, arguments);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_written_as_the_specification_says() {
        let mut out = Vec::new();
        Event::Status(NodeChange::Up, "127.0.0.1:9042".parse().unwrap()).put(&mut out);
        assert_eq!(
            out,
            b"\0\rSTATUS_CHANGE\0\x02UP\x04\x7f\0\0\x01\0\0\x23\x52"
        );
        out.clear();
        let target = ChangeTarget::Table("t".to_owned());
        let (change, keyspace) = (ChangeType::Created, "ks".to_owned());
        Event::Schema(SchemaChange {
            change,
            keyspace,
            target,
        })
        .put(&mut out);
        assert_eq!(
            out,
            b"\0\rSCHEMA_CHANGE\0\x07CREATED\0\x05TABLE\0\x02ks\0\x01t"
        );
    }
}
