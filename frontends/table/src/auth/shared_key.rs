//! Requests signed with an account's key: `Authorization: SharedKey account:signature`, or
//! `SharedKeyLite`, which signs less.

use std::time::{Duration, SystemTime};

use hyper::header::{CONTENT_TYPE, DATE};
use percent_encoding::percent_decode_str;
use smallvec::{SmallVec, smallvec};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

use super::accounts::Account;
use super::signature::Signature;
use super::{after_account, failed};
use crate::error::{Code, Result};
use crate::head::Head;
use crate::header_names::{CONTENT_MD5, MS_DATE};

/// How far the date of a request may be from the time of its arrival.
const SKEW_MAX: Duration = Duration::from_secs(15 * 60);

/// The scheme of the signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Full,
    Lite,
}

/// Checks the credentials of a request, the part of the header after the scheme.
pub(super) fn verify(
    scheme: Scheme,
    credentials: &str,
    head: &Head<'_>,
    account: &Account,
    now: SystemTime,
) -> Result<()> {
    let (name, signature) = credentials
        .split_once(':')
        .ok_or(Code::InvalidAuthenticationInfo)?;
    if name != account.name {
        return Err(failed("The request is signed for another account."));
    }
    let signature = Signature::parse(signature.trim())
        .ok_or_else(|| failed("The signature is not an HMAC-SHA256 in base64."))?;
    let date = signed_date(head);
    check_date(date, account, now)?;
    let date = date.unwrap_or_default();

    let resources = resources(head, &account.name);
    let mut texts = resources
        .iter()
        .map(|resource| string_to_sign(scheme, date, head, *resource));
    if texts.any(|text| account.signed(&text, &signature)) {
        return Ok(());
    }
    let text = string_to_sign(scheme, date, head, [&account.name, head.path, "", ""]);
    Err(failed(format!(
        "The MAC signature found in the HTTP request is not the same as any computed signature. \
         Server used following string to sign: '{text}'."
    )))
}

/// The date that the signature covers.
fn signed_date<'h>(head: &'h Head<'_>) -> Option<&'h str> {
    [&MS_DATE, &DATE]
        .into_iter()
        .find_map(|name| head.header(name).filter(|value| !value.is_empty()))
}

/// Refuses requests that are replayed long after they were made.
fn check_date(date: Option<&str>, account: &Account, now: SystemTime) -> Result<()> {
    let Some(date) = date else {
        // Some clients of the emulator sign no date. With another key such a signature would be
        // valid for ever; with the public key anyone can make one anyway.
        return if account.is_emulator {
            Ok(())
        } else {
            Err(failed(
                "The request has neither an x-ms-date nor a Date header.",
            ))
        };
    };
    let time = parse_date(date).ok_or_else(|| {
        failed(format!(
            "The Date header in the request is incorrect: '{date}'."
        ))
    })?;
    let skew = match now.duration_since(time) {
        Ok(age) => age,
        Err(ahead) => ahead.duration(),
    };
    if skew > SKEW_MAX {
        let now = httpdate::fmt_http_date(now);
        return Err(failed(format!(
            "The date of the request is more than 15 minutes away from the time of the server: \
             '{date}', current '{now}'."
        )));
    }
    Ok(())
}

fn parse_date(date: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(date).ok().or_else(|| {
        // The general form allows a day of one digit, which some clients write.
        let time = OffsetDateTime::parse(date, &Rfc2822).ok()?;
        let seconds = u64::try_from(time.unix_timestamp()).ok()?;
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
    })
}

/// The signed form of the resource, after the first slash: the account, and up to three parts of
/// the path.
type Resource<'a> = [&'a str; 4];

/// The ways in which clients write the resource, the usual one first. Each names this resource
/// and no other.
fn resources<'a>(head: &'a Head<'_>, account: &'a str) -> SmallVec<[Resource<'a>; 6]> {
    let mut resources: SmallVec<[Resource<'a>; 6]> = smallvec![[account, head.path, "", ""]];
    if head.path_style {
        let rest = after_account(head);
        let is_secondary = head.account != account;
        if is_secondary {
            // A path to the second location, signed as if it led to the first.
            resources.push([account, "/", account, rest]);
        }
        // Without the account: as if it stood in the host, or because the second location was put
        // before a path that has the account.
        if is_secondary || is_unmistakable(rest, account) {
            resources.push([account, rest, "", ""]);
        }
    }
    if head.path.ends_with('/') {
        // A slash at the end leads to the same resource.
        for index in 0..resources.len() {
            if let Some([account, first, second, third]) = resources.get(index).copied() {
                let trim = |part: &'a str| part.strip_suffix('/').unwrap_or(part);
                resources.push(if third.is_empty() {
                    [account, trim(first), "", ""]
                } else {
                    [account, first, second, trim(third)]
                });
            }
        }
    }
    resources
}

/// Whether a path without its account cannot be taken for one that begins with it: `/a/a/x` is
/// the usual form of `/a/x`, so it must not also be the short form of `/a/a/x`.
fn is_unmistakable(rest: &str, account: &str) -> bool {
    let mut start = percent_decode_str(rest.trim_start_matches('/'));
    let begins_with_account = account.bytes().all(|byte| {
        start
            .next()
            .is_some_and(|found| found.eq_ignore_ascii_case(&byte))
    });
    !begins_with_account && !rest.starts_with("//")
}

/// The text that is signed.
fn string_to_sign(scheme: Scheme, date: &str, head: &Head<'_>, resource: Resource<'_>) -> String {
    let mut text = String::with_capacity(256);
    if scheme == Scheme::Full {
        let header = |name| head.header(name).unwrap_or_default();
        text.extend([head.method.as_str(), "\n"]);
        text.extend([header(&CONTENT_MD5), "\n"]);
        text.extend([header(&CONTENT_TYPE), "\n"]);
    }
    text.extend([date, "\n", "/"]);
    text.extend(resource);
    if let Some(component) = head.query.get("comp") {
        text.extend(["?comp=", component]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::accounts::Accounts;
    use super::super::testing::{at, head};
    use super::*;

    fn check(scheme: Scheme, head: &Head<'_>, signature: &str, now: &str) -> Result<()> {
        let accounts = Accounts::emulator();
        let account = accounts.find("devstoreaccount1").unwrap();
        let credentials = format!("devstoreaccount1:{signature}");
        verify(scheme, &credentials, head, account, at(now))
    }

    /// Requests of azure-data-tables 12.7.0 as they were captured: request line, content type,
    /// second of 2026-11-16 01:44, signature.
    const CAPTURED: &[(&str, &str, &str, &str)] = &[
        (
            "POST /devstoreaccount1/Tables",
            "application/json;odata=nometadata",
            "03",
            "7iBFAQ/pm1bHOCOsoTj8mnUDgbSTU+pj1SpDJ+jrekA=",
        ),
        (
            "GET /devstoreaccount1/Tables?$filter=TableName%20eq%20%27capte1b408%27",
            "",
            "04",
            "WOsqq3uQsSjtj3O2c1BX+lnkWedzj7bXVtyxwGB8Jzk=",
        ),
        (
            "GET /devstoreaccount1/capte1b408(PartitionKey='pk1',RowKey='rk1')",
            "",
            "04",
            "6/r0xz3l74N8oCoG1GSi/kRJXYgzF6stdJBNCdyYV/4=",
        ),
        (
            "PATCH /devstoreaccount1/capte1b408(PartitionKey='pk1',RowKey='rk1')",
            "application/json",
            "05",
            "PIuvYsbSnUQOjgG87/YA9HrJY5AkifvyH/xVPfy1U58=",
        ),
        (
            "DELETE /devstoreaccount1/capte1b408(PartitionKey='pk1',RowKey='rk1')",
            "",
            "06",
            "Vy4wg88bOmAwi8pQio3Wm9A4r4rK1J4Y7G21FtyOoD8=",
        ),
        (
            "POST /devstoreaccount1/$batch",
            "multipart/mixed; boundary=batch_bc112914-8984-4bc7-b735-a0de47a76629",
            "07",
            "ZtNdTDeNt2Fw7Nxvr9mYGe8Alt/GNxPXpVW+ZKbMUY0=",
        ),
        (
            "GET /devstoreaccount1/?restype=service&comp=properties",
            "",
            "08",
            "Pi/SfnX5DRmr1ViV/vbt2weBkagjz3oFJEob7ToQonU=",
        ),
        (
            "GET /devstoreaccount1-secondary/devstoreaccount1/?restype=service&comp=stats",
            "",
            "08",
            "dp/9yJagNW+MOm1uHQj3BY1EMz+yX4nmKXRvD7bnQFI=",
        ),
        (
            "PUT /devstoreaccount1/capte1b408?comp=acl",
            "application/xml",
            "08",
            "uN8uZyp/QuLokD44t123EHeOW2ZuuKtw2vNtY3LrxL8=",
        ),
    ];

    fn captured((line, content_type, second, _): (&str, &str, &str, &str)) -> Head<'static> {
        let date = format!("Mon, 16 Nov 2026 01:44:{second} GMT");
        let mut headers = vec![("x-ms-date", &*date), ("date", &*date)];
        if !content_type.is_empty() {
            headers.push(("content-type", content_type));
        }
        head(line, &headers)
    }

    #[test]
    fn captured_requests_are_verified() {
        for row in CAPTURED {
            let head = captured(*row);
            assert_eq!(
                check(Scheme::Full, &head, row.3, "2026-11-16T01:44:09Z"),
                Ok(()),
                "{row:?}"
            );
        }
    }

    #[test]
    fn anything_signed_may_not_change() {
        let [row, ..] = CAPTURED else {
            panic!("there are captures")
        };
        let refused = |changed: &Head<'_>, scheme| {
            let error = check(scheme, changed, row.3, "2026-11-16T01:44:09Z").unwrap_err();
            assert_eq!(error.code, Code::AuthenticationFailed);
            error.detail
        };
        let original = captured(*row);
        refused(&original, Scheme::Lite);
        let mut changed = original.clone();
        changed.method = hyper::Method::PUT;
        refused(&changed, Scheme::Full);
        let mut changed = original.clone();
        changed.path = "/devstoreaccount1/Tablesx";
        let message = refused(&changed, Scheme::Full);
        let signed = "'POST\n\napplication/json;odata=nometadata\nMon, 16 Nov 2026 01:44:03 GMT\n\
                      /devstoreaccount1/devstoreaccount1/Tablesx'";
        assert!(message.contains(signed), "{message}");
        let mut changed = original.clone();
        changed.query.0.push(("comp".into(), "acl".into()));
        refused(&changed, Scheme::Full);
        for (name, value) in [
            ("content-type", "text/plain"),
            ("content-md5", "x"),
            ("x-ms-date", "Mon, 16 Nov 2026 01:44:04 GMT"),
        ] {
            let mut changed = original.clone();
            changed.headers.insert(name, value.parse().unwrap());
            refused(&changed, Scheme::Full);
        }
        let mut same = original;
        same.headers.insert("date", "yesterday".parse().unwrap());
        assert_eq!(
            check(Scheme::Full, &same, row.3, "2026-11-16T01:44:09Z"),
            Ok(())
        );
    }

    const SIGNED_AT: &str = "Mon, 16 Nov 2026 01:44:04 GMT";

    #[test]
    fn other_ways_to_write_the_resource_are_accepted() {
        // Signed is `/devstoreaccount1/devstoreaccount1/$batch`.
        let batch = "HWZ2i8RxbmyPcxiI21OQ6cHdYVq7EbijOqJmRg6ooTs=";
        // Signed is `/devstoreaccount1/Tables`.
        let tables = "sqTflRZDFZ8erAw0+slVGBP2DXg/0behfNGVEZliAcQ=";
        for (line, signature, expected) in [
            ("POST /devstoreaccount1/$batch", batch, true),
            ("POST /devstoreaccount1/$batch/", batch, true),
            ("POST /devstoreaccount1-secondary/$batch", batch, true),
            ("POST /devstoreaccount1-secondary/$batch/", batch, true),
            ("POST /devstoreaccount1/$batch//", batch, false),
            ("POST /devstoreaccount1//$batch", batch, false),
            // It would be the table `devstoreaccount1`, were it signed without the account.
            (
                "POST /devstoreaccount1/devstoreaccount1/$batch",
                batch,
                false,
            ),
            (
                "POST /devstoreaccount1/%64evstoreaccount1/$batch",
                batch,
                false,
            ),
            ("GET /devstoreaccount1/Tables", tables, true),
            ("GET devstoreaccount1.host/Tables", tables, true),
            ("GET devstoreaccount1.host/Tables/", tables, true),
            ("GET devstoreaccount1.host/Tables()", tables, false),
        ] {
            let head = head(line, &[("date", SIGNED_AT)]);
            let result = check(Scheme::Lite, &head, signature, "2026-11-16T01:44:09Z");
            assert_eq!(result.is_ok(), expected, "{line}");
        }
        // Signed is `/devstoreaccount1/Tables?comp=x`, without a content type.
        let component = "0Vrn+F2b/kzNc0eDU59X35oYsoWAHXTe0/RBwstUBnI=";
        let line = "GET devstoreaccount1.host/Tables?restype=y&comp=x";
        let head = head(line, &[("date", SIGNED_AT)]);
        let result = check(Scheme::Full, &head, component, "2026-11-16T01:44:09Z");
        assert_eq!(result, Ok(()));
    }

    #[test]
    fn short_forms_are_kept_apart_from_usual_ones() {
        for (rest, expected) in [
            ("", true),
            ("/", true),
            ("/Tables", true),
            ("/acc", true),
            ("/account", false),
            ("/account1", false),
            ("/Account/x", false),
            ("/%61ccount/x", false),
            ("//account/x", false),
            ("//x", false),
        ] {
            assert_eq!(is_unmistakable(rest, "account"), expected, "{rest}");
        }
    }

    #[test]
    fn dates_must_be_near() {
        let request = head("GET /devstoreaccount1/Tables", &[("date", SIGNED_AT)]);
        let signature = "sqTflRZDFZ8erAw0+slVGBP2DXg/0behfNGVEZliAcQ=";
        for (now, expected) in [
            ("2026-11-16T01:29:04Z", None),
            ("2026-11-16T01:59:04Z", None),
            ("2026-11-16T01:29:03Z", Some("more than 15 minutes")),
            ("2026-11-16T01:59:05Z", Some("more than 15 minutes")),
        ] {
            match (check(Scheme::Lite, &request, signature, now), expected) {
                (Ok(()), None) => {}
                (Err(error), Some(words)) => {
                    assert_eq!(error.code, Code::AuthenticationFailed);
                    assert!(error.detail.contains(words), "{}", error.detail);
                }
                (result, _) => panic!("{now}: {result:?}"),
            }
        }
        for date in [
            "Mon, 16 Nov 2026 01:44:04 GMT",
            "Monday, 16-Nov-26 01:44:04 GMT",
        ] {
            assert_eq!(parse_date(date), Some(at("2026-11-16T01:44:04Z")), "{date}");
        }
        let date = "Fri, 6 Nov 2026 01:44:04 GMT";
        assert_eq!(parse_date(date), Some(at("2026-11-06T01:44:04Z")));
        for date in [
            "",
            "tomorrow",
            "2026-11-16T01:44:04Z",
            "Mon, 16 Nov 1926 01:44:04 GMT",
        ] {
            assert_eq!(parse_date(date), None, "{date}");
        }
    }

    #[test]
    fn only_the_emulator_takes_signatures_without_a_date() {
        let line = "GET /devstoreaccount1/mytable(PartitionKey=%271%27,RowKey=%271%27)";
        let signature = "FQ/WIFLci52Gx59pF6RrmJdywlcltoaqqtPAft/cc1Q=";
        for headers in [&[][..], &[("x-ms-date", ""), ("date", "")]] {
            let head = head(line, headers);
            let result = check(Scheme::Lite, &head, signature, "2026-11-16T01:44:09Z");
            assert_eq!(result, Ok(()));
        }
        let accounts = Accounts::parse("devstoreaccount1:SmVmZQ==").unwrap();
        let account = accounts.find("devstoreaccount1").unwrap();
        let error = check_date(None, account, at("2026-11-16T01:44:09Z")).unwrap_err();
        assert!(error.detail.contains("neither"), "{}", error.detail);
    }

    #[test]
    fn malformed_credentials_are_refused() {
        let accounts = Accounts::emulator();
        let account = accounts.find("devstoreaccount1").unwrap();
        let head = head("GET /devstoreaccount1/Tables", &[("date", SIGNED_AT)]);
        let now = at("2026-11-16T01:44:09Z");
        for (credentials, code) in [
            ("", Code::InvalidAuthenticationInfo),
            ("devstoreaccount1", Code::InvalidAuthenticationInfo),
            ("devstoreaccount1:", Code::AuthenticationFailed),
            ("devstoreaccount1:abc", Code::AuthenticationFailed),
            (
                "other:sqTflRZDFZ8erAw0+slVGBP2DXg/0behfNGVEZliAcQ=",
                Code::AuthenticationFailed,
            ),
        ] {
            let result = verify(Scheme::Lite, credentials, &head, account, now);
            assert_eq!(result.unwrap_err().code, code, "{credentials}");
        }
    }
}
