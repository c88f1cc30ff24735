//! `$group` and `$sortByCount`: documents by what identifies their group.

use bson::{Bson, Document, doc};
use indexmap::IndexMap;
use tessera_core::deadline;

use super::StageContext;
use super::environment::BATCH;
use super::kept::Kept;
use super::sort::Sort;
use super::stage::Stage;
use super::step::Step;
use crate::collation::Collation;
use crate::error::{Code, Error, Result};
use crate::expression::accumulator::{Accumulate, Accumulator};
use crate::expression::{Expression, ParseContext, Variables, fail};
use crate::key;
use crate::number::Number;
use crate::size::footprint;

/// What identifies a group, and what is made of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    id: Expression,
    fields: Vec<(String, Accumulator)>,
}

impl Group {
    pub(super) fn new(id: Expression, fields: Vec<(String, Accumulator)>) -> Self {
        Self { id, fields }
    }

    /// What identifies a group.
    pub fn id(&self) -> &Expression {
        &self.id
    }
}

/// `$group`.
pub(super) fn parse(argument: &Bson, at: &StageContext<'_>) -> Result<Vec<Stage>> {
    let Bson::Document(specification) = argument else {
        return fail(15947, "a group's fields must be specified in an object");
    };
    let (mut id, mut fields) = (None, Vec::new());
    for (name, value) in specification {
        if name == "_id" {
            id = Some(parse_id(value, at)?);
        } else {
            fields.push((name.clone(), Accumulator::parse(name, value, at.context)?));
        }
    }
    match id {
        Some(id) => Ok(vec![Stage::Group(Group { id, fields })]),
        None => fail(15955, "a group specification must include an _id"),
    }
}

fn parse_id(value: &Bson, at: &StageContext<'_>) -> Result<Expression> {
    if let Bson::Document(fields) = value {
        let is_object = fields
            .keys()
            .next()
            .is_some_and(|name| !name.starts_with('$'));
        let is_flag =
            |value: &Bson| matches!(value, Bson::Boolean(_)) || Number::from_bson(value).is_some();
        if is_object && fields.values().any(is_flag) {
            return fail(17390, "$group does not support inclusion-style expressions");
        }
    }
    Expression::parse(value, &ParseContext::from(at.context))
}

/// `$sortByCount`: groups with their counts, the largest first.
pub(super) fn parse_sort_by_count(argument: &Bson, at: &StageContext<'_>) -> Result<Vec<Stage>> {
    match argument {
        Bson::Document(expression)
            if !expression
                .keys()
                .next()
                .is_some_and(|name| name.starts_with('$')) =>
        {
            return fail(
                40147,
                "the sortByCount field must be a path or an expression",
            );
        }
        Bson::String(path) if !path.starts_with('$') || path.len() < 2 => {
            return fail(
                40148,
                "the sortByCount field must be a $-prefixed path or an expression",
            );
        }
        Bson::Document(_) | Bson::String(_) => {}
        _ => return fail(40149, "the sortByCount field must be a string or an object"),
    }
    let id = Expression::parse(argument, &ParseContext::from(at.context))?;
    let count = Accumulator::parse("count", &Bson::Document(doc! { "$sum": 1 }), at.context)?;
    let group = Group {
        id,
        fields: vec![("count".to_owned(), count)],
    };
    Ok(vec![
        Stage::Group(group),
        Stage::Sort(Sort::new(doc! { "count": -1 })),
    ])
}

/// Divisions by zero have codes of their own within groups.
fn of_group(error: Error) -> Error {
    let code = match (error.code.0, error.message.as_str()) {
        (2, "can't $divide by zero") => 4848401,
        (16610, _) => 4848403,
        _ => return error,
    };
    Error::new(Code(code), error.message)
}

/// What a group takes beside its key and its states: its places in tables, and its lists.
const MEMBER: usize = 256;

/// What the state of an accumulator takes beside the values that it keeps.
const STATE: usize = 80;

struct Member {
    id: Bson,
    states: Vec<Box<dyn Accumulate>>,
    size: usize,
}

/// Groups under way.
pub(super) struct Grouping {
    group: Group,
    variables: Variables,
    collation: Collation,
    kept: Kept,
    members: IndexMap<Vec<u8>, Member>,
    size: usize,
    finished: Option<std::vec::IntoIter<Member>>,
}

impl Grouping {
    pub(super) fn new(
        group: Group,
        variables: Variables,
        collation: Collation,
        memory_limit: usize,
    ) -> Self {
        let members = IndexMap::new();
        Self {
            group,
            variables,
            collation,
            kept: Kept::new(memory_limit),
            members,
            size: 0,
            finished: None,
        }
    }

    fn start(&self, id: &Bson) -> Result<Vec<Box<dyn Accumulate>>> {
        // Counts of accumulators may depend on the group's identifier, as on a document.
        let root = match id {
            Bson::Document(id) => id.clone(),
            _ => Document::new(),
        };
        let start =
            |(_, accumulator): &(String, Accumulator)| accumulator.start(&root, &self.variables);
        self.group.fields.iter().map(start).collect()
    }
}

impl Step for Grouping {
    fn take(&mut self, document: Document, _: &mut Vec<Document>) -> Result<()> {
        let id = self
            .group
            .id
            .evaluate(&document, &self.variables)?
            .unwrap_or(Bson::Null);
        let key = key::encode(&id, &self.collation);
        if !self.members.contains_key(&key) {
            let states = self.start(&id)?;
            let size = key.len() + footprint(&id) + MEMBER + states.len() * STATE;
            self.members
                .insert(key.clone(), Member { id, states, size });
            self.size += size;
        }
        let Some(member) = self.members.get_mut(&key) else {
            return Ok(());
        };
        let states = member.states.len();
        let mut size = key.len() + footprint(&member.id) + MEMBER + states * STATE;
        for (state, (_, accumulator)) in member.states.iter_mut().zip(&self.group.fields) {
            let argument = accumulator.argument(&document, &self.variables);
            state.add(argument.map_err(of_group)?)?;
            size += state.size();
        }
        self.size = self.size - member.size + size;
        member.size = size;
        if !self.kept.set(self.size) {
            return fail(
                292,
                "Exceeded memory limit for $group, but didn't allow external spilling. \
                 Pass allowDiskUse:true to opt in.",
            );
        }
        Ok(())
    }

    fn drain(&mut self, output: &mut Vec<Document>) -> Result<()> {
        let members = &mut self.members;
        let finished = self.finished.get_or_insert_with(|| {
            let all: Vec<Member> = std::mem::take(members).into_values().collect();
            all.into_iter()
        });
        for member in finished.by_ref().take(BATCH) {
            let mut document = Document::new();
            document.insert("_id", member.id);
            deadline::step(member.states.len())?;
            for (state, (name, _)) in member.states.iter().zip(&self.group.fields) {
                document.insert(name.clone(), state.value());
            }
            output.push(document);
        }
        Ok(())
    }
}
