//! The order of BSON values across all types.
