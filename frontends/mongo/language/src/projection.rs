//! Projections of `find`: which fields an answer has.
