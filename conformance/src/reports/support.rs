//! The README's table of what works with which client, made from the ledgers.

use crate::Error;
use crate::ledger::Ledger;
use crate::suites::{SUITES, Suite};

/// The file that has the table.
pub(crate) const README: &str = "README.md";
const BEGIN: &str = "<!-- made by `tessera-conformance run --update`: -->\n";
const END: &str = "<!-- until here -->\n";

/// The table: how many cases of each area pass with each client.
pub(crate) fn support(ledgers: &[Ledger]) -> String {
    let mut text = String::new();
    for ledger in ledgers {
        let suite = ledger.suite();
        let clients: Vec<&str> = suite.walkers.iter().map(|walker| walker.name).collect();
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let row = |name: &str, count: &dyn Fn(&str) -> usize| {
            let shown = |client: &&str| match count(client) {
                0 => String::new(),
                count => count.to_string(),
            };
            let counts = clients.iter().map(shown).collect();
            line([vec![name.to_owned()], counts].concat())
        };
        let names = clients.iter().map(|name| (*name).to_owned()).collect();
        text.push('\n');
        text.push_str(&line([vec![suite.title.to_owned()], names].concat()));
        text.push_str(&format!("|---|{}\n", "---:|".repeat(clients.len())));
        let areas = ledger.areas();
        for area in &areas {
            text.push_str(&row(area, &|client| ledger.count(client, area)));
        }
        let all = |client: &str| areas.iter().map(|area| ledger.count(client, area)).sum();
        text.push_str(&row("**all**", &all));
    }
    text.push('\n');
    text
}

/// A text with the table in place of the one that is there.
pub(crate) fn with_support(text: &str, support: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some([before, BEGIN, support, END, after].concat())
}

/// Whether the table in a text is the one that the ledgers give, which are read from these texts.
pub fn is_current<'a>(
    text: &str,
    ledger: impl Fn(&Suite) -> Option<&'a str>,
) -> Result<bool, Error> {
    let read = |suite| Ledger::parse(suite, ledger(suite).unwrap_or_default());
    let ledgers: Vec<Ledger> = SUITES.iter().map(read).collect::<Result<_, _>>()?;
    Ok(with_support(text, &support(&ledgers)).as_deref() == Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_put_between_its_marks() {
        let text = format!("a\n{BEGIN}old\n{END}b\n");
        let new = with_support(&text, "new\n").unwrap();
        assert_eq!(new, format!("a\n{BEGIN}new\n{END}b\n"));
        assert_eq!(with_support("nothing", "new\n"), None);
    }

    #[test]
    fn the_table_counts_what_the_ledgers_list() {
        let cql = "[passes.scylla.keys]\neverywhere = ['a', 'b']\nplain = ['c']";
        let ledger = |suite: &Suite| (suite.name == "cql").then_some(cql);
        let read = |suite| Ledger::parse(suite, ledger(suite).unwrap_or_default()).unwrap();
        let table = support(&SUITES.iter().map(read).collect::<Vec<_>>());
        assert!(
            table.contains("| keys |  |  |  | 3 |  |  |  |\n"),
            "{table}"
        );
        let text = format!("{BEGIN}{table}{END}");
        assert!(is_current(&text, ledger).unwrap());
        assert!(!is_current(&text, |_| None).unwrap());
    }
}
