//! The report about a container of a server that is asked over HTTP, through its console.

use tessera_advisor::{Printed, Question};
use tessera_core::name::ContainerName;
use tokio::runtime::Runtime;

use super::arguments::Server;
use crate::error::Error;
use crate::http_client::{Url, exchange, parts};

/// Sends the request and reads the answer. `key` is the server's admin key.
pub(super) fn report(
    (server, key): (&Server, Option<&str>),
    name: &ContainerName,
    question: &Question,
) -> Result<Printed, Error> {
    let url = Url::parse(&server.address).ok_or_else(|| {
        Error::Settings(format!(
            "{:?} is no address of a server; it is like http://127.0.0.1:8080",
            server.address
        ))
    })?;
    let body = serde_json::to_string(question).map_err(|error| Error::Failed(error.to_string()))?;
    let request = request(&url, key, name, &body);
    let runtime =
        Runtime::new().map_err(|error| Error::Failed(format!("cannot start threads: {error}")))?;
    let answer = runtime.block_on(exchange(&url, server.trust.as_deref(), &request));
    let failed = |cause: &str| Error::Failed(format!("{}: {cause}", server.address));
    let answer = answer.map_err(|error| failed(&error.to_string()))?;
    let (status, body) = parts(&answer).ok_or_else(|| failed("it does not answer in HTTP"))?;
    if status != 200 {
        let words = serde_json::from_slice::<serde_json::Value>(body).ok();
        let words = words
            .as_ref()
            .and_then(|words| words.get("error")?.as_str());
        let words = words.unwrap_or("it is not the console of a tessera server");
        return Err(match status {
            400 => Error::Settings(words.to_owned()),
            _ => failed(words),
        });
    }
    serde_json::from_slice(body).map_err(|error| failed(&error.to_string()))
}

/// The request, for `exchange`.
fn request(url: &Url, key: Option<&str>, name: &ContainerName, body: &str) -> String {
    let part = |part: &str| {
        let bytes = part.bytes().map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        });
        bytes.collect::<String>()
    };
    let path = [&name.api, &name.database, &name.container].map(|name| part(name));
    let key = key.map_or_else(String::new, |key| {
        format!("authorization: Bearer {key}\r\n")
    });
    format!(
        "POST /api/containers/{}/advice HTTP/1.0\r\nhost: {}\r\n\
         content-type: application/json\r\n{key}content-length: {}\r\n\r\n{body}",
        path.join("/"),
        url.authority(),
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_a_request() {
        let url = Url::parse("http://[::1]:8080").unwrap();
        let name = ContainerName::new("mongo", "a b", "x/y\r\n");
        let request = request(&url, Some("secret"), &name, "{}");
        assert_eq!(
            request,
            "POST /api/containers/mongo/a%20b/x%2Fy%0D%0A/advice HTTP/1.0\r\n\
             host: [::1]:8080\r\ncontent-type: application/json\r\n\
             authorization: Bearer secret\r\ncontent-length: 2\r\n\r\n{}"
        );
    }
}
