//! JSON as it comes: numbers keep their digits, so that no decimal loses any.

/// A value of JSON.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json {
    Null,
    Boolean(bool),
    /// As it is written.
    Number(String),
    String(String),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

/// How deep values may nest.
const DEPTH_LIMIT: usize = 100;

impl Json {
    /// Reads a text that is one value.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut input = text.trim_start();
        let value = value(&mut input, DEPTH_LIMIT)?;
        input.trim_start().is_empty().then_some(value)
    }

    /// What messages call it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean(_) => "Boolean",
            Self::Number(text) if text.contains(['.', 'e', 'E']) => "Double",
            Self::Number(text) if text.parse::<i32>().is_ok() => "Integer",
            Self::Number(text) if text.parse::<i64>().is_ok() => "Long",
            Self::Number(_) => "BigInteger",
            Self::String(_) => "String",
            Self::List(_) => "ArrayList",
            Self::Object(_) => "LinkedHashMap",
        }
    }
}

/// As messages repeat it.
impl std::fmt::Display for Json {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Number(text) | Self::String(text) => f.write_str(text),
            Self::List(values) => {
                let texts: Vec<String> = values.iter().map(Self::to_string).collect();
                write!(f, "[{}]", texts.join(", "))
            }
            Self::Object(entries) => {
                let entries = entries
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"));
                write!(f, "{{{}}}", entries.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

fn take(input: &mut &str, start: &str) -> Option<()> {
    *input = input.strip_prefix(start)?;
    Some(())
}

fn skip_blanks(input: &mut &str) {
    *input = input.trim_start_matches([' ', '\t', '\n', '\r']);
}

fn value(input: &mut &str, depth: usize) -> Option<Json> {
    let depth = depth.checked_sub(1)?;
    skip_blanks(input);
    match input.bytes().next()? {
        b'n' => take(input, "null").map(|()| Json::Null),
        b't' => take(input, "true").map(|()| Json::Boolean(true)),
        b'f' => take(input, "false").map(|()| Json::Boolean(false)),
        b'"' => string(input).map(Json::String),
        b'[' => {
            let mut values = Vec::new();
            sequence(input, "[", "]", |input| {
                values.push(value(input, depth)?);
                Some(())
            })?;
            Some(Json::List(values))
        }
        b'{' => {
            let mut entries: Vec<(String, Json)> = Vec::new();
            sequence(input, "{", "}", |input| {
                skip_blanks(input);
                let name = string(input)?;
                skip_blanks(input);
                take(input, ":")?;
                let value = value(input, depth)?;
                // The last of equal names counts.
                entries.retain(|(other, _)| *other != name);
                entries.push((name, value));
                Some(())
            })?;
            Some(Json::Object(entries))
        }
        _ => number(input).map(Json::Number),
    }
}

/// Items with commas between them.
fn sequence(
    input: &mut &str,
    open: &str,
    close: &str,
    mut item: impl FnMut(&mut &str) -> Option<()>,
) -> Option<()> {
    take(input, open)?;
    skip_blanks(input);
    if take(input, close).is_some() {
        return Some(());
    }
    loop {
        item(input)?;
        skip_blanks(input);
        if take(input, close).is_some() {
            return Some(());
        }
        take(input, ",")?;
    }
}

fn number(input: &mut &str) -> Option<String> {
    let is_part = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    let end = input.find(|c| !is_part(c)).unwrap_or(input.len());
    let (text, rest) = input.split_at_checked(end)?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit()) && text.parse::<f64>().is_ok();
    *input = rest;
    is_number.then(|| text.to_owned())
}

fn string(input: &mut &str) -> Option<String> {
    take(input, "\"")?;
    let mut out = String::new();
    loop {
        let end = input.find(['"', '\\'])?;
        let (plain, rest) = input.split_at_checked(end)?;
        out.push_str(plain);
        *input = rest;
        if take(input, "\"").is_some() {
            return Some(out);
        }
        out.push(escape(input)?);
    }
}

fn escape(input: &mut &str) -> Option<char> {
    take(input, "\\")?;
    let letter = input.chars().next()?;
    *input = input.get(letter.len_utf8()..)?;
    Some(match letter {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        '"' | '\\' | '/' => letter,
        'u' => {
            let first = unit(input)?;
            match char::decode_utf16([first]).next()? {
                Ok(character) => character,
                Err(_) => {
                    take(input, "\\u")?;
                    let second = unit(input)?;
                    char::decode_utf16([first, second]).next()?.ok()?
                }
            }
        }
        _ => return None,
    })
}

fn unit(input: &mut &str) -> Option<u16> {
    let (digits, rest) = input.split_at_checked(4)?;
    *input = rest;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_with_all_their_digits() {
        let number = |text: &str| Json::Number(text.to_owned());
        let text = |text: &str| Json::String(text.to_owned());
        for (input, expected) in [
            ("null", Json::Null),
            (" true ", Json::Boolean(true)),
            (
                "1.10000000000000000000000001",
                number("1.10000000000000000000000001"),
            ),
            ("-12e5", number("-12e5")),
            (r#""a\"\\\n\u00e9\ud83d\ude00""#, text("a\"\\\né😀")),
            ("[ ]", Json::List(Vec::new())),
            ("[1 , \"x\"]", Json::List(vec![number("1"), text("x")])),
            (
                r#"{"a": 1, "a": {"b": null}}"#,
                Json::Object(vec![(
                    "a".to_owned(),
                    Json::Object(vec![("b".to_owned(), Json::Null)]),
                )]),
            ),
        ] {
            assert_eq!(Json::parse(input), Some(expected), "{input}");
        }
        let deep = "[".repeat(200);
        for bad in [
            "",
            "{",
            "[1,]",
            "nul",
            "1 2",
            "'a'",
            "\"\\x\"",
            "\"\\ud83d\"",
            "-",
            &deep,
        ] {
            assert_eq!(Json::parse(bad), None, "{bad}");
        }
    }
}
