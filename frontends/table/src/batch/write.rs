//! The answer of a batch: one HTTP reply for each operation, in the multipart form of the service.

use hyper::StatusCode;
use uuid::Uuid;

const LINE_BREAK: &str = "\r\n";

/// The unique part of an answer's boundaries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ids {
    pub(crate) batch: Uuid,
    /// None in the answer of a query, which stands outside of any change set.
    pub(crate) changeset: Option<Uuid>,
}

/// The reply to one operation.
#[derive(Clone, Debug)]
pub(crate) struct PartReply {
    pub(crate) status: StatusCode,
    /// In the order in which they are written; values without line breaks.
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// The client's name for the operation, sent back.
    pub(crate) content_id: Option<String>,
}

/// The content type and the body of the answer.
pub(crate) fn write(ids: Ids, replies: &[PartReply]) -> (String, Vec<u8>) {
    let batch = format!("batchresponse_{}", ids.batch);
    let mut out = Vec::new();
    match ids.changeset {
        Some(id) => {
            let changeset = format!("changesetresponse_{id}");
            line(&mut out, &["--", &batch]);
            line(&mut out, &["Content-Type: ", &mixed(&changeset)]);
            line(&mut out, &[]);
            put_replies(&mut out, &changeset, replies);
            line(&mut out, &["--", &batch, "--"]);
        }
        None => put_replies(&mut out, &batch, replies),
    }
    (mixed(&batch), out)
}

fn mixed(boundary: &str) -> String {
    format!("multipart/mixed; boundary={boundary}")
}

fn put_replies(out: &mut Vec<u8>, boundary: &str, replies: &[PartReply]) {
    for reply in replies {
        line(out, &["--", boundary]);
        put_reply(out, reply);
    }
    line(out, &["--", boundary, "--"]);
}

fn put_reply(out: &mut Vec<u8>, reply: &PartReply) {
    line(out, &["Content-Type: application/http"]);
    line(out, &["Content-Transfer-Encoding: binary"]);
    line(out, &[]);
    let reason = reply.status.canonical_reason().unwrap_or_default();
    line(out, &["HTTP/1.1 ", reply.status.as_str(), " ", reason]);
    if let Some(id) = &reply.content_id {
        line(out, &["Content-ID: ", id]);
    }
    for (name, value) in &reply.headers {
        line(out, &[name, ": ", value]);
    }
    line(out, &[]);
    out.extend_from_slice(&reply.body);
    line(out, &[]);
}

fn line(out: &mut Vec<u8>, words: &[&str]) {
    for word in words {
        out.extend_from_slice(word.as_bytes());
    }
    out.extend_from_slice(LINE_BREAK.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: Uuid = Uuid::from_u128(0xb);
    const CHANGESET: Uuid = Uuid::from_u128(0xc);

    fn reply(status: u16, headers: &[(&'static str, &str)], body: &str) -> PartReply {
        let headers = headers.iter();
        PartReply {
            status: StatusCode::from_u16(status).unwrap(),
            headers: headers
                .map(|(name, value)| (*name, (*value).to_owned()))
                .collect(),
            body: body.into(),
            content_id: None,
        }
    }

    fn check(changeset: Option<Uuid>, replies: &[PartReply], expected: &str) {
        let ids = Ids {
            batch: BATCH,
            changeset,
        };
        let (content_type, body) = write(ids, replies);
        assert_eq!(
            content_type,
            "multipart/mixed; boundary=batchresponse_00000000-0000-0000-0000-00000000000b"
        );
        let body = String::from_utf8(body).unwrap();
        assert_eq!(body, expected.replace('\n', "\r\n"));
    }

    /// The form is that of Azurite, whose answers the clients for Python and JavaScript read;
    /// both were seen to read exactly this text.
    #[test]
    fn writes_a_change_set() {
        let inserted = PartReply {
            content_id: Some("0".to_owned()),
            ..reply(
                201,
                &[
                    ("DataServiceVersion", "3.0;"),
                    ("Location", "http://h/a/t(PartitionKey='p',RowKey='r')"),
                    ("ETag", "W/\"datetime'2026-11-16T01%3A44%3A07.2226194Z'\""),
                ],
                "",
            )
        };
        let deleted = reply(204, &[("DataServiceVersion", "1.0;")], "");
        check(
            Some(CHANGESET),
            &[inserted, deleted],
            "\
--batchresponse_00000000-0000-0000-0000-00000000000b
Content-Type: multipart/mixed; boundary=changesetresponse_00000000-0000-0000-0000-00000000000c

--changesetresponse_00000000-0000-0000-0000-00000000000c
Content-Type: application/http
Content-Transfer-Encoding: binary

HTTP/1.1 201 Created
Content-ID: 0
DataServiceVersion: 3.0;
Location: http://h/a/t(PartitionKey='p',RowKey='r')
ETag: W/\"datetime'2026-11-16T01%3A44%3A07.2226194Z'\"


--changesetresponse_00000000-0000-0000-0000-00000000000c
Content-Type: application/http
Content-Transfer-Encoding: binary

HTTP/1.1 204 No Content
DataServiceVersion: 1.0;


--changesetresponse_00000000-0000-0000-0000-00000000000c--
--batchresponse_00000000-0000-0000-0000-00000000000b--
",
        );
    }

    #[test]
    fn writes_one_error_for_a_change_set_that_failed() {
        let body = r#"{"odata.error":{"code":"EntityAlreadyExists"}}"#;
        check(
            Some(CHANGESET),
            &[reply(409, &[("Content-Type", "application/json")], body)],
            "\
--batchresponse_00000000-0000-0000-0000-00000000000b
Content-Type: multipart/mixed; boundary=changesetresponse_00000000-0000-0000-0000-00000000000c

--changesetresponse_00000000-0000-0000-0000-00000000000c
Content-Type: application/http
Content-Transfer-Encoding: binary

HTTP/1.1 409 Conflict
Content-Type: application/json

{\"odata.error\":{\"code\":\"EntityAlreadyExists\"}}
--changesetresponse_00000000-0000-0000-0000-00000000000c--
--batchresponse_00000000-0000-0000-0000-00000000000b--
",
        );
    }

    #[test]
    fn writes_the_answer_of_a_query_without_a_change_set() {
        check(
            None,
            &[reply(404, &[("Content-Type", "application/json")], "{}")],
            "\
--batchresponse_00000000-0000-0000-0000-00000000000b
Content-Type: application/http
Content-Transfer-Encoding: binary

HTTP/1.1 404 Not Found
Content-Type: application/json

{}
--batchresponse_00000000-0000-0000-0000-00000000000b--
",
        );
    }
}
