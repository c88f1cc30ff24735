//! Packets of real clients, byte for byte: they must be accepted, and truncated ones refused.

use bson::{RawDocumentBuf, rawdoc};
use proptest::prelude::*;

use super::compression::{self, Compressor};
use super::header::{Header, MAX_MESSAGE_BYTES, op_code};
use super::message::{self, Flags};
use super::query;

/// The first packet of mongosh 2.12.
const MONGOSH_HELLO: &str = "
    ee0000000100000000000000d40700000000000061646d696e2e24636d640000000000ffffffffc700000010
    69736d61737465720001000000026261636b7072657373757265000200000032000868656c6c6f4f6b000103
    636c69656e740070000000036170706c69636174696f6e001e000000026e616d65000f0000006d6f6e676f73
    6820322e31322e300000036472697665720038000000026e616d65000f0000006e6f64656a737c6d6f6e676f
    7368000276657273696f6e000d000000372e382e307c322e31322e3000000004636f6d7072657373696f6e00
    11000000023000050000006e6f6e65000000";

/// An insert of two documents by PyMongo 4.19, compressed with snappy; they are a sequence.
const PYMONGO_INSERT: &str = "
    ba00000074420e9200000000dc070000dd070000aa00000001aa0100000101887100000002696e7365727400
    020000006300086f726465726564000102636f6d6d656e0919c86700036c736964001e000000056964001000
    000004e397999d22674b1e867970aa497f50c5001274786e4e756d6265720001000160640000022464620005
    0000007465737400000133000000646f6375015a2c73000e000000105f69640001012e0017110e3402000000
    02610002000000620000";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().filter(|digit| !digit.is_whitespace()).collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// What [`PYMONGO_INSERT`] is without compression.
fn insert() -> Vec<u8> {
    let (compressor, packet) = compression::expand(&bytes(PYMONGO_INSERT)).unwrap();
    assert_eq!(compressor, Compressor::Snappy);
    packet
}

#[test]
fn the_hello_of_mongosh_is_read() {
    let packet = bytes(MONGOSH_HELLO);
    let header = Header::parse(packet.first_chunk().unwrap()).unwrap();
    assert_eq!(
        (header.length, header.op_code),
        (packet.len(), op_code::QUERY)
    );
    let query = query::decode(&packet).unwrap();
    assert_eq!(query.namespace, "admin.$cmd");
    assert_eq!(query.document.get_i32("ismaster").ok(), Some(1));
    assert_eq!(query.document.get_str("backpressure").ok(), Some("2"));
}

#[test]
fn the_insert_of_pymongo_is_read() {
    let packet = insert();
    let message = message::decode(&packet).unwrap();
    assert_eq!(message.flags, Flags::default());
    assert_eq!(message.body.get_str("insert").ok(), Some("c"));
    assert_eq!(message.body.get_i64("txnNumber").ok(), Some(1));
    let [sequence] = message.sequences.as_slice() else {
        panic!("{message:?}");
    };
    assert_eq!(sequence.name, "documents");
    let ids: Vec<_> = sequence
        .documents
        .iter()
        .map(|sent| sent.get_i32("_id").ok())
        .collect();
    assert_eq!(ids, [Some(1), Some(2)]);
}

#[test]
fn no_cut_of_a_packet_is_taken_for_the_whole() {
    let hello = bytes(MONGOSH_HELLO);
    for length in 0..hello.len() {
        assert!(query::decode(&hello[..length]).is_err(), "{length}");
    }
    // A message may end after its body: only what is cut within a section is refused.
    let insert = insert();
    let body_end = 16 + 4 + 1 + 113;
    for length in (0..insert.len()).filter(|length| *length != body_end) {
        assert!(message::decode(&insert[..length]).is_err(), "{length}");
    }
    let mut sealed = Vec::new();
    let flags = Flags {
        checksum: true,
        ..Flags::default()
    };
    message::encode(
        &mut sealed,
        (1, 2),
        flags,
        &rawdoc! { "ping": 1, "$db": "admin" },
    );
    for length in 0..sealed.len() {
        assert!(message::decode(&sealed[..length]).is_err(), "{length}");
    }
}

#[test]
fn a_wrong_checksum_is_noticed() {
    let mut packet = Vec::new();
    let flags = Flags {
        checksum: true,
        ..Flags::default()
    };
    message::encode(&mut packet, (1, 2), flags, &rawdoc! { "ping": 1 });
    assert!(message::decode(&packet).is_ok());
    for position in 16..packet.len() {
        let mut other = packet.clone();
        other[position] ^= 0x20;
        assert!(message::decode(&other).is_err(), "{position}");
    }
}

#[test]
fn unknown_required_flags_are_refused_and_optional_ones_ignored() {
    let mut packet = Vec::new();
    message::encode(
        &mut packet,
        (1, 2),
        Flags::default(),
        &rawdoc! { "ping": 1 },
    );
    for bit in 0..32 {
        let mut other = packet.clone();
        other[16..20].copy_from_slice(&(1u32 << bit).to_le_bytes());
        let taken = message::decode(&other).is_ok();
        // Bit 0 promises a checksum, which is not there.
        assert_eq!(taken, bit == 1 || bit >= 16, "{bit}");
    }
}

#[test]
fn a_message_has_one_body_and_known_sections() {
    let body = rawdoc! { "ping": 1 };
    let mut packet = Vec::new();
    message::encode(&mut packet, (1, 2), Flags::default(), &body);
    let mut twice = packet.clone();
    twice.push(0);
    twice.extend_from_slice(body.as_bytes());
    assert!(message::decode(&twice).is_err());
    let mut unknown = packet.clone();
    unknown[20] = 2;
    assert!(message::decode(&unknown).is_err());
    assert!(message::decode(&packet[..20]).is_err());
}

#[test]
fn a_sequence_with_any_size_but_its_own_is_refused() {
    let packet = insert();
    let size = packet.len() - 16 - 4 - 1 - 113 - 1;
    let place = 16 + 4 + 1 + 113 + 1;
    let size = i32::try_from(size).unwrap();
    assert_eq!(packet[place..place + 4], size.to_le_bytes());
    for other in [
        i32::MIN,
        -1,
        0,
        3,
        4,
        size - 1,
        size + 1,
        MAX_MESSAGE_BYTES,
        i32::MAX,
    ] {
        let mut packet = packet.clone();
        packet[place..place + 4].copy_from_slice(&other.to_le_bytes());
        assert!(message::decode(&packet).is_err(), "{other}");
    }
}

proptest! {
    #[test]
    fn messages_read_back(text: String, number: i64, checksum: bool, more_to_come: bool) {
        let flags = Flags { checksum, more_to_come, exhaust_allowed: false };
        let body: RawDocumentBuf = rawdoc! { "ping": number, "comment": text };
        let mut packet = Vec::new();
        message::encode(&mut packet, (3, 4), flags, &body);
        let header = Header::parse(packet.first_chunk().unwrap()).unwrap();
        prop_assert_eq!((header.length, header.response_to), (packet.len(), 4));
        let message = message::decode(&packet).unwrap();
        prop_assert_eq!(message.flags, flags);
        prop_assert_eq!(message.body, &*body);
    }

    #[test]
    fn a_changed_byte_is_read_or_refused_and_nothing_worse(position in 0usize..1_000, byte: u8) {
        for mut packet in [insert(), bytes(MONGOSH_HELLO), bytes(PYMONGO_INSERT)] {
            let position = position % packet.len();
            packet[position] = byte;
            let read = message::decode(&packet).is_ok();
            let asked = query::decode(&packet).is_ok();
            let expanded = compression::expand(&packet).is_ok();
            prop_assert!(!(read && asked && expanded));
        }
    }
}
