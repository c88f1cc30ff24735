//! Which fields could be keys, as the first records show them.

/// How many records are asked for their fields.
const SAMPLE: u64 = 1_000;

/// The fields that were met.
#[derive(Debug, Default)]
pub struct Proposal {
    records: u64,
    fields: Vec<(String, u64)>,
}

impl Proposal {
    /// Whether enough was seen.
    pub fn is_full(&self) -> bool {
        self.records >= SAMPLE
    }

    /// Notes the fields with a value of one record, each once.
    pub fn note<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        self.records += 1;
        for name in names {
            match self.fields.iter_mut().find(|(known, _)| known == name) {
                Some((_, count)) => *count += 1,
                None => self.fields.push((name.to_owned(), 1)),
            }
        }
    }

    /// The fields at the top that at least half of the records have, in the order in which they
    /// turned up. A name with a dot could not be told from a path.
    pub fn fields(self) -> Vec<String> {
        let is_common = |count: u64| 2 * count >= self.records;
        let fields = self.fields.into_iter();
        let common = fields.filter(|(name, count)| is_common(*count) && !name.contains('.'));
        common.map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_and_nested_fields_are_not_proposed() {
        let mut proposal = Proposal::default();
        for names in [&["id", "rare"][..], &["id", "x"], &["x", "id", "a.b"]] {
            proposal.note(names.iter().copied());
        }
        assert!(!proposal.is_full());
        assert_eq!(proposal.fields(), ["id", "x"]);
    }
}
