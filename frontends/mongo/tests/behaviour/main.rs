//! The front end over connections in memory: bytes in, bytes out.

#![cfg(test)]

mod client;
mod connecting;
mod failing;
mod freezing;
mod indexes;
mod login;
mod memory;
mod operations;
mod privileges;
mod seeds;
mod sessions;
mod snapshots;
mod throttled_writes;
mod throughput;
mod users;
