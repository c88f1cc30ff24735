//! The notation of the specification, read: each function takes one item off the front of a body.
//!
//! No length is trusted: what is not there is an error, and counts are checked against the bytes
//! left before they size anything.

#[cfg(test)]
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Consistency, Value, Version, WireError};

pub(super) type Read<T> = Result<T, WireError>;

/// A cursor over a body.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(body: &'a [u8]) -> Self {
        Self { rest: body }
    }

    /// Ends the reading: nothing may be left.
    pub(super) fn finish(self) -> Read<()> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(WireError::Trailing(left)),
        }
    }

    pub(super) fn take(&mut self, length: usize) -> Read<&'a [u8]> {
        let missing = length.saturating_sub(self.rest.len());
        let truncated = WireError::Truncated { needed: missing };
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let needed = N.saturating_sub(self.rest.len());
        let (taken, rest) = self
            .rest
            .split_first_chunk()
            .ok_or(WireError::Truncated { needed })?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(super) fn byte(&mut self) -> Read<u8> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    /// `[short]`, which is unsigned.
    pub(super) fn short(&mut self) -> Read<u16> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(super) fn int(&mut self) -> Read<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub(super) fn long(&mut self) -> Read<i64> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    #[cfg(test)]
    pub(super) fn uuid(&mut self) -> Read<[u8; 16]> {
        self.array()
    }

    pub(super) fn string(&mut self) -> Read<&'a str> {
        let length = self.short()?;
        text(self.take(usize::from(length))?)
    }

    pub(super) fn long_string(&mut self) -> Read<&'a str> {
        let length = self.length()?;
        text(self.take(length)?)
    }

    fn length(&mut self) -> Read<usize> {
        let length = self.int()?;
        usize::try_from(length).map_err(|_| WireError::NegativeLength(i64::from(length)))
    }

    /// `[bytes]`: null if the length is negative.
    pub(super) fn bytes(&mut self) -> Read<Option<&'a [u8]>> {
        match usize::try_from(self.int()?) {
            Ok(length) => self.take(length).map(Some),
            Err(_) => Ok(None),
        }
    }

    pub(super) fn short_bytes(&mut self) -> Read<&'a [u8]> {
        let length = self.short()?;
        self.take(usize::from(length))
    }

    /// `[value]`. Version 3 knows no unset: every negative length is null there.
    pub(super) fn value(&mut self, version: Version) -> Read<Value<'a>> {
        let length = self.int()?;
        match usize::try_from(length) {
            Ok(length) => self.take(length).map(Value::Bytes),
            Err(_) if length == -1 || !version.has_extras() => Ok(Value::Null),
            Err(_) if length == -2 => Ok(Value::Unset),
            Err(_) => Err(WireError::NegativeLength(i64::from(length))),
        }
    }

    /// A count of items of which each takes at least `smallest` bytes.
    pub(super) fn count(&mut self, smallest: usize) -> Read<usize> {
        let count = usize::from(self.short()?);
        self.check_count(count, smallest)
    }

    /// As [`Reader::count`], for counts of four bytes.
    #[cfg(test)]
    pub(super) fn long_count(&mut self, smallest: usize) -> Read<usize> {
        let count = self.length()?;
        self.check_count(count, smallest)
    }

    fn check_count(&self, count: usize, smallest: usize) -> Read<usize> {
        let needed = count.saturating_mul(smallest);
        match needed.checked_sub(self.rest.len()) {
            None | Some(0) => Ok(count),
            Some(needed) => Err(WireError::Truncated { needed }),
        }
    }

    /// A counted list of items of which each takes at least `smallest` bytes.
    pub(super) fn list<T>(
        &mut self,
        smallest: usize,
        item: impl FnMut(&mut Self) -> Read<T>,
    ) -> Read<Vec<T>> {
        let count = self.count(smallest)?;
        self.items(count, item)
    }

    pub(super) fn items<T>(
        &mut self,
        count: usize,
        mut item: impl FnMut(&mut Self) -> Read<T>,
    ) -> Read<Vec<T>> {
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    pub(super) fn string_list(&mut self) -> Read<Vec<&'a str>> {
        self.list(2, Self::string)
    }

    pub(super) fn string_map(&mut self) -> Read<Vec<(&'a str, &'a str)>> {
        self.list(4, |reader| Ok((reader.string()?, reader.string()?)))
    }

    /// `[bytes map]`; null values count as empty.
    pub(super) fn bytes_map(&mut self) -> Read<Vec<(&'a str, &'a [u8])>> {
        self.list(6, |reader| {
            Ok((reader.string()?, reader.bytes()?.unwrap_or_default()))
        })
    }

    pub(super) fn consistency(&mut self) -> Read<Consistency> {
        Consistency::from_code(self.short()?)
    }

    /// `[inetaddr]`: an address without a port.
    #[cfg(test)]
    pub(super) fn address(&mut self) -> Read<IpAddr> {
        match self.byte()? {
            4 => Ok(IpAddr::V4(Ipv4Addr::from(self.array::<4>()?))),
            16 => Ok(IpAddr::V6(Ipv6Addr::from(self.array::<16>()?))),
            other => Err(WireError::Unknown {
                what: "length of an address",
                number: i64::from(other),
            }),
        }
    }
}

fn text(bytes: &[u8]) -> Read<&str> {
    str::from_utf8(bytes).map_err(|_| WireError::NotUtf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_null_or_unset_by_version() {
        let read = |length: i32, version| {
            let bytes: &'static [u8] = length.to_be_bytes().to_vec().leak();
            Reader::new(bytes).value(version)
        };
        assert_eq!(read(-1, Version::V3), Ok(Value::Null));
        assert_eq!(read(-2, Version::V3), Ok(Value::Null));
        assert_eq!(read(-9, Version::V3), Ok(Value::Null));
        assert_eq!(read(-1, Version::V4), Ok(Value::Null));
        assert_eq!(read(-2, Version::V4), Ok(Value::Unset));
        assert_eq!(read(-3, Version::V4), Err(WireError::NegativeLength(-3)));
        assert_eq!(read(0, Version::V5), Ok(Value::Bytes(b"")));
        assert_eq!(
            read(2, Version::V5),
            Err(WireError::Truncated { needed: 2 })
        );
    }

    #[test]
    fn counts_are_checked_before_anything_is_reserved() {
        let many = [0xff, 0xff, 0, 0];
        assert!(matches!(
            Reader::new(&many).string_map(),
            Err(WireError::Truncated { .. })
        ));
        assert!(matches!(
            Reader::new(&many).string_list(),
            Err(WireError::Truncated { .. })
        ));
        assert!(matches!(
            Reader::new(&many).bytes_map(),
            Err(WireError::Truncated { .. })
        ));
        let huge = i32::MAX.to_be_bytes();
        assert!(matches!(
            Reader::new(&huge).long_count(4),
            Err(WireError::Truncated { .. })
        ));
        assert_eq!(
            Reader::new(&(-1i32).to_be_bytes()).long_string(),
            Err(WireError::NegativeLength(-1))
        );
    }

    #[test]
    fn shorts_are_unsigned() {
        let mut body = vec![0x80, 0x00];
        body.extend([b'a'; 0x8000]);
        assert_eq!(Reader::new(&body).string().map(str::len), Ok(0x8000));
    }
}
