//! The interface of the fuzzer to this crate; unused by the server.

use bytes::Bytes;
use tessera_frontend::testing::Target;

use crate::address;
use crate::batch;
use crate::entity::{Incoming, Stored, encode};
use crate::filter;
use crate::service::acl::{read_xml, write_xml};
use crate::service::{ServiceProperties, Update};

/// The decoders and parsers.
pub const TARGETS: &[Target] = &[
    Target {
        name: "table-filter",
        run: parse_filter,
    },
    Target {
        name: "table-address",
        run: locate,
    },
    Target {
        name: "table-json",
        run: json,
    },
    Target {
        name: "table-atom",
        run: atom,
    },
    Target {
        name: "table-batch",
        run: read_batch,
    },
    Target {
        name: "table-xml",
        run: xml,
    },
    Target {
        name: "table-stored",
        run: stored,
    },
];

const ACCOUNT: &str = "devstoreaccount1";

fn parse_filter(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(Some(expression)) = filter::parse(&text) {
        let pieces = filter::plan(Some(&expression), &[]);
        assert!(pieces.len() <= text.len() + 1);
        let around = filter::parse(&format!(" ({text}) "));
        // One more pair may be one too deep.
        assert!(around.is_err() || around == Ok(Some(expression)));
    }
}

/// A line for the host, one for the path, one for the query.
fn locate(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.splitn(3, '\n');
    let mut line = || lines.next().unwrap_or_default();
    let (host, path, query) = (line(), line(), line());
    let _refused =
        address::locate(host, path, |name| (name == ACCOUNT).then_some(ACCOUNT)).is_err();
    let _refused = address::query(query).is_err();
}

fn json(bytes: &[u8]) {
    if let Ok(incoming) = Incoming::from_json(bytes) {
        kept(&incoming);
    }
}

fn atom(bytes: &[u8]) {
    if let Ok(incoming) = Incoming::from_atom(bytes) {
        kept(&incoming);
    }
}

/// An entity that was read is stored and read back as the same.
fn kept(incoming: &Incoming) {
    let encoded = encode(&incoming.properties);
    let stored = Stored::new(&encoded);
    let back = stored.into_iter().flat_map(Stored::iter);
    let back: Vec<_> = back.map(|(name, value)| (name.to_owned(), value)).collect();
    // A NaN is not equal to itself.
    assert_eq!(format!("{back:?}"), format!("{:?}", incoming.properties));
}

/// The boundary is the first line.
fn read_batch(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let (first, rest) = bytes.split_at(end.unwrap_or(0));
    let boundary = String::from_utf8_lossy(first);
    let content_type = format!("multipart/mixed; boundary={boundary}");
    let body = Bytes::copy_from_slice(rest);
    if let Ok(parts) = batch::read(&content_type, &body) {
        assert!(parts.len() <= body.len());
    }
}

fn xml(bytes: &[u8]) {
    if let Ok(policies) = read_xml(bytes) {
        let written = write_xml(&policies);
        assert_eq!(read_xml(&written), Ok(policies));
    }
    if let Ok(update) = Update::read_xml(bytes) {
        let mut properties = ServiceProperties::default();
        properties.apply(update);
        assert!(Update::read_xml(&properties.write_xml()).is_ok());
    }
}

fn stored(bytes: &[u8]) {
    if let Some(stored) = Stored::new(bytes) {
        let properties = stored.iter().map(|(name, value)| (name.to_owned(), value));
        let properties: Vec<_> = properties.collect();
        let again = encode(&properties);
        let back = Stored::new(&again).into_iter().flat_map(Stored::iter);
        assert_eq!(back.count(), properties.len());
    }
}
