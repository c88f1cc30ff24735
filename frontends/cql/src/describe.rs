//! DESCRIBE: what is defined, as statements that repeat it.

use std::sync::Arc;

use crate::catalog::{Catalog, KeyspaceEntry, Relation};
use crate::define::Throughputs;
use crate::error::{CqlError, Result, refuse};
use crate::schema::{
    Table, describe_index, describe_keyspace, describe_table, describe_type, describe_view,
};
use crate::service::Service;
use crate::statement::{Describe, DescribeWhat, QualifiedName, quoted};
use crate::system::{self, PARTITIONER};
use crate::types::{DataType, Native, UserType, serialize_list, serialize_map};
use crate::wire::{ColumnSpec, Metadata, Rows};

/// One thing that is described.
struct Element {
    keyspace: String,
    kind: &'static str,
    name: String,
    statement: String,
}

/// What a page begins with and where the next one does.
pub(crate) struct Page<'a> {
    pub(crate) size: Option<i32>,
    pub(crate) state: Option<&'a [u8]>,
}

/// The rows of a DESCRIBE, in a session with this keyspace.
pub(crate) async fn run(
    service: &Service,
    catalog: &Catalog,
    (describe, keyspace): (&Describe, Option<&str>),
    page: &Page<'_>,
) -> Result<Rows> {
    if describe.what == DescribeWhat::Cluster {
        return Ok(cluster(service, catalog, keyspace));
    }
    let with_internals = describe.with_internals;
    let describer = Describer {
        catalog,
        keyspace,
        with_internals,
        throughputs: Throughputs::load(service).await?,
    };
    let (elements, is_list) = describer.elements(&describe.what)?;
    let names: &[&str] = if is_list {
        &["keyspace_name", "type", "name"]
    } else {
        &["keyspace_name", "type", "name", "create_statement"]
    };
    let columns = names.iter().map(|name| column(name, Native::Text.into()));
    let start = start_of(page, catalog)?;
    let size = page.size.and_then(|size| usize::try_from(size).ok());
    let size = size.filter(|size| *size > 0).unwrap_or(usize::MAX);
    let mut metadata = Metadata::of(columns.collect());
    let end = start.saturating_add(size);
    if end < elements.len() {
        metadata.paging_state = Some(state_of(end, catalog));
    }
    let mut rows = Rows::new(metadata);
    for element in elements.iter().skip(start).take(size) {
        let cells = [
            quoted(&element.keyspace).into_owned(),
            element.kind.to_owned(),
            quoted(&element.name).into_owned(),
            element.statement.clone(),
        ];
        let cells = cells.iter().take(names.len());
        rows.push(cells.map(|cell| Some(cell.as_bytes())));
    }
    Ok(rows)
}

fn column(name: &str, data_type: DataType) -> ColumnSpec {
    ColumnSpec {
        keyspace: "system".to_owned(),
        table: "describe".to_owned(),
        name: name.to_owned(),
        data_type,
    }
}

/// A place in the list, and the catalog that it is a place in.
fn state_of(start: usize, catalog: &Catalog) -> Vec<u8> {
    let mut state = (start as u64).to_be_bytes().to_vec();
    state.extend_from_slice(&catalog.version);
    state
}

fn start_of(page: &Page<'_>, catalog: &Catalog) -> Result<usize> {
    let Some(state) = page.state else {
        return Ok(0);
    };
    let invalid = || CqlError::protocol("Invalid value for the paging state");
    let (start, version) = state.split_first_chunk().ok_or_else(invalid)?;
    if version != catalog.version {
        return refuse(
            "The schema has changed since the previous page of the DESCRIBE statement result. \
             Please retry the DESCRIBE statement.",
        );
    }
    usize::try_from(u64::from_be_bytes(*start)).map_err(|_| invalid())
}

/// `DESCRIBE CLUSTER`: with a keyspace, also who has which range.
fn cluster(service: &Service, catalog: &Catalog, keyspace: Option<&str>) -> Rows {
    let mut columns = vec![
        column("cluster", Native::Text.into()),
        column("partitioner", Native::Text.into()),
        column("snitch", Native::Text.into()),
    ];
    let partitioner = PARTITIONER.rsplit('.').next().unwrap_or(PARTITIONER);
    let mut cells = vec![
        service.config.cluster_name.clone().into_bytes(),
        partitioner.into(),
        "SimpleSnitch".into(),
    ];
    let own = keyspace.and_then(|name| catalog.find(name));
    if own.is_some_and(|entry| !entry.is_system()) {
        let owners = DataType::list(Native::Text).freeze();
        let data_type = DataType::map(Native::Text, owners).freeze();
        columns.push(column("range_ownership", data_type));
        let node = serialize_list(&[service.address.to_string()]);
        let mut ranges: Vec<(String, Vec<u8>)> = system::tokens()
            .map(|token| (token.to_string(), node.clone()))
            .collect();
        ranges.sort();
        cells.push(serialize_map(&ranges));
    }
    let mut rows = Rows::new(Metadata::of(columns.into()));
    rows.push(cells.iter().map(|cell| Some(cell.as_slice())));
    rows
}

struct Describer<'a> {
    catalog: &'a Catalog,
    keyspace: Option<&'a str>,
    with_internals: bool,
    throughputs: Throughputs,
}

impl Describer<'_> {
    /// What is described, and whether only names are.
    fn elements(&self, what: &DescribeWhat) -> Result<(Vec<Element>, bool)> {
        let listed = |elements| Ok((elements, true));
        let one = |element: Result<Element>| Ok((vec![element?], false));
        match what {
            DescribeWhat::Cluster => listed(Vec::new()),
            DescribeWhat::Keyspaces => {
                let keyspaces = self.catalog.keyspaces();
                listed(keyspaces.map(|entry| self.keyspace(entry)).collect())
            }
            DescribeWhat::Tables => listed(self.each(|entry| {
                let tables = entry.tables();
                tables.map(|relation| self.table(&relation.table)).collect()
            })?),
            DescribeWhat::Types => {
                listed(self.each(|entry| entry.types.values().map(user_type).collect())?)
            }
            DescribeWhat::Functions | DescribeWhat::Aggregates => {
                listed(self.each(|_| Vec::new())?)
            }
            DescribeWhat::Schema { is_full } => {
                let keyspaces = self.catalog.keyspaces();
                let wanted = keyspaces.filter(|entry| *is_full || !entry.is_system());
                let elements = wanted.flat_map(|entry| self.everything(entry));
                Ok((elements.collect(), false))
            }
            DescribeWhat::Keyspace { name, only } => {
                let entry = self.entry(name.as_deref())?;
                let elements = if *only {
                    vec![self.keyspace(entry)]
                } else {
                    self.everything(entry)
                };
                Ok((elements, false))
            }
            DescribeWhat::Table(name) => Ok((self.find_table(name)?, false)),
            DescribeWhat::Index(name) => one(self.find_index(name)),
            DescribeWhat::View(name) => one(self.find_view(name)),
            DescribeWhat::Type(name) => {
                let entry = self.entry(name.keyspace.as_deref())?;
                let found = entry.types.get(&name.name).map(user_type);
                one(found.ok_or_else(|| missing("User defined type", entry, &name.name)))
            }
            DescribeWhat::Function(name) => {
                let entry = self.entry(name.keyspace.as_deref())?;
                Err(missing("User defined function", entry, &name.name))
            }
            DescribeWhat::Aggregate(name) => {
                let entry = self.entry(name.keyspace.as_deref())?;
                Err(missing("User defined aggregate", entry, &name.name))
            }
            DescribeWhat::Any(name) => Ok((self.find_any(name)?, false)),
        }
    }

    /// The keyspace that is named, or the session's.
    fn entry(&self, name: Option<&str>) -> Result<&Arc<KeyspaceEntry>> {
        let Some(name) = name.or(self.keyspace) else {
            return refuse("No keyspace specified and no current keyspace");
        };
        let missing = || CqlError::invalid(format!("'{name}' not found in keyspaces"));
        self.catalog.find(name).ok_or_else(missing)
    }

    /// What each keyspace has, or the session's alone.
    fn each(&self, elements: impl Fn(&KeyspaceEntry) -> Vec<Element>) -> Result<Vec<Element>> {
        match self.keyspace {
            Some(_) => Ok(elements(self.entry(None)?)),
            None => Ok(self.catalog.keyspaces().flat_map(|e| elements(e)).collect()),
        }
    }

    /// A keyspace and everything in it, in an order in which it can be made again.
    fn everything(&self, entry: &KeyspaceEntry) -> Vec<Element> {
        let mut elements = vec![self.keyspace(entry)];
        elements.extend(sorted_types(entry).into_iter().map(user_type));
        for relation in entry.tables() {
            elements.extend(self.table_and_dependents(entry, relation));
        }
        elements
    }

    /// A table with its indexes and its views.
    fn table_and_dependents(&self, entry: &KeyspaceEntry, relation: &Relation) -> Vec<Element> {
        let mut elements = self.table_and_indexes(relation);
        let views = entry.views_of(relation);
        let views = views.iter().filter_map(|view| view.view.as_ref());
        let mut views: Vec<Element> = views.map(|view| self.view(view)).collect();
        views.sort_by(|left, right| left.name.cmp(&right.name));
        elements.append(&mut views);
        elements
    }

    fn table_and_indexes(&self, relation: &Relation) -> Vec<Element> {
        let table = &relation.table;
        let mut elements = vec![self.table(table)];
        let mut indexes: Vec<_> = table.indexes.iter().collect();
        indexes.sort_by(|left, right| left.name.cmp(&right.name));
        elements.extend(indexes.into_iter().map(|index| Element {
            keyspace: table.keyspace.clone(),
            kind: "index",
            name: index.name.clone(),
            statement: describe_index(index, table),
        }));
        elements
    }

    fn keyspace(&self, entry: &KeyspaceEntry) -> Element {
        let name = entry.keyspace.name.clone();
        let statement = if system::is_virtual(&name) {
            format!(
                "/*\nWarning: Keyspace {name} is a virtual keyspace and cannot be recreated with \
                 CQL.\nStructure, for reference:*/\n// VIRTUAL KEYSPACE {name};"
            )
        } else {
            describe_keyspace(&entry.keyspace, self.throughputs.of_keyspace(&name))
        };
        Element {
            keyspace: name.clone(),
            kind: "keyspace",
            name,
            statement,
        }
    }

    fn table(&self, table: &Table) -> Element {
        let statement = describe_table(&self.throughputs.applied(table), self.with_internals);
        let statement = if system::is_virtual(&table.keyspace) {
            format!(
                "/*\nWarning: Table {} is a virtual table and cannot be recreated with CQL.\n\
                 Structure, for reference:\n{}\n*/",
                table.full_name(),
                statement.replacen("CREATE TABLE", "VIRTUAL TABLE", 1)
            )
        } else {
            statement
        };
        Element {
            keyspace: table.keyspace.clone(),
            kind: "table",
            name: table.name.clone(),
            statement,
        }
    }

    fn view(&self, view: &crate::schema::View) -> Element {
        let shown = crate::schema::View {
            table: self.throughputs.applied(&view.table),
            ..view.clone()
        };
        Element {
            keyspace: view.table.keyspace.clone(),
            kind: "materialized_view",
            name: view.table.name.clone(),
            statement: describe_view(&shown, self.with_internals),
        }
    }

    fn find_table(&self, name: &QualifiedName) -> Result<Vec<Element>> {
        let entry = self.entry(name.keyspace.as_deref())?;
        let found = entry
            .tables()
            .find(|relation| relation.table.name == name.name);
        let Some(found) = found else {
            entry.check_damaged(&name.name)?;
            let (table, keyspace) = (&name.name, &entry.keyspace.name);
            return refuse(format!(
                "Table '{table}' not found in keyspace '{keyspace}'"
            ));
        };
        Ok(self.table_and_dependents(entry, found))
    }

    fn find_index(&self, name: &QualifiedName) -> Result<Element> {
        let entry = self.entry(name.keyspace.as_deref())?;
        let elements = entry
            .tables()
            .flat_map(|table| self.table_and_indexes(table));
        let found = elements
            .into_iter()
            .find(|element| element.kind == "index" && element.name == name.name);
        found.ok_or_else(|| missing("Table for existing index", entry, &name.name))
    }

    fn find_view(&self, name: &QualifiedName) -> Result<Element> {
        let entry = self.entry(name.keyspace.as_deref())?;
        let found = entry.views().find(|view| view.table.name == name.name);
        let found = found.map(|view| self.view(view));
        found.ok_or_else(|| missing("Materialized view", entry, &name.name))
    }

    /// A keyspace, a table, an index or a view, whichever is found first.
    fn find_any(&self, name: &QualifiedName) -> Result<Vec<Element>> {
        let own = match &name.keyspace {
            None => self.catalog.find(&name.name),
            Some(_) => None,
        };
        if let Some(entry) = own {
            return Ok(self.everything(entry));
        }
        let keyspace = name.keyspace.as_deref().or(self.keyspace);
        let entry = self.entry(keyspace.or(Some(&name.name)))?;
        let within = QualifiedName {
            keyspace: Some(entry.keyspace.name.clone()),
            name: name.name.clone(),
        };
        if let Ok(elements) = self.find_table(&within) {
            return Ok(elements);
        }
        let found = self
            .find_index(&within)
            .or_else(|_| self.find_view(&within));
        found.map(|element| vec![element]).map_err(|_| {
            let (name, keyspace) = (&name.name, &entry.keyspace.name);
            CqlError::invalid(format!("'{name}' not found in keyspace '{keyspace}'"))
        })
    }
}

fn user_type(user_type: &UserType) -> Element {
    Element {
        keyspace: user_type.keyspace.clone(),
        kind: "type",
        name: user_type.name.clone(),
        statement: describe_type(user_type),
    }
}

/// The types of a keyspace, each after those that it uses.
fn sorted_types(entry: &KeyspaceEntry) -> Vec<&UserType> {
    let mut sorted: Vec<&UserType> = Vec::with_capacity(entry.types.len());
    let mut left: Vec<&UserType> = entry.types.values().collect();
    while !left.is_empty() {
        let names: Vec<&str> = left.iter().map(|left| left.name.as_str()).collect();
        let needs = |user: &UserType| {
            let mut others = names.iter().filter(|other| **other != user.name);
            others.any(|other| {
                user.fields
                    .iter()
                    .any(|(_, f)| crate::schema::uses(f, other))
            })
        };
        let (blocked, free): (Vec<&UserType>, Vec<&UserType>) =
            left.iter().copied().partition(|user| needs(user));
        if free.is_empty() {
            // Types cannot go in circles; if they did, any order is as good.
            sorted.extend(blocked);
            return sorted;
        }
        sorted.extend(free);
        left = blocked;
    }
    sorted
}

fn missing(what: &str, entry: &KeyspaceEntry, name: &str) -> CqlError {
    if let Err(damaged) = entry.check_damaged(name) {
        return damaged;
    }
    let keyspace = &entry.keyspace.name;
    CqlError::invalid(format!("{what} '{name}' not found in '{keyspace}'"))
}
