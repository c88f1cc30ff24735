//! One address for servers that come and go: what a load balancer or a service name is to clients.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::Error;

/// Passes bytes on to the server that it leads to now. It ends when it is dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    open: Mutex<Open>,
    has_ended: AtomicBool,
}

#[derive(Debug)]
struct Open {
    server: SocketAddr,
    connections: Vec<TcpStream>,
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Relay {
    /// Listens on a free port and leads to this server.
    pub fn start(server: SocketAddr) -> Result<Self, Error> {
        let listening = || Error::io("listening for a relay");
        let listener = TcpListener::bind("127.0.0.1:0").map_err(listening())?;
        let address = listener.local_addr().map_err(listening())?;
        let shared = Arc::new(Shared {
            open: Mutex::new(Open {
                server,
                connections: Vec::new(),
            }),
            has_ended: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming() {
                if accepting.has_ended.load(Ordering::Acquire) {
                    return;
                }
                // A server that is not there refuses, and so the client's connection ends.
                if let Ok(client) = client {
                    drop(accepting.connect(&client));
                }
            }
        });
        Ok(Self { address, shared })
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts all connections; new ones lead to this server.
    pub fn lead_to(&self, server: SocketAddr) {
        let mut open = self.shared.open();
        open.server = server;
        cut(&mut open.connections);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::Release);
        cut(&mut self.shared.open().connections);
        // Whoever waits for a connection gets one, and sees that it is over.
        drop(TcpStream::connect(self.address));
    }
}

impl Shared {
    fn connect(&self, client: &TcpStream) -> io::Result<()> {
        // Held meanwhile, so that no connection to a server that was left is forgotten.
        let mut open = self.open();
        let server = TcpStream::connect(open.server)?;
        for (from, to) in [(client, &server), (&server, client)] {
            open.connections.push(from.try_clone()?);
            let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
            thread::spawn(move || {
                // However it ends, it is over in both directions.
                let _copied = io::copy(&mut from, &mut to);
                shut(&from);
                shut(&to);
            });
        }
        Ok(())
    }
}

fn cut(connections: &mut Vec<TcpStream>) {
    for connection in connections.drain(..) {
        shut(&connection);
    }
}

/// Fails only for what has ended already.
fn shut(connection: &TcpStream) {
    drop(connection.shutdown(Shutdown::Both));
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    /// Answers each connection with a word.
    fn server(word: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for client in listener.incoming() {
                let mut client = client.unwrap();
                client.write_all(word.as_bytes()).unwrap();
                // Until the other side ends.
                drop(client.read(&mut [0]));
            }
        });
        address
    }

    fn word(relay: &Relay) -> (String, TcpStream) {
        let mut client = TcpStream::connect(relay.address()).unwrap();
        let mut word = [0; 3];
        client.read_exact(&mut word).unwrap();
        (String::from_utf8(word.to_vec()).unwrap(), client)
    }

    #[test]
    fn connections_lead_to_the_server_of_the_moment_and_are_cut_with_it() {
        let relay = Relay::start(server("one")).unwrap();
        let (said, mut first) = word(&relay);
        assert_eq!(said, "one");
        relay.lead_to(server("two"));
        assert_eq!(first.read(&mut [0]).unwrap_or(0), 0);
        assert_eq!(word(&relay).0, "two");
    }

    #[test]
    fn without_a_server_connections_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let nowhere = listener.local_addr().unwrap();
        drop(listener);
        let relay = Relay::start(nowhere).unwrap();
        let mut client = TcpStream::connect(relay.address()).unwrap();
        assert_eq!(client.read(&mut [0]).unwrap_or(0), 0);
    }
}
