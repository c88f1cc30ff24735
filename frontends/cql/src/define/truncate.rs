//! TRUNCATE: empties a table and its views.

use super::{Defined, Definer, Done, refuse};
use crate::catalog::{Place, keyspace_of};
use crate::error::{CqlError, ErrorKind};
use crate::statement::QualifiedName;

pub(super) async fn run(definer: &Definer<'_>, name: &QualifiedName) -> Done {
    let relation = definer.catalog.relation(name, definer.keyspace)?;
    if relation.view.is_some() {
        return refuse(
            "Cannot TRUNCATE materialized view directly; must truncate base table instead",
        );
    }
    let entry = definer
        .catalog
        .keyspace(keyspace_of(name, definer.keyspace)?)?;
    let views = entry.views_of(relation);
    for relation in std::iter::once(relation).chain(&views) {
        let Place::Stored { name, .. } = &relation.place else {
            let table = relation.table.full_name();
            let words = format!("Cannot TRUNCATE <table {table}>");
            return Err(CqlError::new(ErrorKind::Unauthorized, words).into());
        };
        definer.service.store.truncate_container(name).await?;
    }
    Ok(Defined::default())
}
