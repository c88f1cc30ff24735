//! What passes: `expected/<suite>.toml`, which a run is held against.
//!
//! A case that fails, one that passes and is not listed, and one that is listed and was not tried
//! all fail the run until the file says so: a client, an area and the names of its cases, by the
//! variants that they pass in. Where a peer differs is listed by hand, apart from what it does not
//! offer at all, because only what both servers offer can agree: each of those says where the
//! peer's own documentation or source shows the gap, so that no disagreement hides there.

mod differences;
mod file;
mod judge;
#[cfg(test)]
mod testing;

use std::collections::{BTreeMap, BTreeSet};

use self::differences::Difference;
use crate::runner::Walked;
use crate::suites::{Suite, Variant, Walk};

pub use self::differences::{Known, OURS};
pub use self::judge::{Finding, Kind};

type Areas = BTreeMap<String, BTreeMap<String, BTreeSet<Variant>>>;

/// The ledger of one suite.
#[derive(Debug)]
pub struct Ledger {
    suite: &'static Suite,
    /// By client, area and name.
    passes: BTreeMap<String, Areas>,
    differences: Vec<Difference>,
}

impl Ledger {
    /// The suite that it is of.
    pub fn suite(&self) -> &'static Suite {
        self.suite
    }

    /// The number of cases of a client in an area.
    pub fn count(&self, client: &str, area: &str) -> usize {
        let areas = self.passes.get(client);
        areas
            .and_then(|areas| areas.get(area))
            .map_or(0, BTreeMap::len)
    }

    /// The areas of all clients.
    pub fn areas(&self) -> BTreeSet<&str> {
        let areas = self.passes.values().flat_map(BTreeMap::keys);
        areas.map(String::as_str).collect()
    }

    /// How many cases a walk should have.
    pub fn expected(&self, walk: &Walk) -> usize {
        self.listed(walk.walker.name, walk.variant).len()
    }

    /// The area and the name of each case that a client should pass in a variant.
    fn listed(&self, client: &str, variant: Variant) -> BTreeSet<(&str, &str)> {
        let areas = self.passes.get(client).into_iter().flatten();
        areas
            .flat_map(|(area, names)| names.iter().map(move |(name, within)| (area, name, within)))
            .filter(|(_, _, within)| within.contains(&variant))
            .map(|(area, name, _)| (area.as_str(), name.as_str()))
            .collect()
    }

    /// Writes down what a walk over our server passed.
    pub fn update(&mut self, walked: &Walked) {
        let (client, variant) = (walked.walk.walker.name, walked.walk.variant);
        for names in self
            .passes
            .entry(client.to_owned())
            .or_default()
            .values_mut()
        {
            for variants in names.values_mut() {
                variants.remove(&variant);
            }
            names.retain(|_, variants| !variants.is_empty());
        }
        let variants = BTreeSet::from([variant]);
        for case in walked.cases.iter().filter(|case| case.passed) {
            self.add(client, &case.area, &case.name, &variants);
        }
        if let Some(areas) = self.passes.get_mut(client) {
            areas.retain(|_, names| !names.is_empty());
        }
    }

    fn add(&mut self, client: &str, area: &str, name: &str, variants: &BTreeSet<Variant>) {
        let areas = self.passes.entry(client.to_owned()).or_default();
        let names = areas.entry(area.to_owned()).or_default();
        names.entry(name.to_owned()).or_default().extend(variants);
    }

    /// The variants that a client is tried with.
    fn all_variants(&self, client: &str) -> BTreeSet<Variant> {
        let walker = self.suite.walkers.iter().find(|it| it.name == client);
        let variants = walker.into_iter().flat_map(|walker| walker.variants);
        variants.map(|(variant, _)| *variant).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{TEXT, ledger, walked};
    use super::*;

    #[test]
    fn an_update_writes_what_passed_in_one_variant() {
        let mut changed = ledger(TEXT);
        changed.update(&walked(
            Variant::Plain,
            &[("new\n'\"", true), ("both", false)],
        ));
        let again = ledger(&changed.to_string());
        assert_eq!(again.to_string(), changed.to_string());
        let listed = |variant| again.listed("python", variant);
        assert_eq!(
            listed(Variant::Plain),
            BTreeSet::from([("access", "new\n'\"")])
        );
        assert!(listed(Variant::Tls).contains(&("access", "both")));
        assert_eq!(again.differences, ledger(TEXT).differences);
    }
}
