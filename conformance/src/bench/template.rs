//! Requests that are written once: between two of them only numbers change, in place.

/// An item: its keys are made from these numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) partition: u64,
    pub(crate) row: u64,
}

/// Whose request it is, and which.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sender {
    /// Differs between all connections that a run opens.
    pub(crate) connection: u64,
    /// Counts the requests of a connection, from 1.
    pub(crate) sequence: u64,
    /// Differs between the requests that wait on a connection.
    pub(crate) slot: u64,
}

/// What a number in a request says.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Partition,
    Row,
    Connection,
    Sequence,
    Slot,
}

/// How it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Digits(usize),
    BigEndian16,
    BigEndian64,
    LittleEndian32,
    LittleEndian64,
}

/// A number in a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) source: Source,
    /// Added to it.
    pub(crate) plus: u64,
    pub(crate) form: Form,
}

/// What stands in the bytes of a new template where a number goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) place: Place,
    /// By how much the number grows from each of its places to the next.
    pub(crate) step: u64,
}

/// A request with places for numbers.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    places: Vec<(usize, Place)>,
    /// Whether an answer is as it should be.
    pub(crate) expected: fn(&[u8]) -> bool,
}

impl Template {
    /// A request whose marks are replaced by numbers of the same or another length.
    pub(crate) fn new(marked: &[u8], marks: &[Mark<'_>], expected: fn(&[u8]) -> bool) -> Self {
        let (mut bytes, mut places) = (Vec::with_capacity(marked.len()), Vec::new());
        let mut met = vec![0; marks.len()];
        let mut rest = marked;
        while let [first, after @ ..] = rest {
            let found = marks
                .iter()
                .zip(&mut met)
                .find_map(|(mark, met)| Some((mark, met, rest.strip_prefix(mark.text)?)));
            let Some((mark, met, behind)) = found else {
                bytes.push(*first);
                rest = after;
                continue;
            };
            let place = Place {
                plus: mark.place.plus + *met * mark.step,
                ..mark.place
            };
            *met += 1;
            places.push((bytes.len(), place));
            bytes.resize(bytes.len() + place.form.width(), 0);
            rest = behind;
        }
        Self {
            bytes,
            places,
            expected,
        }
    }

    /// The same with a number at this offset.
    pub(crate) fn with_place(mut self, place: Option<(usize, Place)>) -> Self {
        self.places.extend(place);
        self
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The request for this key.
    pub(crate) fn fill(&mut self, key: Key, sender: Sender) -> &[u8] {
        for (at, place) in &self.places {
            let number = match place.source {
                Source::Partition => key.partition,
                Source::Row => key.row,
                Source::Connection => sender.connection,
                Source::Sequence => sender.sequence,
                Source::Slot => sender.slot,
            };
            let end = at + place.form.width();
            let target = self.bytes.get_mut(*at..end).unwrap_or_default();
            place.form.write(number.wrapping_add(place.plus), target);
        }
        &self.bytes
    }
}

impl Form {
    fn width(self) -> usize {
        match self {
            Self::Digits(digits) => digits,
            Self::BigEndian16 => 2,
            Self::LittleEndian32 => 4,
            Self::BigEndian64 | Self::LittleEndian64 => 8,
        }
    }

    /// Writes the low end of the number, as much of it as there is room for.
    fn write(self, mut number: u64, target: &mut [u8]) {
        let base = match self {
            Self::Digits(_) => 10,
            _ => 256,
        };
        let zero = match self {
            Self::Digits(_) => b'0',
            _ => 0,
        };
        let mut put = |digit: &mut u8| {
            *digit = zero + u8::try_from(number % base).unwrap_or_default();
            number /= base;
        };
        match self {
            Self::LittleEndian32 | Self::LittleEndian64 => target.iter_mut().for_each(&mut put),
            Self::Digits(_) | Self::BigEndian16 | Self::BigEndian64 => {
                target.iter_mut().rev().for_each(&mut put);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(text: &'static str, source: Source, form: Form) -> Mark<'static> {
        Mark {
            text: text.as_bytes(),
            place: Place {
                source,
                plus: 0,
                form,
            },
            step: 1,
        }
    }

    #[test]
    fn marks_become_numbers() {
        let marks = [
            mark("{row}", Source::Row, Form::Digits(4)),
            mark("P", Source::Partition, Form::BigEndian64),
        ];
        let mut template = Template::new(b"a{row}b{row}P", &marks, |_| true);
        let key = Key {
            partition: 0x0102,
            row: 99,
        };
        let expected = b"a0099b0100\0\0\0\0\0\0\x01\x02";
        assert_eq!(template.len(), expected.len());
        assert_eq!(template.fill(key, Sender::default()), expected);
    }

    #[test]
    fn numbers_have_their_form() {
        for (form, expected) in [
            (Form::BigEndian16, &[3, 4][..]),
            (Form::LittleEndian32, &[4, 3, 2, 1]),
            (Form::LittleEndian64, &[4, 3, 2, 1, 0, 0, 0, 0]),
            (Form::Digits(3), b"060"),
        ] {
            let mut target = vec![0xFF; form.width()];
            form.write(0x0102_0304, &mut target);
            assert_eq!(target, expected, "{form:?}");
        }
    }
}
