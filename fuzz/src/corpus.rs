//! The inputs that all others are made from: one file for each target, one input on a line.
//!
//! Bytes that are no plain characters are written `\xNN`, as are the ends of lines within inputs
//! (`\r`, `\n`) and the backslash itself (`\\`). Lines that begin with `#` are remarks.

/// The inputs of a file.
pub fn read(text: &str) -> Vec<Vec<u8>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter(|line| !line.is_empty())
        .map(unescape)
        .collect()
}

fn unescape(line: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let kind = after.chars().next();
        let (byte, length) = match kind {
            Some('x') => {
                let digits = after.get(1..3).unwrap_or_default();
                (u8::from_str_radix(digits, 16).unwrap_or(b'\\'), 3)
            }
            Some('n') => (b'\n', 1),
            Some('r') => (b'\r', 1),
            _ => (b'\\', 1),
        };
        bytes.push(byte);
        rest = after.get(length..).unwrap_or_default();
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// An input as a line of a file.
pub fn escape(input: &[u8]) -> String {
    let escaped = input.iter().map(|byte| match byte {
        b'\\' => "\\\\".to_owned(),
        b'\n' => "\\n".to_owned(),
        b'\r' => "\\r".to_owned(),
        b' '..=b'~' => char::from(*byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    });
    escaped.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_kept_byte_for_byte() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(read(&escape(&all)), [all]);
        assert_eq!(read("# a remark\n\na b\\r\\n\n"), [b"a b\r\n"]);
    }
}
