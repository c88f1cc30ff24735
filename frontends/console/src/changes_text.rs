//! Changes as text: a line of JSON for each, or an event of a stream for browsers.
//!
//! A token stands with the last change of each transaction, so whoever goes on behind one has whole
//! transactions. An event without a token leaves a browser at the one before.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tessera_core::feed::changes::{Told, ToldChange};
use tessera_core::feed::changes_token::ChangesToken;
use tessera_core::feed::control::{Control, Event};
use tessera_core::feed::record::ChangeKind;
use tessera_core::feed::showing::{Seen, Shown};
use tessera_core::name::ContainerName;
use tessera_core::throughput::Charge;
use tessera_core::{Error, Result, Store};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// How changes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A line of JSON for each.
    Lines,
    /// Server-sent events.
    Events,
}

/// Writes changes one behind the other.
pub(crate) struct Text<'o> {
    form: Form,
    out: &'o mut Vec<u8>,
    /// Whether the last line is not closed: its token may be that of a change behind it which is
    /// not shown.
    is_open: bool,
    token: Option<String>,
}

impl Form {
    /// The form of this name.
    pub(crate) fn named(name: &str) -> std::result::Result<Self, String> {
        match name {
            "lines" => Ok(Self::Lines),
            "events" => Ok(Self::Events),
            other => Err(format!("format={other} is neither lines nor events")),
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Lines => "application/x-ndjson",
            Self::Events => "text/event-stream",
        }
    }

    /// What ends a line or an event.
    fn end(self) -> &'static str {
        match self {
            Self::Lines => "\n",
            Self::Events => "\n\n",
        }
    }
}

impl<'o> Text<'o> {
    pub(crate) fn new(form: Form, out: &'o mut Vec<u8>) -> Self {
        Self {
            form,
            out,
            is_open: false,
            token: None,
        }
    }

    /// Adds a change, if users see it.
    pub(crate) fn change(&mut self, store: &Store, change: &ToldChange) -> Result<()> {
        match &change.told {
            Told::Container(control) => self.control(control),
            Told::Latest(item) => {
                let seen = Seen::item(item, store.clock().now_ms());
                let shown = store.show_change(&change.term, &seen)?;
                // What became of it is not known, only what it is now.
                if let Some(shown) = shown.filter(|shown| shown.item.is_some()) {
                    // A version counts microseconds.
                    self.item("upsert", &shown, (item.version, item.version / 1_000));
                }
            }
            Told::Version(record) => {
                let seen = Seen::change(record);
                if let Some(shown) = store.show_change(&change.term, &seen)? {
                    let operation = operation(record.kind, &shown);
                    self.item(operation, &shown, (record.version, record.wall_ms));
                }
            }
        }
        if let Some(token) = &change.token {
            self.token = Some(text_of(token));
        }
        Ok(())
    }

    fn item(&mut self, operation: &str, shown: &Shown, (version, wall_ms): (u64, u64)) {
        self.open(operation);
        let parts = [
            ("key", Some(&shown.key)),
            ("item", shown.item.as_ref()),
            ("before", shown.before.as_ref()),
            ("update", shown.update.as_ref()),
        ];
        for (name, json) in parts {
            if let Some(json) = json {
                self.put(&[",\"", name, "\":", json]);
            }
        }
        // A text, because it is larger than the numbers of JavaScript.
        let version = version.to_string();
        let time = time_text(wall_ms);
        self.put(&[",\"version\":\"", &version, "\",\"time\":\"", &time, "\""]);
    }

    fn control(&mut self, control: &Control) {
        let operation = match control.event {
            Event::Created => "created",
            Event::Renamed => "renamed",
            Event::Truncated => "truncated",
            Event::Dropped => "dropped",
            Event::Ended => "ended",
            Event::DatabaseDropped => "database_dropped",
            // Readers need not know how items are placed, nor what is kept of each change.
            Event::Begun | Event::Altered | Event::Repartitioned | Event::Relocated => return,
        };
        self.open(operation);
        self.place("container", &control.name);
        if let Some(name) = &control.renamed_from {
            self.place("renamed_from", name);
        }
        let time = time_text(control.wall_ms);
        self.put(&[",\"time\":\"", &time, "\""]);
    }

    fn place(&mut self, name: &str, container: &ContainerName) {
        let [api, database, own] =
            [&container.api, &container.database, &container.container].map(|part| json_text(part));
        self.put(&[
            ",\"",
            name,
            "\":{\"api\":",
            &api,
            ",\"database\":",
            &database,
            ",\"container\":",
            &own,
            "}",
        ]);
    }

    fn open(&mut self, operation: &str) {
        self.close();
        let begin = match self.form {
            Form::Lines => "",
            Form::Events => "data: ",
        };
        self.put(&[begin, "{\"operation\":\"", operation, "\""]);
        self.is_open = true;
    }

    /// Ends the last line.
    fn close(&mut self) {
        let token = self.token.take();
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        match (self.form, token) {
            (Form::Lines, Some(token)) => self.put(&[",\"token\":\"", &token, "\"}"]),
            (Form::Events, Some(token)) => self.put(&["}\nid: ", &token]),
            (_, None) => self.put(&["}"]),
        }
        self.put(&[self.form.end()]);
    }

    /// Ends what is written, without a word of where that is.
    pub(crate) fn finish(mut self) {
        self.close();
    }

    /// Says where the answer stands and what it cost: at its end, and while nothing happens. A
    /// browser keeps the token, and its page hears nothing of it.
    pub(crate) fn mark(mut self, token: &ChangesToken, has_more: bool, charge: Charge) {
        self.close();
        let (token, charge) = (text_of(token), format!("{:.2}", charge.request_units()));
        let has_more = if has_more { "true" } else { "false" };
        match self.form {
            Form::Lines => self.put(&[
                "{\"token\":\"",
                &token,
                "\",\"has_more\":",
                has_more,
                ",\"request_charge\":",
                &charge,
                "}",
            ]),
            Form::Events => self.put(&[": ", &charge, " request units\nid: ", &token]),
        }
        self.put(&[self.form.end()]);
    }

    /// Says why the answer ends here.
    pub(crate) fn failure(mut self, error: &Error) {
        self.close();
        let begin = match self.form {
            Form::Lines => "",
            Form::Events => "event: failure\ndata: ",
        };
        let error = json_text(&error.to_string());
        self.put(&[begin, "{\"error\":", &error, "}", self.form.end()]);
    }

    fn put(&mut self, parts: &[&str]) {
        for part in parts {
            self.out.extend_from_slice(part.as_bytes());
        }
    }
}

fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// What a change is called. Where a front end keeps what it needs of an item that its users
/// deleted, the item is gone for them.
fn operation(kind: ChangeKind, shown: &Shown) -> &'static str {
    match kind {
        ChangeKind::Insert | ChangeKind::Replace if shown.item.is_none() => "delete",
        ChangeKind::Insert => "insert",
        ChangeKind::Replace => "replace",
        ChangeKind::Update => "update",
        ChangeKind::Delete => "delete",
        ChangeKind::Expire => "expire",
        ChangeKind::Operation => "operation",
    }
}

/// A token as clients hold it.
pub(crate) fn text_of(token: &ChangesToken) -> String {
    URL_SAFE_NO_PAD.encode(token.encode())
}

/// A token that a client gave back.
pub(crate) fn token_of(text: &str) -> Result<ChangesToken> {
    let bytes = URL_SAFE_NO_PAD.decode(text.trim());
    let bytes = bytes.map_err(|_| Error::InvalidContinuation("it is not a token of changes"))?;
    ChangesToken::decode(&bytes)
}

/// A time as people write it, to the millisecond.
pub(crate) fn time_text(millis: u64) -> String {
    let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis) * 1_000_000);
    let text = moment.ok().and_then(|moment| moment.format(&Rfc3339).ok());
    text.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_to_the_millisecond() {
        assert_eq!(time_text(0), "1970-01-01T00:00:00Z");
        assert_eq!(time_text(1_500), "1970-01-01T00:00:01.5Z");
        assert_eq!(time_text(u64::MAX), "");
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for text in ["", "x", "AAAA", "!", "MTIzNDU2Nzg5MA", "ä"] {
            let refused = token_of(text);
            assert!(
                matches!(refused, Err(Error::InvalidContinuation(_))),
                "{text}"
            );
        }
    }
}
