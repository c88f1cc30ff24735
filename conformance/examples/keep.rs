//! Makes a fixture of the format that the server writes today:
//!
//! ```text
//! cargo run --release -p tessera-conformance --example keep -- NAME
//! ```
//!
//! With a name that ends in `-killed` the filled server is killed, and all of it is in the log.

use std::error::Error;
use std::io::Write as _;

use tessera_conformance::{Server, fixtures};

fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args().nth(1).ok_or("which name?")?;
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    let server = Server::start_on(&data, &[])?;
    fixtures::fill(&server)?;
    match name.ends_with("-killed") {
        true => drop(server),
        false => server.stop()?,
    }
    let fixture = fixtures::folder().join(format!("{name}.tar.xz"));
    fixtures::pack(&data, &fixture)?;
    let bytes = fixture.metadata()?.len();
    writeln!(std::io::stdout(), "{}: {bytes} bytes", fixture.display())?;
    Ok(())
}
