//! One request, signed with SharedKeyLite when it is sent.

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use sha2::Sha256;

/// The account that every service of these tests has.
pub(crate) const ACCOUNT: &str = "one";
/// Its keys, as the setting has them.
pub(crate) const KEYS: [&str; 2] = ["a2V5IG9uZQ==", "a2V5IHR3bw=="];

/// A request that is not sent yet.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) method: String,
    /// Path and query, behind the account.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    account: String,
    key: String,
    in_host: bool,
    named: Option<String>,
}

/// A request of the first account, with its first key.
pub(crate) fn ask(method: &str, target: impl Into<String>) -> Ask {
    Ask {
        method: method.to_owned(),
        target: target.into(),
        headers: Vec::new(),
        body: String::new(),
        account: ACCOUNT.to_owned(),
        key: KEYS[0].to_owned(),
        in_host: false,
        named: None,
    }
    .with("accept", "application/json")
}

/// The request that makes a table.
pub(crate) fn create_table(name: &str) -> Ask {
    ask("POST", "/Tables").sending(json!({ "TableName": name }).to_string())
}

/// The request that stores an entity, whatever is there.
pub(crate) fn put(table: &str, keys: (&str, &str), properties: &Value) -> Ask {
    ask("PUT", entity(table, keys)).sending(properties.to_string())
}

/// The request for a page of what a filter finds; `more` is the rest of the query.
pub(crate) fn query(table: &str, filter: &str, more: &str) -> Ask {
    let filter = utf8_percent_encode(filter, NON_ALPHANUMERIC);
    ask("GET", format!("/{table}()?$filter={filter}{more}"))
}

/// The path of an entity.
pub(crate) fn entity(table: &str, (partition_key, row_key): (&str, &str)) -> String {
    format!("/{table}(PartitionKey='{partition_key}',RowKey='{row_key}')")
}

/// A batch of these changes.
pub(crate) fn batch(changes: &[Ask]) -> Ask {
    let mut body = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n".to_owned();
    for change in changes {
        body += "--c\r\nContent-Type: application/http\r\n\r\n";
        body += &format!("{} {} HTTP/1.1\r\n", change.method, change.path());
        for (name, value) in &change.headers {
            body += &format!("{name}: {value}\r\n");
        }
        body += &format!("\r\n{}\r\n", change.body);
    }
    body += "--c--\r\n--b--\r\n";
    let mut batch = ask("POST", "/$batch").with("content-type", "multipart/mixed; boundary=b");
    batch.body = body;
    batch
}

impl Ask {
    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// With a body in JSON.
    pub(crate) fn sending(mut self, body: impl Into<String>) -> Self {
        self.body = body.into();
        self.with("content-type", "application/json")
    }

    pub(crate) fn signed_by(mut self, account: &str, key: &str) -> Self {
        self.account = account.to_owned();
        self.key = key.to_owned();
        self
    }

    /// With the account in the host and not in the path.
    pub(crate) fn in_host(mut self) -> Self {
        self.in_host = true;
        self
    }

    /// With another name of the host.
    pub(crate) fn at_host(mut self, host: &str) -> Self {
        self.named = Some(host.to_owned());
        self
    }

    /// The head as HTTP/1.1 has it, up to the empty line, which is left to the caller.
    pub(crate) fn head(&self) -> String {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path());
        for (name, value) in self.all_headers() {
            head += &format!("{name}: {value}\r\n");
        }
        head
    }

    /// All of it as HTTP/1.1 has it.
    pub(crate) fn text(&self) -> String {
        let length = self.body.len();
        format!(
            "{}content-length: {length}\r\n\r\n{}",
            self.head(),
            self.body
        )
    }

    /// The request for hyper's client of HTTP/2.
    pub(crate) fn request(&self) -> Request<Full<Bytes>> {
        let mut request = Request::builder().method(self.method.as_str());
        request = request.uri(format!("http://{}{}", self.host(), self.path()));
        for (name, value) in self.all_headers().filter(|(name, _)| name != "host") {
            request = request.header(name, value);
        }
        request.body(Full::from(self.body.clone())).unwrap()
    }

    fn all_headers(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let date = httpdate::fmt_http_date(SystemTime::now());
        let path = self.path();
        let (path, query) = path.split_once('?').unwrap_or((&path, ""));
        let component = query.split('&').find(|pair| pair.starts_with("comp="));
        let component = component.map(|pair| format!("?{pair}")).unwrap_or_default();
        let mut mac: Hmac<Sha256> =
            Hmac::new_from_slice(&STANDARD.decode(&self.key).unwrap()).unwrap();
        mac.update(format!("{date}\n/{}{path}{component}", self.account).as_bytes());
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        let own = [
            ("host", self.host()),
            ("x-ms-date", date),
            (
                "authorization",
                format!("SharedKeyLite {}:{signature}", self.account),
            ),
        ];
        let own = own.map(|(name, value)| (name.to_owned(), value));
        own.into_iter().chain(self.headers.iter().cloned())
    }

    fn host(&self) -> String {
        if let Some(named) = &self.named {
            named.clone()
        } else if self.in_host {
            format!("{}.localhost", self.account)
        } else {
            "127.0.0.1".to_owned()
        }
    }

    fn path(&self) -> String {
        if self.in_host {
            self.target.clone()
        } else {
            format!("/{}{}", self.account, self.target)
        }
    }
}
