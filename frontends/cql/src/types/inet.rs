//! Addresses: four or sixteen bytes.

use std::net::{IpAddr, Ipv6Addr};

/// Reads an address in digits. Names of hosts are not looked up.
pub(super) fn parse(text: &str) -> Option<Vec<u8>> {
    Some(match text.parse::<IpAddr>().ok()? {
        IpAddr::V4(address) => address.octets().to_vec(),
        // As Java does, an address of version 4 in the form of version 6 is one of version 4.
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => mapped.octets().to_vec(),
            None => address.octets().to_vec(),
        },
    })
}

/// The address as Java writes it: groups of version 6 in full, without leading zeros.
pub(super) fn text(bytes: &[u8]) -> String {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return IpAddr::from(octets).to_string();
    }
    match <[u8; 16]>::try_from(bytes) {
        Ok(octets) => {
            let groups = Ipv6Addr::from(octets).segments();
            groups.map(|group| format!("{group:x}")).join(":")
        }
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for (input, output) in [
            ("127.0.0.1", "127.0.0.1"),
            ("::1", "0:0:0:0:0:0:0:1"),
            ("2001:DB8::a", "2001:db8:0:0:0:0:0:a"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
        ] {
            assert_eq!(text(&parse(input).unwrap()), output);
        }
        assert_eq!(parse("localhost"), None);
        assert_eq!(parse("1.2.3"), None);
    }
}
