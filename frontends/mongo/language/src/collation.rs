//! Collations: how strings compare, by bytes or by a language's rules.
