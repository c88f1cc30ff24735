//! The code blocks of a page.

/// One code block.
#[derive(Debug, PartialEq)]
pub(crate) struct Block {
    /// Where its fence is, from 1.
    pub(crate) line: usize,
    /// What follows the fence.
    info: Vec<String>,
    pub(crate) text: String,
    /// What a block behind it says that it prints.
    pub(crate) output: Option<String>,
}

impl Block {
    pub(crate) fn language(&self) -> &str {
        self.info.first().map_or("", String::as_str)
    }

    pub(crate) fn is_tested(&self) -> bool {
        self.info.get(1).is_some_and(|word| word == "test")
    }

    /// The client whose packages it needs.
    pub(crate) fn client(&self) -> &str {
        self.info.get(2).map_or("", String::as_str)
    }

    /// Each command with its line; one that goes on in the next line is one.
    pub(crate) fn commands(&self) -> Vec<(usize, String)> {
        let mut commands: Vec<(usize, String)> = Vec::new();
        let mut goes_on = false;
        for (index, line) in self.text.lines().enumerate() {
            let part = line.strip_suffix('\\').unwrap_or(line);
            match commands.last_mut().filter(|_| goes_on) {
                Some((_, command)) => command.push_str(part),
                None => commands.push((self.line + 1 + index, part.to_owned())),
            }
            goes_on = line.ends_with('\\');
        }
        commands
    }
}

/// The blocks of a page, those of output with what they are the output of.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(info), None) => {
                open = Some(Block {
                    line: index + 1,
                    info: info.split_whitespace().map(str::to_owned).collect(),
                    text: String::new(),
                    output: None,
                });
            }
            (Some(_), Some(block)) => match blocks.last_mut() {
                Some(last) if block.info == ["text", "output"] => last.output = Some(block.text),
                _ => blocks.push(block),
            },
            (None, Some(mut block)) => {
                block.text += &format!("{line}\n");
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    blocks
}

#[test]
fn output_belongs_to_the_block_before_it() {
    let page = "a\n```sh test\nb \\\n  c\nd\n```\nit prints\n```text output\ne\n```\n```js\n```\n";
    let found = blocks(page);
    let [first, second] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert!(first.is_tested() && !second.is_tested());
    assert_eq!(first.output.as_deref(), Some("e\n"));
    assert_eq!(
        first.commands(),
        [(3, "b   c".to_owned()), (5, "d".to_owned())]
    );
    assert_eq!(second.language(), "js");
}
