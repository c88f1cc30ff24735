//! The front end over connections in memory: bytes in, bytes out.

#![cfg(test)]

mod client;
mod connecting;
mod failing;
mod freezing;
mod indexes;
mod login;
mod operations;
mod seeds;
mod sessions;
mod snapshots;
mod throughput;
mod users;
