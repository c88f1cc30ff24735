//! The interface of the fuzzer to this crate; unused by the server.

use bson::{Document, RawDocument};
use tessera_frontend::testing::Target;

use crate::wire::header::Header;
use crate::wire::{compression, document, message, query};

/// The decoders.
pub const TARGETS: &[Target] = &[
    Target {
        name: "mongo-packet",
        run: packet,
    },
    Target {
        name: "mongo-document",
        run: check_document,
    },
];

/// No more is expanded: a claim of 48 MB costs that much memory each time.
const EXPANDED: usize = 1 << 20;

fn packet(bytes: &[u8]) {
    let header = bytes.first_chunk().and_then(Header::parse);
    assert!(header.is_none_or(|header| header.length >= 16));
    if compression::expanded_length(bytes).is_none_or(|length| length <= EXPANDED)
        && let Ok((compressor, expanded)) = compression::expand(bytes)
    {
        let mut again = expanded.clone();
        compression::compress(&mut again, 0, compressor);
        if again != expanded {
            let back = compression::expand(&again);
            assert!(back.is_ok_and(|(_, back)| back == expanded));
        }
        plain(&expanded);
    }
    plain(bytes);
}

fn plain(packet: &[u8]) {
    if let Ok(decoded) = message::decode(packet) {
        readable(decoded.body);
        for sequence in &decoded.sequences {
            sequence.documents.iter().for_each(|it| readable(it));
        }
        let mut out = Vec::new();
        message::encode(&mut out, (1, 2), decoded.flags, decoded.body);
        let back = message::decode(&out);
        assert!(back.is_ok_and(|back| back.body == decoded.body && back.flags == decoded.flags));
    }
    if let Ok(query) = query::decode(packet) {
        readable(query.document);
    }
}

fn check_document(bytes: &[u8]) {
    if document::check(bytes).is_ok() {
        let document = RawDocument::from_bytes(bytes);
        assert!(document.is_ok(), "checked, and not a document");
        document.into_iter().for_each(readable);
    }
}

/// What is checked can be read without an error.
fn readable(document: &RawDocument) {
    let read = Document::try_from(document);
    assert!(read.is_ok(), "checked, and cannot be read: {read:?}");
    let elements = document::elements(document).count();
    assert_eq!(elements, document.iter().count());
}
