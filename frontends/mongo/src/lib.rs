//! The MongoDB front end: mongosh and the drivers over their wire protocol.
