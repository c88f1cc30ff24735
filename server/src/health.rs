//! `tessera health`: asks the server of these settings for its health, for health checks in
//! containers, which contain no other program.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::error::Error;
use crate::front_ends::{Endpoint, Trust};
use crate::http_client::{self, Url};
use crate::output;
use crate::settings::Settings;

/// Longer than the server itself gives its engine.
const PATIENCE: Duration = Duration::from_secs(5);

/// Prints the console's answer at `/health`; fails unless the server is healthy.
pub(crate) fn command(settings: &Settings) -> Result<(), Error> {
    let config = &settings.config;
    let listening = config.listen.iter().find(|(name, _)| *name == "console");
    let Some((_, address)) = listening else {
        return Err(Error::Settings(
            "console is off, and health asks the console: name its address with --console"
                .to_owned(),
        ));
    };
    let trust = if config.tls_self_signed {
        Some(certificate_in(&config.data))
    } else {
        config.tls_cert.clone()
    };
    let tls = match trust {
        Some(_) => Trust::Given,
        None => Trust::Plain,
    };
    let endpoint = Endpoint {
        address: *address,
        tls,
    };
    let url = endpoint.url();
    let failed = |cause: &str| Error::Failed(format!("{url}health: {cause}"));
    let body = ask(&url, trust.as_deref()).map_err(|cause| failed(&cause))?;
    Ok(output::print(&format!("{}\n", body.trim_end()))?)
}

fn certificate_in(data: &Path) -> PathBuf {
    data.join("tls").join("cert.pem")
}

fn ask(url: &str, trust: Option<&Path>) -> Result<String, String> {
    let parsed = Url::parse(url).ok_or("not an address")?;
    let request = format!(
        "GET /health HTTP/1.0\r\nhost: {}\r\n\r\n",
        parsed.authority()
    );
    let runtime = Runtime::new().map_err(|error| format!("cannot start threads: {error}"))?;
    let answer = runtime.block_on(async {
        let exchange = http_client::exchange(&parsed, trust, &request);
        match tokio::time::timeout(PATIENCE, exchange).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_elapsed) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
        }
    })?;
    let (status, body) = http_client::parts(&answer).ok_or("it does not answer in HTTP")?;
    let body = String::from_utf8_lossy(body).into_owned();
    match status {
        200 => Ok(body),
        _ => Err(format!("status {status}, {}", body.trim_end())),
    }
}
