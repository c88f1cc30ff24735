//! The headers with the start of the next page, and the parameters that return them.
//!
//! They hold the last key of the page in the form that the service uses for its own: a version, a
//! length and base64, opaque to clients.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::error::{Code, Result};
use crate::head::Head;

/// A query of entities continues behind this entity.
pub(crate) fn read_keys(head: &Head<'_>) -> Result<Option<(String, String)>> {
    let Some(partition_key) = head.query.get("NextPartitionKey") else {
        return Ok(None);
    };
    let row_key = head.query.get("NextRowKey").unwrap_or_default();
    Ok(Some((decode(partition_key)?, decode(row_key)?)))
}

/// A query of tables continues behind this table.
pub(crate) fn read_table(head: &Head<'_>) -> Result<Option<String>> {
    head.query.get("NextTableName").map(decode).transpose()
}

/// A key as a header carries it.
pub(crate) fn encode(key: &str) -> String {
    let encoded = URL_SAFE_NO_PAD.encode(key);
    format!("1!{}!{encoded}", encoded.len())
}

fn decode(token: &str) -> Result<String> {
    let refused =
        || Code::InvalidInput.because("the continuation is not one that this service has given");
    if token.is_empty() {
        return Ok(String::new());
    }
    let mut parts = token.splitn(3, '!');
    let (Some("1"), Some(length), Some(encoded)) = (parts.next(), parts.next(), parts.next())
    else {
        return Err(refused());
    };
    if length.parse() != Ok(encoded.len()) {
        return Err(refused());
    }
    let decoded = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| refused())?;
    String::from_utf8(decoded).map_err(|_| refused())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_read_back_and_others_are_refused() {
        for key in ["", "a", "ä/ö 日本", "1!4!"] {
            assert_eq!(decode(&encode(key)).unwrap(), key);
        }
        for foreign in ["x", "1!2!", "2!2!YQ", "1!3!YQ", "1!2!!!", "1!4!_w8="] {
            assert!(decode(foreign).is_err(), "{foreign}");
        }
    }
}
