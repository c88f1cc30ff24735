//! `int_as_blob`, `blob_as_int` and their like, for every native type.

use super::{Call, Function};
use crate::error::{CqlError, Result};
use crate::types::{DataType, Native, validate};

/// The function of this name, if it is one of these.
pub(super) fn find(name: &str) -> Option<Function> {
    let to = name
        .strip_suffix("_as_blob")
        .or_else(|| name.strip_suffix("asblob"));
    let from = name
        .strip_prefix("blob_as_")
        .or_else(|| name.strip_prefix("blobas"));
    let (parameter, result) = match (
        to.and_then(Native::from_name),
        from.and_then(Native::from_name),
    ) {
        (Some(native), _) => (native, Native::Blob),
        (None, Some(native)) => (Native::Blob, native),
        (None, None) => return None,
    };
    Some(Function {
        name: name.to_owned(),
        parameters: vec![parameter.into()],
        result: result.into(),
        takes_null: false,
        evaluate: same_bytes,
    })
}

fn same_bytes(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let Some(Some(bytes)) = call.arguments.first() else {
        return Ok(None);
    };
    if let (DataType::Native(native), Some(Native::Blob)) = (call.result, call.native(0))
        && validate(call.result, bytes).is_err()
    {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        return Err(CqlError::invalid(format!(
            "In call to function system.{}, value 0x{hex} is not a valid binary representation \
             for type {}",
            call.name,
            native.name()
        )));
    }
    Ok(Some(bytes.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::called;
    use super::*;

    #[test]
    fn values_become_blobs_and_back() {
        for (name, native, text, expected) in [
            ("int_as_blob", Native::Int, "1", "0x00000001"),
            ("textasblob", Native::Text, "ab", "0x6162"),
            ("varcharasblob", Native::Text, "ab", "0x6162"),
            ("blob_as_bigint", Native::Blob, "0000000000000003", "3"),
            ("blobastext", Native::Blob, "6162", "'ab'"),
            ("blob_as_int", Native::Blob, "null", "null"),
            (
                "blobasint",
                Native::Blob,
                "01",
                "In call to function system.blobasint, value 0x01 is not a valid binary \
                 representation for type int",
            ),
        ] {
            assert_eq!(called(name, &[(native.into(), text)]), expected, "{name}");
        }
    }
}
