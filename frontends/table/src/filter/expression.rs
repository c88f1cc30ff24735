//! A filter as a tree: comparisons of a property with a constant, joined by `and`, `or` and `not`.

use std::cmp::Ordering;

use crate::entity::Value;

/// A condition on one entity. As deep as parentheses and `not` are nested, which the grammar
/// limits; a chain of `and` or of `or` is one node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expression {
    /// `true` or `false` by itself.
    Constant(bool),
    /// A property by itself: met if it is Boolean and true.
    Property(String),
    Comparison(Comparison),
    And(Vec<Self>),
    Or(Vec<Self>),
    Not(Box<Self>),
}

impl Expression {
    /// All of the parts.
    pub(super) fn all(parts: Vec<Self>) -> Self {
        let mut flat = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Self::And(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        single(flat).unwrap_or_else(Self::And)
    }

    /// At least one of the parts.
    pub(super) fn any(parts: Vec<Self>) -> Self {
        let mut flat = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Self::Or(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        single(flat).unwrap_or_else(Self::Or)
    }
}

/// A property against a constant. The property stands left, whichever way it was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Comparison {
    pub(crate) property: String,
    pub(crate) comparator: Comparator,
    pub(crate) constant: Value<'static>,
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparator {
    Equal,
    NotEqual,
    GreaterThan,
    GreaterOrEqual,
    LessThan,
    LessOrEqual,
}

impl Comparator {
    /// The comparator of a word of the grammar. The service knows them in lower case only.
    pub(super) fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "eq" => Self::Equal,
            "ne" => Self::NotEqual,
            "gt" => Self::GreaterThan,
            "ge" => Self::GreaterOrEqual,
            "lt" => Self::LessThan,
            "le" => Self::LessOrEqual,
            _ => return None,
        })
    }

    /// The same comparison with its sides exchanged.
    pub(super) fn mirrored(self) -> Self {
        match self {
            Self::Equal | Self::NotEqual => self,
            Self::GreaterThan => Self::LessThan,
            Self::GreaterOrEqual => Self::LessOrEqual,
            Self::LessThan => Self::GreaterThan,
            Self::LessOrEqual => Self::GreaterOrEqual,
        }
    }

    /// The negation, for values that always have an order.
    pub(super) fn negated(self) -> Self {
        match self {
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::GreaterThan => Self::LessOrEqual,
            Self::GreaterOrEqual => Self::LessThan,
            Self::LessThan => Self::GreaterOrEqual,
            Self::LessOrEqual => Self::GreaterThan,
        }
    }

    /// Whether an order of left against right meets it; NaN has none and is only unequal.
    pub(super) fn accepts(self, order: Option<Ordering>) -> bool {
        match self {
            Self::Equal => order.is_some_and(Ordering::is_eq),
            Self::NotEqual => !order.is_some_and(Ordering::is_eq),
            Self::GreaterThan => order.is_some_and(Ordering::is_gt),
            Self::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
            Self::LessThan => order.is_some_and(Ordering::is_lt),
            Self::LessOrEqual => order.is_some_and(Ordering::is_le),
        }
    }
}

fn single(parts: Vec<Expression>) -> Result<Expression, Vec<Expression>> {
    <[Expression; 1]>::try_from(parts).map(|[only]| only)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [&str; 6] = ["eq", "ne", "gt", "ge", "lt", "le"];
    const ORDERS: [Ordering; 3] = [Ordering::Less, Ordering::Equal, Ordering::Greater];

    #[test]
    fn mirroring_and_negating_keep_the_meaning() {
        for comparator in ALL.map(|word| Comparator::from_word(word).unwrap()) {
            for order in ORDERS {
                let holds = comparator.accepts(Some(order));
                assert_eq!(comparator.mirrored().accepts(Some(order.reverse())), holds);
                assert_eq!(comparator.negated().accepts(Some(order)), !holds);
            }
            let unequal = comparator == Comparator::NotEqual;
            assert_eq!(comparator.accepts(None), unequal, "{comparator:?}");
        }
    }

    #[test]
    fn nested_chains_of_one_kind_are_one_node() {
        let part = |name: &str| Expression::Property(name.to_owned());
        let inner = Expression::all(vec![part("a"), part("b")]);
        let outer = Expression::all(vec![inner.clone(), part("c")]);
        assert_eq!(
            outer,
            Expression::And(vec![part("a"), part("b"), part("c")])
        );
        assert_eq!(Expression::any(vec![inner.clone()]), inner);
    }
}
