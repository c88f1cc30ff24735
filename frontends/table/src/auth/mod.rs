//! Who may do what: shared keys, shared access signatures, bearer tokens.
