//! Rules for what people type: module documentation, file sizes, line widths, white space.

use crate::{Breach, Rule, Tree};

const MAX_LINES: usize = 500;
const MAX_TEST_LINES: usize = 700;
const MAX_COLUMNS: usize = 100;

/// Marks of unfinished work. Spelled in halves, or this file would break its own rule.
const MARKS: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

pub(crate) const RULES: &[Rule] = &[
    Rule {
        name: "every module says what it is for",
        check: undocumented_modules,
        sample: || {
            Tree::of(&[
                ("core/src/a.rs", "use b;\n"),
                ("core/src/b.rs", "//! Purpose.\n"),
            ])
        },
        caught: &["core/src/a.rs:1: the first line must be a `//!` sentence"],
    },
    Rule {
        name: "no file is too long",
        check: long_files,
        sample: || {
            let (code, tests) = ("a();\n".repeat(510), "b();\n".repeat(300));
            Tree::of(&[
                ("core/src/code.rs", &code),
                (
                    "core/src/tested.rs",
                    &format!("{tests}#[cfg(test)]\nmod tests {{\n{code}"),
                ),
                (
                    "core/src/one_line_for_tests.rs",
                    &format!("#[cfg(test)]\nuse a;\n{code}"),
                ),
                ("core/tests/fits.rs", &code),
                (
                    "core/tests/long.rs",
                    &format!("{tests}#[cfg(test)]\n{code}"),
                ),
            ])
        },
        caught: &[
            "core/src/code.rs:501: 510 lines before the tests, at most 500: split by concept",
            "core/src/one_line_for_tests.rs:501: 512 lines before the tests, at most 500: \
             split by concept",
            "core/tests/long.rs:701: 811 lines, at most 700: split by concept",
        ],
    },
    Rule {
        name: "no line is too wide",
        check: wide_lines,
        sample: || {
            let (fits, wide) = ("é".repeat(100), "é".repeat(101));
            Tree::of(&[("core/src/a.rs", &format!("{fits}\n{wide}\n"))])
        },
        caught: &["core/src/a.rs:2: 101 columns, at most 100"],
    },
    Rule {
        name: "unfinished work names its issue",
        check: loose_ends,
        sample: || {
            let [first, second, third] = MARKS;
            let text = format!("{first}\n{first}(#12): later\n{second} #\nMA{third} _{first}\n");
            Tree::of(&[("README.md", &text)])
        },
        caught: &[
            concat!("README.md:1: TO", "DO without an issue, as in `#12`"),
            concat!("README.md:3: FIX", "ME without an issue, as in `#12`"),
        ],
    },
    Rule {
        name: "white space is plain",
        check: odd_white_space,
        sample: || {
            Tree::of(&[
                ("README.md", "a \n\tb\nc"),
                ("clients/a.go", "{\n\tb\n}\n"),
                ("core/src/a.rs", "//! A\n\n"),
                ("scripts/run", "good\n"),
            ])
        },
        caught: &[
            "README.md:1: white space at the end of the line",
            "README.md:2: a tab",
            "README.md:3: the file must end with one line break",
            "core/src/a.rs:2: the file must end with one line break",
        ],
    },
];

fn undocumented_modules(tree: &Tree) -> Vec<Breach> {
    tree.ending(".rs")
        .filter(|(_, text)| !text.starts_with("//! "))
        .map(|(path, _)| Breach::new(path, 1, "the first line must be a `//!` sentence"))
        .collect()
}

fn long_files(tree: &Tree) -> Vec<Breach> {
    let breach = |(path, text): (&str, &str)| {
        let is_test = ["tests", "examples", "benches"]
            .iter()
            .any(|folder| path.split('/').any(|part| part == *folder));
        let (limit, counted, of) = if is_test {
            (MAX_TEST_LINES, text.lines().count(), "")
        } else {
            let code = text.split("\n#[cfg(test)]\nmod tests").next();
            let lines = code.map_or(0, |code| code.lines().count());
            (MAX_LINES, lines, " before the tests")
        };
        let message = format!("{counted} lines{of}, at most {limit}: split by concept");
        (counted > limit).then(|| Breach::new(path, limit + 1, message))
    };
    tree.ending(".rs").filter_map(breach).collect()
}

fn wide_lines(tree: &Tree) -> Vec<Breach> {
    in_lines(tree.ending(".rs"), |line| {
        let columns = line.chars().count();
        (columns > MAX_COLUMNS).then(|| format!("{columns} columns, at most {MAX_COLUMNS}"))
    })
}

fn loose_ends(tree: &Tree) -> Vec<Breach> {
    in_lines(tree.written(), |line| {
        if names_an_issue(line) {
            return None;
        }
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        let mark = words.find(|word| MARKS.contains(word))?;
        Some(format!("{mark} without an issue, as in `#12`"))
    })
}

fn names_an_issue(line: &str) -> bool {
    line.split('#')
        .skip(1)
        .any(|after| after.starts_with(|c: char| c.is_ascii_digit()))
}

fn odd_white_space(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in tree.written() {
        let (path, text) = file;
        // The formatter of Go wants tabs.
        let may_have_tabs = path.ends_with(".go");
        breaches.extend(in_lines([file], |line| {
            let message = if line.contains('\t') && !may_have_tabs {
                "a tab"
            } else if line.ends_with(char::is_whitespace) {
                "white space at the end of the line"
            } else {
                return None;
            };
            Some(message.to_owned())
        }));
        if !text.is_empty() && (!text.ends_with('\n') || text.ends_with("\n\n")) {
            let last = text.lines().count();
            breaches.push(Breach::new(
                path,
                last,
                "the file must end with one line break",
            ));
        }
    }
    breaches
}

/// Asks `check` about every line of these files.
pub(crate) fn in_lines<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a str)>,
    check: impl Fn(&str) -> Option<String>,
) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (path, text) in files {
        for (index, line) in text.split('\n').enumerate() {
            breaches.extend(check(line).map(|message| Breach::new(path, index + 1, message)));
        }
    }
    breaches
}
