//! A batch request as its operations: the multipart body taken apart without being copied.
//!
//! A batch holds either one change set, which is a multipart body of its own, or one query
//! operation alone.

use std::fmt::Display;

use bytes::Bytes;
use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use crate::error::{Code, Result, ServiceError};

const OPERATIONS_MAX: usize = 100;
const HEADERS_MAX: usize = 100;
/// RFC 2046, section 5.1.1.
const BOUNDARY_BYTES_MAX: usize = 70;

/// One operation of a batch. Headers and body share the bytes of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) method: Method,
    /// An absolute URL or a path, as it was sent.
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    /// Up to the line break before the boundary. `Content-Length` is not looked at, and a blank
    /// line too many before the body, as the JavaScript client sends it, is part of the body.
    pub(crate) body: Bytes,
    pub(crate) content_id: Option<String>,
}

/// Reads the operations of a batch in their order: the changes of its change set, or one `GET`.
pub(crate) fn read(content_type: &str, body: &Bytes) -> Result<Vec<Part>> {
    let entries = split(body, boundary(content_type)?, 1)?;
    match entries.as_slice() {
        [] => Err(invalid("The batch request contains no operation.")),
        [entry] => read_entry(entry),
        [_, ..] => Err(invalid(
            "A batch request can contain only one change set, or one query operation alone.",
        )),
    }
}

fn read_entry(entry: &Bytes) -> Result<Vec<Part>> {
    let (headers, content) = read_headers(entry.clone())?;
    let content_type = text(&headers, &CONTENT_TYPE).unwrap_or_default();
    if is_media_type(content_type, "application/http") {
        let query = read_operation(entry)?;
        if query.method != Method::GET {
            return Err(invalid(
                "An operation outside of a change set must be a query operation.",
            ));
        }
        return Ok(vec![query]);
    }
    read_changes(&split(&content, boundary(content_type)?, OPERATIONS_MAX)?)
}

fn read_changes(entries: &[Bytes]) -> Result<Vec<Part>> {
    if entries.is_empty() {
        return Err(invalid("The change set contains no operation."));
    }
    if entries.len() > OPERATIONS_MAX {
        return Err(ServiceError {
            operation: Some(OPERATIONS_MAX - 1),
            ..ServiceError::new(
                Code::InvalidInput,
                "The batch request operation exceeds the maximum 100 changes per change set.",
            )
        });
    }
    let changes = entries.iter().enumerate().map(|(index, entry)| {
        read_change(entry).map_err(|error| ServiceError {
            operation: Some(index),
            ..error
        })
    });
    changes.collect()
}

fn read_change(entry: &Bytes) -> Result<Part> {
    let change = read_operation(entry)?;
    match change.method.as_str() {
        "POST" | "PUT" | "PATCH" | "MERGE" | "DELETE" => Ok(change),
        method => Err(invalid(format!(
            "The HTTP method '{method}' is not allowed in a change set."
        ))),
    }
}

/// Reads a request that is wrapped in a part of type `application/http`.
fn read_operation(entry: &Bytes) -> Result<Part> {
    let (envelope, mut content) = read_headers(entry.clone())?;
    check_envelope(&envelope)?;
    let mut request_line = Bytes::new();
    while request_line.is_empty() {
        request_line = take_line(&mut content)
            .ok_or_else(|| invalid("An operation of the batch request has no request line."))?;
    }
    let (method, target) = read_request_line(&request_line)?;
    let (headers, body) = read_headers(content)?;
    let content_id = HeaderName::from_static("content-id");
    let content_id = text(&envelope, &content_id).or_else(|| text(&headers, &content_id));
    Ok(Part {
        method,
        target,
        content_id: content_id.map(str::to_owned),
        headers,
        body,
    })
}

fn check_envelope(envelope: &HeaderMap) -> Result<()> {
    let content_type = text(envelope, &CONTENT_TYPE).unwrap_or_default();
    if !is_media_type(content_type, "application/http") {
        return Err(invalid(
            "An operation of the batch request is not of type 'application/http'.",
        ));
    }
    let encoding = HeaderName::from_static("content-transfer-encoding");
    match text(envelope, &encoding) {
        Some(encoding) if !encoding.eq_ignore_ascii_case("binary") => Err(invalid(
            "The transfer encoding of an operation of the batch request is not 'binary'.",
        )),
        _ => Ok(()),
    }
}

fn read_request_line(line: &[u8]) -> Result<(Method, String)> {
    let parse = || {
        let mut words = str::from_utf8(line).ok()?.split_ascii_whitespace();
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        let whole = version.starts_with("HTTP/1.") && words.next().is_none();
        let method = Method::from_bytes(method.as_bytes()).ok()?;
        whole.then(|| (method, target.to_owned()))
    };
    parse().ok_or_else(|| {
        invalid("An operation of the batch request does not begin with a valid request line.")
    })
}

/// Reads headers up to the blank line after them, or to the end of the part: clients leave the
/// blank line out where no body follows.
fn read_headers(mut rest: Bytes) -> Result<(HeaderMap, Bytes)> {
    let mut headers = HeaderMap::new();
    while let Some(line) = take_line(&mut rest) {
        if line.is_empty() {
            break;
        }
        let (name, value) = read_header(&line)
            .ok_or_else(|| invalid("The batch request contains a malformed header."))?;
        if headers.len() == HEADERS_MAX || headers.try_append(name, value).is_err() {
            return Err(invalid("A part of the batch request has too many headers."));
        }
    }
    Ok((headers, rest))
}

fn read_header(line: &Bytes) -> Option<(HeaderName, HeaderValue)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = line.split_at_checked(colon)?;
    let value = value.strip_prefix(b":")?.trim_ascii();
    let name = HeaderName::from_bytes(name).ok()?;
    let value = HeaderValue::from_maybe_shared(line.slice_ref(value)).ok()?;
    Some((name, value))
}

/// The parts between the delimiters of a multipart body, each without the line break before its
/// delimiter. Stops after one part more than `most`, which is enough to refuse the body.
fn split(body: &Bytes, boundary: &str, most: usize) -> Result<Vec<Bytes>> {
    let mut parts = Vec::new();
    let mut part: Option<&[u8]> = None;
    let mut rest: &[u8] = body;
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        let before = rest;
        rest = rest.get(line.len()..).unwrap_or_default();
        let Some(delimiter) = Delimiter::read(line, boundary) else {
            continue;
        };
        if let Some(part) = part {
            let length = part.len() - before.len();
            let content = part.get(..length).unwrap_or_default();
            parts.push(body.slice_ref(without_break(content)));
        }
        if delimiter == Delimiter::Last || parts.len() > most {
            return Ok(parts);
        }
        part = Some(rest);
    }
    Err(invalid(format!(
        "The batch request does not end with the boundary '--{boundary}--'."
    )))
}

#[derive(PartialEq, Eq)]
enum Delimiter {
    Next,
    Last,
}

impl Delimiter {
    fn read(line: &[u8], boundary: &str) -> Option<Self> {
        let after = line.strip_prefix(b"--")?;
        let after = after.strip_prefix(boundary.as_bytes())?;
        let (delimiter, padding) = match after.strip_prefix(b"--") {
            Some(padding) => (Self::Last, padding),
            None => (Self::Next, after),
        };
        padding.trim_ascii().is_empty().then_some(delimiter)
    }
}

/// The boundary that a content type of `multipart/mixed` names.
fn boundary(content_type: &str) -> Result<&str> {
    if !is_media_type(content_type, "multipart/mixed") {
        return Err(invalid(
            "The content type of a batch and of its change set must be 'multipart/mixed'.",
        ));
    }
    parameter(content_type, "boundary")
        .filter(|boundary| (1..=BOUNDARY_BYTES_MAX).contains(&boundary.len()))
        .ok_or_else(|| invalid("The content type of a batch must name its boundary."))
}

fn is_media_type(content_type: &str, media_type: &str) -> bool {
    let (named, _) = content_type.split_once(';').unwrap_or((content_type, ""));
    named.trim().eq_ignore_ascii_case(media_type)
}

/// The value of a parameter, without quotes.
fn parameter<'a>(content_type: &'a str, name: &str) -> Option<&'a str> {
    let (_, mut rest) = content_type.split_once(';')?;
    loop {
        let (before, after) = rest.split_once('=')?;
        let (value, more) = match after.trim_start().strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_at(after.find(';').unwrap_or(after.len())),
        };
        // Words between semicolons that are no parameters are skipped.
        let (_, found) = before.rsplit_once(';').unwrap_or(("", before));
        if found.trim().eq_ignore_ascii_case(name) {
            return Some(value.trim());
        }
        rest = more;
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Takes the next line off `rest`, without its break; none at the end.
fn take_line(rest: &mut Bytes) -> Option<Bytes> {
    let end = rest.iter().position(|byte| *byte == b'\n');
    let length = end.map_or(rest.len(), |end| end + 1);
    let line = rest.split_to(length);
    let content = line.slice_ref(without_break(&line));
    (length > 0).then_some(content)
}

fn without_break(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn invalid(why: impl Display) -> ServiceError {
    Code::InvalidInput.because(why)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sent by azure-data-tables 12.7.0 for Python; shortened by a few headers.
    const PYTHON: &str = "\
--batch_5565f94a-3f54-486e-a6e1-7a01d910b3f3
Content-Type: multipart/mixed; boundary=changeset_07bebac5-d58a-4d91-a3cb-dffb7b3adaed

--changeset_07bebac5-d58a-4d91-a3cb-dffb7b3adaed
Content-Type: application/http
Content-Transfer-Encoding: binary
Content-ID: 0

POST http://127.0.0.1:34517/devstoreaccount1/people HTTP/1.1
Content-Type: application/json
Content-Length: 120
x-ms-version: 2019-02-02
Accept: application/json;odata=minimalmetadata

{\"PartitionKey\": \"p\", \"RowKey\": \"a\", \"n\": 1}
--changeset_07bebac5-d58a-4d91-a3cb-dffb7b3adaed
Content-Type: application/http
Content-Transfer-Encoding: binary
Content-ID: 1

DELETE http://127.0.0.1:34517/devstoreaccount1/people(PartitionKey='p',RowKey='b') HTTP/1.1
x-ms-version: 2019-02-02
If-Match: *
x-ms-date: Mon, 16 Nov 2026 06:45:29 GMT


--changeset_07bebac5-d58a-4d91-a3cb-dffb7b3adaed--

--batch_5565f94a-3f54-486e-a6e1-7a01d910b3f3--
";

    /// Sent by @azure/data-tables 13 for JavaScript.
    const JAVASCRIPT: &str = "\
--batch_3c7ccfc7-8dcc-485f-94d0-1b895359833f
content-type: multipart/mixed; boundary=changeset_410ce4f6-a7f7-4795-9d35-6b13272edc87


--changeset_410ce4f6-a7f7-4795-9d35-6b13272edc87
content-type: application/http
content-transfer-encoding: binary

POST http://127.0.0.1:37221/devstoreaccount1/people HTTP/1.1
Content-Type: application/json;odata=nometadata
Accept: application/json;odata=minimalmetadata
DataServiceVersion: 3.0
Prefer: return-no-content


{\"PartitionKey\":\"p\",\"RowKey\":\"a\",\"n\":1}
--changeset_410ce4f6-a7f7-4795-9d35-6b13272edc87
content-type: application/http
content-transfer-encoding: binary

DELETE http://127.0.0.1:37221/devstoreaccount1/people(PartitionKey='p',RowKey='b') HTTP/1.1
Accept: application/json;odata=minimalmetadata
DataServiceVersion: 3.0
If-Match: *


--changeset_410ce4f6-a7f7-4795-9d35-6b13272edc87--
--batch_3c7ccfc7-8dcc-485f-94d0-1b895359833f--
";

    /// A query, with the boundary right after the headers, as Azurite's tests send it.
    const QUERY: &str = "\
--b
Content-Type: application/http
Content-Transfer-Encoding: binary

GET http://127.0.0.1:10002/devstoreaccount1/t(PartitionKey='Channel_19',RowKey='2')? HTTP/1.1
Accept: application/json;odata=minimalmetadata
--b--
";

    const DELETE: &str =
        "Content-Type: application/http\n\nDELETE /t(PartitionKey='p',RowKey='r') HTTP/1.1\n";

    fn crlf(text: &str) -> Bytes {
        text.replace('\n', "\r\n").into()
    }

    /// Method, target, content id and body, a line for each operation.
    fn summary(parts: &[Part]) -> Vec<String> {
        let line = |part: &Part| {
            let body = String::from_utf8_lossy(&part.body);
            let id = part.content_id.as_deref().unwrap_or("-");
            format!("{} {} {id} {}", part.method, part.target, body.trim())
        };
        parts.iter().map(line).collect()
    }

    fn check(boundary: &str, text: &str, expected: &[&str]) {
        let content_type = format!("multipart/mixed; boundary={boundary}");
        for body in [crlf(text), Bytes::copy_from_slice(text.as_bytes())] {
            let parts = read(&content_type, &body).unwrap();
            assert_eq!(summary(&parts), expected);
        }
    }

    fn refused(text: &str) -> ServiceError {
        let error = read("multipart/mixed; boundary=b", &crlf(text)).unwrap_err();
        assert_eq!(error.code, Code::InvalidInput, "{text}");
        error
    }

    fn changeset(operations: &[&str]) -> String {
        let mut text = String::from("--b\nContent-Type: multipart/mixed; boundary=c\n\n");
        for operation in operations {
            text = text + "--c\n" + operation + "\n";
        }
        text + "--c--\n--b--\n"
    }

    #[test]
    fn reads_what_clients_send() {
        check(
            "batch_5565f94a-3f54-486e-a6e1-7a01d910b3f3",
            PYTHON,
            &[
                "POST http://127.0.0.1:34517/devstoreaccount1/people 0 \
                 {\"PartitionKey\": \"p\", \"RowKey\": \"a\", \"n\": 1}",
                "DELETE http://127.0.0.1:34517/devstoreaccount1/people(PartitionKey='p',\
                 RowKey='b') 1 ",
            ],
        );
        check(
            "batch_3c7ccfc7-8dcc-485f-94d0-1b895359833f",
            JAVASCRIPT,
            &[
                "POST http://127.0.0.1:37221/devstoreaccount1/people - \
                 {\"PartitionKey\":\"p\",\"RowKey\":\"a\",\"n\":1}",
                "DELETE http://127.0.0.1:37221/devstoreaccount1/people(PartitionKey='p',\
                 RowKey='b') - ",
            ],
        );
        check(
            "b",
            QUERY,
            &[
                "GET http://127.0.0.1:10002/devstoreaccount1/t(PartitionKey='Channel_19',\
               RowKey='2')? - ",
            ],
        );
    }

    #[test]
    fn headers_and_bodies_share_the_bytes_of_the_request() {
        let body = crlf(PYTHON);
        let content_type = "multipart/mixed; boundary=batch_5565f94a-3f54-486e-a6e1-7a01d910b3f3";
        let parts = read(content_type, &body).unwrap();
        assert_eq!(parts[0].headers["x-ms-version"], "2019-02-02");
        assert_eq!(parts[1].headers["if-match"], "*");
        assert!(body.as_ptr_range().contains(&parts[0].body.as_ptr()));
        assert!(parts[1].body.is_empty());
    }

    #[test]
    fn boundaries_are_named_in_many_ways() {
        let body = crlf(QUERY);
        for content_type in [
            "multipart/mixed;boundary=b",
            "Multipart/Mixed; BOUNDARY=\"b\"",
            "multipart/mixed; charset=\"x;y\"; flag; boundary = b ; other=z",
        ] {
            assert_eq!(
                read(content_type, &body).unwrap().len(),
                1,
                "{content_type}"
            );
        }
        for content_type in [
            "",
            "application/json; boundary=b",
            "multipart/mixed",
            "multipart/mixed; boundary",
            "multipart/mixed; boundary=",
            "multipart/mixed; boundary=\"b",
            "multipart/mixed; xboundary=b",
            &format!("multipart/mixed; boundary={}", "b".repeat(71)),
        ] {
            let error = read(content_type, &body).unwrap_err();
            assert_eq!(error.code, Code::InvalidInput, "{content_type}");
        }
    }

    #[test]
    fn only_whole_lines_are_delimiters() {
        let operation = "Content-Type: application/http\n\nPUT /t HTTP/1.1\n\n--cc\n--c-\n --c\nx";
        let text = format!("preamble\n{}epilogue --b--\n", changeset(&[operation]));
        let body = Bytes::from(text);
        let parts = read("multipart/mixed; boundary=b", &body).unwrap();
        assert_eq!(summary(&parts), ["PUT /t - --cc\n--c-\n --c\nx"]);
    }

    #[test]
    fn at_most_a_hundred_operations() {
        let text = changeset(&[DELETE; OPERATIONS_MAX]);
        let parts = read("multipart/mixed; boundary=b", &crlf(&text)).unwrap();
        assert_eq!(parts.len(), OPERATIONS_MAX);
        let error = refused(&changeset(&[DELETE; OPERATIONS_MAX + 1]));
        assert_eq!(
            error.message,
            "The batch request operation exceeds the maximum 100 changes per change set."
        );
        assert_eq!(error.operation, Some(99));
    }

    #[test]
    fn refuses_batches_of_the_wrong_shape() {
        let one = changeset(&[DELETE]);
        let twice = one.replace("--b--\n", "") + &one;
        let mixed = one.replace("--b--\n", "") + QUERY;
        for text in [
            "",
            "nonsense",
            "--b--\n",
            "--b\n\n--b--\n",
            "--b\nContent-Type: text/plain\n\nx\n--b--\n",
            "--b\nContent-Type: application/http\n\n--b--\n",
            &QUERY.replace("GET", "DELETE"),
            &QUERY.replace("--b--", ""),
            &changeset(&[]),
            &one.replace("--c--", ""),
            &twice,
            &mixed,
        ] {
            assert_eq!(refused(text).operation, None);
        }
    }

    #[test]
    fn says_which_operation_is_malformed() {
        for bad in [
            "",
            "Content-Type: application/json\n\nDELETE /t HTTP/1.1\n",
            "Content-Type: application/http\nContent-Transfer-Encoding: base64\n\nREVM\n",
            "Content-Type: application/http\n",
            "Content-Type: application/http\n\nDELETE /t\n",
            "Content-Type: application/http\n\nDELETE /t x HTTP/1.1\n",
            "Content-Type: application/http\n\nDELETE /t HTTP/2\n",
            "Content-Type: application/http\n\nGET /t HTTP/1.1\n",
            "Content-Type: application/http\n\nDELETE /t HTTP/1.1\nno colon\n",
            "Content-Type: application/http\n\nDELETE /t HTTP/1.1\na: b\n folded: c\n",
            &format!("{DELETE}{}", "a: b\n".repeat(HEADERS_MAX + 1)),
        ] {
            assert_eq!(
                refused(&changeset(&[DELETE, bad])).operation,
                Some(1),
                "{bad}"
            );
        }
    }

    fn changes() -> impl Strategy<Value = Part> {
        let method = prop::sample::select(vec!["POST", "PUT", "PATCH", "MERGE", "DELETE"]);
        let headers = prop::collection::vec(("x-[a-z]{1,5}", "[!-~]{0,8}"), 0..4);
        let body = prop::collection::vec(any::<u8>(), 0..40);
        let content_id = prop::option::of("[0-9]{1,3}");
        (method, "/[!-~é]{0,20}", headers, body, content_id).prop_map(
            |(method, target, headers, body, content_id)| Part {
                method: method.parse().unwrap(),
                target,
                headers: headers
                    .iter()
                    .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
                    .collect::<Vec<(HeaderName, HeaderValue)>>()
                    .into_iter()
                    .collect(),
                body: body.into(),
                content_id,
            },
        )
    }

    /// Writes a batch as clients do.
    fn written(parts: &[Part], line_break: &str) -> Bytes {
        let mut out = Vec::new();
        let mut line = |bytes: &[&[u8]]| {
            out.extend(bytes.concat());
            out.extend(line_break.as_bytes());
        };
        line(&[b"--outer"]);
        line(&[b"Content-Type: multipart/mixed; boundary=\"in ner\""]);
        line(&[]);
        for part in parts {
            line(&[b"--in ner"]);
            line(&[b"Content-Type: application/http"]);
            line(&[b"Content-Transfer-Encoding: binary"]);
            if let Some(id) = &part.content_id {
                line(&[b"Content-ID: ", id.as_bytes()]);
            }
            line(&[]);
            line(&[
                part.method.as_str().as_bytes(),
                b" ",
                part.target.as_bytes(),
                b" HTTP/1.1",
            ]);
            for (name, value) in &part.headers {
                line(&[name.as_str().as_bytes(), b": ", value.as_bytes()]);
            }
            line(&[]);
            line(&[&part.body]);
        }
        line(&[b"--in ner--"]);
        line(&[b"--outer--"]);
        out.into()
    }

    proptest! {
        #[test]
        fn written_batches_read_back(parts in prop::collection::vec(changes(), 1..6)) {
            let content_type = "multipart/mixed; boundary=outer";
            let body = written(&parts, "\r\n");
            prop_assert_eq!(read(content_type, &body), Ok(parts));
        }

        #[test]
        fn cut_batches_are_refused(parts in prop::collection::vec(changes(), 1..3)) {
            let content_type = "multipart/mixed; boundary=outer";
            let body = written(&parts, "\n");
            let needed = body.len() - "\n".len();
            for end in 0..needed {
                prop_assert!(read(content_type, &body.slice(..end)).is_err());
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(
            content_type in "multipart/mixed; ?boundary=\"?[b;= \"]{0,4}",
            words in prop::collection::vec(
                prop::sample::select(vec![
                    "--b", "--c", "--", "\r\n", "\n", "\r", ":", " ", "b", "GET / HTTP/1.1",
                    "Content-Type: multipart/mixed; boundary=c", "Content-Type: application/http",
                ]),
                0..40,
            ),
        ) {
            if let Ok(parts) = read(&content_type, &words.concat().into()) {
                prop_assert!(!parts.is_empty());
            }
        }
    }
}
