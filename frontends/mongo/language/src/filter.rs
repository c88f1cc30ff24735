//! Query filters: parsed once, matched against each document.
