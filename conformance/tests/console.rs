//! The console's page in a real browser.
#![cfg(test)]

use tessera_conformance::clients::Client;
use tessera_conformance::{Error, Server};

#[test]
fn the_page_works_in_a_browser() -> Result<(), Error> {
    let server = Server::start(&["--memory"])?;
    let walked = Client::script("console").walk(&server.console().to_string());
    if let Err(error) = walked {
        // Not as a result: the report is many lines long, and must be shown as lines.
        panic!("{error}\n\nThe server printed:\n{}", server.output());
    }
    server.stop()
}
