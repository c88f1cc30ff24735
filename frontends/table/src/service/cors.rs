//! CORS: which requests from pages of other origins browsers may make, and what they may see.

use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    CONTENT_LENGTH, DATE, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING, VARY,
};
use serde::{Deserialize, Serialize};

use crate::error::{Code, Result, ServiceError};

/// Written after the answer leaves the handlers, and so in no map of headers yet.
const WRITTEN_LATER: [HeaderName; 3] = [CONTENT_LENGTH, DATE, TRANSFER_ENCODING];

/// One rule of the service properties. Every name in it is visible ASCII.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CorsRule {
    /// Origins as browsers send them, `*` for all, or `http://*.example.com` for subdomains.
    pub(crate) allowed_origins: Vec<String>,
    /// In capitals.
    pub(crate) allowed_methods: Vec<String>,
    /// Names of headers, or their beginnings with `*` after them.
    pub(crate) allowed_headers: Vec<String>,
    /// Like `allowed_headers`.
    pub(crate) exposed_headers: Vec<String>,
    pub(crate) max_age_seconds: u32,
}

impl CorsRule {
    fn allows(&self, origin: &str, method: &str) -> bool {
        let mut origins = self.allowed_origins.iter();
        let mut methods = self.allowed_methods.iter();
        origins.any(|allowed| origin_matches(allowed, origin))
            && methods.any(|allowed| allowed == method)
    }

    fn allows_all_origins(&self) -> bool {
        self.allowed_origins.iter().any(|allowed| allowed == "*")
    }

    /// `requested` is the list of a preflight request.
    fn allows_headers(&self, requested: &str) -> bool {
        let mut requested = requested.split(',').map(str::trim);
        requested.all(|name| {
            let mut allowed = self.allowed_headers.iter();
            name.is_empty() || allowed.any(|allowed| header_matches(allowed, name))
        })
    }

    /// The allowed origin, and whether with credentials. A browser accepts no credentials for `*`.
    fn allow_origin(&self, origin: &str) -> Option<Vec<(HeaderName, HeaderValue)>> {
        if self.allows_all_origins() {
            let all = HeaderValue::from_static("*");
            return Some(vec![(ACCESS_CONTROL_ALLOW_ORIGIN, all)]);
        }
        let origin = HeaderValue::from_str(origin).ok()?;
        Some(vec![
            (ACCESS_CONTROL_ALLOW_ORIGIN, origin),
            (
                ACCESS_CONTROL_ALLOW_CREDENTIALS,
                HeaderValue::from_static("true"),
            ),
        ])
    }

    /// The headers of the answer that this rule shows, then those it names that are not there.
    fn expose(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let exposed = |name: &HeaderName| {
            let mut patterns = self.exposed_headers.iter();
            patterns.any(|pattern| header_matches(pattern, name.as_str()))
        };
        let present = headers.keys().chain(&WRITTEN_LATER);
        let mut names: Vec<&str> = present
            .filter(|name| exposed(name))
            .map(HeaderName::as_str)
            .collect();
        for literal in self
            .exposed_headers
            .iter()
            .filter(|name| !name.ends_with('*'))
        {
            if !names.iter().any(|name| name.eq_ignore_ascii_case(literal)) {
                names.push(literal);
            }
        }
        let list = HeaderValue::from_str(&names.join(",")).ok()?;
        (!list.is_empty()).then_some(list)
    }
}

/// The headers that answer a preflight request which the first matching rule allows. `headers` is
/// the value of `Access-Control-Request-Headers`.
pub(crate) fn preflight(
    rules: &[CorsRule],
    origin: Option<&str>,
    method: Option<&str>,
    headers: Option<&str>,
) -> Result<Vec<(HeaderName, HeaderValue)>> {
    let (Some(origin), Some(method)) = (origin, method) else {
        let message = "A required CORS header is not present.";
        return Err(ServiceError::new(Code::InvalidHeaderValue, message));
    };
    let matches = |rule: &&CorsRule| {
        rule.allows(origin, method) && headers.is_none_or(|headers| rule.allows_headers(headers))
    };
    let answer = || {
        let rule = rules.iter().find(matches)?;
        let mut answer = rule.allow_origin(origin)?;
        answer.push((
            ACCESS_CONTROL_ALLOW_METHODS,
            HeaderValue::from_str(method).ok()?,
        ));
        if let Some(headers) = headers {
            answer.push((
                ACCESS_CONTROL_ALLOW_HEADERS,
                HeaderValue::from_str(headers).ok()?,
            ));
        }
        answer.push((ACCESS_CONTROL_MAX_AGE, rule.max_age_seconds.into()));
        Some(answer)
    };
    answer().ok_or_else(|| Code::CorsPreflightFailure.into())
}

/// Whether pages of this origin may make such requests.
pub(crate) fn permits(rules: &[CorsRule], origin: &str, method: &str) -> bool {
    rules.iter().any(|rule| rule.allows(origin, method))
}

/// Adds the headers of the first matching rule to an ordinary answer. Call this when the other
/// headers are complete, for errors as well.
pub(crate) fn actual(
    rules: &[CorsRule],
    origin: Option<&str>,
    method: &str,
    headers: &mut HeaderMap,
) {
    let Some(origin) = origin.filter(|_| !rules.is_empty()) else {
        return;
    };
    let rule = rules.iter().find(|rule| rule.allows(origin, method));
    if let Some(rule) = rule
        && let Some(allow) = rule.allow_origin(origin)
    {
        let exposed = rule.expose(headers);
        headers.extend(allow);
        headers.extend(exposed.map(|names| (ACCESS_CONTROL_EXPOSE_HEADERS, names)));
    }
    // Caches must not serve an answer for one origin to another, refusals included.
    if !rule.is_some_and(CorsRule::allows_all_origins) {
        headers.append(VARY, HeaderValue::from_static("Origin"));
    }
}

/// Origins are compared exactly, as the service documents it.
fn origin_matches(allowed: &str, origin: &str) -> bool {
    if allowed == "*" {
        return true;
    }
    let Some((scheme, domain)) = allowed.split_once("*.") else {
        return allowed == origin;
    };
    let rest = origin.strip_prefix(scheme);
    let subdomain = rest.and_then(|rest| rest.strip_suffix(domain)?.strip_suffix('.'));
    subdomain.is_some_and(|subdomain| !subdomain.is_empty() && !subdomain.contains(['/', ':']))
}

fn header_matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => {
            let start = name.get(..prefix.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        }
        None => pattern.eq_ignore_ascii_case(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        let words = text.split(',').filter(|word| !word.is_empty());
        words.map(str::to_owned).collect()
    }

    fn rule(origins: &str, methods: &str, headers: &str, exposed: &str) -> CorsRule {
        CorsRule {
            allowed_origins: list(origins),
            allowed_methods: list(methods),
            allowed_headers: list(headers),
            exposed_headers: list(exposed),
            max_age_seconds: 8888,
        }
    }

    fn summary<'a>(pairs: impl IntoIterator<Item = (&'a HeaderName, &'a HeaderValue)>) -> String {
        let line = |(name, value): (&HeaderName, &HeaderValue)| {
            let name = name.as_str().replace("access-control-", "");
            format!("{name}: {}", value.to_str().unwrap())
        };
        pairs.into_iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn asked(rules: &[CorsRule], origin: &str, method: &str, headers: Option<&str>) -> String {
        match preflight(rules, Some(origin), Some(method), headers) {
            Ok(pairs) => summary(pairs.iter().map(|(name, value)| (name, value))),
            Err(error) => error.code.name().to_owned(),
        }
    }

    #[test]
    fn preflight_answers_with_the_first_rule_that_matches() {
        let rules = [
            rule("test", "GET", "header", "*"),
            rule("test", "PUT", "*", "*"),
            rule("test", "POST", "head*", "*"),
            rule("*", "DELETE", "", ""),
        ];
        let allowed = |method: &str, headers: Option<&str>| {
            asked(&rules, "test", method, headers) != "CorsPreflightFailure"
        };
        assert!(allowed("GET", None));
        assert!(allowed("GET", Some("header")));
        assert!(!allowed("GET", Some("head")));
        assert!(!allowed("GET", Some("header,other")));
        assert!(allowed("PUT", Some("head, other")));
        assert!(!allowed("POST", Some("hea")));
        assert!(allowed("POST", Some("HeaderHeader,head")));
        assert!(allowed("DELETE", Some("")));
        assert!(!allowed("DELETE", Some("header")));
        assert!(!allowed("MERGE", None));
        assert_eq!(
            asked(&rules, "test", "GET", Some("header")),
            "allow-origin: test\nallow-credentials: true\nallow-methods: GET\n\
             allow-headers: header\nmax-age: 8888"
        );
        assert_eq!(
            asked(&rules, "any", "DELETE", None),
            "allow-origin: *\nallow-methods: DELETE\nmax-age: 8888"
        );
    }

    #[test]
    fn preflight_needs_rules_and_headers() {
        assert_eq!(asked(&[], "test", "GET", None), "CorsPreflightFailure");
        for (origin, method) in [(None, Some("GET")), (Some("test"), None)] {
            let error = preflight(&[rule("*", "GET", "*", "*")], origin, method, None).unwrap_err();
            assert_eq!(error.code, Code::InvalidHeaderValue);
            assert_eq!(error.message, "A required CORS header is not present.");
        }
    }

    #[test]
    fn origins_match_exactly_or_by_subdomain() {
        for (allowed, origin, expected) in [
            ("*", "null", true),
            ("http://a.com", "http://a.com", true),
            ("http://a.com", "http://A.com", false),
            ("http://a.com", "https://a.com", false),
            ("http://*.a.com", "http://b.a.com", true),
            ("http://*.a.com", "http://c.b.a.com", true),
            ("http://*.a.com", "http://a.com", false),
            ("http://*.a.com", "http://.a.com", false),
            ("http://*.a.com", "https://b.a.com", false),
            ("http://*.a.com", "http://b.a.com.evil.com", false),
            ("http://*.a.com", "http://evil.com/.a.com", false),
        ] {
            assert_eq!(
                origin_matches(allowed, origin),
                expected,
                "{allowed} {origin}"
            );
        }
    }

    /// The headers that `actual` adds to an answer with two headers.
    fn added(rules: &[CorsRule], origin: Option<&str>) -> String {
        let mut headers = HeaderMap::new();
        headers.insert("x-ms-version", HeaderValue::from_static("2019-02-02"));
        headers.insert("etag", HeaderValue::from_static("W"));
        actual(rules, origin, "GET", &mut headers);
        headers.remove("x-ms-version");
        headers.remove("etag");
        let mut lines: Vec<_> = summary(&headers).lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines.join("\n")
    }

    #[test]
    fn answers_show_what_the_first_matching_rule_allows() {
        let exact = rule("exact", "GET", "header", "x-ms-*,other");
        let rules = [exact.clone(), rule("*", "GET", "header", "*")];
        assert_eq!(added(&rules, None), "");
        assert_eq!(added(&[], Some("exact")), "");
        assert_eq!(
            added(&rules, Some("exact")),
            "allow-credentials: true\nallow-origin: exact\n\
             expose-headers: x-ms-version,other\nvary: Origin"
        );
        assert_eq!(
            added(&rules, Some("any")),
            "allow-origin: *\n\
             expose-headers: x-ms-version,etag,content-length,date,transfer-encoding"
        );
        assert_eq!(added(&[exact], Some("any")), "vary: Origin");
        assert_eq!(
            added(
                &[rule("*", "PUT", "", ""), rule("*", "GET", "", "")],
                Some("any")
            ),
            "allow-origin: *"
        );
    }
}
