//! What MongoDB answers when something is wrong: a code, its name, and a message.
