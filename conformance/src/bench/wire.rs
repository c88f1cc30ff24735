//! Where requests and answers end, and which answer belongs to which request: all that a load and a
//! bare server must know of a protocol.

use crate::bench::template::{Form, Place, Source};

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// MongoDB: a little-endian length first, then a number that the reply repeats.
    Mongo,
    /// CQL version 4: 9 bytes with the stream in the middle and the length of the rest at the end.
    Cql,
    /// HTTP/1.1, one request at a time.
    Http,
}

const CQL_HEADER_BYTES: usize = 9;

/// How each is called on a command line.
pub(crate) const NAMES: &[(&str, Wire)] = &[
    ("mongo", Wire::Mongo),
    ("cql", Wire::Cql),
    ("http", Wire::Http),
];

impl Wire {
    pub(crate) fn name(self) -> &'static str {
        let found = NAMES.iter().find(|(_, wire)| *wire == self);
        found.map_or("", |(name, _)| name)
    }

    /// The length of the first message in these bytes, if all of it is there.
    pub(crate) fn message(self, received: &[u8]) -> Option<usize> {
        let length = match self {
            Self::Mongo => u32::from_le_bytes(field(received, 0)?),
            Self::Cql => {
                let body = u32::from_be_bytes(field(received, 5)?);
                body.checked_add(u32::try_from(CQL_HEADER_BYTES).ok()?)?
            }
            Self::Http => return http_message(received),
        };
        let length = usize::try_from(length).ok()?;
        (received.len() >= length).then_some(length)
    }

    /// Which of the requests that wait on a connection this answers.
    pub(crate) fn slot(self, answer: &[u8]) -> Option<usize> {
        match self {
            Self::Mongo => usize::try_from(u32::from_le_bytes(field(answer, 8)?)).ok(),
            Self::Cql => Some(usize::from(u16::from_be_bytes(field(answer, 2)?))),
            Self::Http => Some(0),
        }
    }

    /// Where a request says which it is.
    pub(crate) fn slot_place(self) -> Option<(usize, Place)> {
        let place = |form| Place {
            source: Source::Slot,
            plus: 0,
            form,
        };
        match self {
            Self::Mongo => Some((4, place(Form::LittleEndian32))),
            Self::Cql => Some((2, place(Form::BigEndian16))),
            Self::Http => None,
        }
    }

    /// Makes a recorded answer that of this request.
    pub(crate) fn address(self, answer: &mut [u8], request: &[u8]) -> Option<()> {
        let (from, to) = match self {
            Self::Mongo => (4..8, 8..12),
            Self::Cql => (2..4, 2..4),
            Self::Http => return Some(()),
        };
        answer.get_mut(to)?.copy_from_slice(request.get(from)?);
        Some(())
    }
}

fn field<const BYTES: usize>(message: &[u8], at: usize) -> Option<[u8; BYTES]> {
    message.get(at..)?.first_chunk().copied()
}

/// The length of an HTTP answer, if all of it is there.
fn http_message(received: &[u8]) -> Option<usize> {
    let (mut head, mut body, mut chunked) = (0, 0, false);
    for line in received.split_inclusive(|byte| *byte == b'\n') {
        head += line.len();
        if line == b"\r\n" {
            let rest = received.get(head..)?;
            // There is never a second answer behind it.
            let done = match chunked {
                true => rest.ends_with(b"0\r\n\r\n"),
                false => rest.len() >= body,
            };
            return done.then_some(received.len());
        }
        if let Some(length) = http_header(line, "content-length") {
            body = length.parse().ok()?;
        }
        chunked |= http_header(line, "transfer-encoding") == Some("chunked");
    }
    None
}

/// The value of this header, if the line is it.
pub(crate) fn http_header<'a>(line: &'a [u8], name: &str) -> Option<&'a str> {
    let (found, value) = line.split_at_checked(name.len())?;
    let value = value.strip_prefix(b":")?;
    let same = found.eq_ignore_ascii_case(name.as_bytes());
    same.then(|| std::str::from_utf8(value).ok())?
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::Wire;

    #[test]
    fn a_message_is_one_when_all_of_it_is_there() {
        let mongo: &[u8] = &[17, 0, 0, 0, 1, 2, 3, 4, 9, 0, 0, 0, 0, 0, 0, 0, 7];
        let cql: &[u8] = &[0x84, 0, 0, 5, 8, 0, 0, 0, 1, 7];
        let http = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab";
        let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
        for (wire, message, slot) in [
            (Wire::Mongo, mongo, 9),
            (Wire::Cql, cql, 5),
            (Wire::Http, http, 0),
            (Wire::Http, chunked, 0),
        ] {
            assert_eq!(wire.message(message), Some(message.len()), "{wire:?}");
            assert_eq!(wire.slot(message), Some(slot), "{wire:?}");
            for cut in 0..message.len() {
                assert_eq!(wire.message(&message[..cut]), None, "{wire:?} {cut}");
            }
        }
    }

    #[test]
    fn a_recorded_answer_is_given_to_the_one_who_asked() {
        let mut answer = [0; 16];
        Wire::Mongo
            .address(&mut answer, &[0, 0, 0, 0, 1, 2, 3, 4])
            .unwrap();
        assert_eq!(answer[8..12], [1, 2, 3, 4]);
        Wire::Cql.address(&mut answer, &[4, 0, 5, 6]).unwrap();
        assert_eq!(answer[2..4], [5, 6]);
        assert_eq!(Wire::Cql.address(&mut answer, &[4]), None);
    }
}
