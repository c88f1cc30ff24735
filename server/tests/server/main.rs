//! The built binary as its users meet it: started, asked, stopped, broken.
//!
//! One test program for all of it, because each would link RocksDB again.

#[cfg(test)]
mod advise;
#[cfg(test)]
mod backup;
#[cfg(test)]
mod connections;
#[cfg(test)]
mod program;
#[cfg(test)]
mod settings;
#[cfg(test)]
mod shutdown;
#[cfg(test)]
mod start;
#[cfg(test)]
mod strangers;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tls;
