//! Gives terms and selectors their types: what a column or a parameter wants decides, and where
//! nothing does, what the term itself is.

use std::collections::HashMap;

use tessera_core::deadline;

use super::constant::{typed_constant, untyped_constant};
use super::expression::{Expression, Typed};
use crate::error::{CqlError, Result};
use crate::functions::{Aggregate, Argument, is_assignable, is_number, resolve, resolve_aggregate};
use crate::schema::{Table, Types, resolve_type};
use crate::statement::{Marker, QualifiedName, Selector, Term, function_text, quoted};
use crate::types::{DataType, Native};
use crate::wire::ColumnSpec;

/// Steps to type a term: its names and types may be copied.
const TERM_STEPS: usize = 4;

/// What a value is for: a column, a parameter, an element.
#[derive(Clone, Copy)]
pub(super) struct Receiver<'a> {
    pub(super) name: &'a str,
    pub(super) data_type: &'a DataType,
}

/// Types the terms of one statement, and collects its markers.
pub(super) struct Planner<'a> {
    pub(super) table: &'a Table,
    pub(super) types: &'a Types,
    /// The names of the markers.
    pub(super) names: &'a [Option<String>],
    variables: Vec<Option<ColumnSpec>>,
    /// The aggregates of a selection, with what they are of.
    pub(super) aggregates: Vec<(Aggregate, Option<Expression>)>,
    /// Whether columns and aggregates may stand where an expression is.
    pub(super) has_rows: bool,
    /// What selectors are by themselves, by their places in memory: those within the selector that
    /// is looked at, which stays where it is.
    known: HashMap<usize, Result<Typed>>,
    /// How many selectors that look ahead are around the one that is looked at.
    level: usize,
    /// How much was looked at.
    #[cfg(test)]
    pub(super) steps: usize,
}

/// Whether the type of a selector depends on those of selectors within it, which it asks first.
fn looks_ahead(what: &Selector) -> bool {
    match what {
        Selector::Function { .. }
        | Selector::List(_)
        | Selector::Set(_)
        | Selector::MapOrUserType(_)
        | Selector::Tuple(_)
        | Selector::Element(..)
        | Selector::Slice(..) => true,
        Selector::Null
        | Selector::Marker(_)
        | Selector::Constant(_)
        | Selector::Operation { .. }
        | Selector::Negation(_)
        | Selector::TypeHint(..)
        | Selector::Cast(..)
        | Selector::Column(_)
        | Selector::CountRows
        | Selector::ColumnTime { .. }
        | Selector::Field(..) => false,
    }
}

/// Whether a selector is the same whatever is wanted of it.
fn is_itself(what: &Selector) -> bool {
    match what {
        Selector::Function { name, .. } => !is_from_json(&name.name),
        _ => false,
    }
}

fn is_from_json(function: &str) -> bool {
    matches!(function, "from_json" | "fromjson")
}

impl<'a> Planner<'a> {
    pub(super) fn new(table: &'a Table, types: &'a Types, names: &'a [Option<String>]) -> Self {
        Self {
            table,
            types,
            names,
            variables: vec![None; names.len()],
            aggregates: Vec::new(),
            has_rows: false,
            known: HashMap::new(),
            level: 0,
            #[cfg(test)]
            steps: 0,
        }
    }

    /// The markers that were met.
    pub(super) fn into_variables(self) -> Vec<Option<ColumnSpec>> {
        self.variables
    }

    /// The marker's value, for something of this name and type.
    pub(super) fn marker(&mut self, marker: Marker, receiver: Receiver<'_>) -> Expression {
        let Marker(index) = marker;
        let own = self.names.get(index).cloned().flatten();
        if let Some(place) = self.variables.get_mut(index) {
            *place = Some(ColumnSpec {
                keyspace: self.table.keyspace.clone(),
                table: self.table.name.clone(),
                name: own.unwrap_or_else(|| receiver.name.to_owned()),
                data_type: receiver.data_type.clone(),
            });
        }
        Expression::Marker(index)
    }

    /// A term that gives a value for this.
    pub(super) fn term(&mut self, term: &Term, receiver: Receiver<'_>) -> Result<Expression> {
        deadline::step(TERM_STEPS)?;
        // The two most usual ones need no detour.
        match term {
            Term::Marker(marker) => Ok(self.marker(*marker, receiver)),
            Term::Constant(constant) => typed_constant(constant, receiver),
            _ => {
                // The selector is gone when this returns, and so is what is known by its place.
                let outer = std::mem::take(&mut self.known);
                let typed = self.typed(&selector_of(term), Some(receiver));
                self.known = outer;
                Ok(typed?.expression)
            }
        }
    }

    /// A term for a value of a native type.
    pub(super) fn native_term(
        &mut self,
        term: &Term,
        name: &str,
        native: Native,
    ) -> Result<Expression> {
        let data_type = &DataType::Native(native);
        self.term(term, Receiver { name, data_type })
    }

    /// A selector, for this or for nothing in particular.
    ///
    /// A call must know what its arguments are by themselves before it can tell what is wanted of
    /// them, and a literal likewise. So what a selector is by itself is found once and kept as long
    /// as the outermost one is looked at: else each level would double the work.
    pub(super) fn typed(&mut self, what: &Selector, want: Option<Receiver<'_>>) -> Result<Typed> {
        deadline::step(TERM_STEPS)?;
        if !looks_ahead(what) {
            return self.typed_anew(what, want);
        }
        if let (Some(want), true) = (want, is_itself(what)) {
            return fit(what, self.typed(what, None)?, want);
        }
        let place = std::ptr::from_ref(what).addr();
        if let (None, Some(known)) = (want, self.known.get(&place)) {
            return known.clone();
        }
        self.level += 1;
        let typed = self.typed_anew(what, want);
        self.level -= 1;
        if self.level == 0 {
            self.known.clear();
        } else if want.is_none() {
            self.known.insert(place, typed.clone());
        }
        typed
    }

    fn typed_anew(&mut self, what: &Selector, want: Option<Receiver<'_>>) -> Result<Typed> {
        #[cfg(test)]
        {
            self.steps += 1;
        }
        let typed = match what {
            Selector::Null => {
                let Some(want) = want else {
                    return cannot_infer(what);
                };
                if want.data_type.is_counter() {
                    return Err(CqlError::invalid(
                        "Invalid null value for counter increment/decrement",
                    ));
                }
                return Ok(Typed::new(Expression::Null, want.data_type.clone()));
            }
            Selector::Marker(marker) => {
                let Some(want) = want else {
                    return cannot_infer(what);
                };
                let expression = self.marker(*marker, want);
                return Ok(Typed::new(expression, want.data_type.clone()));
            }
            Selector::Constant(constant) => {
                return match want {
                    Some(want) => Ok(Typed::new(
                        typed_constant(constant, want)?,
                        want.data_type.clone(),
                    )),
                    None => untyped_constant(constant),
                };
            }
            Selector::Tuple(inner) if inner.len() == 1 => {
                let is_tuple =
                    want.is_some_and(|want| matches!(want.data_type, DataType::Tuple(_)));
                match inner.first() {
                    Some(first) if !is_tuple => return self.typed(first, want),
                    _ => return self.literal(what, want),
                }
            }
            Selector::List(_)
            | Selector::Set(_)
            | Selector::MapOrUserType(_)
            | Selector::Tuple(_) => return self.literal(what, want),
            Selector::Function { name, arguments } => self.function(name, arguments, want)?,
            Selector::Operation {
                operator,
                left,
                right,
            } => self.operation(*operator, left, right, want)?,
            Selector::Negation(inner) => self.negation(inner, want)?,
            Selector::TypeHint(raw, inner) => {
                let data_type = resolve_type(raw, &self.table.keyspace, self.types)?;
                let name = &raw.to_string();
                let data_type = &data_type;
                self.typed(inner, Some(Receiver { name, data_type }))?
            }
            Selector::Cast(inner, native) => self.cast(inner, *native)?,
            Selector::Column(_)
            | Selector::CountRows
            | Selector::ColumnTime { .. }
            | Selector::Field(..)
            | Selector::Element(..)
            | Selector::Slice(..) => self.of_row(what)?,
        };
        match want {
            None => Ok(typed),
            Some(want) => fit(what, typed, want),
        }
    }

    fn function(
        &mut self,
        name: &QualifiedName,
        arguments: &[Selector],
        want: Option<Receiver<'_>>,
    ) -> Result<Typed> {
        if name
            .keyspace
            .as_deref()
            .is_some_and(|keyspace| keyspace != "system")
        {
            return Err(CqlError::invalid(format!("Unknown function '{name}'")));
        }
        let name = name.name.as_str();
        match name {
            "token" => return self.token(arguments),
            json if is_from_json(json) => return self.json_argument(name, arguments, want),
            _ => {}
        }
        if let Some(aggregate) = self.aggregate(name, arguments)? {
            return Ok(aggregate);
        }
        let known: Result<Vec<Argument<'_>>> = arguments
            .iter()
            .map(|argument| self.argument(argument))
            .collect();
        let function = resolve(name, &known?)?;
        let mut typed = Vec::with_capacity(arguments.len());
        for (index, (argument, data_type)) in arguments.iter().zip(&function.parameters).enumerate()
        {
            let name = &format!("arg{index}({name})");
            typed.push(
                self.typed(argument, Some(Receiver { name, data_type }))?
                    .expression,
            );
        }
        let result = function.result.clone();
        Ok(Typed::new(
            Expression::Function(Box::new(function), typed),
            result,
        ))
    }

    /// What is known of an argument, before its parameter is.
    fn argument<'s>(&mut self, selector: &'s Selector) -> Result<Argument<'s>> {
        Ok(match selector {
            Selector::Constant(constant) => Argument::Constant(constant),
            Selector::Marker(_) | Selector::Null => Argument::Unknown,
            Selector::List(elements) => {
                let own = self.typed(selector, None).ok().map(|typed| typed.data_type);
                let elements = elements.iter().map(|element| self.argument(element));
                Argument::List(own, elements.collect::<Result<_>>()?)
            }
            Selector::Set(_) | Selector::MapOrUserType(_) | Selector::Tuple(_) => {
                match self.typed(selector, None) {
                    Ok(typed) => Argument::Typed(typed.data_type),
                    Err(_) => Argument::Unknown,
                }
            }
            other => Argument::Typed(self.typed(other, None)?.data_type),
        })
    }

    fn aggregate(&mut self, name: &str, arguments: &[Selector]) -> Result<Option<Typed>> {
        let [argument] = arguments else {
            return Ok(None);
        };
        if !crate::functions::is_aggregate(name) {
            return Ok(None);
        }
        if !self.has_rows {
            return Err(CqlError::invalid(
                "Aggregation function are not supported in the where clause",
            ));
        }
        let inner = self.typed(argument, None)?;
        let mut is_nested = false;
        inner
            .expression
            .walk(&mut |inner| is_nested |= matches!(inner, Expression::Aggregate(_)));
        if is_nested {
            return Err(CqlError::invalid(
                "aggregate functions cannot be used as arguments of aggregate functions",
            ));
        }
        let Some(aggregate) = resolve_aggregate(name, &inner.data_type) else {
            return Ok(None);
        };
        Ok(Some(self.add_aggregate(aggregate?, Some(inner.expression))))
    }

    pub(super) fn add_aggregate(&mut self, aggregate: Aggregate, of: Option<Expression>) -> Typed {
        let result = aggregate.result.clone();
        let index = self.aggregates.len();
        self.aggregates.push((aggregate, of));
        Typed::new(Expression::Aggregate(index), result)
    }

    fn token(&mut self, arguments: &[Selector]) -> Result<Typed> {
        let types: Vec<DataType> = self
            .table
            .partition_key()
            .map(|column| column.data_type.clone())
            .collect();
        if types.len() != arguments.len() {
            return Err(CqlError::invalid(format!(
                "Invalid number of arguments in call to function system.token: {} required but \
                 {} provided",
                types.len(),
                arguments.len()
            )));
        }
        let mut components = Vec::with_capacity(types.len());
        for (index, (argument, data_type)) in arguments.iter().zip(&types).enumerate() {
            let name = &format!("arg{index}(token)");
            let component = match argument {
                Selector::Column(_) => {
                    let typed = self.typed(argument, None)?;
                    if !is_assignable(&typed.data_type, data_type) {
                        return Err(CqlError::invalid(format!(
                            "Type error: {argument} cannot be passed as argument {index} of \
                             function system.token of type {data_type}"
                        )));
                    }
                    typed
                }
                _ => self.typed(argument, Some(Receiver { name, data_type }))?,
            };
            components.push(component.expression);
        }
        Ok(Typed::new(Expression::Token(components), Native::Bigint))
    }

    fn json_argument(
        &mut self,
        name: &str,
        arguments: &[Selector],
        want: Option<Receiver<'_>>,
    ) -> Result<Typed> {
        let [argument] = arguments else {
            return Err(CqlError::invalid(format!(
                "Invalid number of arguments for function system.{name}(text)"
            )));
        };
        let Some(want) = want else {
            return Err(CqlError::invalid(format!(
                "{name}() cannot be used in the selection clause"
            )));
        };
        let data_type = &DataType::Native(Native::Text);
        let name = &format!("arg0({name})");
        let text = self.typed(argument, Some(Receiver { name, data_type }))?;
        let expression = Expression::FromJson(Box::new(text.expression), want.data_type.clone());
        Ok(Typed::new(expression, want.data_type.clone()))
    }
}

/// Whether a value can be used for what is wanted; numbers are made as wide as that is.
fn fit(what: &Selector, typed: Typed, want: Receiver<'_>) -> Result<Typed> {
    if is_assignable(&typed.data_type, want.data_type) {
        return Ok(Typed::new(typed.expression, want.data_type.clone()));
    }
    if let (DataType::Native(from), DataType::Native(to)) = (&typed.data_type, want.data_type)
        && matches!(what, Selector::Operation { .. } | Selector::Negation(_))
        && is_number(*from)
        && is_number(*to)
    {
        let expression = Expression::Cast(Box::new(typed.expression), *from, *to);
        return Ok(Typed::new(expression, *to));
    }
    Err(CqlError::invalid(match what {
        Selector::Function { name, .. } => format!(
            "Type error: cannot assign result of function {} (type {}) to {} (type {})",
            function_text(name),
            typed.data_type,
            want.name,
            want.data_type
        ),
        _ => format!(
            "Type error: cannot assign a value of type {} to {} (type {})",
            typed.data_type, want.name, want.data_type
        ),
    }))
}

pub(super) fn cannot_infer<T>(what: &Selector) -> Result<T> {
    Err(CqlError::invalid(format!(
        "Cannot infer type for term {what} in selection clause (try using a cast to force a type)"
    )))
}

/// A term as a selector, which is what has more forms.
pub(super) fn selector_of(term: &Term) -> Selector {
    let all = |terms: &[Term]| terms.iter().map(selector_of).collect();
    let boxed = |term: &Term| Box::new(selector_of(term));
    match term {
        Term::Null => Selector::Null,
        Term::Constant(constant) => Selector::Constant(constant.clone()),
        Term::Marker(marker) => Selector::Marker(*marker),
        Term::List(terms) => Selector::List(all(terms)),
        Term::Set(terms) => Selector::Set(all(terms)),
        Term::Map(entries) => Selector::MapOrUserType(
            entries
                .iter()
                .map(|(key, value)| (selector_of(key), selector_of(value)))
                .collect(),
        ),
        Term::UserType(fields) => Selector::MapOrUserType(
            fields
                .iter()
                .map(|(name, value)| (Selector::Column(name.clone()), selector_of(value)))
                .collect(),
        ),
        Term::Tuple(terms) => Selector::Tuple(all(terms)),
        Term::Function { name, arguments } => Selector::Function {
            name: name.clone(),
            arguments: all(arguments),
        },
        Term::Operation {
            operator,
            left,
            right,
        } => Selector::Operation {
            operator: *operator,
            left: boxed(left),
            right: boxed(right),
        },
        Term::Negation(inner) => Selector::Negation(boxed(inner)),
        Term::TypeHint(raw, inner) => Selector::TypeHint(raw.clone(), boxed(inner)),
        Term::Cast(inner, native) => Selector::Cast(boxed(inner), *native),
    }
}

/// The place of a column in its table.
pub(super) fn find_column(table: &Table, name: &str) -> Result<usize> {
    let place = table.columns.iter().position(|column| column.name == name);
    place.ok_or_else(|| {
        CqlError::invalid(format!(
            "Undefined column name {} in table {}",
            quoted(name),
            table.full_name()
        ))
    })
}
