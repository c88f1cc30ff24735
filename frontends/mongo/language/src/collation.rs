//! Collations: how strings compare, by bytes or by a language's rules.

mod data;
mod locale;

use std::{cmp::Ordering, fmt, sync::Arc};

use bson::{Bson, Document, doc};
use icu_collator::{
    Collator,
    options::{AlternateHandling, CaseLevel, CollatorOptions, MaxVariable, Strength},
    preferences::{CollationCaseFirst, CollationNumericOrdering},
};
use tessera_core::deadline;

use crate::{
    compare::type_name,
    error::{Code, Error, Result, bad_value, type_mismatch},
    number::Number,
};
use data::Data;

/// The version of ICU whose rules MongoDB says it follows.
const VERSION: &str = "57.1";

/// The locale of strings that compare by their bytes.
const SIMPLE: &str = "simple";

/// How strings compare. The default is by bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collation {
    rules: Option<Arc<Rules>>,
}

/// How much of a text one step compares.
const BYTES_IN_STEP: usize = 16;

impl Collation {
    /// Reads a collation as commands give it: `{locale: "fr", strength: 1, …}`.
    pub fn parse(specification: &Document) -> Result<Self> {
        let wish = Wish::parse(specification)?;
        if wish.locale == SIMPLE {
            return Ok(Self::default());
        }
        let rules = Some(Arc::new(Rules::new(wish)?));
        Ok(Self { rules })
    }

    /// Whether strings compare by their bytes.
    pub fn is_simple(&self) -> bool {
        self.rules.is_none()
    }

    /// The order of two strings.
    pub fn compare(&self, a: &str, b: &str) -> Ordering {
        match &self.rules {
            None => a.cmp(b),
            Some(rules) => {
                deadline::note(a.len().min(b.len()) / BYTES_IN_STEP);
                rules.collator.as_borrowed().compare(a, b)
            }
        }
    }

    /// Bytes that compare as the strings do. The key of one string may be a prefix of another's.
    pub fn sort_key(&self, text: &str) -> Vec<u8> {
        let Some(rules) = &self.rules else {
            return text.as_bytes().to_vec();
        };
        deadline::note(text.len() / BYTES_IN_STEP);
        let mut key = Vec::new();
        let Ok(()) = rules
            .collator
            .as_borrowed()
            .write_sort_key_to(text, &mut key);
        key
    }

    /// The collation with all its options, as listings show it.
    pub fn to_document(&self) -> Document {
        match &self.rules {
            None => doc! { "locale": SIMPLE },
            Some(rules) => rules.options.to_document(),
        }
    }
}

/// The rules of a language, ready for use.
struct Rules {
    options: Options,
    collator: Collator,
}

impl Rules {
    fn new(wish: Wish) -> Result<Self> {
        let invalid = || bad_value(format!("Field 'locale' is invalid in: {}", wish.locale));
        let mut preferences = locale::preferences(&wish.locale).ok_or_else(invalid)?;
        preferences.case_first = wish.case_first;
        preferences.numeric_ordering = wish.numeric_ordering.map(|numeric| {
            if numeric {
                CollationNumericOrdering::True
            } else {
                CollationNumericOrdering::False
            }
        });
        let mut options = CollatorOptions::default();
        options.strength = wish.strength;
        options.alternate_handling = wish.alternate;
        options.max_variable = wish.max_variable;
        options.case_level = wish
            .case_level
            .map(|on| if on { CaseLevel::On } else { CaseLevel::Off });
        let data = Data {
            backwards: wish.backwards,
        };
        let collator =
            Collator::try_new_unstable(&data, preferences, options).map_err(|error| {
                Error::new(
                    Code::OPERATION_FAILED,
                    format!("Failed to create collator: {error}"),
                )
            })?;
        let options = Options::resolve(wish, &collator);
        options.check()?;
        Ok(Self { options, collator })
    }
}

impl PartialEq for Rules {
    fn eq(&self, other: &Self) -> bool {
        self.options == other.options
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.options.fmt(formatter)
    }
}

/// The options in force: those asked for, and the locale's own for the rest.
#[derive(Debug, PartialEq)]
struct Options {
    locale: String,
    case_level: bool,
    case_first: CollationCaseFirst,
    strength: Strength,
    numeric_ordering: bool,
    alternate: AlternateHandling,
    max_variable: MaxVariable,
    normalization: bool,
    backwards: bool,
}

impl Options {
    fn resolve(wish: Wish, collator: &Collator) -> Self {
        let resolved = collator.as_borrowed().resolved_options();
        Self {
            // No other locale counts accents from the end.
            backwards: wish.backwards.unwrap_or(wish.locale == "fr_CA"),
            locale: wish.locale,
            case_level: resolved.case_level == CaseLevel::On,
            case_first: resolved.case_first,
            strength: resolved.strength,
            numeric_ordering: resolved.numeric == CollationNumericOrdering::True,
            alternate: resolved.alternate_handling,
            max_variable: resolved.max_variable,
            // Texts are always normalized while they are compared, so this is only remembered.
            normalization: wish.normalization.unwrap_or(false),
        }
    }

    /// Refuses options that the others keep from having any effect.
    fn check(&self) -> Result<()> {
        if self.backwards && self.strength == Strength::Primary {
            return Err(bad_value("'backwards' is invalid with 'strength' of 1"));
        }
        if self.case_first != CollationCaseFirst::False
            && !self.case_level
            && self.strength <= Strength::Secondary
        {
            return Err(bad_value(
                "'caseFirst' is invalid unless 'caseLevel' is on or 'strength' is greater than 2",
            ));
        }
        Ok(())
    }

    fn to_document(&self) -> Document {
        doc! {
            "locale": &self.locale,
            "caseLevel": self.case_level,
            "caseFirst": name_of(CASE_FIRST, self.case_first),
            "strength": STRENGTHS
                .iter()
                .find(|(_, strength)| *strength == self.strength)
                .map_or(3, |(number, _)| *number),
            "numericOrdering": self.numeric_ordering,
            "alternate": name_of(ALTERNATE, self.alternate),
            "maxVariable": name_of(MAX_VARIABLE, self.max_variable),
            "normalization": self.normalization,
            "backwards": self.backwards,
            "version": VERSION,
        }
    }
}

const CASE_FIRST: &[(&str, CollationCaseFirst)] = &[
    ("off", CollationCaseFirst::False),
    ("upper", CollationCaseFirst::Upper),
    ("lower", CollationCaseFirst::Lower),
];

const ALTERNATE: &[(&str, AlternateHandling)] = &[
    ("non-ignorable", AlternateHandling::NonIgnorable),
    ("shifted", AlternateHandling::Shifted),
];

const MAX_VARIABLE: &[(&str, MaxVariable)] = &[
    ("punct", MaxVariable::Punctuation),
    ("space", MaxVariable::Space),
];

const STRENGTHS: &[(i32, Strength)] = &[
    (1, Strength::Primary),
    (2, Strength::Secondary),
    (3, Strength::Tertiary),
    (4, Strength::Quaternary),
    (5, Strength::Identical),
];

/// The name of a value in a table of names; the first one's where the table has it not.
fn name_of<T: PartialEq>(table: &[(&'static str, T)], value: T) -> &'static str {
    table
        .iter()
        .find(|(_, known)| *known == value)
        .or(table.first())
        .map_or("", |(name, _)| name)
}

/// What a client asked for. What is absent, or null, is left to the locale.
#[derive(Default)]
struct Wish {
    locale: String,
    case_level: Option<bool>,
    case_first: Option<CollationCaseFirst>,
    strength: Option<Strength>,
    numeric_ordering: Option<bool>,
    alternate: Option<AlternateHandling>,
    max_variable: Option<MaxVariable>,
    normalization: Option<bool>,
    backwards: Option<bool>,
}

impl Wish {
    fn parse(specification: &Document) -> Result<Self> {
        let mut wish = Self::default();
        let mut version = None;
        for (field, value) in specification {
            if matches!(value, Bson::Null | Bson::Undefined) && field != "backwards" {
                continue;
            }
            match field.as_str() {
                "locale" => wish.locale = text(field, value)?.to_owned(),
                "caseLevel" => wish.case_level = Some(boolean(field, value)?),
                "caseFirst" => wish.case_first = Some(choice(field, value, CASE_FIRST)?),
                "strength" => wish.strength = Some(strength(value)?),
                "numericOrdering" => wish.numeric_ordering = Some(boolean(field, value)?),
                "alternate" => wish.alternate = Some(choice(field, value, ALTERNATE)?),
                "maxVariable" => wish.max_variable = Some(choice(field, value, MAX_VARIABLE)?),
                "normalization" => wish.normalization = Some(boolean(field, value)?),
                "backwards" => wish.backwards = Some(boolean(field, value)?),
                "version" => version = Some(text(field, value)?),
                _ => {
                    return Err(Error::new(
                        Code::IDL_UNKNOWN_FIELD,
                        format!("BSON field 'collation.{field}' is an unknown field."),
                    ));
                }
            }
        }
        match specification.get("locale") {
            None | Some(Bson::Null | Bson::Undefined) => {
                return Err(Error::new(
                    Code::IDL_FAILED_TO_PARSE,
                    "BSON field 'collation.locale' is missing but a required field",
                ));
            }
            Some(_) => {}
        }
        match version {
            Some(version) if version != VERSION && wish.locale != SIMPLE => Err(Error::new(
                Code::INCOMPATIBLE_COLLATION_VERSION,
                format!(
                    "Requested collation version {version} but the only available collator \
                     version was {VERSION}"
                ),
            )),
            _ => Ok(wish),
        }
    }
}

fn wrong_type(field: &str, value: &Bson, expected: &str) -> Error {
    type_mismatch(format!(
        "BSON field 'collation.{field}' is the wrong type '{}', expected type '{expected}'",
        type_name(value)
    ))
}

fn text<'a>(field: &str, value: &'a Bson) -> Result<&'a str> {
    value
        .as_str()
        .ok_or_else(|| wrong_type(field, value, "string"))
}

fn boolean(field: &str, value: &Bson) -> Result<bool> {
    value
        .as_bool()
        .ok_or_else(|| wrong_type(field, value, "bool"))
}

fn choice<T: Copy>(field: &str, value: &Bson, table: &[(&str, T)]) -> Result<T> {
    let name = text(field, value)?;
    table
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, choice)| *choice)
        .ok_or_else(|| {
            bad_value(format!(
                "Enumeration value '{name}' for field 'collation.{field}' is not a valid value."
            ))
        })
}

/// A strength may be given as any number: a decimal is rounded, a double truncated.
fn strength(value: &Bson) -> Result<Strength> {
    let number = Number::from_bson(value).ok_or_else(|| wrong_type("strength", value, "number"))?;
    let wanted = number.to_i64_saturating();
    STRENGTHS
        .iter()
        .find(|(known, _)| i64::from(*known) == wanted)
        .map(|(_, strength)| *strength)
        .ok_or_else(|| {
            bad_value(format!(
                "BSON field 'collation.strength' value must be from 1 to 5, actual value '{wanted}'"
            ))
        })
}

#[cfg(test)]
mod tests {
    use bson::bson;

    use super::*;

    fn collation(specification: Document) -> Collation {
        Collation::parse(&specification).unwrap()
    }

    #[test]
    fn strings_compare_by_the_rules_of_the_locale() {
        let case_first = |first| doc! { "locale": "en", "caseFirst": first };
        for (specification, ascending) in [
            (doc! { "locale": "simple", "strength": 1 }, "B a b é"),
            (doc! { "locale": "en" }, "a A b B é"),
            (case_first("upper"), "A a B b"),
            (case_first("lower"), "a A b B"),
            (doc! { "locale": "da" }, "A a B z æ ø å"),
            (doc! { "locale": "sv" }, "a z å ä ö"),
            (doc! { "locale": "de" }, "a ä b ö z"),
            (doc! { "locale": "de" }, "Ä Ad Af"),
            (doc! { "locale": "de@collation=phonebook" }, "Ad Ä Af"),
            (doc! { "locale": "es@collation=traditional" }, "cz ch d"),
            (doc! { "locale": "en_US_POSIX" }, "A B a b"),
            (doc! { "locale": "en", "numericOrdering": true }, "a2 a10"),
            (doc! { "locale": "en", "numericOrdering": false }, "a10 a2"),
            (doc! { "locale": "fr" }, "cote coté côte côté"),
            (
                doc! { "locale": "fr", "backwards": true },
                "cote côte coté côté",
            ),
            (doc! { "locale": "fr_CA" }, "cote côte coté côté"),
            (
                doc! { "locale": "fr_CA", "backwards": false },
                "cote coté côte côté",
            ),
            (
                doc! { "locale": "es", "backwards": true },
                "cote côte coté côté n ñ o",
            ),
        ] {
            let collation = collation(specification.clone());
            let words: Vec<&str> = ascending.split(' ').collect();
            for (rank, a) in words.iter().enumerate() {
                for (other, b) in words.iter().enumerate() {
                    let keys = collation.sort_key(a).cmp(&collation.sort_key(b));
                    assert_eq!(collation.compare(a, b), keys, "{a} {b} in {specification}");
                    assert_eq!(keys, rank.cmp(&other), "{a} {b} in {specification}");
                }
            }
        }
    }

    #[test]
    fn strength_says_which_differences_count() {
        for (specification, a, b, equal) in [
            (doc! { "locale": "en", "strength": 1 }, "É", "e", true),
            (doc! { "locale": "en", "strength": 2 }, "É", "é", true),
            (doc! { "locale": "en", "strength": 2 }, "É", "e", false),
            (doc! { "locale": "en", "strength": 3 }, "E", "e", false),
            (
                doc! { "locale": "en", "strength": 1, "caseLevel": true },
                "É",
                "e",
                false,
            ),
            (
                doc! { "locale": "en", "strength": 1, "caseLevel": true },
                "É",
                "E",
                true,
            ),
            (
                doc! { "locale": "en", "alternate": "shifted" },
                "a-b",
                "ab",
                true,
            ),
            (
                doc! { "locale": "en", "alternate": "shifted", "strength": 4 },
                "a-b",
                "ab",
                false,
            ),
            (
                doc! { "locale": "en", "alternate": "shifted", "maxVariable": "space" },
                "a-b",
                "ab",
                false,
            ),
            (
                doc! { "locale": "en", "alternate": "shifted", "maxVariable": "space" },
                "a b",
                "ab",
                true,
            ),
            (
                doc! { "locale": "en", "normalization": false },
                "\u{e9}",
                "e\u{301}",
                true,
            ),
            (doc! { "locale": "ja", "strength": 4 }, "あ", "ア", false),
            (doc! { "locale": "ja", "strength": 3 }, "あ", "ア", true),
        ] {
            let order = collation(specification.clone()).compare(a, b);
            assert_eq!(order.is_eq(), equal, "{a} {b} in {specification}");
        }
    }

    #[test]
    fn listings_show_all_options() {
        assert_eq!(
            Collation::default().to_document(),
            doc! { "locale": "simple" }
        );
        let full = doc! {
            "locale": "en",
            "caseLevel": false,
            "caseFirst": "off",
            "strength": 3,
            "numericOrdering": false,
            "alternate": "non-ignorable",
            "maxVariable": "punct",
            "normalization": false,
            "backwards": false,
            "version": "57.1",
        };
        assert_eq!(collation(doc! { "locale": "en" }).to_document(), full);
        assert_eq!(collation(full.clone()).to_document(), full);
        let canadian = collation(doc! { "locale": "fr_CA" }).to_document();
        assert!(canadian.get_bool("backwards").unwrap());
        let thai = collation(doc! { "locale": "th" }).to_document();
        assert_eq!(thai.get_str("alternate").unwrap(), "shifted");
        let danish = collation(doc! { "locale": "da" }).to_document();
        assert_eq!(danish.get_str("caseFirst").unwrap(), "upper");
    }

    #[test]
    fn collations_are_equal_by_their_options() {
        let english = collation(doc! { "locale": "en" });
        assert_eq!(english, collation(doc! { "locale": "en", "strength": 3 }));
        assert_ne!(english, collation(doc! { "locale": "en", "strength": 2 }));
        assert_ne!(english, Collation::default());
        assert!(collation(doc! { "locale": "simple", "backwards": true }).is_simple());
    }

    #[test]
    fn wrong_options_are_refused() {
        let decimal = |text: &str| Bson::Decimal128(text.parse().unwrap());
        for (specification, code) in [
            (doc! {}, 40414),
            (doc! { "strength": 1 }, 40414),
            (doc! { "locale": "en", "stength": 1 }, 40415),
            (doc! { "locale": 1 }, 14),
            (doc! { "locale": "" }, 2),
            (doc! { "locale": "invalid_locale_xyz" }, 2),
            (doc! { "locale": "en_GB_oed" }, 2),
            (doc! { "locale": "en@collation=phonebook" }, 2),
            (doc! { "locale": "en", "strength": 0 }, 2),
            (doc! { "locale": "en", "strength": 6 }, 2),
            (doc! { "locale": "en", "strength": f64::NAN }, 2),
            (doc! { "locale": "en", "strength": decimal("5.5") }, 2),
            (doc! { "locale": "en", "strength": "3" }, 14),
            (doc! { "locale": "en", "backwards": null }, 14),
            (doc! { "locale": "en", "backwards": 1 }, 14),
            (doc! { "locale": "en", "caseLevel": 1 }, 14),
            (doc! { "locale": "en", "caseFirst": "first" }, 2),
            (doc! { "locale": "en", "caseFirst": 1 }, 14),
            (doc! { "locale": "en", "alternate": "blanked" }, 2),
            (doc! { "locale": "en", "maxVariable": "symbol" }, 2),
            (
                doc! { "locale": "en", "strength": 2, "caseFirst": "upper" },
                2,
            ),
            (doc! { "locale": "fr", "strength": 1, "backwards": true }, 2),
            (doc! { "locale": "en", "version": "1" }, 161),
            (doc! { "locale": "en", "version": 1 }, 14),
        ] {
            let error = Collation::parse(&specification).unwrap_err();
            assert_eq!(error.code, Code(code), "{specification}");
        }
        for accepted in [
            bson!({ "locale": "en", "strength": null, "version": null, "caseLevel": null }),
            bson!({ "locale": "en", "strength": 1.9 }),
            bson!({ "locale": "zh@collation=unihan" }),
            bson!({ "locale": "en", "version": "57.1" }),
        ] {
            assert!(
                Collation::parse(accepted.as_document().unwrap()).is_ok(),
                "{accepted}"
            );
        }
    }
}
