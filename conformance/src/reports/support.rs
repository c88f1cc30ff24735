//! The README's table of what works with which client, made from the ledgers.

use crate::Error;
use crate::ledger::Ledger;
use crate::suites::SUITES;

/// The file that has the table.
pub(crate) const README: &str = "README.md";
const BEGIN: &str = "<!-- made by `tessera-conformance run --update`: -->\n";
const END: &str = "<!-- until here -->\n";

/// The table: how many cases of each area pass with each client.
pub(crate) fn support() -> Result<String, Error> {
    let mut text = String::new();
    for suite in SUITES {
        let ledger = Ledger::read(suite)?;
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
    Ok(text)
}

/// A text with the table in place of the one that is there.
pub(crate) fn with_support(text: &str, support: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some([before, BEGIN, support, END, after].concat())
}

/// Whether the table in a text is the one that the ledgers give.
pub fn is_current(text: &str) -> Result<bool, Error> {
    let support = support()?;
    Ok(with_support(text, &support).as_deref() == Some(text))
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
        assert!(!is_current(&text).unwrap());
    }
}
