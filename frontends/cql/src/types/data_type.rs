//! The types of CQL, as a schema holds them: every name resolved.

use std::fmt;

use crate::statement::quoted_type;

macro_rules! natives {
    ($($native:ident $name:literal $class:literal $id:literal)*) => {
        /// The types that have no parameters. `varchar` is another name of `text`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Native {
            $($native,)*
        }

        impl Native {
            pub(crate) const ALL: &[Self] = &[$(Self::$native),*];

            /// The name in CQL.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$native => $name,)*
                }
            }

            /// The name that stands for it where clients do not know its number.
            fn class(self) -> &'static str {
                match self {
                    $(Self::$native => $class,)*
                }
            }

            /// The number in the protocol.
            pub(crate) fn id(self) -> u16 {
                match self {
                    $(Self::$native => $id,)*
                }
            }
        }
    };
}

natives! {
    Ascii "ascii" "AsciiType" 0x01
    Bigint "bigint" "LongType" 0x02
    Blob "blob" "BytesType" 0x03
    Boolean "boolean" "BooleanType" 0x04
    Counter "counter" "CounterColumnType" 0x05
    Date "date" "SimpleDateType" 0x11
    Decimal "decimal" "DecimalType" 0x06
    Double "double" "DoubleType" 0x07
    Duration "duration" "DurationType" 0x15
    Float "float" "FloatType" 0x08
    Inet "inet" "InetAddressType" 0x10
    Int "int" "Int32Type" 0x09
    Smallint "smallint" "ShortType" 0x13
    Text "text" "UTF8Type" 0x0d
    Time "time" "TimeType" 0x12
    Timestamp "timestamp" "TimestampType" 0x0b
    Timeuuid "timeuuid" "TimeUUIDType" 0x0f
    Tinyint "tinyint" "ByteType" 0x14
    Uuid "uuid" "UUIDType" 0x0c
    Varint "varint" "IntegerType" 0x0e
}

impl Native {
    /// By its name in CQL, in lower case.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let name = if name == "varchar" { "text" } else { name };
        Self::ALL
            .iter()
            .copied()
            .find(|native| native.name() == name)
    }
}

/// A type. Collections and user types are one cell when frozen, else a cell per element or field;
/// tuples and vectors are always one cell.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DataType {
    Native(Native),
    List {
        element: Box<Self>,
        frozen: bool,
    },
    Set {
        element: Box<Self>,
        frozen: bool,
    },
    Map {
        key: Box<Self>,
        value: Box<Self>,
        frozen: bool,
    },
    Tuple(Vec<Self>),
    Vector {
        element: Box<Self>,
        dimension: u32,
    },
    User {
        definition: Box<UserType>,
        frozen: bool,
    },
}

/// A user-defined type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UserType {
    pub(crate) keyspace: String,
    pub(crate) name: String,
    pub(crate) fields: Vec<(String, DataType)>,
}

const PACKAGE: &str = "org.apache.cassandra.db.marshal";

impl From<Native> for DataType {
    fn from(native: Native) -> Self {
        Self::Native(native)
    }
}

impl DataType {
    pub(crate) fn list(element: impl Into<Self>) -> Self {
        let element = Box::new(element.into());
        Self::List {
            element,
            frozen: false,
        }
    }

    pub(crate) fn set(element: impl Into<Self>) -> Self {
        let element = Box::new(element.into());
        Self::Set {
            element,
            frozen: false,
        }
    }

    pub(crate) fn map(key: impl Into<Self>, value: impl Into<Self>) -> Self {
        let (key, value) = (Box::new(key.into()), Box::new(value.into()));
        Self::Map {
            key,
            value,
            frozen: false,
        }
    }

    /// The same type in one cell, and everything in it too.
    #[must_use]
    pub(crate) fn freeze(&self) -> Self {
        let inner = |data_type: &Self| Box::new(data_type.freeze());
        match self {
            Self::Native(native) => Self::Native(*native),
            Self::List { element, .. } => Self::List {
                element: inner(element),
                frozen: true,
            },
            Self::Set { element, .. } => Self::Set {
                element: inner(element),
                frozen: true,
            },
            Self::Map { key, value, .. } => {
                let (key, value) = (inner(key), inner(value));
                Self::Map {
                    key,
                    value,
                    frozen: true,
                }
            }
            Self::Tuple(types) => Self::Tuple(types.iter().map(Self::freeze).collect()),
            Self::Vector { element, dimension } => {
                let (element, dimension) = (inner(element), *dimension);
                Self::Vector { element, dimension }
            }
            Self::User { definition, .. } => {
                let mut definition = definition.clone();
                for (_, data_type) in &mut definition.fields {
                    *data_type = data_type.freeze();
                }
                Self::User {
                    definition,
                    frozen: true,
                }
            }
        }
    }

    /// The same type with tuples in the place of user types, which are the same bytes.
    #[must_use]
    pub(crate) fn without_user_types(&self) -> Self {
        let inner = |data_type: &Self| Box::new(data_type.without_user_types());
        match self {
            Self::Native(native) => Self::Native(*native),
            Self::List { element, frozen } => Self::List {
                element: inner(element),
                frozen: *frozen,
            },
            Self::Set { element, frozen } => Self::Set {
                element: inner(element),
                frozen: *frozen,
            },
            Self::Map { key, value, frozen } => Self::Map {
                key: inner(key),
                value: inner(value),
                frozen: *frozen,
            },
            Self::Tuple(types) => Self::Tuple(types.iter().map(Self::without_user_types).collect()),
            Self::Vector { element, dimension } => Self::Vector {
                element: inner(element),
                dimension: *dimension,
            },
            Self::User { definition, .. } => {
                let fields = definition.fields.iter();
                let types = fields.map(|(_, field)| field.without_user_types().freeze());
                Self::Tuple(types.collect())
            }
        }
    }

    /// Whether it is stored as a cell per element or field.
    pub(crate) fn is_multi_cell(&self) -> bool {
        match self {
            Self::List { frozen, .. }
            | Self::Set { frozen, .. }
            | Self::Map { frozen, .. }
            | Self::User { frozen, .. } => !frozen,
            Self::Native(_) | Self::Tuple(_) | Self::Vector { .. } => false,
        }
    }

    pub(crate) fn is_collection(&self) -> bool {
        matches!(
            self,
            Self::List { .. } | Self::Set { .. } | Self::Map { .. }
        )
    }

    pub(crate) fn is_counter(&self) -> bool {
        *self == Self::Native(Native::Counter)
    }

    /// The types directly inside.
    pub(crate) fn inner(&self) -> Vec<&Self> {
        match self {
            Self::Native(_) => Vec::new(),
            Self::List { element, .. }
            | Self::Set { element, .. }
            | Self::Vector { element, .. } => vec![element],
            Self::Map { key, value, .. } => vec![key, value],
            Self::Tuple(types) => types.iter().collect(),
            Self::User { definition, .. } => definition
                .fields
                .iter()
                .map(|(_, data_type)| data_type)
                .collect(),
        }
    }

    /// Whether this type, or one inside, is so.
    pub(crate) fn any(&self, is_so: &dyn Fn(&Self) -> bool) -> bool {
        is_so(self) || self.inner().into_iter().any(|inner| inner.any(is_so))
    }

    /// The length of every value, if all have the same: what tells apart the two forms of vectors.
    pub(crate) fn fixed_length(&self) -> Option<usize> {
        match self {
            Self::Native(native) => match native {
                Native::Boolean => Some(1),
                Native::Float | Native::Int => Some(4),
                Native::Bigint | Native::Double | Native::Timestamp => Some(8),
                Native::Timeuuid | Native::Uuid => Some(16),
                _ => None,
            },
            Self::Vector { element, dimension } => {
                let dimension = usize::try_from(*dimension).ok()?;
                element.fixed_length()?.checked_mul(dimension)
            }
            _ => None,
        }
    }

    /// The name that stands for it where clients do not know its number.
    pub(crate) fn class_name(&self) -> String {
        let wrapped = |text: String, frozen: bool| {
            if frozen {
                format!("{PACKAGE}.FrozenType({text})")
            } else {
                text
            }
        };
        match self {
            Self::Native(native) => format!("{PACKAGE}.{}", native.class()),
            Self::List { element, frozen } => wrapped(
                format!("{PACKAGE}.ListType({})", element.class_name()),
                *frozen,
            ),
            Self::Set { element, frozen } => wrapped(
                format!("{PACKAGE}.SetType({})", element.class_name()),
                *frozen,
            ),
            Self::Map { key, value, frozen } => {
                let (key, value) = (key.class_name(), value.class_name());
                wrapped(format!("{PACKAGE}.MapType({key},{value})"), *frozen)
            }
            Self::Tuple(types) => {
                let types: Vec<String> = types.iter().map(Self::class_name).collect();
                format!("{PACKAGE}.TupleType({})", types.join(","))
            }
            Self::Vector { element, dimension } => {
                format!(
                    "{PACKAGE}.VectorType({} , {dimension})",
                    element.class_name()
                )
            }
            Self::User { definition, frozen } => wrapped(definition.class_name(), *frozen),
        }
    }
}

impl UserType {
    fn class_name(&self) -> String {
        let mut text = format!("{PACKAGE}.UserType({},{}", self.keyspace, hex(&self.name));
        for (name, data_type) in &self.fields {
            text += &format!(",{}:{}", hex(name), data_type.class_name());
        }
        text + ")"
    }
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// The type as it is written in CQL.
impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frozen = match self {
            Self::Tuple(_) => true,
            Self::Native(_) | Self::Vector { .. } => false,
            other => !other.is_multi_cell(),
        };
        if frozen {
            f.write_str("frozen<")?;
        }
        match self {
            Self::Native(native) => f.write_str(native.name())?,
            Self::List { element, .. } => write!(f, "list<{element}>")?,
            Self::Set { element, .. } => write!(f, "set<{element}>")?,
            Self::Map { key, value, .. } => write!(f, "map<{key}, {value}>")?,
            Self::Tuple(types) => {
                let types: Vec<String> = types.iter().map(Self::to_string).collect();
                write!(f, "tuple<{}>", types.join(", "))?;
            }
            Self::Vector { element, dimension } => write!(f, "vector<{element}, {dimension}>")?,
            Self::User { definition, .. } => f.write_str(&quoted_type(&definition.name))?,
        }
        if frozen { f.write_str(">") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> DataType {
        let fields = vec![
            ("street".to_owned(), Native::Text.into()),
            ("Zip".to_owned(), DataType::list(Native::Int)),
        ];
        let (keyspace, name) = ("ks".to_owned(), "Address".to_owned());
        let definition = Box::new(UserType {
            keyspace,
            name,
            fields,
        });
        DataType::User {
            definition,
            frozen: false,
        }
    }

    #[test]
    fn types_are_written_as_cassandra_writes_them() {
        let nested = DataType::map(Native::Text, DataType::list(Native::Int).freeze());
        let tuple = DataType::Tuple(vec![Native::Int.into(), Native::Text.into()]);
        let element = Box::new(Native::Float.into());
        for (data_type, text) in [
            (Native::Text.into(), "text"),
            (nested.clone(), "map<text, frozen<list<int>>>"),
            (nested.freeze(), "frozen<map<text, frozen<list<int>>>>"),
            (
                DataType::set(tuple.clone()),
                "set<frozen<tuple<int, text>>>",
            ),
            (tuple, "frozen<tuple<int, text>>"),
            (address(), "\"Address\""),
            (address().freeze(), "frozen<\"Address\">"),
            (
                DataType::Vector {
                    element,
                    dimension: 3,
                },
                "vector<float, 3>",
            ),
        ] {
            assert_eq!(data_type.to_string(), text);
        }
    }

    #[test]
    fn freezing_goes_all_the_way_down() {
        let frozen = DataType::list(address()).freeze();
        assert!(!frozen.any(&DataType::is_multi_cell));
        assert!(address().any(&DataType::is_multi_cell));
    }

    #[test]
    fn class_names_are_those_of_cassandra() {
        let element = Box::new(Native::Float.into());
        for (data_type, name) in [
            (Native::Duration.into(), "P.DurationType"),
            (DataType::list(Native::Int), "P.ListType(P.Int32Type)"),
            (
                DataType::list(Native::Int).freeze(),
                "P.FrozenType(P.ListType(P.Int32Type))",
            ),
            (
                DataType::Vector {
                    element,
                    dimension: 3,
                },
                "P.VectorType(P.FloatType , 3)",
            ),
            (
                address(),
                "P.UserType(ks,41646472657373,737472656574:P.UTF8Type,\
                 5a6970:P.ListType(P.Int32Type))",
            ),
        ] {
            assert_eq!(
                data_type.class_name(),
                name.replace("P.", &format!("{PACKAGE}."))
            );
        }
    }

    #[test]
    fn names_are_found() {
        assert_eq!(Native::from_name("varchar"), Some(Native::Text));
        assert_eq!(Native::from_name("timeuuid"), Some(Native::Timeuuid));
        assert_eq!(Native::from_name("VARINT"), None);
    }
}
