//! The properties of the service: logging, metrics, and the rules of CORS.
//!
//! They are stored and returned; logging and metrics have no effect.

use bytes::Bytes;
use hyper::header::HeaderName;
use serde::{Deserialize, Serialize};
use tessera_core::Error;

use super::cors::CorsRule;
use super::xml::{Element, document, leaf, nest, required};
use crate::error::{Code, Result};

const VERSION: &str = "1.0";
const RETENTION_DAYS_MAX: u16 = 365;
const RULES_MAX: usize = 5;
const ORIGINS_MAX: usize = 64;
const LITERAL_HEADERS_MAX: usize = 64;
const PREFIXED_HEADERS_MAX: usize = 2;
/// Of an origin or a header.
const NAME_BYTES_MAX: usize = 256;
/// Of all rules together, without their tags.
const RULES_BYTES_MAX: usize = 2048;
const METHODS: [&str; 8] = [
    "DELETE", "GET", "HEAD", "MERGE", "OPTIONS", "PATCH", "POST", "PUT",
];

/// The properties of one account's Table service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServiceProperties {
    pub(crate) logging: Logging,
    pub(crate) hour_metrics: Metrics,
    pub(crate) minute_metrics: Metrics,
    pub(crate) cors: Vec<CorsRule>,
}

/// The requests that are logged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Logging {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) delete: bool,
    /// How long logs are kept; none: without limit.
    pub(crate) retention_days: Option<u16>,
}

/// The metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Metrics {
    pub(crate) enabled: bool,
    /// Each operation on its own too. Not kept when nothing is measured.
    pub(crate) include_apis: bool,
    /// How long metrics are kept; none: without limit.
    pub(crate) retention_days: Option<u16>,
}

impl Default for ServiceProperties {
    /// A new account has hourly metrics, kept for a week.
    fn default() -> Self {
        Self {
            logging: Logging::default(),
            hour_metrics: Metrics {
                enabled: true,
                include_apis: true,
                retention_days: Some(7),
            },
            minute_metrics: Metrics::default(),
            cors: Vec::new(),
        }
    }
}

impl ServiceProperties {
    /// Reads the record of an account, which has none before anything was set.
    pub(crate) fn read(record: Option<&[u8]>) -> tessera_core::Result<Self> {
        let properties = record.map(serde_json::from_slice).transpose();
        properties
            .map(Option::unwrap_or_default)
            .map_err(|error| Error::Corrupt(format!("the record of an account: {error}")))
    }

    /// The record of an account, which reads back as it is written.
    pub(crate) fn write(&self) -> tessera_core::Result<Bytes> {
        let record = serde_json::to_vec(self).map(Bytes::from);
        let record = record
            .map_err(|error| Error::Internal(format!("the record of an account: {error}")))?;
        if Self::read(Some(&record))? == *self {
            return Ok(record);
        }
        let what = "the record of an account does not read back";
        Err(Error::Internal(what.to_owned()))
    }

    /// Changes the parts that the update has.
    pub(crate) fn apply(&mut self, update: Update) {
        fn replace<T>(old: &mut T, new: Option<T>) {
            if let Some(new) = new {
                *old = new;
            }
        }
        replace(&mut self.logging, update.logging);
        replace(&mut self.hour_metrics, update.hour_metrics);
        replace(&mut self.minute_metrics, update.minute_metrics);
        replace(&mut self.cors, update.cors);
    }

    /// The whole document.
    pub(crate) fn write_xml(&self) -> Vec<u8> {
        document("StorageServiceProperties", |out| {
            write_logging(out, &self.logging);
            write_metrics(out, "HourMetrics", &self.hour_metrics);
            write_metrics(out, "MinuteMetrics", &self.minute_metrics);
            nest(out, "Cors", |out| {
                self.cors.iter().for_each(|rule| write_rule(out, rule));
            });
        })
    }
}

/// An update of a client: only the parts that are present change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Update {
    pub(crate) logging: Option<Logging>,
    pub(crate) hour_metrics: Option<Metrics>,
    pub(crate) minute_metrics: Option<Metrics>,
    pub(crate) cors: Option<Vec<CorsRule>>,
}

impl Update {
    /// Reads a document of which every part may be missing.
    pub(crate) fn read_xml(body: &[u8]) -> Result<Self> {
        let root = Element::read(body, "StorageServiceProperties")?;
        let [logging, hour_metrics, minute_metrics, cors] =
            root.fields(["Logging", "HourMetrics", "MinuteMetrics", "Cors"])?;
        Ok(Self {
            logging: logging.map(read_logging).transpose()?,
            hour_metrics: hour_metrics.map(read_metrics).transpose()?,
            minute_metrics: minute_metrics.map(read_metrics).transpose()?,
            cors: cors.map(read_rules).transpose()?,
        })
    }
}

fn write_logging(out: &mut String, logging: &Logging) {
    nest(out, "Logging", |out| {
        leaf(out, "Version", VERSION);
        write_flag(out, "Read", logging.read);
        write_flag(out, "Write", logging.write);
        write_flag(out, "Delete", logging.delete);
        write_retention(out, logging.retention_days);
    });
}

fn write_metrics(out: &mut String, name: &str, metrics: &Metrics) {
    nest(out, name, |out| {
        leaf(out, "Version", VERSION);
        write_flag(out, "Enabled", metrics.enabled);
        if metrics.enabled {
            write_flag(out, "IncludeAPIs", metrics.include_apis);
        }
        write_retention(out, metrics.retention_days);
    });
}

fn write_retention(out: &mut String, days: Option<u16>) {
    nest(out, "RetentionPolicy", |out| {
        write_flag(out, "Enabled", days.is_some());
        if let Some(days) = days {
            leaf(out, "Days", &days.to_string());
        }
    });
}

fn write_rule(out: &mut String, rule: &CorsRule) {
    nest(out, "CorsRule", |out| {
        leaf(out, "AllowedMethods", &rule.allowed_methods.join(","));
        leaf(out, "AllowedOrigins", &rule.allowed_origins.join(","));
        leaf(out, "AllowedHeaders", &rule.allowed_headers.join(","));
        leaf(out, "ExposedHeaders", &rule.exposed_headers.join(","));
        leaf(out, "MaxAgeInSeconds", &rule.max_age_seconds.to_string());
    });
}

fn write_flag(out: &mut String, name: &str, flag: bool) {
    leaf(out, name, if flag { "true" } else { "false" });
}

fn read_logging(element: &Element) -> Result<Logging> {
    let [version, read, write, delete, retention] =
        element.fields(["Version", "Read", "Write", "Delete", "RetentionPolicy"])?;
    check_version(required(version)?)?;
    Ok(Logging {
        read: read_flag(required(read)?)?,
        write: read_flag(required(write)?)?,
        delete: read_flag(required(delete)?)?,
        retention_days: read_retention(required(retention)?)?,
    })
}

fn read_metrics(element: &Element) -> Result<Metrics> {
    let [version, enabled, include_apis, retention] =
        element.fields(["Version", "Enabled", "IncludeAPIs", "RetentionPolicy"])?;
    version.map_or(Ok(()), check_version)?;
    let enabled = read_flag(required(enabled)?)?;
    let include_apis = include_apis.map_or(Ok(false), read_flag)?;
    Ok(Metrics {
        enabled,
        include_apis: enabled && include_apis,
        retention_days: retention.map_or(Ok(None), read_retention)?,
    })
}

fn read_retention(element: &Element) -> Result<Option<u16>> {
    let [enabled, days] = element.fields(["Enabled", "Days"])?;
    if !read_flag(required(enabled)?)? {
        return Ok(None);
    }
    let days = required(days)?;
    match days.text()?.parse() {
        Ok(days) if (1..=RETENTION_DAYS_MAX).contains(&days) => Ok(Some(days)),
        _ => Err(days.wrong_value()),
    }
}

fn check_version(element: &Element) -> Result<()> {
    match element.text()? {
        VERSION => Ok(()),
        _ => Err(element.wrong_value()),
    }
}

fn read_flag(element: &Element) -> Result<bool> {
    match element.text()?.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(element.wrong_value()),
    }
}

fn read_rules(element: &Element) -> Result<Vec<CorsRule>> {
    let rules = element.list("CorsRule", RULES_MAX)?;
    let mut bytes = 0;
    let mut read = |element| {
        let (rule, size) = read_rule(element)?;
        bytes += size;
        if bytes > RULES_BYTES_MAX {
            let why = format!("all CORS rules together have more than {RULES_BYTES_MAX} bytes");
            return Err(Code::InvalidXmlNodeValue.because(why));
        }
        Ok(rule)
    };
    rules.iter().map(&mut read).collect()
}

/// Reads a rule and the length of its texts.
fn read_rule(element: &Element) -> Result<(CorsRule, usize)> {
    let [origins, methods, allowed, exposed, max_age] = element.fields([
        "AllowedOrigins",
        "AllowedMethods",
        "AllowedHeaders",
        "ExposedHeaders",
        "MaxAgeInSeconds",
    ])?;
    let origins = required(origins)?.text()?;
    let methods = required(methods)?.text()?;
    let allowed = allowed.map_or(Ok(""), Element::text)?;
    let exposed = exposed.map_or(Ok(""), Element::text)?;
    let max_age = required(max_age)?.text()?;
    let size = [origins, methods, allowed, exposed, max_age].map(str::len);
    let parse = || {
        Some(CorsRule {
            allowed_origins: read_origins(origins)?,
            allowed_methods: read_methods(methods)?,
            allowed_headers: read_header_names(allowed)?,
            exposed_headers: read_header_names(exposed)?,
            // The service counts in signed numbers of 32 bits.
            max_age_seconds: max_age.parse::<i32>().ok()?.try_into().ok()?,
        })
    };
    let malformed = || Code::InvalidXmlNodeValue.because("it is one of a <CorsRule>");
    let rule = parse().ok_or_else(malformed)?;
    Ok((rule, size.iter().sum()))
}

fn read_origins(text: &str) -> Option<Vec<String>> {
    let origins = read_list(text)?;
    (1..=ORIGINS_MAX)
        .contains(&origins.len())
        .then_some(origins)
}

fn read_methods(text: &str) -> Option<Vec<String>> {
    let methods = read_list(&text.to_ascii_uppercase())?;
    let known = methods.iter().all(|name| METHODS.contains(&name.as_str()));
    (known && !methods.is_empty()).then_some(methods)
}

fn read_header_names(text: &str) -> Option<Vec<String>> {
    let names = read_list(text)?;
    let valid = names.iter().all(|name| match name.strip_suffix('*') {
        Some(prefix) => prefix.is_empty() || is_header_name(prefix),
        None => is_header_name(name),
    });
    let prefixed = names.iter().filter(|name| name.ends_with('*')).count();
    let literal = names.len() - prefixed;
    let few = literal <= LITERAL_HEADERS_MAX && prefixed <= PREFIXED_HEADERS_MAX;
    (valid && few).then_some(names)
}

fn is_header_name(text: &str) -> bool {
    // A star is a letter like others in names of headers, but not in patterns.
    !text.contains('*') && HeaderName::from_bytes(text.as_bytes()).is_ok()
}

/// Reads names with commas between them; none if one of them is empty, too long or not visible.
fn read_list(text: &str) -> Option<Vec<String>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let names = text.split(',').map(|name| {
        let name = name.trim();
        let visible = name.bytes().all(|byte| byte.is_ascii_graphic());
        let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
        (visible && fits).then(|| name.to_owned())
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sent by azure-data-tables 12.7.0 for Python with all parts set.
    const PYTHON: &str = "<?xml version='1.0' encoding='utf-8'?>\n\
        <StorageServiceProperties><Logging><Version>1.0</Version><Delete>true</Delete>\
        <Read>false</Read><Write>false</Write><RetentionPolicy><Enabled>false</Enabled>\
        </RetentionPolicy></Logging><HourMetrics><Version>1.0</Version><Enabled>false</Enabled>\
        <RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></HourMetrics><MinuteMetrics>\
        <Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs>\
        <RetentionPolicy><Enabled>true</Enabled><Days>5</Days></RetentionPolicy></MinuteMetrics>\
        <Cors><CorsRule><AllowedOrigins>www.xyz.com</AllowedOrigins>\
        <AllowedMethods>GET</AllowedMethods><AllowedHeaders /><ExposedHeaders />\
        <MaxAgeInSeconds>0</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>";

    fn read(parts: &str) -> Result<Update> {
        let text = format!("<StorageServiceProperties>{parts}</StorageServiceProperties>");
        Update::read_xml(text.as_bytes())
    }

    fn refused(parts: &str, code: Code) {
        assert_eq!(read(parts).unwrap_err().code, code, "{parts}");
    }

    fn cors(origins: &str, methods: &str, headers: &str, max_age: &str) -> String {
        format!(
            "<Cors><CorsRule><AllowedOrigins>{origins}</AllowedOrigins>\
             <AllowedMethods>{methods}</AllowedMethods><AllowedHeaders>{headers}</AllowedHeaders>\
             <ExposedHeaders>*</ExposedHeaders><MaxAgeInSeconds>{max_age}</MaxAgeInSeconds>\
             </CorsRule></Cors>"
        )
    }

    #[test]
    fn reads_all_parts() {
        let update = Update::read_xml(PYTHON.as_bytes()).unwrap();
        let mut properties = ServiceProperties::default();
        properties.apply(update);
        assert_eq!(
            properties,
            ServiceProperties {
                logging: Logging {
                    delete: true,
                    ..Logging::default()
                },
                hour_metrics: Metrics::default(),
                minute_metrics: Metrics {
                    enabled: true,
                    include_apis: true,
                    retention_days: Some(5),
                },
                cors: vec![CorsRule {
                    allowed_origins: vec!["www.xyz.com".to_owned()],
                    allowed_methods: vec!["GET".to_owned()],
                    allowed_headers: Vec::new(),
                    exposed_headers: Vec::new(),
                    max_age_seconds: 0,
                }],
            }
        );
    }

    #[test]
    fn changes_only_what_is_present() {
        let full = Update::read_xml(PYTHON.as_bytes()).unwrap();
        let mut properties = ServiceProperties::default();
        properties.apply(full);
        let before = properties.clone();

        properties.apply(read("").unwrap());
        assert_eq!(properties, before);

        properties.apply(read("<Cors/>").unwrap());
        let without_rules = ServiceProperties {
            cors: Vec::new(),
            ..before
        };
        assert_eq!(properties, without_rules);
    }

    #[test]
    fn writes_in_the_order_of_the_service() {
        let mut properties = ServiceProperties::default();
        properties
            .apply(read(&cors("http://a.com, http://b.com", "get,Put", "x-*,y", "9")).unwrap());
        assert_eq!(
            String::from_utf8(properties.write_xml()).unwrap(),
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceProperties><Logging>\
             <Version>1.0</Version><Read>false</Read><Write>false</Write><Delete>false</Delete>\
             <RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></Logging><HourMetrics>\
             <Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs>\
             <RetentionPolicy><Enabled>true</Enabled><Days>7</Days></RetentionPolicy>\
             </HourMetrics><MinuteMetrics><Version>1.0</Version><Enabled>false</Enabled>\
             <RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></MinuteMetrics><Cors>\
             <CorsRule><AllowedMethods>GET,PUT</AllowedMethods>\
             <AllowedOrigins>http://a.com,http://b.com</AllowedOrigins>\
             <AllowedHeaders>x-*,y</AllowedHeaders><ExposedHeaders>*</ExposedHeaders>\
             <MaxAgeInSeconds>9</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>"
        );
    }

    #[test]
    fn refuses_wrong_structure() {
        for parts in [
            "<Other/>",
            "<Cors/><Cors/>",
            "<Cors>text</Cors><Logging/>",
            "<Cors><Other/></Cors>",
            "<Cors><CorsRule/></Cors>",
            "<Logging><Version>1.0</Version></Logging>",
            "<HourMetrics><Version>1.0</Version></HourMetrics>",
            "<HourMetrics><Enabled><x/></Enabled></HourMetrics>",
            "<HourMetrics><Enabled>true</Enabled><RetentionPolicy><Enabled>true</Enabled>\
             </RetentionPolicy></HourMetrics>",
        ] {
            refused(parts, Code::InvalidXmlDocument);
        }
        for body in ["", "<Properties/>", "<StorageServiceProperties>"] {
            let error = Update::read_xml(body.as_bytes()).unwrap_err();
            assert_eq!(error.code, Code::InvalidXmlDocument, "{body}");
        }
    }

    #[test]
    fn checks_values_of_metrics() {
        let days = |days: &str| {
            let parts = format!(
                "<MinuteMetrics><Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy>\
                 <Enabled>true</Enabled><Days>{days}</Days></RetentionPolicy></MinuteMetrics>"
            );
            read(&parts).map(|update| update.minute_metrics.unwrap().retention_days)
        };
        assert_eq!(days("1"), Ok(Some(1)));
        assert_eq!(days("365"), Ok(Some(365)));
        for bad in ["0", "366", "-1", "", "x"] {
            let error = days(bad).unwrap_err();
            assert_eq!(error.code, Code::InvalidXmlNodeValue, "{bad}");
        }
        for parts in [
            "<HourMetrics><Version>2.0</Version><Enabled>false</Enabled></HourMetrics>",
            "<HourMetrics><Enabled>maybe</Enabled></HourMetrics>",
        ] {
            refused(parts, Code::InvalidXmlNodeValue);
        }
    }

    #[test]
    fn checks_rules_of_cors() {
        let many = |count: usize, name: &str| vec![name; count].join(",");
        let long = |length: usize| "a".repeat(length);
        for (origins, methods, headers, max_age) in [
            (
                "*",
                "DELETE,GET,HEAD,MERGE,POST,OPTIONS,PUT,PATCH",
                "*",
                "2147483647",
            ),
            (
                &many(64, "http://a"),
                "GET",
                &(many(64, "x") + ",y*,z*"),
                "0",
            ),
            (&long(256), "GET", &long(256), "0"),
        ] {
            assert!(
                read(&cors(origins, methods, headers, max_age)).is_ok(),
                "{origins}"
            );
        }
        for (origins, methods, headers, max_age) in [
            ("", "GET", "", "0"),
            ("a,,b", "GET", "", "0"),
            ("é", "GET", "", "0"),
            ("*", "", "", "0"),
            ("*", "GET,FETCH", "", "0"),
            ("*", "GET", "a b", "0"),
            ("*", "GET", "a*b", "0"),
            ("*", "GET", "a**", "0"),
            ("*", "GET", "x*,y*,z*", "0"),
            ("*", "GET", &many(65, "x"), "0"),
            ("*", "GET", &long(257), "0"),
            ("*", "GET", "", "-1"),
            ("*", "GET", "", ""),
            ("*", "GET", "", "2147483648"),
            (&many(65, "a"), "GET", "", "0"),
            (&long(257), "GET", "", "0"),
            (&many(9, &long(256)), "GET", "", "0"),
        ] {
            refused(
                &cors(origins, methods, headers, max_age),
                Code::InvalidXmlNodeValue,
            );
        }
        let rule = cors("*", "GET", "", "0")
            .replace("<Cors>", "")
            .replace("</Cors>", "");
        let rules = |count: usize| format!("<Cors>{}</Cors>", rule.repeat(count));
        assert_eq!(read(&rules(5)).unwrap().cors.unwrap().len(), 5);
        refused(&rules(6), Code::InvalidXmlDocument);
    }

    fn metrics() -> impl Strategy<Value = Metrics> {
        let days = prop::option::of(1..=RETENTION_DAYS_MAX);
        (any::<(bool, bool)>(), days).prop_map(|((enabled, include), retention_days)| Metrics {
            enabled,
            include_apis: enabled && include,
            retention_days,
        })
    }

    fn rules() -> impl Strategy<Value = CorsRule> {
        let origins = prop::collection::vec("http://[!-+a-z-]{1,9}", 1..3);
        let methods = prop::collection::vec(prop::sample::select(METHODS.to_vec()), 1..3);
        let headers = || prop::collection::vec("x-[a-z]{1,5}[*]?", 0..3);
        (origins, methods, headers(), headers(), 0..1000u32).prop_map(
            |(allowed_origins, methods, allowed_headers, exposed_headers, max_age_seconds)| {
                CorsRule {
                    allowed_origins,
                    allowed_methods: methods.into_iter().map(str::to_owned).collect(),
                    allowed_headers,
                    exposed_headers,
                    max_age_seconds,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn written_properties_read_back(
            (read, write, delete) in any::<(bool, bool, bool)>(),
            hour_metrics in metrics(),
            minute_metrics in metrics(),
            cors in prop::collection::vec(rules(), 0..=RULES_MAX),
        ) {
            let logging = Logging { read, write, delete, retention_days: None };
            let properties = ServiceProperties { logging, hour_metrics, minute_metrics, cors };
            let update = Update::read_xml(&properties.write_xml()).unwrap();
            let mut copy = ServiceProperties::default();
            copy.apply(update);
            prop_assert_eq!(&copy, &properties);

            let stored = serde_json::to_vec(&properties).unwrap();
            prop_assert_eq!(serde_json::from_slice::<ServiceProperties>(&stored).unwrap(), copy);
        }
    }
}
