//! The Table front end: Azure Tables clients over HTTP.

mod auth;
mod batch;
mod entity;
mod error;
mod filter;
mod head;
mod service;
