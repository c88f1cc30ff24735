//! The front end over connections in memory: bytes in, bytes out.

#![cfg(test)]

mod client;
mod connecting;
mod failing;
mod login;
mod operations;
mod sessions;
mod throughput;
mod users;
