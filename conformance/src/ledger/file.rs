//! The ledger as a file: reading and writing its TOML.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::Ledger;
use super::differences::{Difference, Known};
use crate::Error;
use crate::suites::{Suite, Variant};

/// Cases that pass in every variant that their client is tried with.
const EVERYWHERE: &str = "everywhere";
const AND: &str = " and ";
/// The lists of what a server does otherwise, and of what it does not offer.
const DIFFERENCES: &str = "differences";
const BEYOND: &str = "beyond";

const HEAD: &str = "\
# The cases that pass, by client and area, in all variants of the server or in those that are named;
# then the cases in which a server differs, each with the reason, and those of features that it does
# not offer, which are beyond it, each with where its own documentation or source shows that. A run
# that finds anything else fails. What passes is written by `tessera-conformance run --update`, the
# rest by hand.
";

impl Ledger {
    /// Where the ledger of a suite is.
    pub fn file(suite: &Suite) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("expected")
            .join(suite.name)
            .with_extension("toml")
    }

    /// Reads the ledger of a suite; a file that is not there lists nothing.
    pub fn read(suite: &'static Suite) -> Result<Self, Error> {
        let file = Self::file(suite);
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Error::io(format!("reading {}", file.display()))(error)),
        };
        Self::parse(suite, &text)
    }

    /// Writes the file.
    pub fn write(&self) -> Result<(), Error> {
        let file = Self::file(self.suite);
        fs::write(&file, self.to_string()).map_err(Error::io(format!("writing {}", file.display())))
    }

    /// Reads the ledger of a suite from this text.
    pub(crate) fn parse(suite: &'static Suite, text: &str) -> Result<Self, Error> {
        Self::parsed(suite, text).map_err(|reason| Error::Ledger {
            suite: suite.name,
            reason,
        })
    }

    fn parsed(suite: &'static Suite, text: &str) -> Result<Self, String> {
        let root: Table = text.parse().map_err(|error| format!("{error}"))?;
        let mut ledger = Self {
            suite,
            passes: BTreeMap::new(),
            differences: Vec::new(),
        };
        let passes = root.get("passes").map(table).transpose()?;
        for (client, areas) in passes.into_iter().flatten() {
            for (area, lists) in table(areas)? {
                for (variants, names) in table(lists)? {
                    let variants = ledger.variants(client, variants)?;
                    for name in strings(names)? {
                        ledger.add(client, area, &name, &variants);
                    }
                }
            }
        }
        for list in [DIFFERENCES, BEYOND] {
            let differences = root.get(list).and_then(Value::as_array);
            for one in differences.into_iter().flatten() {
                ledger.differences.push(Difference::parsed(list, one)?);
            }
        }
        Ok(ledger)
    }

    fn variants(&self, client: &str, words: &str) -> Result<BTreeSet<Variant>, String> {
        if words == EVERYWHERE {
            return Ok(self.all_variants(client));
        }
        let named = |word| Variant::named(word).ok_or(format!("there is no variant {word:?}"));
        words.split(AND).map(named).collect()
    }
}

impl Difference {
    fn parsed(list: &str, value: &Value) -> Result<Self, String> {
        let text = |name| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let shown = match list {
            BEYOND => Some(text("shown").ok_or("what is beyond a server must be shown")?),
            _ => None,
        };
        Ok(Self {
            server: text("server").ok_or("a difference names no server")?,
            known: Known {
                reason: text("reason").ok_or("a difference has no reason")?,
                shown,
            },
            cases: strings(value.get("cases").ok_or("a difference names no cases")?)?,
        })
    }
}

impl Known {
    /// The name of its list in the file.
    fn list(&self) -> &'static str {
        match self.shown {
            None => DIFFERENCES,
            Some(_) => BEYOND,
        }
    }
}

/// As it stands in the file.
impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HEAD)?;
        for (client, areas) in &self.passes {
            let all = self.all_variants(client);
            for (area, names) in areas {
                write!(f, "\n[passes.{client}.{area}]\n")?;
                let mut lists: BTreeMap<String, Vec<&String>> = BTreeMap::new();
                for (name, variants) in names {
                    let key = match *variants == all {
                        true => EVERYWHERE.to_owned(),
                        false => joined(variants),
                    };
                    lists.entry(key).or_default().push(name);
                }
                for (variants, names) in lists {
                    let key = match variants.contains(' ') {
                        true => quoted(&variants),
                        false => variants,
                    };
                    list(f, &key, names)?;
                }
            }
        }
        for difference in &self.differences {
            let Difference {
                server,
                known,
                cases,
            } = difference;
            writeln!(f, "\n[[{}]]\nserver = {}", known.list(), quoted(server))?;
            writeln!(f, "reason = {}", quoted(&known.reason))?;
            if let Some(shown) = &known.shown {
                writeln!(f, "shown = {}", quoted(shown))?;
            }
            list(f, "cases", cases.iter().collect())?;
        }
        Ok(())
    }
}

fn joined(variants: &BTreeSet<Variant>) -> String {
    let names: Vec<&str> = variants.iter().map(|variant| variant.name()).collect();
    names.join(AND)
}

fn list(f: &mut fmt::Formatter<'_>, key: &str, names: Vec<&String>) -> fmt::Result {
    writeln!(f, "{key} = [")?;
    for name in names {
        writeln!(f, "    {},", quoted(name))?;
    }
    f.write_str("]\n")
}

/// A text on one line, as TOML has it.
fn quoted(text: &str) -> String {
    if !text.contains('\'') && !text.contains(char::is_control) && text.contains(['"', '\\']) {
        return format!("'{text}'");
    }
    let mut quoted = String::from('"');
    for one in text.chars() {
        let written = match one {
            '"' | '\\' => write!(quoted, "\\{one}"),
            _ if one.is_control() => write!(quoted, "\\u{:04x}", u32::from(one)),
            _ => write!(quoted, "{one}"),
        };
        // Nothing can go wrong with a string in memory.
        debug_assert!(written.is_ok());
    }
    quoted.push('"');
    quoted
}

fn table(value: &Value) -> Result<&Table, String> {
    value.as_table().ok_or(format!("{value} is no table"))
}

fn strings(value: &Value) -> Result<Vec<String>, String> {
    let all = value.as_array().ok_or(format!("{value} is no list"))?;
    all.iter()
        .map(|one| {
            one.as_str()
                .map(str::to_owned)
                .ok_or(format!("{one} is no name"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::suite;

    #[test]
    fn a_ledger_with_a_mistake_is_refused() {
        for text in [
            "passes = 1",
            "[passes.python.access]\nsideways = ['x']",
            "[passes.python.access]\neverywhere = [1]",
            "[[differences]]\nserver = 'x'\ncases = []",
            "[[beyond]]\nserver = 'x'\nreason = 'x'\ncases = []",
            "[",
        ] {
            assert!(
                Ledger::parse(suite("cql").unwrap(), text).is_err(),
                "{text}"
            );
        }
    }
}
