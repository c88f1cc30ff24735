//! `authenticationRestrictions` of users and roles: the addresses that logins may come from.

use std::net::IpAddr;

use bson::{Bson, Document, RawArray};
use tessera_mongo_language::error::{Code, bad_value, type_mismatch};

use crate::failure::{Failure, Result};

const CLIENT: &str = "clientSource";
const SERVER: &str = "serverAddress";

/// Both ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) client: IpAddr,
    /// None where the server listens on more than one address.
    pub(crate) server: Option<IpAddr>,
}

/// Reads restrictions as they are sent, and refuses those that nobody could keep.
pub(crate) fn read(sent: Option<&RawArray>) -> Result<Option<Vec<Bson>>> {
    let Some(sent) = sent else {
        return Ok(None);
    };
    let restrictions: Vec<Bson> = Vec::try_from(sent)?;
    for restriction in &restrictions {
        let Bson::Document(restriction) = restriction else {
            return Err(type_mismatch("authenticationRestrictions must be documents").into());
        };
        check(restriction)?;
    }
    Ok(Some(restrictions))
}

fn check(restriction: &Document) -> Result<()> {
    for (name, value) in restriction {
        if ![CLIENT, SERVER].contains(&name.as_str()) {
            let message = format!("Unrecognized authentication restriction: '{name}'");
            return Err(Failure::new(Code::IDL_UNKNOWN_FIELD, message));
        }
        let Bson::Array(ranges) = value else {
            let message = format!("'{name}' must be an array of addresses");
            return Err(type_mismatch(message).into());
        };
        if let Some(range) = ranges.iter().find(|range| Range::parse(range).is_none()) {
            let message = format!("'{name}' has {range}, which is no IP address or CIDR range");
            return Err(bad_value(message).into());
        }
    }
    Ok(())
}

/// Whether restrictions let a connection in: there are none, or all that one of them says is so.
pub(crate) fn lets_in(restrictions: &[Bson], ends: Ends) -> bool {
    restrictions.is_empty() || restrictions.iter().any(|one| fits(one, ends))
}

fn fits(restriction: &Bson, ends: Ends) -> bool {
    let Some(restriction) = restriction.as_document() else {
        return false;
    };
    restriction.iter().all(|(name, ranges)| {
        let address = match name.as_str() {
            CLIENT => Some(ends.client),
            SERVER => ends.server,
            _ => None,
        };
        let (Some(address), Bson::Array(ranges)) = (address, ranges) else {
            return false;
        };
        let ranges = ranges.iter().filter_map(Range::parse);
        ranges.into_iter().any(|range| range.holds(address))
    })
}

/// Addresses that begin with the same bits.
struct Range {
    address: IpAddr,
    bits: u32,
}

impl Range {
    fn parse(value: &Bson) -> Option<Self> {
        let text = value.as_str()?;
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Self { address, bits })
    }

    fn holds(&self, address: IpAddr) -> bool {
        // All bits of the one must be shifted out to compare none, which a plain shift cannot.
        let begins = |address: u128, width: u32| address.checked_shr(width - self.bits);
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let begins = |address: u32| begins(u128::from(address), 32);
                begins(own.into()) == begins(other.into())
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                begins(own.into(), 128) == begins(other.into(), 128)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn client(address: &str) -> Ends {
        Ends {
            client: address.parse().unwrap(),
            server: None,
        }
    }

    #[test]
    fn ranges_hold_what_begins_alike() {
        for (range, address, expected) in [
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("127.0.0.1", "::ffff:127.0.0.1", true),
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/31", "10.0.0.1", true),
            ("10.0.0.0/31", "10.0.0.2", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "2001:db8::1", true),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
        ] {
            let restrictions = [Bson::from(doc! { CLIENT: [range] })];
            let found = lets_in(&restrictions, client(address));
            assert_eq!(found, expected, "{range} {address}");
        }
    }

    #[test]
    fn one_of_several_must_be_kept_as_a_whole() {
        let ends = Ends {
            server: Some([192, 0, 2, 1].into()),
            ..client("127.0.0.1")
        };
        let here = doc! { CLIENT: ["127.0.0.1"], SERVER: ["192.0.2.0/24"] };
        let there = doc! { CLIENT: ["127.0.0.1"], SERVER: ["198.51.100.1"] };
        let both = [Bson::from(there.clone()), Bson::from(here)];
        assert!(lets_in(&[], ends) && lets_in(&both, ends));
        assert!(!lets_in(&[Bson::from(there)], ends));
        assert!(
            !lets_in(&both, client("127.0.0.1")),
            "the server's address is not known"
        );
        assert!(!lets_in(&[Bson::from(1)], ends) && lets_in(&[Bson::from(doc! {})], ends));
    }

    #[test]
    fn what_nobody_could_keep_is_refused() {
        for (restriction, expected) in [
            (Bson::from(doc! { CLIENT: ["127.0.0.1/8", "::1"] }), 0),
            (Bson::from(doc! {}), 0),
            (Bson::from(doc! { CLIENT: ["127.0.0.1/33"] }), 2),
            (Bson::from(doc! { CLIENT: ["localhost"] }), 2),
            (Bson::from(doc! { SERVER: [1] }), 2),
            (Bson::from(doc! { SERVER: "127.0.0.1" }), 14),
            (Bson::from(doc! { "clientsource": [] }), 40415),
            (Bson::from("127.0.0.1"), 14),
        ] {
            let sent = bson::RawArrayBuf::from_iter([
                bson::RawBson::try_from(restriction.clone()).unwrap()
            ]);
            let found = read(Some(&sent)).map_or_else(|failure| failure.code().0, |_| 0);
            assert_eq!(found, expected, "{restriction}");
        }
    }
}
