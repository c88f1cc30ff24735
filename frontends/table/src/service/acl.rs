//! The stored access policies of a table, which signatures can refer to by name.

use serde::{Deserialize, Serialize};

use super::xml::{Element, document, leaf, nest, required};
use crate::entity::DateTime;
use crate::error::{Code, Result};

const POLICIES_MAX: usize = 5;
const ID_CHARS_MAX: usize = 64;
/// Read, add, update, delete: every permission, in the order in which they are written.
const PERMISSIONS: &str = "raud";

/// One policy. Fields that it leaves open must be in the signature.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AccessPolicy {
    pub(crate) id: String,
    /// A valid ISO 8601 text, kept as it was given.
    pub(crate) start: Option<String>,
    /// Like `start`.
    pub(crate) expiry: Option<String>,
    /// Some of `raud`, in that order.
    pub(crate) permission: Option<String>,
}

impl AccessPolicy {
    /// From when the policy holds.
    pub(crate) fn start_time(&self) -> Option<DateTime> {
        DateTime::parse(self.start.as_deref()?)
    }

    /// Until when the policy holds.
    pub(crate) fn expiry_time(&self) -> Option<DateTime> {
        DateTime::parse(self.expiry.as_deref()?)
    }
}

/// Reads the policies, which replace all earlier ones. An empty body clears them.
pub(crate) fn read_xml(body: &[u8]) -> Result<Vec<AccessPolicy>> {
    if body.trim_ascii().is_empty() {
        return Ok(Vec::new());
    }
    let root = Element::read(body, "SignedIdentifiers")?;
    let mut policies: Vec<AccessPolicy> = Vec::new();
    for element in root.list("SignedIdentifier", POLICIES_MAX)? {
        let policy = read_policy(element)?;
        if policies.iter().any(|other| other.id == policy.id) {
            let why = format!("two policies have the <Id> '{}'", policy.id);
            return Err(Code::InvalidXmlNodeValue.because(why));
        }
        policies.push(policy);
    }
    Ok(policies)
}

/// The document of these policies. An empty policy has only its name, which clients distinguish
/// from empty fields.
pub(crate) fn write_xml(policies: &[AccessPolicy]) -> Vec<u8> {
    document("SignedIdentifiers", |out| {
        for policy in policies {
            nest(out, "SignedIdentifier", |out| write_policy(out, policy));
        }
    })
}

fn write_policy(out: &mut String, policy: &AccessPolicy) {
    leaf(out, "Id", &policy.id);
    let fields = [
        ("Start", &policy.start),
        ("Expiry", &policy.expiry),
        ("Permission", &policy.permission),
    ];
    if fields.iter().all(|(_, field)| field.is_none()) {
        return;
    }
    nest(out, "AccessPolicy", |out| {
        for (name, field) in fields {
            if let Some(text) = field {
                leaf(out, name, text);
            }
        }
    });
}

fn read_policy(element: &Element) -> Result<AccessPolicy> {
    let [id, policy] = element.fields(["Id", "AccessPolicy"])?;
    let id = required(id)?.text()?;
    let [start, expiry, permission] = match policy {
        Some(policy) => policy.fields(["Start", "Expiry", "Permission"])?,
        None => [None; 3],
    };
    check((1..=ID_CHARS_MAX).contains(&id.chars().count()))?;
    Ok(AccessPolicy {
        id: id.to_owned(),
        start: read_field(start, |text| DateTime::parse(text).is_some())?,
        expiry: read_field(expiry, |text| DateTime::parse(text).is_some())?,
        permission: read_field(permission, is_permission)?,
    })
}

/// The text of a field that is there and not empty, if it is valid.
fn read_field(field: Option<&Element>, valid: impl Fn(&str) -> bool) -> Result<Option<String>> {
    let text = field.map_or(Ok(""), Element::text)?;
    check(text.is_empty() || valid(text))?;
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

fn check(valid: bool) -> Result<()> {
    valid
        .then_some(())
        .ok_or_else(|| Code::InvalidXmlNodeValue.because("it is one of a <SignedIdentifier>"))
}

fn is_permission(text: &str) -> bool {
    let mut known = PERMISSIONS.chars();
    text.chars()
        .all(|letter| known.any(|other| other == letter))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn identifier(fields: &str) -> String {
        format!("<SignedIdentifier>{fields}</SignedIdentifier>")
    }

    fn read(identifiers: &str) -> Result<Vec<AccessPolicy>> {
        read_xml(format!("<SignedIdentifiers>{identifiers}</SignedIdentifiers>").as_bytes())
    }

    fn policy(id: &str, fields: [&str; 3]) -> AccessPolicy {
        let [start, expiry, permission] =
            fields.map(|field| (!field.is_empty()).then(|| field.to_owned()));
        AccessPolicy {
            id: id.to_owned(),
            start,
            expiry,
            permission,
        }
    }

    #[test]
    fn reads_what_clients_send() {
        let python = "<?xml version='1.0' encoding='utf-8'?>\n\
            <SignedIdentifiers><SignedIdentifier><Id>x</Id></SignedIdentifier><SignedIdentifier>\
            <Id>y</Id><AccessPolicy><Permission>r</Permission></AccessPolicy></SignedIdentifier>\
            </SignedIdentifiers>";
        let javascript = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\
            <SignedIdentifiers><SignedIdentifier><Id>a</Id><AccessPolicy>\
            <Start>1970-01-01T00:00:00Z</Start><Expiry>2030-01-01T00:00:00Z</Expiry>\
            <Permission>raud</Permission></AccessPolicy></SignedIdentifier><SignedIdentifier>\
            <Id>b</Id><AccessPolicy/></SignedIdentifier></SignedIdentifiers>";
        for (text, expected) in [
            (
                python,
                vec![policy("x", [""; 3]), policy("y", ["", "", "r"])],
            ),
            (
                javascript,
                vec![
                    policy(
                        "a",
                        ["1970-01-01T00:00:00Z", "2030-01-01T00:00:00Z", "raud"],
                    ),
                    policy("b", [""; 3]),
                ],
            ),
            ("<SignedIdentifiers/>", Vec::new()),
            ("", Vec::new()),
        ] {
            assert_eq!(read_xml(text.as_bytes()), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_policy_that_says_nothing_is_a_name_alone() {
        let policies = [policy("a&b", ["", "", "r"]), policy("x", [""; 3])];
        assert_eq!(
            String::from_utf8(write_xml(&policies)).unwrap(),
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><SignedIdentifiers><SignedIdentifier>\
             <Id>a&amp;b</Id><AccessPolicy><Permission>r</Permission></AccessPolicy>\
             </SignedIdentifier><SignedIdentifier><Id>x</Id></SignedIdentifier>\
             </SignedIdentifiers>"
        );
    }

    #[test]
    fn at_most_five_policies() {
        let many = |count: usize| {
            let one = |index: usize| identifier(&format!("<Id>{index}</Id>"));
            (0..count).map(one).collect::<String>()
        };
        assert_eq!(read(&many(5)).unwrap().len(), 5);
        assert_eq!(read(&many(6)).unwrap_err().code, Code::InvalidXmlDocument);
    }

    #[test]
    fn refuses_wrong_structure() {
        for identifiers in [
            "<Other/>",
            &identifier(""),
            &identifier("<Id>a</Id><Id>b</Id>"),
            &identifier("<Id>a</Id><AccessPolicy><Other/></AccessPolicy>"),
        ] {
            let error = read(identifiers).unwrap_err();
            assert_eq!(error.code, Code::InvalidXmlDocument, "{identifiers}");
        }
        let error = read_xml(b"<Other/>").unwrap_err();
        assert_eq!(error.code, Code::InvalidXmlDocument);
    }

    #[test]
    fn checks_values() {
        let long = format!("<Id>{}</Id>", "é".repeat(64));
        assert!(read(&identifier(&long)).is_ok());
        let field = |field: &str, text: &str| {
            identifier(&format!(
                "<Id>a</Id><AccessPolicy><{field}>{text}</{field}></AccessPolicy>"
            ))
        };
        for identifiers in [
            identifier("<Id/>"),
            identifier(&long.replace("<Id>", "<Id>x")),
            identifier("<Id>a</Id>") + &identifier("<Id>a</Id>"),
            field("Permission", "x"),
            field("Permission", "ar"),
            field("Permission", "rr"),
            field("Start", "yesterday"),
            field("Expiry", "2024-02-30"),
        ] {
            let error = read(&identifiers).unwrap_err();
            assert_eq!(error.code, Code::InvalidXmlNodeValue, "{identifiers}");
        }
        for permission in ["r", "a", "ud", "rd", "raud"] {
            assert!(
                read(&field("Permission", permission)).is_ok(),
                "{permission}"
            );
        }
    }

    #[test]
    fn knows_the_service_s_forms_of_time() {
        let midnight = Some(1_704_067_200 * 10);
        for (text, expected) in [
            ("2024-01-01", midnight),
            ("2024-01-01T00:00Z", midnight),
            ("2024-01-01T02:00+02:00", midnight),
            ("2024-01-01T00:00:00Z", midnight),
            ("2023-12-31T23:30:00-00:30", midnight),
            ("2024-01-01T00:00:00.5000000Z", Some(1_704_067_200 * 10 + 5)),
            ("2024-01-01T00:00", midnight),
            ("2024-01-01T00:00:00", midnight),
            ("2024-1-1", None),
            ("", None),
        ] {
            let tenths = |time: DateTime| time.ticks / 1_000_000;
            assert_eq!(DateTime::parse(text).map(tenths), expected, "{text}");
        }
        let policy = policy("a", ["2024-01-01", "2024-01-02T00:00Z", ""]);
        assert!(policy.start_time().unwrap() < policy.expiry_time().unwrap());
    }

    proptest! {
        #[test]
        fn written_policies_read_back(
            ids in prop::collection::hash_set("[!-~é]{1,64}", 0..=POLICIES_MAX),
            start in prop::option::of("20[0-9]{2}-0[1-9]-[12][0-8]T1[0-9]:[0-5][0-9]:00Z"),
            permission in prop::option::of("r?a?u?d"),
        ) {
            let policy = |id| AccessPolicy {
                id,
                start: start.clone(),
                expiry: start.clone(),
                permission: permission.clone(),
            };
            let policies: Vec<_> = ids.into_iter().map(policy).collect();
            prop_assert_eq!(read_xml(&write_xml(&policies)), Ok(policies));
        }
    }
}
