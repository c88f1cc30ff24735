//! Bearer tokens: JSON Web Tokens of one configured issuer, whose keys are known.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;

use crate::error::{Code, Result, ServiceError};

/// The issuer whose tokens are accepted.
#[derive(Clone, Debug)]
pub struct BearerConfig {
    /// The issuer, as its tokens name it.
    pub issuer: String,
    /// Tokens must be for one of these; if there are none, for Azure Storage or Cosmos DB.
    pub audience: Vec<String>,
    /// The issuer's keys, a JWKS document.
    pub keys: String,
}

/// The resource for which clients are told to ask tokens.
const RESOURCE: &str = "https://storage.azure.com";

/// The audiences when no other one is configured. The second is Azure Storage's own application.
const AUDIENCES: [&str; 3] = [
    RESOURCE,
    "e406a681-f3d4-42a8-90b6-c2b029497af1",
    "https://cosmos.azure.com",
];

/// After `https://` and the account, these are audiences too.
const ACCOUNT_DOMAINS: [&str; 2] = [".table.core.windows.net", ".table.cosmos.azure.com"];

/// How far the clock of the issuer may be off.
const SKEW_MAX: Duration = Duration::from_secs(5 * 60);

/// Verifies tokens of one issuer.
#[derive(Clone)]
pub struct Bearer {
    issuer: String,
    audience: Vec<String>,
    keys: HashMap<String, (Algorithm, DecodingKey)>,
}

impl Bearer {
    /// Fails with a sentence about the error in the configuration.
    pub fn new(config: BearerConfig) -> std::result::Result<Self, String> {
        // It becomes a part of a header, where these would end it.
        let printable = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b',' | b'=' | b'"');
        if config.issuer.is_empty() || !config.issuer.bytes().all(printable) {
            return Err("The issuer of bearer tokens must be an address.".to_owned());
        }
        Ok(Self {
            issuer: config.issuer,
            audience: config.audience,
            keys: read_keys(&config.keys)?,
        })
    }

    /// Checks a token for an account.
    pub(super) fn verify(&self, token: &str, account: &str, now: SystemTime) -> Result<()> {
        let malformed = |_| refused("The token is not a JSON Web Token.");
        let header = decode_header(token).map_err(malformed)?;
        let key = header.kid.as_ref().and_then(|kid| self.keys.get(kid));
        let (algorithm, key) =
            key.ok_or_else(|| refused("The issuer has no key of the token's key id."))?;
        if header.alg != *algorithm {
            return Err(refused("The token is not signed with the key's algorithm."));
        }
        let claims = decode::<Claims>(token, key, &signature_only(*algorithm))
            .map_err(|_| refused("Signature validation failed."))?
            .claims;
        self.check(&claims, account, now)
    }

    fn check(&self, claims: &Claims, account: &str, now: SystemTime) -> Result<()> {
        if claims.iss.as_deref() != Some(&self.issuer) {
            return Err(refused(
                "Issuer validation failed: the token is of another issuer.",
            ));
        }
        let audience = match claims.aud.as_ref() {
            None => &[][..],
            Some(Audience::One(audience)) => std::slice::from_ref(audience),
            Some(Audience::Many(audience)) => audience,
        };
        if !audience.iter().any(|name| self.is_audience(name, account)) {
            return Err(refused(
                "Audience validation failed: the token is for another audience.",
            ));
        }
        let now = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let (earliest, latest) = (now.saturating_sub(SKEW_MAX), now.saturating_add(SKEW_MAX));
        let Some(expiry) = claims.exp else {
            return Err(refused(
                "Lifetime validation failed. The token has no expiry.",
            ));
        };
        if expiry < earliest.as_secs_f64() {
            return Err(refused("Lifetime validation failed. The token is expired."));
        }
        if claims.nbf.is_some_and(|start| start > latest.as_secs_f64()) {
            return Err(refused(
                "Lifetime validation failed. The token is not yet valid.",
            ));
        }
        Ok(())
    }

    fn is_audience(&self, name: &str, account: &str) -> bool {
        let same = |expected: &str| expected.trim_end_matches('/') == name.trim_end_matches('/');
        if !self.audience.is_empty() {
            return self.audience.iter().any(|expected| same(expected));
        }
        let host = name.trim_end_matches('/').strip_prefix("https://");
        let domain = host.and_then(|host| host.strip_prefix(account));
        AUDIENCES.into_iter().any(same)
            || domain.is_some_and(|domain| ACCOUNT_DOMAINS.contains(&domain))
    }
}

/// The `WWW-Authenticate` header of answers with status 401.
pub(super) fn challenge(bearer: Option<&Bearer>) -> String {
    // Clients parse this header even if they do not use it, and fail at a missing part.
    let nobody = "https://login.microsoftonline.com/common/oauth2/authorize";
    let issuer = bearer.map_or(nobody, |bearer| &bearer.issuer);
    format!("Bearer authorization_uri={issuer} resource_id={RESOURCE}")
}

/// The answer to any token when no issuer is configured.
pub(super) fn not_configured() -> ServiceError {
    refused(
        "This server has no issuer of bearer tokens; the setting table-bearer-issuer names one.",
    )
}

fn refused(detail: &str) -> ServiceError {
    let words = ServiceError::from(Code::NoAuthenticationInformation).message;
    ServiceError::new(Code::InvalidAuthenticationInfo, words).with_detail(detail)
}

/// Lifetime and audience are checked here, against the time that is passed in.
fn signature_only(algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation
}

#[derive(Deserialize)]
struct Claims {
    iss: Option<String>,
    aud: Option<Audience>,
    exp: Option<f64>,
    nbf: Option<f64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

/// Keys of other kinds than RS256 and ES256 take may be in the document; they are left out.
fn read_keys(
    document: &str,
) -> std::result::Result<HashMap<String, (Algorithm, DecodingKey)>, String> {
    #[derive(Deserialize)]
    struct Document {
        keys: Vec<serde_json::Value>,
    }
    let document: Document = serde_json::from_str(document)
        .map_err(|error| format!("The keys of the issuer are not a JWKS document: {error}."))?;
    let keys = document.keys.into_iter().filter_map(|key| {
        let key: Jwk = serde_json::from_value(key).ok()?;
        let algorithm = match &key.algorithm {
            AlgorithmParameters::RSA(_) => Algorithm::RS256,
            AlgorithmParameters::EllipticCurve(curve) if curve.curve == EllipticCurve::P256 => {
                Algorithm::ES256
            }
            _ => return None,
        };
        let decoding = DecodingKey::from_jwk(&key).ok()?;
        Some((key.common.key_id?, (algorithm, decoding)))
    });
    let keys: HashMap<_, _> = keys.collect();
    if keys.is_empty() {
        return Err("The keys of the issuer contain none for RS256 or ES256.".to_owned());
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use jsonwebtoken::{EncodingKey, Header, encode};
    use serde_json::{Value, json};

    use super::super::testing::{at, head};
    use super::super::{Accounts, Action, Authenticator, authenticate};
    use super::*;

    /// Made with openssl for these tests, and used nowhere else.
    const RSA: &str = "\
-----BEGIN RSA PRIVATE KEY-----
MIIEpAIBAAKCAQEAg8nXK584PqjeVQAcgtsMzAt2+bi1Plie5U457aaED2UC/igq
3Bb5aglK9E8FV3yv71kaP8wM2OrJ+VyZHz83N70dYfnjfozaNd8oCoLGrgpwRgNi
nMhlBDfKo1EVyqSdjemq4LrIAOdP42uLDniNOSelZb/EBJzITeINAX/4g1lvDN5f
JN2+uxZn5x8tHZEcMU+hBkucVx2LMInZ9VmVqxbjufgHdmCLoJr3hlgr7QIVvy8z
XlostgLVvQpoM9lWud3EGMaNE/yiRGRA9bG0Woyg3DdmK2wpUXcuzI6gm5Nkqg2N
bGhT6onn/zU9sq6U41+P1+6v1073DEzZ5MKMRQIDAQABAoIBAAVsbvroLndNBE9b
teYAZUutahv3U8V+fgA3rVnK0/L9PXe1B/nZm9yXCCW7Qx/urUqMmxsGhv3TVcoP
G0HGXHuiVbKknHiRYTaShJJAKl8wZfP1AN/Xvb6EHEZcgyjSiFBg44EkTAWrf1Bq
P9qx2oqrB3Bt8/9w7gEJ3UP98/3VxzDclooGyKY+vlP5drdsJm5RHZvcv73xezw8
QNM4RgcSA+hSst+gOCKoEdXU9HHLdwAkrjIh0Bu4LBNZNt4UdPun8FmY7crDeaOe
IcYwa6TdITuXOyrmM8bH6Rx8y7OW+4OtxSctnrsa9gGTobJ0iTLoE9cyiP/ux7ni
AElfgPkCgYEAuSp3CWm1RbDI10PPwektjHfALF51NYuksfUHC3uGqUflsubcPXJY
VV6PH+gSUEe2SWd1w0TrS33BdTUbINJaqIhX3JgUjTL6c0SgcvYFqJhrpEJSQe4t
0vj9Yl0RLm7ju03eTtTDbVyiKsan64smE13Um/a4x769wWf4uKBKVlkCgYEAtjQN
te9M43izuIOgqmwoWM91SAfeKLdoUOUO5BJ3I3hc0LRcbtMiB0UWf1zEqDtuqwpH
QnpLonv1z4jtcm34Ky5Tt1gz0UGZ4vYi/EOhVgswcPDj6CbvOQqeLY+7MActJfKR
5TmD/R2HUv0vGO1Fesu/Wu8Sh/y+5ayk211nv80CgYEAr+eCjCOq/Ji0Q6P9E3bk
OYRtwPi/Gm4duJ1Q4vyncduGgA1G/uzIs9kP2LzL4Q4vQs6Rlj671MyT4zffHLAZ
Re+4oCytoXHjcWupjWzg9UhPQg1rPYz6ZWj6td45+0WG/KI95d/EA/mzaTWtwls/
gbhqyPt6kO9ILxsJssM7u4kCgYB6tTnaoows0jhvdq54uBjAHw/EcBANad/mQy2x
KkJ0b/ZKVH2/4Y+UR9Ir+mUzS7tvk5+EROq1Rji5CWWo4Cj3o96bptpW/pBOCyhq
rn10flqkZYeH7NjFmMIIuzj80oh0exYIw6CBkiZ2HK9gYUOevKNl8YaQcQZ7lbb9
Sb26rQKBgQCxQQsgrCKQw7LZTnHJrQBTvVob+8XRpgikp5wZeCEig9xFmYU/xIuP
NU9jcw7yNiHkwR8/g5sQNehMsCKuHzEjuZLRVmapl6I+cUn0OT9mKD9xDvQCkwmo
NAdxQ6UV1p0PjCwwHWX1wblxUka/aMQDllEr4riz607BjlXL4i8v9A==
-----END RSA PRIVATE KEY-----
";
    const EC: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgGiQC8rEc1fJAfAtE
PIHbnBwkhyXTpNKdK5d81B/VokahRANCAARiXoRAZYs2eC5KihiIUFyqBzkDlbmS
7zE/qpujlmUzN1TBukMn8BrQSN5051IdijcMXNiH3rQE8ktxAv2bRd3i
-----END PRIVATE KEY-----
";
    const MODULUS: &str = "\
        g8nXK584PqjeVQAcgtsMzAt2-bi1Plie5U457aaED2UC_igq3Bb5aglK9E8FV3yv71kaP8wM2OrJ\
        -VyZHz83N70dYfnjfozaNd8oCoLGrgpwRgNinMhlBDfKo1EVyqSdjemq4LrIAOdP42uLDniNOSel\
        Zb_EBJzITeINAX_4g1lvDN5fJN2-uxZn5x8tHZEcMU-hBkucVx2LMInZ9VmVqxbjufgHdmCLoJr3\
        hlgr7QIVvy8zXlostgLVvQpoM9lWud3EGMaNE_yiRGRA9bG0Woyg3DdmK2wpUXcuzI6gm5Nkqg2N\
        bGhT6onn_zU9sq6U41-P1-6v1073DEzZ5MKMRQ";
    const ISSUER: &str = "https://sts.windows.net/ab1f708d-50f6-404c-a006-d71b2ac7a606/";
    const NOW: &str = "2026-11-16T12:00:00Z";

    /// The public halves, among keys that this service cannot use.
    fn keys() -> String {
        json!({"keys": [
            {"kid": "odd", "kty": "unheard of"},
            {"kid": "symmetric", "kty": "oct", "k": "c2VjcmV0"},
            {"kid": "rsa", "kty": "RSA", "use": "sig", "e": "AQAB", "n": MODULUS},
            {"kid": "ec", "kty": "EC", "crv": "P-256",
             "x": "Yl6EQGWLNnguSooYiFBcqgc5A5W5ku8xP6qbo5ZlMzc",
             "y": "VMG6QyfwGtBI3nTnUh2KNwxc2IfetATyS3EC_ZtF3eI"},
        ]})
        .to_string()
    }

    fn bearer(audience: &[&str]) -> Bearer {
        Bearer::new(BearerConfig {
            issuer: ISSUER.to_owned(),
            audience: audience.iter().map(ToString::to_string).collect(),
            keys: keys(),
        })
        .unwrap()
    }

    fn signing_key(algorithm: Algorithm) -> EncodingKey {
        let der = |pem: &str| {
            let lines = pem.lines().filter(|line| !line.starts_with('-'));
            STANDARD.decode(lines.collect::<String>()).unwrap()
        };
        match algorithm {
            Algorithm::ES256 => EncodingKey::from_ec_der(&der(EC)),
            Algorithm::HS256 => EncodingKey::from_secret(b"secret"),
            _ => EncodingKey::from_rsa_der(&der(RSA)),
        }
    }

    fn token(algorithm: Algorithm, kid: &str, claims: &Value) -> String {
        let mut header = Header::new(algorithm);
        header.kid = Some(kid.to_owned());
        encode(&header, claims, &signing_key(algorithm)).unwrap()
    }

    fn seconds(text: &str) -> u64 {
        let time = at(text).duration_since(SystemTime::UNIX_EPOCH);
        time.unwrap().as_secs()
    }

    fn claims() -> Value {
        json!({
            "iss": ISSUER,
            "aud": "https://storage.azure.com",
            "nbf": seconds("2026-11-16T11:00:00Z"),
            "exp": seconds("2026-11-16T13:00:00Z"),
        })
    }

    fn verify(bearer: &Bearer, token: &str) -> std::result::Result<(), String> {
        let result = bearer.verify(token, "devstoreaccount1", at(NOW));
        result.map_err(|error| {
            assert_eq!(error.code, Code::InvalidAuthenticationInfo);
            error.detail
        })
    }

    #[test]
    fn signed_tokens_are_verified() {
        let bearer = bearer(&[]);
        let check = |algorithm, kid: &str, expected: std::result::Result<(), &str>| {
            let result = verify(&bearer, &token(algorithm, kid, &claims()));
            match (result, expected) {
                (Ok(()), Ok(())) => {}
                (Err(message), Err(words)) => assert!(message.contains(words), "{message}"),
                (result, _) => panic!("{algorithm:?} {kid}: {result:?}"),
            }
        };
        check(Algorithm::RS256, "rsa", Ok(()));
        check(Algorithm::ES256, "ec", Ok(()));
        check(
            Algorithm::RS256,
            "other",
            Err("no key of the token's key id"),
        );
        check(
            Algorithm::RS512,
            "rsa",
            Err("not signed with the key's algorithm"),
        );
        check(
            Algorithm::RS256,
            "ec",
            Err("not signed with the key's algorithm"),
        );
        // The public key must not serve as a secret, nor the symmetric key at all.
        check(
            Algorithm::HS256,
            "rsa",
            Err("not signed with the key's algorithm"),
        );
        check(
            Algorithm::HS256,
            "symmetric",
            Err("no key of the token's key id"),
        );
    }

    #[test]
    fn forged_and_malformed_tokens_are_refused() {
        let bearer = bearer(&[]);
        for algorithm in [Algorithm::RS256, Algorithm::ES256] {
            let kid = if algorithm == Algorithm::RS256 {
                "rsa"
            } else {
                "ec"
            };
            let mut other = claims();
            other["exp"] = json!(seconds("2030-01-01"));
            let (good, forged) = (
                token(algorithm, kid, &claims()),
                token(algorithm, kid, &other),
            );
            let (content, _) = forged.rsplit_once('.').unwrap();
            let (_, signature) = good.rsplit_once('.').unwrap();
            for signature in [signature, ""] {
                let message = verify(&bearer, &format!("{content}.{signature}")).unwrap_err();
                assert!(message.contains("Signature validation failed"), "{message}");
            }
        }
        // {"alg":"none","kid":"rsa"}
        let unsigned = "eyJhbGciOiJub25lIiwia2lkIjoicnNhIn0.e30.";
        for token in ["", "invalid token", "a.b", "a.b.c", "..", unsigned] {
            let message = verify(&bearer, token).unwrap_err();
            assert!(
                message.contains("not a JSON Web Token"),
                "{token}: {message}"
            );
        }
    }

    /// Checks a token in which one claim has another value.
    fn check(bearer: &Bearer, name: &str, value: Value, expected: Option<&str>) {
        let mut claims = claims();
        claims[name] = value;
        let result = verify(bearer, &token(Algorithm::ES256, "ec", &claims));
        match (&result, expected) {
            (Ok(()), None) => {}
            (Err(message), Some(words)) if message.contains(words) => {}
            _ => panic!("{claims}: {result:?}"),
        }
    }

    #[test]
    fn tokens_are_for_this_service() {
        let default = bearer(&[]);
        let other = bearer(&["api://mine/"]);
        let audience = Some("Audience validation failed");
        for name in [
            "https://storage.azure.com/",
            "e406a681-f3d4-42a8-90b6-c2b029497af1",
            "https://cosmos.azure.com",
            "https://devstoreaccount1.table.core.windows.net",
            "https://devstoreaccount1.table.core.windows.net/",
            "https://devstoreaccount1.table.cosmos.azure.com",
        ] {
            check(&default, "aud", json!(name), None);
            check(&other, "aud", json!(name), audience);
        }
        for name in [
            "https://otheraccount.table.core.windows.net",
            "https://devstoreaccount1.table.core.windows.net.evil",
            "http://storage.azure.com",
            "",
        ] {
            check(&default, "aud", json!(name), audience);
        }
        check(&default, "aud", Value::Null, audience);
        check(&default, "aud", json!(["x"]), audience);
        let two = json!(["x", "https://storage.azure.com"]);
        check(&default, "aud", two, None);
        check(&other, "aud", json!("api://mine"), None);
    }

    #[test]
    fn tokens_are_of_the_issuer_and_hold_for_a_time() {
        let bearer = bearer(&[]);
        let issuer = Some("Issuer validation failed");
        let lifetime = Some("Lifetime validation failed");
        let expired = Some("The token is expired");
        for (name, value, expected) in [
            ("iss", json!("https://sts.windows.net/"), issuer),
            ("iss", Value::Null, issuer),
            ("exp", Value::Null, lifetime),
            ("exp", json!(seconds("2026-11-16T11:54:59Z")), expired),
            ("exp", json!(seconds("2026-11-16T11:55:00Z")), None),
            ("exp", json!(1_794_834_000.5), None),
            ("nbf", json!(seconds("2026-11-16T12:05:01Z")), lifetime),
            ("nbf", json!(seconds("2026-11-16T12:05:00Z")), None),
            ("nbf", Value::Null, None),
        ] {
            check(&bearer, name, value, expected);
        }
    }

    #[test]
    fn tokens_come_over_tls_and_grant_all_but_policies() {
        let authenticator = Authenticator::new(Accounts::emulator(), Some(bearer(&[])));
        let header = format!("Bearer {}", token(Algorithm::ES256, "ec", &claims()));
        let mut head = head(
            "GET /devstoreaccount1/Tables",
            &[("authorization", &header)],
        );
        let error = authenticate(&authenticator, &head, at(NOW)).unwrap_err();
        assert_eq!(error.code, Code::AuthenticationFailed);
        assert!(error.detail.contains("HTTP"), "{}", error.detail);
        head.tls = true;
        let claim = authenticate(&authenticator, &head, at(NOW)).unwrap();
        let grant = claim.grant(None, &head, at(NOW)).unwrap();
        assert!(grant.check(Action::SetProperties).is_ok());
        assert!(grant.check(Action::SetAcl).is_err());
        let expected = format!("Bearer authorization_uri={ISSUER} resource_id={RESOURCE}");
        assert_eq!(authenticator.challenge(), expected);
    }

    #[test]
    fn unusable_configurations_are_refused() {
        let check = |issuer: &str, keys: &str, words: &str| {
            let config = BearerConfig {
                issuer: issuer.to_owned(),
                audience: Vec::new(),
                keys: keys.to_owned(),
            };
            let error = Bearer::new(config).err().unwrap();
            assert!(error.contains(words), "{error}");
        };
        check("", &keys(), "must be an address");
        check("https://a\r\nb", &keys(), "must be an address");
        check("https://a, b", &keys(), "must be an address");
        check(ISSUER, "", "not a JWKS document");
        check(ISSUER, "{}", "not a JWKS document");
        check(ISSUER, r#"{"keys": []}"#, "none for RS256 or ES256");
        check(
            ISSUER,
            r#"{"keys": [{"kid": "a", "kty": "oct", "k": "AA"}]}"#,
            "none for",
        );
        let without_id = keys().replace("kid", "name");
        check(ISSUER, &without_id, "none for RS256 or ES256");
    }
}
