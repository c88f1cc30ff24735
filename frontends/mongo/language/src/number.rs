//! Arithmetic over the four numeric types; decimals never go through doubles.
