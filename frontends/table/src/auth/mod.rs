//! Authentication and authorization: shared keys, shared access signatures, bearer tokens.
//!
//! In two steps, because a stored access policy has to be read in between: [`authenticate`] checks
//! the credentials, and [`Claim::grant`] returns the permissions.

use std::fmt::Display;
use std::time::SystemTime;

use hyper::header::AUTHORIZATION;

use crate::error::{Code, Result, ServiceError};
use crate::head::Head;
use crate::service::AccessPolicy;

mod accounts;
mod bearer;
mod grant;
mod sas;
mod shared_key;
mod signature;
#[cfg(test)]
mod testing;

use accounts::Account;
pub use accounts::{Accounts, EMULATOR_KEY};
pub use bearer::{Bearer, BearerConfig};
use grant::Scope;
pub(crate) use grant::{Action, EntityName, Grant, KeyRange};
use sas::Sas;
use shared_key::Scheme;

/// The accounts and issuers that credentials are checked against.
#[derive(Clone)]
pub(crate) struct Authenticator {
    accounts: Accounts,
    bearer: Option<Bearer>,
    challenge: String,
}

impl Authenticator {
    pub(crate) fn new(accounts: Accounts, bearer: Option<Bearer>) -> Self {
        let challenge = bearer::challenge(bearer.as_ref());
        Self {
            accounts,
            bearer,
            challenge,
        }
    }

    /// The name of the account that has this name; none if there is no such.
    pub(crate) fn account_name(&self, name: &str) -> Option<&str> {
        self.accounts.find(name).map(|account| &*account.name)
    }

    /// Whether a key of this account is public.
    pub(crate) fn is_public(&self, name: &str) -> bool {
        let account = self.accounts.find(name);
        account.is_some_and(|account| account.is_public)
    }

    /// The value of the `WWW-Authenticate` header that belongs to every answer with status 401.
    pub(crate) fn challenge(&self) -> &str {
        &self.challenge
    }
}

/// Checked credentials of a request.
#[derive(Debug)]
pub(crate) struct Claim<'h>(Credentials<'h>);

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each request, and a box would be an allocation for each"
)]
enum Credentials<'h> {
    Key,
    Token,
    Sas(Sas<'h>),
}

/// Checks the credentials of a request, whichever kind it has.
pub(crate) fn authenticate<'h>(
    authenticator: &Authenticator,
    head: &'h Head<'_>,
    now: SystemTime,
) -> Result<Claim<'h>> {
    let account = authenticator.accounts.find(head.account).ok_or_else(|| {
        let why = format!("This server has no account '{}'.", head.account);
        Code::ResourceNotFound.because(why)
    })?;
    let signed_address = head.query.get("sig").is_some();
    if !head.headers.contains_key(AUTHORIZATION) {
        return if signed_address {
            by_sas(head, account)
        } else {
            Err(Code::NoAuthenticationInformation.into())
        };
    }
    let result = by_header(authenticator, head, account, now);
    if result.is_err() && signed_address {
        // Some clients send both, the header signed for an address that they then changed.
        by_sas(head, account).or(result)
    } else {
        result
    }
}

fn by_sas<'h>(head: &'h Head<'_>, account: &Account) -> Result<Claim<'h>> {
    Ok(Claim(Credentials::Sas(Sas::verify(head, account)?)))
}

fn by_header<'h>(
    authenticator: &Authenticator,
    head: &'h Head<'_>,
    account: &Account,
    now: SystemTime,
) -> Result<Claim<'h>> {
    let header = head.header(&AUTHORIZATION);
    let (scheme, credentials) = header
        .and_then(|header| header.split_once(' '))
        .ok_or(Code::InvalidAuthenticationInfo)?;
    let credentials = credentials.trim();
    if scheme.eq_ignore_ascii_case("SharedKey") {
        shared_key::verify(Scheme::Full, credentials, head, account, now)?;
        Ok(Claim(Credentials::Key))
    } else if scheme.eq_ignore_ascii_case("SharedKeyLite") {
        shared_key::verify(Scheme::Lite, credentials, head, account, now)?;
        Ok(Claim(Credentials::Key))
    } else if scheme.eq_ignore_ascii_case("Bearer") {
        let bearer = authenticator.bearer.as_ref();
        let bearer = bearer.ok_or_else(bearer::not_configured)?;
        if !head.tls {
            return Err(failed(
                "Authentication scheme Bearer is not allowed with HTTP.",
            ));
        }
        bearer.verify(credentials, &account.name, now)?;
        Ok(Claim(Credentials::Token))
    } else {
        Err(Code::InvalidAuthenticationInfo.into())
    }
}

impl Claim<'_> {
    /// The table and the name of its stored policy that [`Self::grant`] needs.
    pub(crate) fn policy_name(&self) -> Option<(&str, &str)> {
        match &self.0 {
            Credentials::Sas(sas) => sas.policy_name(),
            Credentials::Key | Credentials::Token => None,
        }
    }

    /// The permissions of the request; `policy` is the one that [`Self::policy_name`] names, if the
    /// table has it.
    pub(crate) fn grant(
        &self,
        policy: Option<&AccessPolicy>,
        head: &Head<'_>,
        now: SystemTime,
    ) -> Result<Grant> {
        match &self.0 {
            Credentials::Key => Ok(Grant(Scope::Owner)),
            Credentials::Token => Ok(Grant(Scope::Token)),
            Credentials::Sas(sas) => sas.grant(policy, head, now),
        }
    }
}

/// The part of the path that follows the account, with its slash.
fn after_account<'r>(head: &Head<'r>) -> &'r str {
    if !head.path_style {
        return head.path;
    }
    let account = head.path.strip_prefix('/').unwrap_or(head.path);
    account.find('/').map_or("", |slash| {
        account.split_at_checked(slash).map_or("", |(_, rest)| rest)
    })
}

/// A refusal of credentials with the reason, as in the service: the reason is not secret.
fn failed(detail: impl Display) -> ServiceError {
    Code::AuthenticationFailed.because(detail)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::testing::{at, head};
    use super::*;

    const NOW: &str = "2026-11-16T01:44:09Z";
    const KEY: (&str, &str) = (
        "authorization",
        "SharedKey devstoreaccount1:7iBFAQ/pm1bHOCOsoTj8mnUDgbSTU+pj1SpDJ+jrekA=",
    );
    const DATE: (&str, &str) = ("x-ms-date", "Mon, 16 Nov 2026 01:44:03 GMT");
    const TYPE: (&str, &str) = ("content-type", "application/json;odata=nometadata");
    const WRONG: (&str, &str) = (
        "authorization",
        "SharedKeyLite devstoreaccount1:7iBFAQ/pm1bHOCOsoTj8mnUDgbSTU+pj1SpDJ+jrekA=",
    );
    const SAS: &str = "?se=2026-11-17T00%3A00%3A00Z&sp=rwdlacu&sv=2019-02-02&ss=t&srt=sco\
         &sig=NKlWQfVWVcnlNghHt05YvARyWHzp0BtHToMI8uifatc%3D";

    fn check(target: &str, headers: &[(&str, &str)], expected: std::result::Result<(), Code>) {
        let authenticator = Authenticator::new(Accounts::emulator(), None);
        let head = head(&format!("POST {target}"), headers);
        let claim = authenticate(&authenticator, &head, at(NOW));
        let grant = claim.and_then(|claim| {
            assert_eq!(claim.policy_name(), None);
            claim.grant(None, &head, at(NOW))
        });
        let result = grant.and_then(|grant| grant.check(Action::CreateTable));
        assert_eq!(
            result.map_err(|error| error.code),
            expected,
            "{target} {headers:?}"
        );
    }

    #[test]
    fn every_kind_of_credentials_is_recognized() {
        let tables = "/devstoreaccount1/Tables";
        let signed = format!("{tables}{SAS}");
        check(tables, &[KEY, DATE, TYPE], Ok(()));
        check(&signed, &[], Ok(()));
        check(tables, &[], Err(Code::NoAuthenticationInformation));
        check(
            tables,
            &[DATE, TYPE],
            Err(Code::NoAuthenticationInformation),
        );
        check(
            "/unknown/Tables",
            &[KEY, DATE, TYPE],
            Err(Code::ResourceNotFound),
        );
        check("/unknown/Tables", &[], Err(Code::ResourceNotFound));
        check(
            "/devstoreaccount1-secondary/Tables",
            &[KEY, DATE, TYPE],
            Ok(()),
        );
        for value in ["", "SharedKey", "Basic dXNlcjpwYXNz", "é"] {
            let header = ("authorization", value);
            check(tables, &[header], Err(Code::InvalidAuthenticationInfo));
        }
        let lowercase = KEY.1.replace("SharedKey", "sharedkey");
        check(tables, &[("authorization", &lowercase), DATE, TYPE], Ok(()));
    }

    #[test]
    fn a_good_signature_in_the_address_outweighs_a_bad_header() {
        let signed = format!("/devstoreaccount1/Tables{SAS}");
        check(&signed, &[WRONG, DATE], Ok(()));
        check(&signed, &[KEY, DATE, TYPE], Ok(()));
        let forged = signed.replace("sp=rw", "sp=r");
        check(&forged, &[WRONG, DATE], Err(Code::AuthenticationFailed));
        check(&forged, &[KEY, DATE, TYPE], Ok(()));
    }

    #[test]
    fn tokens_need_an_issuer() {
        let authenticator = Authenticator::new(Accounts::emulator(), None);
        let head = head(
            "GET /devstoreaccount1/Tables",
            &[("authorization", "Bearer a.b.c")],
        );
        let error = authenticate(&authenticator, &head, at(NOW)).unwrap_err();
        assert_eq!(error.code, Code::InvalidAuthenticationInfo);
        assert_eq!(error.status(), hyper::StatusCode::UNAUTHORIZED);
        assert!(error.detail.contains("table-bearer-issuer"), "{error:?}");
        let challenge = authenticator.challenge();
        assert!(
            challenge.starts_with("Bearer authorization_uri=https://"),
            "{challenge}"
        );
        assert!(
            challenge.ends_with(" resource_id=https://storage.azure.com"),
            "{challenge}"
        );
    }

    #[test]
    fn the_account_is_cut_off_the_path() {
        for (line, expected) in [
            ("GET /a", ""),
            ("GET /a/", "/"),
            ("GET /a/b/c", "/b/c"),
            ("GET a.host/b/c", "/b/c"),
        ] {
            assert_eq!(after_account(&head(line, &[])), expected, "{line}");
        }
    }

    proptest! {
        #[test]
        fn garbage_is_refused_and_does_no_harm(
            header in proptest::option::of("(SharedKey|SharedKeyLite|Bearer)? ?[ -~]{0,60}"),
            date in "[ -~]{0,30}",
            path in "/\\PC{0,20}",
            query in prop::collection::vec(
                ("(sig|sv|se|st|sp|ss|srt|tn|spk|sip|spr|comp|x)", "\\PC{0,50}"),
                0..8,
            ),
        ) {
            let mut head = head("GET /devstoreaccount1/x", &[("x-ms-date", &date)]);
            let path = format!("{}{path}", head.path);
            head.path = &path;
            let query = query.into_iter();
            head.query.0 = query.map(|(name, value)| (name.into(), value.into())).collect();
            head.tls = true;
            if let Some(header) = header {
                head.headers.insert(AUTHORIZATION, header.parse().unwrap());
            }
            let authenticator = Authenticator::new(Accounts::emulator(), None);
            prop_assert!(authenticate(&authenticator, &head, at(NOW)).is_err());
        }
    }
}
