//! Shared access signatures: permissions that the owner of a key signed into an address, for an
//! account or for one table.

use std::net::IpAddr;
use std::time::SystemTime;

use super::accounts::Account;
use super::grant::{Grant, KeyRange, Letters, Scope};
use super::signature::Signature;
use super::{after_account, failed};
use crate::entity::DateTime;
use crate::error::{Code, Result, ServiceError};
use crate::head::{Head, Query};
use crate::options::is_version;
use crate::service::AccessPolicy;

const MALFORMED: &str = "Signature fields not well formed.";

/// A verified signature whose permissions are not evaluated yet.
#[derive(Debug)]
pub(super) struct Sas<'h> {
    fields: Fields<'h>,
    /// The table that it is for; none if it is for the account.
    table: Option<&'h str>,
}

impl<'h> Sas<'h> {
    /// Checks that the account signed the parameters of the query.
    pub(super) fn verify(head: &'h Head<'_>, account: &Account) -> Result<Self> {
        let fields = Fields::read(&head.query)?;
        let signature = fields.sig.and_then(Signature::parse);
        let signature = signature.ok_or_else(|| failed(MALFORMED))?;
        let version = fields
            .sv
            .ok_or_else(|| failed("sv is mandatory. Cannot be empty."))?;
        if !is_version(version) {
            return Err(failed("sv is not a version of the service."));
        }
        let table = if fields.is_of_account() {
            None
        } else {
            // The address names the table as well, and the signature covers its name.
            let table = fields.tn.or_else(|| table_in_path(head));
            Some(table.ok_or_else(|| failed("tn is mandatory. Cannot be empty."))?)
        };
        let text = match table {
            None => account_string_to_sign(&fields, version, &account.name)?,
            Some(table) => {
                let lowercase = table.to_ascii_lowercase();
                table_string_to_sign(&fields, version, &account.name, &lowercase)
            }
        };
        if !account.signed(&text, &signature) {
            return Err(failed(format!(
                "Signature did not match. String to sign used was '{text}'."
            )));
        }
        Ok(Self { fields, table })
    }

    /// The table and the name of the stored policy to which this signature refers.
    pub(super) fn policy_name(&self) -> Option<(&str, &str)> {
        self.table.zip(self.fields.si)
    }

    /// Checks time, address and protocol of the request, and returns its permissions.
    pub(super) fn grant(
        &self,
        policy: Option<&AccessPolicy>,
        head: &Head<'_>,
        now: SystemTime,
    ) -> Result<Grant> {
        let terms = self.terms(policy)?;
        terms.check_time(DateTime::of(now))?;
        if let Some(sip) = self.fields.sip {
            check_address(sip, head.peer)?;
        }
        if let Some(spr) = self.fields.spr {
            check_protocol(spr, head.tls)?;
        }
        let Some(table) = self.table else {
            if !Letters::parse(required(self.fields.ss, "ss")?).all("t") {
                return Err(Code::AuthorizationServiceMismatch.into());
            }
            return Ok(Grant(Scope::Account {
                resource_types: Letters::parse(required(self.fields.srt, "srt")?),
                permissions: terms.permissions,
            }));
        };
        Ok(Grant(Scope::Table {
            table: table.to_owned(),
            permissions: terms.permissions,
            range: self.fields.key_range()?,
        }))
    }

    /// The fields of the signature, completed by the policy to which it refers.
    fn terms(&self, policy: Option<&AccessPolicy>) -> Result<Terms> {
        let none = AccessPolicy::default();
        let policy = match self.policy_name() {
            None => &none,
            Some((table, id)) => policy.filter(|policy| policy.id == id).ok_or_else(|| {
                failed(format!("The table '{table}' has no access policy '{id}'."))
            })?,
        };
        let permission = policy.permission.as_deref();
        let permission = permission.filter(|letters| !letters.is_empty());
        Ok(Terms {
            start: one_of(signed_time(self.fields.st)?, policy.start_time())?,
            expiry: required(
                one_of(signed_time(self.fields.se)?, policy.expiry_time())?,
                "se",
            )?,
            permissions: Letters::parse(required(one_of(self.fields.sp, permission)?, "sp")?),
        })
    }
}

/// The validity and the scope of a signature.
struct Terms {
    start: Option<DateTime>,
    expiry: DateTime,
    permissions: Letters,
}

impl Terms {
    fn check_time(&self, now: DateTime) -> Result<()> {
        if self.start.is_none_or(|start| start <= now) && now <= self.expiry {
            return Ok(());
        }
        Err(failed(format!(
            "Signature not valid in the specified time frame: Start [{}] - Expiry [{}] - \
             Current [{}]",
            self.start
                .map(|start| start.to_string())
                .unwrap_or_default(),
            self.expiry,
            now,
        )))
    }
}

macro_rules! fields {
    ($($name:ident)*) => {
        /// The parameters of a query that belong to a signature.
        #[derive(Debug, Default)]
        struct Fields<'h> {
            $($name: Option<&'h str>,)*
        }

        impl<'h> Fields<'h> {
            fn field(&mut self, name: &str) -> Option<&mut Option<&'h str>> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)*
                    _ => None,
                }
            }

            /// The text that is signed does not tell an empty parameter from a missing one.
            fn drop_empty(&mut self) {
                $(self.$name = self.$name.filter(|value| !value.is_empty());)*
            }
        }
    };
}

fields! {
    sig sv sp st se sip spr
    ss srt ses
    tn si spk srk epk erk
}

impl<'h> Fields<'h> {
    fn read(query: &'h Query<'_>) -> Result<Self> {
        let mut fields = Self::default();
        for (name, value) in &query.0 {
            let Some(field) = fields.field(name) else {
                continue;
            };
            // The signed text has a value on each line: a line break could shift values into each
            // other's place.
            if field.is_some() || value.contains('\n') {
                return Err(failed(MALFORMED));
            }
            *field = Some(value);
        }
        fields.drop_empty();
        Ok(fields)
    }

    fn is_of_account(&self) -> bool {
        self.ss.is_some() || self.srt.is_some()
    }

    fn key_range(&self) -> Result<Option<KeyRange>> {
        if self.srk.is_some() && self.spk.is_none() || self.erk.is_some() && self.epk.is_none() {
            return Err(failed("A row key is signed without its partition key."));
        }
        if self.spk.is_none() && self.epk.is_none() {
            return Ok(None);
        }
        let own = |key: Option<&str>| key.map(str::to_owned);
        Ok(Some(KeyRange {
            start: (own(self.spk), own(self.srk)),
            end: (own(self.epk), own(self.erk)),
        }))
    }
}

/// The capacity for the signed text of most requests.
const TEXT_BYTES: usize = 256;

/// Adds values to the signed text, each on a line of its own.
fn put_lines(text: &mut String, values: &[Option<&str>]) {
    for value in values {
        text.push_str(value.unwrap_or_default());
        text.push('\n');
    }
}

fn account_string_to_sign(fields: &Fields<'_>, version: &str, account: &str) -> Result<String> {
    // Account signatures came with 2015-04-05.
    if version < "2015-04-05" {
        return Err(failed("sv is older than account signatures are."));
    }
    let mut text = String::with_capacity(TEXT_BYTES);
    put_lines(
        &mut text,
        &[Some(account), fields.sp, fields.ss, fields.srt],
    );
    put_lines(&mut text, &[fields.st, fields.se, fields.sip, fields.spr]);
    put_lines(&mut text, &[Some(version)]);
    if version >= "2020-12-06" {
        put_lines(&mut text, &[fields.ses]);
    }
    Ok(text)
}

fn table_string_to_sign(fields: &Fields<'_>, version: &str, account: &str, table: &str) -> String {
    let mut text = String::with_capacity(TEXT_BYTES);
    put_lines(&mut text, &[fields.sp, fields.st, fields.se]);
    if version >= "2015-02-21" {
        text.push_str("/table");
    }
    text.extend(["/", account, "/", table, "\n"]);
    put_lines(&mut text, &[fields.si]);
    if version >= "2015-04-05" {
        put_lines(&mut text, &[fields.sip, fields.spr]);
    }
    put_lines(&mut text, &[Some(version)]);
    put_lines(&mut text, &[fields.spk, fields.srk, fields.epk]);
    text.extend(fields.erk);
    text
}

/// The table in paths such as `/account/table(...)`.
fn table_in_path<'r>(head: &Head<'r>) -> Option<&'r str> {
    let name = after_account(head).strip_prefix('/')?;
    let end = name.find(|symbol: char| !symbol.is_ascii_alphanumeric());
    let (table, rest) = name.split_at_checked(end.unwrap_or(name.len()))?;
    let ends = rest.is_empty() || rest.starts_with(['(', '/']);
    (ends && !table.is_empty()).then_some(table)
}

fn signed_time(text: Option<&str>) -> Result<Option<DateTime>> {
    let time = text.map(|text| DateTime::parse(text).ok_or_else(|| failed(MALFORMED)));
    time.transpose()
}

/// A value is in the signature or in its policy.
fn one_of<T>(signed: Option<T>, stored: Option<T>) -> Result<Option<T>> {
    if signed.is_some() && stored.is_some() {
        return Err(failed(
            "Access policy fields can be associated with signature or SAS identifier but not \
             both.",
        ));
    }
    Ok(signed.or(stored))
}

fn required<T>(value: Option<T>, name: &str) -> Result<T> {
    value.ok_or_else(|| failed(format!("{name} is mandatory. Cannot be empty.")))
}

/// Allows one address, or those from one to another.
fn check_address(allowed: &str, peer: IpAddr) -> Result<()> {
    let (first, last) = allowed.split_once('-').unwrap_or((allowed, allowed));
    let parse = |text: &str| text.parse::<IpAddr>().map(|address| address.to_canonical());
    let (Ok(first), Ok(last)) = (parse(first), parse(last)) else {
        return Err(failed(MALFORMED));
    };
    let peer = peer.to_canonical();
    // Addresses of the other family sort before or after all of this one.
    let same_family = first.is_ipv4() == peer.is_ipv4() && last.is_ipv4() == peer.is_ipv4();
    if same_family && first <= peer && peer <= last {
        return Ok(());
    }
    Err(ServiceError::new(
        Code::AuthorizationSourceIPMismatch,
        format!(
            "This request is not authorized to perform this operation using this source IP {peer}."
        ),
    ))
}

fn check_protocol(allowed: &str, tls: bool) -> Result<()> {
    match allowed {
        "https,http" | "http,https" => Ok(()),
        "https" if tls => Ok(()),
        "https" => Err(Code::AuthorizationProtocolMismatch.into()),
        _ => Err(failed(MALFORMED)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::accounts::Accounts;
    use super::super::testing::{at, head};
    use super::*;

    const NOW: &str = "2026-11-16T12:00:00Z";

    // Made by azure-data-tables 12.7.0 with the key of the emulator.
    const ACCOUNT: &str = "se=2026-11-17T00%3A00%3A00Z&sp=rwdlacu&sv=2019-02-02&ss=t&srt=sco\
         &sig=NKlWQfVWVcnlNghHt05YvARyWHzp0BtHToMI8uifatc%3D";
    const ACCOUNT_LIMITED: &str = "st=2026-11-16T00%3A00%3A00Z&se=2026-11-17T00%3A00%3A00Z&sp=r\
         &sip=10.0.0.1-10.0.0.9&spr=https&sv=2019-02-02&ss=t&srt=o\
         &sig=eNt6FZB/SkJOf3FhHJTSnneN35DTQ%2Bmp0M2cZiFIwqw%3D";
    const TABLE: &str = "se=2026-11-17T00%3A00%3A00Z&sp=raud&sv=2019-02-02&tn=MyTable\
         &sig=xn/Kcuxc%2BmQTVTcF1T43X5QHJlrpe2XAGi1wtdcELGA%3D";
    const TABLE_LIMITED: &str = "st=2026-11-16T00%3A00%3A00Z&se=2026-11-17T00%3A00%3A00Z&sp=r\
         &sip=127.0.0.1&spr=https%2Chttp&sv=2019-02-02&tn=MyTable&spk=a%20b&srk=%C3%A9/1&epk=m\
         &erk=9&sig=m9/XRnOoCkIaMZ8GdHGdYXy3lmvHTueyxVo7AfGD7z4%3D";
    const TABLE_BY_POLICY: &str = "sv=2019-02-02&si=someacl&tn=MyTable\
         &sig=fuZDcg6FaXwQcE1ICQ3gYWPdHpSIUQJi5HAdP3s9icQ%3D";

    fn request(query: &str) -> Head<'static> {
        head(
            &format!("GET /devstoreaccount1/mytable()?$top=1&{query}"),
            &[],
        )
    }

    fn verify<'h>(head: &'h Head<'_>) -> Result<Sas<'h>> {
        let accounts = Accounts::emulator();
        Sas::verify(head, accounts.find("devstoreaccount1").unwrap())
    }

    fn grant(head: &Head<'_>, policy: Option<&AccessPolicy>, now: &str) -> Result<Grant> {
        verify(head)?.grant(policy, head, at(now))
    }

    fn account_scope(resource_types: &str, permissions: &str) -> Grant {
        Grant(Scope::Account {
            resource_types: Letters::parse(resource_types),
            permissions: Letters::parse(permissions),
        })
    }

    fn table_scope(table: &str, permissions: &str, range: Option<KeyRange>) -> Grant {
        Grant(Scope::Table {
            table: table.to_owned(),
            permissions: Letters::parse(permissions),
            range,
        })
    }

    fn refused(result: Result<Grant>, code: Code, words: &str) {
        let error = result.unwrap_err();
        assert_eq!(error.code, code, "{error:?}");
        let all = format!("{} {}", error.message, error.detail);
        assert!(all.contains(words), "{all}");
    }

    #[test]
    fn signatures_of_the_client_library_are_verified() {
        let check = |query: &str, expected: Grant| {
            let head = request(query);
            assert_eq!(grant(&head, None, NOW), Ok(expected), "{query}");
            assert_eq!(verify(&head).unwrap().policy_name(), None);
        };
        check(ACCOUNT, account_scope("sco", "rwdlacu"));
        check(TABLE, table_scope("MyTable", "raud", None));
        let key = |text: &str| Some(text.to_owned());
        let range = KeyRange {
            start: (key("a b"), key("é/1")),
            end: (key("m"), key("9")),
        };
        check(TABLE_LIMITED, table_scope("MyTable", "r", Some(range)));
        let mut head = request(ACCOUNT_LIMITED);
        head.tls = true;
        head.peer = [10, 0, 0, 9].into();
        assert_eq!(grant(&head, None, NOW), Ok(account_scope("o", "r")));
    }

    #[test]
    fn what_is_signed_depends_on_the_version() {
        let check = |query: &str, expected: Grant| {
            assert_eq!(grant(&request(query), None, NOW), Ok(expected), "{query}");
        };
        check(
            "se=2026-11-17T00:00:00Z&sp=r&tn=mytable&sv=2014-02-14\
             &sig=wgBpi4xBpcCBnX%2Bg1kyQj7deJ3Guz8zefyc6dHa7YQQ%3D",
            table_scope("mytable", "r", None),
        );
        check(
            "se=2026-11-17T00:00:00Z&sp=r&tn=mytable&sv=2015-02-21\
             &sig=L7%2BKRgYI1CRv2otOO4oIpPs5RoDIxzPZcQl4l%2BhH474%3D",
            table_scope("mytable", "r", None),
        );
        check(
            "se=2026-11-17T00:00:00Z&sp=r&ss=t&srt=o&sv=2020-12-06\
             &sig=%2FTwC0kJlBgxoxFA6G4PjkSgehDb3U97Oq8H0fqZgX8Y%3D",
            account_scope("o", "r"),
        );
    }

    #[test]
    fn a_missing_table_is_the_one_of_the_address() {
        let query = "sv=2020-10-02&si=someacl&spr=https%2Chttp\
             &sig=rM74R9YCjPG%2BTp5c7Jv2XQXfXgKIFzZr%2FY6%2Besfa4Ok%3D";
        let check = |target: &str, expected: Option<&str>| {
            let head = head(&format!("GET {target}?{query}"), &[]);
            let sas = verify(&head).ok();
            let name = sas.as_ref().and_then(Sas::policy_name);
            assert_eq!(name, expected.map(|table| (table, "someacl")), "{target}");
        };
        check("/devstoreaccount1/mytable", Some("mytable"));
        check(
            "/devstoreaccount1/MyTable(PartitionKey='a',RowKey='b')",
            Some("MyTable"),
        );
        check("/devstoreaccount1/mytable/", Some("mytable"));
        check("devstoreaccount1.host/mytable()", Some("mytable"));
        check("/devstoreaccount1/other", None);
        check("/devstoreaccount1/mytable$", None);
        check("/devstoreaccount1/$batch", None);
        check("/devstoreaccount1/", None);
        check("/devstoreaccount1", None);
    }

    #[test]
    fn anything_signed_may_not_change() {
        let check = |query: &str, from: &str, to: &str| {
            assert!(query.contains(from), "{from}");
            let head = request(&query.replace(from, to));
            let error = verify(&head).unwrap_err();
            assert_eq!(error.code, Code::AuthenticationFailed, "{from} {to}");
            error.detail
        };
        let message = check(TABLE, "sp=raud", "sp=r");
        let signed = "String to sign used was 'r\n\n2026-11-17T00:00:00Z\n\
                      /table/devstoreaccount1/mytable\n\n\n\n2019-02-02\n\n\n\n'.";
        assert!(message.ends_with(signed), "{message}");
        check(TABLE, "2026-11-17", "2027-11-17");
        check(TABLE, "tn=MyTable", "tn=YourTable");
        check(TABLE, "sv=2019-02-02", "sv=2018-11-09");
        check(TABLE, "sig=xn", "sig=yn");
        check(TABLE_BY_POLICY, "si=someacl", "si=other");
        for (from, to) in [
            ("st=2026-11-16", "st=2026-11-15"),
            ("sip=127.0.0.1&", ""),
            ("spr=https%2Chttp", "spr=https"),
            ("spk=a%20b", "spk=a"),
            ("srk=%C3%A9/1&", ""),
            ("epk=m", "epk=n"),
            ("erk=9", "erk="),
        ] {
            check(TABLE_LIMITED, from, to);
        }
        for (from, to) in [
            ("sp=rwdlacu", "sp=rwdlacup"),
            ("ss=t", "ss=tb"),
            ("srt=sco", "srt=scoo"),
            ("2026-11-17", "2027-11-17"),
            ("sv=2019-02-02", "sv=2020-12-06"),
            ("sv=2019-02-02", "sv=2014-02-14"),
        ] {
            check(ACCOUNT, from, to);
        }
    }

    #[test]
    fn malformed_parameters_are_refused() {
        let check = |query: &str, words: &str| {
            refused(
                grant(&request(query), None, NOW),
                Code::AuthenticationFailed,
                words,
            );
        };
        check(&format!("{TABLE}&sig=duplicated-signature"), MALFORMED);
        check(&format!("{TABLE}&sig="), MALFORMED);
        check(&format!("sip=&{TABLE}&sip=1.2.3.4"), MALFORMED);
        check(&format!("{TABLE}&sip=%0A"), MALFORMED);
        check("sig=", MALFORMED);
        check("sig=abc&sv=2019-02-02", MALFORMED);
        let without = |query: &str, part: &str| query.replace(part, "");
        check(&without(TABLE, "sv=2019-02-02&"), "sv is mandatory");
        check(
            &TABLE.replace("sv=2019-02-02", "sv=new"),
            "sv is not a version",
        );
        check(
            &TABLE.replace("sv=2019-02-02", "sv=2019/02/02"),
            "sv is not a version",
        );
    }

    #[test]
    fn signatures_hold_for_a_time() {
        let early = "2026-11-15T23:59:59Z";
        let late = "2026-11-17T00:00:01Z";
        for query in [TABLE, TABLE_LIMITED, ACCOUNT] {
            let words = "not valid in the specified time frame";
            let head = request(query);
            refused(grant(&head, None, late), Code::AuthenticationFailed, words);
            assert!(grant(&head, None, "2026-11-17T00:00:00Z").is_ok());
        }
        let head = request(TABLE_LIMITED);
        let words = "Start [2026-11-16T00:00:00.0000000Z] - \
                     Expiry [2026-11-17T00:00:00.0000000Z] - \
                     Current [2026-11-15T23:59:59.0000000Z]";
        refused(grant(&head, None, early), Code::AuthenticationFailed, words);
        assert!(grant(&head, None, "2026-11-16T00:00:00Z").is_ok());
    }

    #[test]
    fn policies_complete_signatures() {
        let head = request(TABLE_BY_POLICY);
        let sas = verify(&head).unwrap();
        assert_eq!(sas.policy_name(), Some(("MyTable", "someacl")));
        let policy = AccessPolicy {
            id: "someacl".to_owned(),
            start: Some("2026-11-16".to_owned()),
            expiry: Some("2026-11-17".to_owned()),
            permission: Some("ra".to_owned()),
        };
        let granted = Ok(table_scope("MyTable", "ra", None));
        assert_eq!(grant(&head, Some(&policy), NOW), granted);

        let check = |change: fn(&mut AccessPolicy), words: &str| {
            let mut changed = policy.clone();
            change(&mut changed);
            let result = grant(&head, Some(&changed), NOW);
            refused(result, Code::AuthenticationFailed, words);
        };
        check(
            |policy| policy.start = Some("2026-11-17".to_owned()),
            "time frame",
        );
        check(
            |policy| policy.expiry = Some("2026-11-16".to_owned()),
            "time frame",
        );
        check(|policy| policy.expiry = None, "se is mandatory");
        check(|policy| policy.permission = None, "sp is mandatory");
        check(
            |policy| policy.permission = Some(String::new()),
            "sp is mandatory",
        );
        check(
            |policy| policy.id = "other".to_owned(),
            "no access policy 'someacl'",
        );
        let words = "The table 'MyTable' has no access policy 'someacl'";
        refused(grant(&head, None, NOW), Code::AuthenticationFailed, words);
    }

    #[test]
    fn a_value_stands_in_one_place() {
        let field = Some("r");
        assert_eq!(one_of(field, None), Ok(field));
        assert_eq!(one_of(None, field), Ok(field));
        assert_eq!(one_of::<&str>(None, None), Ok(None));
        let error = one_of(field, field).unwrap_err();
        assert!(error.detail.contains("but not both"), "{}", error.detail);

        let head = request(TABLE);
        let mut sas = verify(&head).unwrap();
        sas.fields.si = Some("someacl");
        let mut policy = AccessPolicy {
            id: "someacl".to_owned(),
            ..AccessPolicy::default()
        };
        assert!(sas.terms(Some(&policy)).is_ok());
        policy.permission = Some("r".to_owned());
        assert!(sas.terms(Some(&policy)).is_err());
        policy.permission = None;
        policy.expiry = Some("2026-11-17".to_owned());
        assert!(sas.terms(Some(&policy)).is_err());
    }

    #[test]
    fn addresses_are_single_or_ranges() {
        let check = |allowed: &str, peer: &str, code: Option<Code>| {
            let result = check_address(allowed, peer.parse().unwrap());
            assert_eq!(
                result.err().map(|error| error.code),
                code,
                "{allowed} {peer}"
            );
        };
        let mismatch = Some(Code::AuthorizationSourceIPMismatch);
        check("10.0.0.1", "10.0.0.1", None);
        check("10.0.0.1", "::ffff:10.0.0.1", None);
        check("10.0.0.1", "10.0.0.2", mismatch);
        check("10.0.0.9-10.0.0.10", "10.0.0.9", None);
        check("10.0.0.9-10.0.0.10", "10.0.0.10", None);
        check("10.0.0.9-10.0.0.10", "10.0.0.11", mismatch);
        check("10.0.0.9-10.0.0.10", "10.0.0.8", mismatch);
        check("0.0.0.0-255.255.255.255", "::1", mismatch);
        check("0.0.0.0-ffff::", "::1", mismatch);
        check("::1-::ff", "::2", None);
        check("::1-::ff", "::1:0", mismatch);
        for allowed in ["x", "10.0.0.1-", "10.0.0.1-10.0.0.2-10.0.0.3", "10.0.0.0/8"] {
            check(allowed, "10.0.0.1", Some(Code::AuthenticationFailed));
        }
        let head = request(ACCOUNT_LIMITED);
        let words = "source IP 127.0.0.1";
        refused(
            grant(&head, None, NOW),
            Code::AuthorizationSourceIPMismatch,
            words,
        );
    }

    #[test]
    fn protocols_are_restricted() {
        let check = |allowed: &str, tls: bool, code: Option<Code>| {
            let result = check_protocol(allowed, tls);
            assert_eq!(
                result.err().map(|error| error.code),
                code,
                "{allowed} {tls}"
            );
        };
        check("https", true, None);
        check("https", false, Some(Code::AuthorizationProtocolMismatch));
        check("https,http", true, None);
        check("https,http", false, None);
        check("http", false, Some(Code::AuthenticationFailed));
        check("HTTPS", true, Some(Code::AuthenticationFailed));
        let mut head = request(ACCOUNT_LIMITED);
        head.peer = [10, 0, 0, 1].into();
        refused(
            grant(&head, None, NOW),
            Code::AuthorizationProtocolMismatch,
            "protocol",
        );
    }

    #[test]
    fn other_services_and_half_ranges_are_refused() {
        let head = request(ACCOUNT);
        let mut sas = verify(&head).unwrap();
        sas.fields.ss = Some("bqf");
        let result = sas.grant(None, &head, at(NOW));
        refused(result, Code::AuthorizationServiceMismatch, "service");
        for name in ["srk", "erk"] {
            let head = request(TABLE);
            let mut sas = verify(&head).unwrap();
            *sas.fields.field(name).unwrap() = Some("1");
            let result = sas.grant(None, &head, at(NOW));
            refused(
                result,
                Code::AuthenticationFailed,
                "without its partition key",
            );
        }
    }
}
