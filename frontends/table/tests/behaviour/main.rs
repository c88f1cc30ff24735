//! How the front end behaves where no SDK reaches, on the memory engine: one file for each part.

#![cfg(test)]

mod accounts;
mod answer;
mod ask;
mod browsers;
mod charges;
mod clumsy;
mod cosmos;
mod hesitant;
mod http1;
mod http2;
mod memory;
mod races;
mod reading;
mod refusals;
mod service;
mod splits;
mod throttling;
