//! Entities and their changes as OData JSON, for feeds that are read over HTTP.

use bytes::Bytes;
use tessera_core::feed::showing::{Seen, Shown};
use tessera_core::item::Item;
use tessera_core::{Error, Result};

use crate::entity::{key_json, plain_json};
use crate::stored_entity::StoredEntity;

/// An entity or a change of one.
pub(crate) fn show(seen: &Seen<'_>) -> Result<Shown> {
    let keys = [&seen.locator.partition_key, &seen.locator.row_key];
    let [partition_key, row_key] = keys.map(|key| std::str::from_utf8(key).map_err(|_| damaged()));
    Ok(Shown {
        key: key_json(partition_key?, row_key?),
        item: seen.after.map(|body| entity(seen, body)).transpose()?,
        before: seen.before.map(|body| entity(seen, body)).transpose()?,
        update: None,
    })
}

/// An entity with one of its bodies. Its time is that of the change, also of the body before.
fn entity(seen: &Seen<'_>, body: &Bytes) -> Result<String> {
    let item = Item {
        locator: seen.locator.clone(),
        version: seen.version,
        expires_at_ms: None,
        body: body.clone(),
    };
    let entity = StoredEntity::of(&item).ok_or_else(damaged)?;
    Ok(plain_json(entity.view()))
}

fn damaged() -> Error {
    Error::Corrupt("an entity cannot be read".into())
}

#[cfg(test)]
mod tests {
    use tessera_core::feed::record::ChangeKind;

    use super::*;
    use crate::entity::{Value, encode};
    use crate::model::locator;

    #[test]
    fn entities_are_shown_with_their_types_and_removals_by_their_keys() {
        let body = encode(&[
            ("n".to_owned(), Value::Int64(5)),
            ("s".to_owned(), Value::String("a\"b".into())),
        ]);
        let locator = locator("p", "r\n");
        let seen = Seen {
            kind: ChangeKind::Insert,
            locator: &locator,
            version: 1_000_000,
            wall_ms: 1_000,
            payload: None,
            before: None,
            after: Some(&body),
        };
        let shown = show(&seen).unwrap();
        assert_eq!(shown.key, r#"{"PartitionKey":"p","RowKey":"r\n"}"#);
        let item = shown.item.unwrap();
        for part in [
            r#""PartitionKey":"p","RowKey":"r\n","Timestamp":"1970-01-01T00:00:01"#,
            r#""n@odata.type":"Edm.Int64","n":"5","s":"a\"b"}"#,
        ] {
            assert!(item.contains(part), "{item}");
        }
        let gone = Seen {
            kind: ChangeKind::Delete,
            after: None,
            payload: Some(&Bytes::new()),
            ..seen
        };
        let gone = show(&gone).unwrap();
        assert_eq!((gone.key, gone.item), (shown.key, None));
    }

    #[test]
    fn damaged_entities_are_refused() {
        let locator = locator("p", "r");
        let seen = Seen {
            kind: ChangeKind::Insert,
            locator: &locator,
            version: 0,
            wall_ms: 0,
            payload: None,
            before: None,
            after: Some(&Bytes::from_static(b"\xff")),
        };
        assert!(matches!(show(&seen), Err(Error::Corrupt(_))));
    }
}
