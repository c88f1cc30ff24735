//! The client's half of the codec, for tests: requests written, responses read.

mod client;
mod fuzz;
mod golden;
mod properties;
mod read_response;
mod write_request;

pub(crate) use client::Wrapper;
pub(crate) use read_response::Decoded;
pub(super) use read_response::decode_response;
pub(super) use write_request::encode_request;

/// Bytes written as digits; blanks are for the eye.
pub(super) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}
