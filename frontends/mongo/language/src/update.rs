//! Updates: operators, replacements and pipelines that change a document.
