//! `$filter`: its grammar, its meaning, and the range of keys it leaves to read.
