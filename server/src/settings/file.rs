//! The configuration file: TOML, one key for each setting, nothing else.

use std::collections::BTreeMap;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::{Kind, Setting, nearest};
use crate::error::Error;

/// The settings in the file: name to text and line.
pub(super) type FileValues = BTreeMap<&'static str, (String, usize)>;

/// Reads the file at `path`.
pub(super) fn read(path: &Path, settings: &[Setting]) -> Result<FileValues, Error> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Error::Settings(format!(
            "cannot read the configuration file {}: {error}; check --config or TESSERA_CONFIG",
            path.display()
        ))
    })?;
    parse(&text, settings)
        .map_err(|(line, problem)| Error::Settings(format!("{}:{line}: {problem}", path.display())))
}

fn parse(text: &str, settings: &[Setting]) -> Result<FileValues, (usize, String)> {
    let table = DeTable::parse(text).map_err(|error| {
        let line = line_of(text, error.span().map_or(0, |span| span.start));
        (
            line,
            format!("this is not TOML: {}", error.message().replace('\n', " ")),
        )
    })?;
    let mut values = FileValues::new();
    for (key, value) in table.get_ref() {
        let line = line_of(text, key.span().start);
        let name: &str = key.get_ref();
        let Some(setting) = settings.iter().find(|setting| setting.name == name) else {
            return Err((line, unknown(name, settings)));
        };
        let value = scalar(value.get_ref()).ok_or_else(|| {
            let written = written_as(setting);
            (
                line,
                format!(
                    "{name} has a value of type {}: {written}",
                    value.get_ref().type_str()
                ),
            )
        })?;
        values.insert(setting.name, (value, line));
    }
    Ok(values)
}

fn unknown(name: &str, settings: &[Setting]) -> String {
    match nearest(name, settings.iter().map(|setting| setting.name)) {
        Some(known) => format!("unknown setting {name}; did you mean {known}?"),
        None => {
            let known: Vec<&str> = settings.iter().map(|setting| setting.name).collect();
            format!("unknown setting {name}; known are {}", known.join(", "))
        }
    }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => (number.radix() == 10).then(|| number.as_str().to_owned()),
        DeValue::Boolean(value) => Some(value.to_string()),
        DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

fn written_as(setting: &Setting) -> &'static str {
    match setting.kind {
        Kind::Switch => "write true or false",
        Kind::Number => "write a whole number",
        Kind::Text => "write a text in quotes",
    }
}

fn line_of(text: &str, position: usize) -> usize {
    let before = text.as_bytes().iter().take(position);
    1 + before.filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use tessera_frontend::testing::Target;
    use tessera_fuzz::run::bounded;

    use super::*;

    fn check(text: &str, expected: Result<&[(&str, &str)], (usize, &str)>) {
        let settings = super::super::all();
        match (parse(text, &settings), expected) {
            (Ok(values), Ok(expected)) => {
                let values: Vec<_> = values
                    .iter()
                    .map(|(name, (text, _))| (*name, &**text))
                    .collect();
                assert_eq!(values, expected, "{text}");
            }
            (Err((line, problem)), Err((expected_line, part))) => {
                assert_eq!(line, expected_line, "{text}");
                assert!(problem.contains(part), "{problem}");
            }
            (outcome, _) => panic!("{text}: {outcome:?}"),
        }
    }

    #[test]
    fn made_up_files_are_read_or_refused() {
        let run = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            let settings = super::super::all();
            if let Err((line, problem)) = parse(&text, &settings) {
                assert!(line <= text.lines().count() + 1, "{line}: {problem}");
                assert!(!problem.contains('\n'), "{problem}");
            }
        };
        let corpus = "console = \"off\"\\nmemory = true\\nmax-connections = 10\n\
            mongo = \"127.0.0.1:1\"\\n# a remark\\n[x]\\ny = [1, { z = 1979-05-27T07:32:00Z }]\n\
            data = '''a\\nb'''\\n\"quoted\" = 0x1F\n";
        let target = Target {
            name: "settings",
            run,
        };
        let outcome = bounded(target, corpus, 5_000);
        assert!(outcome.findings.is_empty(), "{:#?}", outcome.findings);
    }

    #[test]
    fn takes_known_settings_in_their_toml_form() {
        check("", Ok(&[]));
        check(
            "# a comment\nconsole = \"off\"\nmemory = true\nmax-connections = 10\n",
            Ok(&[
                ("console", "off"),
                ("max-connections", "10"),
                ("memory", "true"),
            ]),
        );
    }

    #[test]
    fn names_the_line_and_the_nearest_setting() {
        check(
            "\nconsol = \"off\"",
            Err((2, "unknown setting consol; did you mean console?")),
        );
        check(
            "max_connections = 1",
            Err((1, "did you mean max-connections?")),
        );
        check(
            "[server]\nconsole = \"off\"",
            Err((1, "unknown setting server; known are memory,")),
        );
        check(
            "console = [1]",
            Err((
                1,
                "console has a value of type array: write a text in quotes",
            )),
        );
        check(
            "memory = true\nmemory = false",
            Err((2, "this is not TOML")),
        );
        check("memory =", Err((1, "this is not TOML")));
    }
}
