//! The memcomparable form of BSON values, as indexes and row keys store them.
