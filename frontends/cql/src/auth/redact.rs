//! Statements as others may read them: without passwords.

use std::borrow::Cow;

/// What stands for a password.
const HIDDEN: &str = " *******";

/// The text of a statement, up to its password if it is one on roles. Other statements may have
/// columns of that name.
pub(crate) fn without_password(text: &str) -> Cow<'_, str> {
    let lower = text.to_ascii_lowercase();
    let hidden = lower.find("password").filter(|place| {
        let before = lower.get(..*place).unwrap_or_default();
        let mut words = before.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.any(|word| matches!(word, "role" | "user"))
    });
    let shown = hidden.and_then(|place| text.get(..place + "password".len()));
    match shown {
        Some(shown) => Cow::Owned(format!("{shown}{HIDDEN}")),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_left_out() {
        for (text, shown) in [
            (
                "CREATE ROLE a WITH PASSWORD = 'p' AND LOGIN = true",
                "CREATE ROLE a WITH PASSWORD *******",
            ),
            (
                "alter user a with password 'p'",
                "alter user a with password *******",
            ),
            (
                "/* x */ALTER ROLE é WITH LOGIN = true AND HASHED PASSWORD='p'",
                "/* x */ALTER ROLE é WITH LOGIN = true AND HASHED PASSWORD *******",
            ),
            (
                "CREATE\nROLE\tIF NOT EXISTS password WITH PASSWORD = 'p'",
                "CREATE\nROLE\tIF NOT EXISTS password *******",
            ),
            ("SELECT password FROM t", "SELECT password FROM t"),
            ("CREATE ROLE a", "CREATE ROLE a"),
            (
                "INSERT INTO t (k, password) VALUES (1, 'x')",
                "INSERT INTO t (k, password) VALUES (1, 'x')",
            ),
        ] {
            assert_eq!(without_password(text), shown);
        }
    }
}
