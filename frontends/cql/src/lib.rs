//! The Cassandra front end: cqlsh and the drivers over the CQL native protocol.
