//! The columns of a row, by their numbers.
//!
//! A row has few of them and is mostly read from its bytes, which have them in order: so they lie
//! one behind the other, and adding the next one is adding to the end.

use super::Content;

/// What a row has in each of its columns, in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Columns(Vec<(u32, Content)>);

impl Columns {
    pub(super) fn with_capacity(count: usize) -> Self {
        Self(Vec::with_capacity(count))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Content> {
        let (_, content) = self.0.get(self.place(number).ok()?)?;
        Some(content)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Content)> {
        self.0.iter().map(|(number, content)| (*number, content))
    }

    /// Puts this in the place of what the column had.
    pub(crate) fn set(&mut self, number: u32, content: Content) {
        self.put(number, content, |_, new| new);
    }

    /// Adds this to what the column had.
    pub(super) fn add(&mut self, number: u32, content: Content) {
        self.put(number, content, Content::merge);
    }

    fn put(
        &mut self,
        number: u32,
        content: Content,
        join: impl FnOnce(Content, Content) -> Content,
    ) {
        if self.0.last().is_none_or(|(last, _)| *last < number) {
            self.0.push((number, content));
            return;
        }
        match self.place(number) {
            Ok(place) => {
                let (_, before) = self.0.remove(place);
                self.0.insert(place, (number, join(before, content)));
            }
            Err(place) => self.0.insert(place, (number, content)),
        }
    }

    pub(crate) fn retain(&mut self, mut keeps: impl FnMut(u32, &mut Content) -> bool) {
        self.0
            .retain_mut(|(number, content)| keeps(*number, content));
    }

    /// Where the column is, or would be.
    fn place(&self, number: u32) -> Result<usize, usize> {
        self.0.binary_search_by_key(&number, |(number, _)| *number)
    }
}

impl IntoIterator for Columns {
    type Item = (u32, Content);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Cell;

    #[test]
    fn columns_are_in_order_however_they_come() {
        let content = |timestamp| Content::Simple(Cell::deleted(timestamp, 0));
        let numbers = [3, 1, 4, 2, 9, 0, 7];
        for rotation in 0..numbers.len() {
            let mut columns = Columns::default();
            for number in numbers.iter().cycle().skip(rotation).take(numbers.len()) {
                columns.set(*number, content(i64::from(*number)));
            }
            let found: Vec<u32> = columns.iter().map(|(number, _)| number).collect();
            assert_eq!(found, [0, 1, 2, 3, 4, 7, 9]);
            for number in 0..10 {
                let expected = content(i64::from(number));
                let expected = numbers.contains(&number).then_some(&expected);
                assert_eq!(columns.get(number), expected, "{number}");
            }
            // The later one counts, whichever is put there, unless it is set.
            columns.add(4, content(1));
            assert_eq!(columns.get(4), Some(&content(4)));
            columns.set(4, content(1));
            assert_eq!(columns.get(4), Some(&content(1)));
            columns.retain(|number, _| number % 2 == 1);
            assert_eq!(columns.len(), 4);
        }
    }
}
