//! Regular expressions as MongoDB writes them, matched by PCRE2.
