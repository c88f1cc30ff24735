//! Tables and entities as bodies of answers, in the format that the client asked for.

use std::time::SystemTime;

use crate::entity::{AtomWriter, DateTime, EntityView, JsonWriter, Origin, Select, Writer};
use crate::options::Format;

/// Writes bodies.
#[derive(Clone, Copy)]
pub(crate) struct Answer<'a> {
    pub(crate) format: Format,
    pub(crate) origin: Origin<'a>,
}

impl Answer<'_> {
    /// One entity of `table`.
    pub(crate) fn entity(
        self,
        table: &str,
        select: Option<&Select>,
        entity: &EntityView<'_>,
    ) -> Vec<u8> {
        self.write(entity.room(), |writer, out| {
            writer.entity(out, table, select, entity);
        })
    }

    /// A page of entities of `table`.
    pub(crate) fn entities<'e>(
        self,
        table: &str,
        select: Option<&Select>,
        mut entities: impl Iterator<Item = EntityView<'e>>,
    ) -> Vec<u8> {
        self.write(16_384, |writer, out| {
            writer.entities(out, table, select, &mut entities);
        })
    }

    /// One table.
    pub(crate) fn table(self, name: &str) -> Vec<u8> {
        self.write(256, |writer, out| writer.table(out, name))
    }

    /// A page of tables.
    pub(crate) fn tables<'n>(self, mut names: impl Iterator<Item = &'n str>) -> Vec<u8> {
        self.write(4_096, |writer, out| writer.tables(out, &mut names))
    }

    /// A body for which there is room from the start.
    fn write(self, room: usize, write: impl FnOnce(&dyn Writer, &mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::with_capacity(room);
        let origin = self.origin;
        match self.format {
            Format::Json(metadata) => write(&JsonWriter { origin, metadata }, &mut out),
            Format::Atom => {
                let updated = DateTime::of(SystemTime::now());
                write(&AtomWriter { origin, updated }, &mut out);
            }
        }
        out
    }
}
