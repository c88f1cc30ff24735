//! The notation of the specification, written: each function appends one item to a body.
//!
//! Writing cannot fail. What the notation has no room for is cut: texts of `[string]` at the last
//! whole character within 65,535 bytes, which only messages of errors can reach.

use std::net::{IpAddr, SocketAddr};

use super::Consistency;

pub(crate) fn put_short(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

pub(crate) fn put_int(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// A count or a length as `[int]`. Bodies are limited far below what it can say.
pub(crate) fn put_length(out: &mut Vec<u8>, length: usize) {
    put_int(out, i32::try_from(length).unwrap_or(i32::MAX));
}

/// A count as `[short]`.
pub(super) fn put_count(out: &mut Vec<u8>, count: usize) {
    put_short(out, u16::try_from(count).unwrap_or(u16::MAX));
}

pub(super) fn put_string(out: &mut Vec<u8>, text: &str) {
    let text = prefix(text, usize::from(u16::MAX));
    put_count(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

/// The longest prefix of whole characters that has at most so many bytes.
fn prefix(text: &str, most: usize) -> &str {
    let end = text.floor_char_boundary(most);
    text.get(..end).unwrap_or_default()
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => put_int(out, -1),
        Some(bytes) => {
            put_length(out, bytes.len());
            out.extend_from_slice(bytes);
        }
    }
}

pub(super) fn put_short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

pub(super) fn put_string_list<T: AsRef<str>>(out: &mut Vec<u8>, list: &[T]) {
    put_count(out, list.len());
    for text in list {
        put_string(out, text.as_ref());
    }
}

pub(super) fn put_consistency(out: &mut Vec<u8>, consistency: Consistency) {
    put_short(out, consistency.code());
}

/// `[inetaddr]`.
pub(super) fn put_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            out.push(4);
            out.extend_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            out.push(16);
            out.extend_from_slice(&address.octets());
        }
    }
}

/// `[inet]`.
pub(super) fn put_socket_address(out: &mut Vec<u8>, address: SocketAddr) {
    put_address(out, address.ip());
    put_int(out, i32::from(address.port()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let mut out = Vec::new();
        put_string(&mut out, &"é".repeat(40_000));
        assert_eq!(out.len(), 2 + 65_534);
        assert_eq!(out[..2], 65_534u16.to_be_bytes());
        assert!(str::from_utf8(&out[2..]).is_ok());
    }
}
