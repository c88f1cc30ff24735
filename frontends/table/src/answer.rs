//! Tables and entities as bodies of answers, in the format that the client asked for.

use crate::entity::{AtomWriter, DateTime, EntityView, JsonWriter, Origin, Select};
use crate::options::Format;

/// Writes bodies.
#[derive(Clone, Copy)]
pub(crate) struct Answer<'a> {
    pub(crate) format: Format,
    pub(crate) origin: Origin<'a>,
    /// When the answer is made, which Atom wants to know.
    pub(crate) now: DateTime,
}

impl<'a> Answer<'a> {
    /// One entity of `table`.
    pub(crate) fn entity(
        self,
        table: &str,
        select: Option<&Select>,
        entity: &EntityView<'_>,
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(1_024);
        match self.writer() {
            Writer::Json(writer) => writer.entity(&mut out, table, select, entity),
            Writer::Atom(writer) => writer.entity(&mut out, table, select, entity),
        }
        out
    }

    /// A page of entities of `table`.
    pub(crate) fn entities<'e>(
        self,
        table: &str,
        select: Option<&Select>,
        entities: impl IntoIterator<Item = EntityView<'e>>,
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(16_384);
        match self.writer() {
            Writer::Json(writer) => writer.entities(&mut out, table, select, entities),
            Writer::Atom(writer) => writer.entities(&mut out, table, select, entities),
        }
        out
    }

    /// One table.
    pub(crate) fn table(self, name: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        match self.writer() {
            Writer::Json(writer) => writer.table(&mut out, name),
            Writer::Atom(writer) => writer.table(&mut out, name),
        }
        out
    }

    /// A page of tables.
    pub(crate) fn tables<'n>(self, names: impl IntoIterator<Item = &'n str>) -> Vec<u8> {
        let mut out = Vec::with_capacity(4_096);
        match self.writer() {
            Writer::Json(writer) => writer.tables(&mut out, names),
            Writer::Atom(writer) => writer.tables(&mut out, names),
        }
        out
    }

    fn writer(self) -> Writer<'a> {
        let origin = self.origin;
        match self.format {
            Format::Json(metadata) => Writer::Json(JsonWriter { origin, metadata }),
            Format::Atom => Writer::Atom(AtomWriter {
                origin,
                updated: self.now,
            }),
        }
    }
}

enum Writer<'a> {
    Json(JsonWriter<'a>),
    Atom(AtomWriter<'a>),
}
