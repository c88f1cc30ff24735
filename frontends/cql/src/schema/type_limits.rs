//! How deep and how large types may be, so that whatever is accepted can be written down, read back
//! and walked through.
//!
//! A type holds the user types that it uses, so that a few short definitions, each with two fields
//! of the one before, would be a type of millions of parts. Both limits are found before anything
//! is made.

use super::Types;
use crate::error::{Result, refuse};
use crate::statement::RawType;
use crate::types::{DataType, UserType};

/// How deep and how large a type may be, what is within its user types included.
#[derive(Debug)]
pub(super) struct Limits {
    pub(super) levels: usize,
    pub(super) parts: usize,
}

/// For types that are defined now. Written down each level may have a `frozen<>` of its own, which
/// is as deep as the parser goes.
pub(super) const NEW: Limits = Limits {
    levels: crate::parser::TYPE_DEPTH_LIMIT / 2,
    parts: 10_000,
};

/// For types that are stored: servers of before had no limits, and what they took is there. These
/// keep a stack and a memory from being exhausted.
pub(super) const STORED: Limits = Limits {
    levels: 256,
    parts: 1_000_000,
};

/// Refuses a type that is too deep or too large. User types that are not known are told of by
/// others.
pub(super) fn check_raw(raw: &RawType, types: &Types, limits: &Limits) -> Result<()> {
    Measure::by(limits).raw(raw, types, limits.levels)
}

/// Refuses a user type that is too deep or too large.
pub(super) fn check_user_type(user_type: &UserType) -> Result<()> {
    Measure::by(&NEW).user_type(user_type, NEW.levels)
}

/// Refuses a type that would be too deep or too large with this definition of a user type in it.
pub(crate) fn check_with(data_type: &DataType, changed: &UserType) -> Result<()> {
    let mut measure = Measure {
        changed: Some(changed),
        ..Measure::by(&NEW)
    };
    measure.data_type(data_type, NEW.levels)
}

/// Counts parts until there are too many.
struct Measure<'a> {
    limits: &'a Limits,
    parts: usize,
    /// Another definition for the user type of its name.
    changed: Option<&'a UserType>,
}

impl<'a> Measure<'a> {
    fn by(limits: &'a Limits) -> Self {
        Self {
            limits,
            parts: 0,
            changed: None,
        }
    }

    fn raw(&mut self, raw: &RawType, types: &Types, levels: usize) -> Result<()> {
        match raw {
            RawType::Native(_) | RawType::Custom(_) => self.part(),
            RawType::List(inner) | RawType::Set(inner) | RawType::Vector(inner, _) => {
                let below = self.level(levels)?;
                self.raw(inner, types, below)
            }
            RawType::Map(key, value) => {
                let below = self.level(levels)?;
                self.raw(key, types, below)?;
                self.raw(value, types, below)
            }
            RawType::Tuple(inner) => {
                let below = self.level(levels)?;
                let mut inner = inner.iter();
                inner.try_for_each(|inner| self.raw(inner, types, below))
            }
            // A type is frozen or not, and no deeper for it.
            RawType::Frozen(inner) => self.raw(inner, types, levels),
            RawType::User(name) => match types.get(&name.name) {
                Some(definition) => self.user_type(definition, levels),
                None => Ok(()),
            },
        }
    }

    fn data_type(&mut self, data_type: &DataType, levels: usize) -> Result<()> {
        match data_type {
            DataType::Native(_) => self.part(),
            DataType::User { definition, .. } => self.user_type(definition, levels),
            DataType::List { .. }
            | DataType::Set { .. }
            | DataType::Map { .. }
            | DataType::Tuple(_)
            | DataType::Vector { .. } => {
                let below = self.level(levels)?;
                let mut inner = data_type.inner().into_iter();
                inner.try_for_each(|inner| self.data_type(inner, below))
            }
        }
    }

    fn user_type(&mut self, user_type: &UserType, levels: usize) -> Result<()> {
        let changed = self.changed.filter(|it| it.name == user_type.name);
        let below = self.level(levels)?;
        let mut fields = changed.unwrap_or(user_type).fields.iter();
        fields.try_for_each(|(_, field)| self.data_type(field, below))
    }

    /// One more part that has parts itself, within which so many levels may be.
    fn level(&mut self, levels: usize) -> Result<usize> {
        self.part()?;
        match levels.checked_sub(1) {
            Some(below) => Ok(below),
            None => refuse(format!(
                "The type is nested too deep: it may have at most {} levels, those within its \
                 user types included",
                self.limits.levels
            )),
        }
    }

    fn part(&mut self) -> Result<()> {
        self.parts += 1;
        if self.parts > self.limits.parts {
            return refuse(format!(
                "The type is too large: it may have at most {} parts, those within its user types \
                 included",
                self.limits.parts
            ));
        }
        Ok(())
    }
}
