//! Output of commands: results on standard output, failures on standard error.

use std::fmt::Display;
use std::io::{self, Write};

/// Writes `text` to standard output. A reader that closes it early (`| head`) is not an error.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    match output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
    {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

/// Writes one line about a failure to standard error.
pub(crate) fn complain(failure: &impl Display) {
    // If standard error is closed, the exit code still reports the failure.
    let _written = writeln!(io::stderr().lock(), "tessera: {failure}").is_ok();
}

/// `text` as one word of a shell command.
pub(crate) fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}
