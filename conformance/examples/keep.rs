//! Makes a fixture of the format that the server writes today:
//!
//! ```text
//! cargo run --release -p tessera-conformance --example keep -- NAME [FLAG…]
//! ```
//!
//! The server gets the flags: `--change-feed always` makes data of format 2, which has feeds. With
//! a name that ends in `-killed` the filled server is killed, and all of its data is in the log.

use std::error::Error;
use std::io::Write as _;

use tessera_conformance::{Server, fixtures};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, flags) = arguments.split_first().ok_or("which name?")?;
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    let server = Server::start_on(&data, &flags)?;
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
