//! Selectors as text: the names of the columns of a result.

use std::fmt::{self, Display, Formatter};

use super::{ColumnTime, QualifiedName, Selector, Term};

/// The name of a function with its keyspace.
pub(crate) fn function_text(name: &QualifiedName) -> String {
    let keyspace = name.keyspace.as_deref().unwrap_or("system");
    format!("{keyspace}.{}", name.name)
}

impl Display for Selector {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(name) => f.write_str(name),
            Self::Null => f.write_str("NULL"),
            Self::Constant(constant) => write!(f, "{constant}"),
            Self::Marker(_) => f.write_str("?"),
            Self::CountRows => f.write_str("count"),
            Self::ColumnTime { what, of } => {
                let name = match what {
                    ColumnTime::WriteTime => "writetime",
                    ColumnTime::MaxWriteTime => "maxwritetime",
                    ColumnTime::TimeToLive => "ttl",
                };
                write!(f, "{name}({of})")
            }
            Self::Cast(inner, native) => write!(f, "cast({inner} as {})", native.name()),
            Self::Function { name, arguments } => {
                write!(f, "{}({})", function_text(name), listed(arguments))
            }
            Self::Operation {
                operator,
                left,
                right,
            } => write!(f, "{left} {} {right}", operator.symbol()),
            // Without a space two signs begin a comment, and a sign is a part of a number.
            Self::Negation(inner) => {
                let inner = inner.to_string();
                let space = if inner.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
                    " "
                } else {
                    ""
                };
                write!(f, "-{space}{inner}")
            }
            Self::Field(inner, field) => write!(f, "{inner}.{field}"),
            Self::Element(inner, key) => write!(f, "{inner}[{key}]"),
            Self::Slice(inner, from, to) => {
                let bound = |term: &Option<Term>| {
                    let term = term.as_ref();
                    term.map_or_else(String::new, ToString::to_string)
                };
                write!(f, "{inner}[{}..{}]", bound(from), bound(to))
            }
            Self::TypeHint(raw, inner) => write!(f, "({raw}){inner}"),
            Self::Tuple(inner) => write!(f, "({})", listed(inner)),
            Self::List(inner) => write!(f, "[{}]", listed(inner)),
            Self::Set(inner) => write!(f, "{{{}}}", listed(inner)),
            Self::MapOrUserType(entries) => {
                let entries = entries.iter();
                let entries: Vec<String> = entries
                    .map(|(key, value)| format!("{key}: {value}"))
                    .collect();
                write!(f, "{{{}}}", entries.join(", "))
            }
        }
    }
}

fn listed(selectors: &[Selector]) -> String {
    let texts: Vec<String> = selectors.iter().map(ToString::to_string).collect();
    texts.join(", ")
}
