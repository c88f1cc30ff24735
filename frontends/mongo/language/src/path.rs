//! Dotted paths: finding and changing what lies within a document.
