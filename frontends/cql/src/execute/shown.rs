//! Rows and their changes as JSON, for feeds that are read over HTTP: as `SELECT JSON` shows them.
//!
//! What the rows of a partition share is shown as a change of its own, with the partition's key
//! alone. A row of which only a tombstone is left is gone for its readers, and what deletes many
//! rows is shown as what it does to each.

use std::borrow::Cow;

use bytes::Bytes;
use tessera_core::feed::showing::{Seen, Shown};
use tessera_core::item::Item;
use tessera_core::{Error, Result};

use super::keys::{RECORD_KEY, key_components};
use super::line::{has_values, is_visible, value_of};
use crate::row::{Deletion, PartitionRecord, Row, StoredRow};
use crate::schema::{Column, ColumnKind, Table};
use crate::types::{column_json, to_json};

/// What the feed keeps of a row that is removed: the values of its clustering columns, which its
/// key does not give back.
pub(super) fn removal(old: &Item) -> Result<Bytes> {
    if old.locator.row_key == RECORD_KEY {
        return Ok(Bytes::new());
    }
    let stored = StoredRow::decode(&old.body).ok_or_else(damaged)?;
    let key = StoredRow {
        clustering: stored.clustering,
        row: Row::default(),
    };
    Ok(key.encode().into())
}

/// A row or a change of it; none if it is of what no reader sees.
pub(super) fn show(table: &Table, seen: &Seen<'_>) -> Result<Option<Shown>> {
    let now = i64::try_from(seen.wall_ms / 1_000).unwrap_or(i64::MAX);
    let look = Look { table, seen, now };
    match seen.locator.row_key == RECORD_KEY {
        true => look.shared(),
        false => look.row().map(Some),
    }
}

struct Look<'a> {
    table: &'a Table,
    seen: &'a Seen<'a>,
    now: i64,
}

impl Look<'_> {
    fn row(&self) -> Result<Shown> {
        let decode = |body: &Bytes| StoredRow::decode(body).ok_or_else(damaged);
        let after = self.seen.after.map(decode).transpose()?;
        let before = self.seen.before.map(decode).transpose()?;
        let removed = self.seen.payload.filter(|payload| !payload.is_empty());
        let removed = removed.map(decode).transpose()?;
        let named = [&after, &before, &removed].into_iter().flatten().next();
        let clustering = named.map_or(&[][..], |row| &row.clustering);
        let is_there =
            |row: &&StoredRow| is_visible(self.table, &row.row, Deletion::NONE, self.now);
        let json = |row: &StoredRow| {
            let kind = ColumnKind::Regular;
            self.json(&row.clustering, Some((&row.row, kind, Deletion::NONE)))
        };
        Ok(Shown {
            key: self.json(clustering, None)?,
            item: after.as_ref().filter(is_there).map(json).transpose()?,
            before: before.as_ref().filter(is_there).map(json).transpose()?,
            update: None,
        })
    }

    /// The static columns; nothing for tables without any.
    fn shared(&self) -> Result<Option<Shown>> {
        let mut columns = self.table.columns.iter();
        if !columns.any(|column| column.kind == ColumnKind::Static) {
            return Ok(None);
        }
        let json = |body: &Bytes| {
            let record = PartitionRecord::decode(body).ok_or_else(damaged)?;
            let (statics, deletion) = (&record.statics, record.deletion);
            if !has_values(self.table, statics, deletion, self.now) {
                return Ok(None);
            }
            let deletion = deletion.max(statics.deletion);
            let kind = ColumnKind::Static;
            self.json(&[], Some((statics, kind, deletion))).map(Some)
        };
        let item = self.seen.after.map(json).transpose()?.flatten();
        let before = self.seen.before.map(json).transpose()?.flatten();
        Ok(Some(Shown {
            key: self.json(&[], None)?,
            item,
            before,
            update: None,
        }))
    }

    /// An object of the key columns, and of the values of the columns of one kind.
    fn json(
        &self,
        clustering: &[Bytes],
        cells: Option<(&Row, ColumnKind, Deletion)>,
    ) -> Result<String> {
        let columns = &self.table.columns;
        let keys = self.table.partition_key().count();
        let components = key_components(&self.seen.locator.partition_key, keys);
        let values = components
            .into_iter()
            .chain(clustering.iter().map(|it| &**it));
        let mut members = Vec::with_capacity(columns.len());
        for (column, value) in columns.iter().zip(values) {
            members.push(member(column, Some(Cow::Borrowed(value)))?);
        }
        if let Some((row, kind, deletion)) = cells {
            let deletion = deletion.max(row.deletion);
            for column in columns.iter().filter(|column| column.kind == kind) {
                let value = value_of(self.table, column, row, deletion, self.now);
                members.push(member(column, value)?);
            }
        }
        Ok(format!("{{{}}}", members.join(", ")))
    }
}

fn member(column: &Column, value: Option<Cow<'_, [u8]>>) -> Result<String> {
    let value = match value {
        Some(value) => to_json(&column.data_type, &value).map_err(|_| damaged())?,
        None => "null".to_owned(),
    };
    Ok(format!("{}: {value}", column_json(&column.name)))
}

fn damaged() -> Error {
    Error::Corrupt("a row cannot be read".into())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use tessera_core::Store;
    use tessera_core::feed::changes::{
        ChangesMode, ChangesStart, PageBounds, Told, ToldChange, WHOLE,
    };
    use tessera_core::name::ContainerName;

    use super::*;
    use crate::API;
    use crate::execute::tests::with;

    const BOUNDS: PageBounds = PageBounds {
        max_changes: 1_000,
        max_bytes: 1 << 20,
    };

    const ONE: &str =
        r#"{"p": "a", "\"C\"": 1} {"p": "a", "\"C\"": 1, "tags": null, "v": "x\n\"y"}"#;
    const SHARED: &str = r#"{"p": "a"} {"p": "a", "s": "for all"}"#;
    const TWO: &str = r#"{"p": "a", "\"C\"": 2} {"p": "a", "\"C\"": 2, "tags": ["t"], "v": null}"#;
    const OTHER: &str = r#"{"p": "b", "\"C\"": 1} {"p": "b", "\"C\"": 1, "tags": null, "v": null}"#;

    /// Statements, and what the changes up to each have left.
    const STATEMENTS: [(&str, &[&str]); 11] = [
        (
            "INSERT INTO t (p, \"C\", v) VALUES ('a', 1, 'x\n\"y')",
            &[ONE],
        ),
        ("UPDATE t SET s = 'for all' WHERE p = 'a'", &[ONE, SHARED]),
        (
            "UPDATE t SET tags = {'t'} WHERE p = 'a' AND \"C\" = 2",
            &[ONE, TWO, SHARED],
        ),
        (
            "INSERT INTO t (p, \"C\") VALUES ('b', 1)",
            &[ONE, TWO, SHARED, OTHER],
        ),
        (
            "DELETE FROM t WHERE p = 'a' AND \"C\" = 1",
            &[TWO, SHARED, OTHER],
        ),
        // Nothing of it is left, though it was no delete.
        (
            "UPDATE t SET tags = null WHERE p = 'a' AND \"C\" = 2",
            &[SHARED, OTHER],
        ),
        ("UPDATE t SET s = null WHERE p = 'a'", &[OTHER]),
        (
            "UPDATE t SET tags = {'t'} WHERE p = 'a' AND \"C\" = 2",
            &[TWO, OTHER],
        ),
        ("DELETE FROM t WHERE p = 'a' AND \"C\" > 1", &[OTHER]),
        ("UPDATE t SET s = 'for all' WHERE p = 'a'", &[SHARED, OTHER]),
        ("DELETE FROM t WHERE p = 'a'", &[OTHER]),
    ];

    /// Applies what a change shows to what was found so far.
    fn apply(store: &Store, change: &ToldChange, found: &mut BTreeMap<String, String>) {
        let Told::Version(record) = &change.told else {
            return;
        };
        let shown = store.show_change(&change.term, &Seen::change(record));
        if let Some(shown) = shown.unwrap() {
            match shown.item {
                Some(item) => found.insert(shown.key, item),
                None => found.remove(&shown.key),
            };
        }
    }

    #[tokio::test]
    async fn what_changes_show_is_what_readers_find() {
        let tester = with(&[
            "CREATE TABLE t (p text, \"C\" int, s text STATIC, v text, tags set<text>, \
             PRIMARY KEY (p, \"C\"))",
        ])
        .await;
        let store = &tester.service.store;
        let name = ContainerName::new(API, "k", "t");
        let (mode, start) = (ChangesMode::AllVersions, ChangesStart::Now);
        let begun = store.begin_changes(&name, mode, start, WHOLE).await;
        let mut token = begun.unwrap();
        let mut found: BTreeMap<String, String> = BTreeMap::new();
        for (statement, expected) in STATEMENTS {
            tester.ok(&[statement]).await;
            let page = store.read_changes(&token, BOUNDS).await.unwrap();
            for change in &page.changes {
                apply(store, change, &mut found);
            }
            token = page.token;
            let found = found.iter().map(|(key, item)| format!("{key} {item}"));
            let found: BTreeSet<String> = found.collect();
            let expected = expected.iter().map(|line| (*line).to_owned()).collect();
            assert_eq!(found, expected, "{statement}");
        }
    }
}
