//! `WITH name = value AND …`: the options of definitions.

use std::collections::HashSet;

use nom::Parser;

use super::mistake::{Read, no_choice, refuse};
use super::name::{is_name, name};
use super::term::{constant, map_entry};
use super::tokens::{Tokens, conjunction, list_between, symbol};
use crate::statement::{Constant, Properties, PropertyValue, Term};

/// Properties with AND between them.
pub(super) fn properties(input: Tokens<'_>) -> Read<'_, Properties> {
    let (rest, properties) = conjunction(property)(input)?;
    refuse_repeated(input, &properties)?;
    Ok((rest, properties))
}

/// No property may be given twice.
pub(super) fn refuse_repeated<'t>(input: Tokens<'t>, properties: &Properties) -> Read<'t, ()> {
    let mut seen = HashSet::new();
    for (name, _) in properties {
        if !seen.insert(name) {
            return refuse(input, format!("Multiple definitions for property '{name}'"));
        }
    }
    Ok((input, ()))
}

pub(super) fn property(input: Tokens<'_>) -> Read<'_, (String, PropertyValue)> {
    let (input, name) = name(input)?;
    let (input, ()) = symbol("=").parse(input)?;
    let (input, value) = value(input)?;
    Ok((input, (name, value)))
}

fn value(input: Tokens<'_>) -> Read<'_, PropertyValue> {
    if input.is_symbol("{") {
        let (input, map) = map(input)?;
        return Ok((input, PropertyValue::Map(map)));
    }
    if let Some((input, constant)) = constant(input) {
        return Ok((input, PropertyValue::Text(constant.text)));
    }
    if is_name(input, 0) {
        let (input, word) = name(input)?;
        return Ok((input, PropertyValue::Text(word)));
    }
    no_choice(input)
}

/// A map of constants.
pub(super) fn map(input: Tokens<'_>) -> Read<'_, Vec<(String, String)>> {
    let (rest, entries) = list_between("{", "}", map_entry)(input)?;
    let mut map: Vec<(String, String)> = Vec::with_capacity(entries.len());
    let mut seen = HashSet::with_capacity(entries.len());
    for (key, value) in entries {
        let Term::Constant(Constant { text: key, .. }) = key else {
            let words = format!("Invalid property name: {key}");
            return refuse(input, words + unbound(&key));
        };
        let Term::Constant(Constant { text, .. }) = value else {
            let words = format!("Invalid property value: {value} for property: {key}");
            return refuse(input, words + unbound(&value));
        };
        if !seen.insert(key.clone()) {
            return refuse(input, format!("Multiple definition for property {key}"));
        }
        map.push((key, text));
    }
    Ok((rest, map))
}

fn unbound(term: &Term) -> &'static str {
    match term {
        Term::Marker(_) => " (bind variables are not supported in DDL queries)",
        _ => "",
    }
}
