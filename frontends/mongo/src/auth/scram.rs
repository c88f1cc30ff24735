//! The server's side of SCRAM (RFC 5802 and 7677): the stored credentials of a password, and the
//! conversation that verifies it. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _};
use md5::{Digest as _, Md5};
use rand::RngCore as _;
use sha1::Sha1;
use sha2::Sha256;

/// A way to prove that one knows a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Mechanism {
    Sha1,
    Sha256,
}

/// Every mechanism, the better ones last.
pub(crate) const MECHANISMS: [Mechanism; 2] = [Mechanism::Sha1, Mechanism::Sha256];

impl Mechanism {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "SCRAM-SHA-1",
            Self::Sha256 => "SCRAM-SHA-256",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        MECHANISMS.into_iter().find(|known| known.name() == name)
    }

    /// How often a password is hashed, as MongoDB does by default.
    pub(crate) fn iterations(self) -> u32 {
        match self {
            Self::Sha1 => 10_000,
            Self::Sha256 => 15_000,
        }
    }

    /// As long as MongoDB's, so that nothing but the user's existence could give a user away.
    fn salt_length(self) -> usize {
        match self {
            Self::Sha1 => 16,
            Self::Sha256 => 28,
        }
    }

    fn mac(self, key: &[u8], pieces: &[&[u8]]) -> Vec<u8> {
        match self {
            Self::Sha1 => {
                let mac = Hmac::<Sha1>::new_from_slice(key);
                mac.map_or_else(|_| Vec::new(), |mac| finished(mac, pieces))
            }
            Self::Sha256 => {
                let mac = Hmac::<Sha256>::new_from_slice(key);
                mac.map_or_else(|_| Vec::new(), |mac| finished(mac, pieces))
            }
        }
    }

    fn hash(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha1 => Sha1::digest(bytes).to_vec(),
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
        }
    }

    fn stretched(self, password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
        let mut out = self.hash(&[]);
        let stretched = match self {
            Self::Sha1 => pbkdf2::pbkdf2::<Hmac<Sha1>>(password, salt, iterations, &mut out),
            Self::Sha256 => pbkdf2::pbkdf2::<Hmac<Sha256>>(password, salt, iterations, &mut out),
        };
        // HMAC takes a key of any length; without this a failure would make a guessable key.
        match stretched {
            Ok(()) => out,
            Err(_) => random(out.len()),
        }
    }
}

fn finished<M: hmac::Mac>(mut mac: M, pieces: &[&[u8]]) -> Vec<u8> {
    for piece in pieces {
        mac.update(piece);
    }
    mac.finalize().into_bytes().to_vec()
}

fn random(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    rand::rng().fill_bytes(&mut bytes);
    bytes
}

/// What is kept of a password: enough to check a proof, not enough to make one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Credential {
    pub(crate) iterations: u32,
    pub(crate) salt: Vec<u8>,
    pub(crate) stored_key: Vec<u8>,
    pub(crate) server_key: Vec<u8>,
}

impl Credential {
    /// What is kept of a new password. None: it has characters that a password cannot have.
    pub(crate) fn new(mechanism: Mechanism, user: &str, password: &str) -> Option<Self> {
        let salt = random(mechanism.salt_length());
        Self::with_salt(mechanism, (user, password), salt, mechanism.iterations())
    }

    fn with_salt(
        mechanism: Mechanism,
        (user, password): (&str, &str),
        salt: Vec<u8>,
        iterations: u32,
    ) -> Option<Self> {
        let password = prepared(mechanism, user, password)?;
        let salted = mechanism.stretched(&password, &salt, iterations);
        let client_key = mechanism.mac(&salted, &[b"Client Key"]);
        Some(Self {
            iterations,
            salt,
            stored_key: mechanism.hash(&client_key),
            server_key: mechanism.mac(&salted, &[b"Server Key"]),
        })
    }

    /// What stands for the credential of a user who does not exist: always the same for the same
    /// name, and of no password.
    pub(crate) fn of_nobody(mechanism: Mechanism, secret: &[u8], user: &str) -> Self {
        let name = mechanism.name().as_bytes();
        let mut salt = mechanism.mac(secret, &[name, user.as_bytes()]);
        salt.extend(mechanism.mac(secret, &[b"more", name, user.as_bytes()]));
        salt.truncate(mechanism.salt_length());
        let key_length = mechanism.hash(&[]).len();
        Self {
            iterations: mechanism.iterations(),
            salt,
            stored_key: random(key_length),
            server_key: random(key_length),
        }
    }
}

/// The password as the mechanism hashes it.
fn prepared(mechanism: Mechanism, user: &str, password: &str) -> Option<Vec<u8>> {
    match mechanism {
        // An older scheme's hash plays the password here.
        Mechanism::Sha1 => {
            let digest = Md5::digest(format!("{user}:mongo:{password}"));
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            Some(hex.into_bytes())
        }
        Mechanism::Sha256 => {
            let prepared = stringprep::saslprep(password).ok()?;
            Some(prepared.into_owned().into_bytes())
        }
    }
}

/// A proof or a message that is not what it should be. Why is not said: that would help to guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused;

/// The client's first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientFirst {
    pub(crate) user: String,
    nonce: String,
    bare: String,
    header: String,
}

impl ClientFirst {
    /// Reads `n,,n=USER,r=NONCE`.
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, Refused> {
        let text = std::str::from_utf8(payload).map_err(|_| Refused)?;
        // No channel is bound to, whether the client could or not.
        let bare = text
            .strip_prefix("n,,")
            .or_else(|| text.strip_prefix("y,,"));
        let bare = bare.ok_or(Refused)?;
        let header = text.get(..3).ok_or(Refused)?;
        let mut parts = bare.split(',');
        let user = parts.next().and_then(|part| part.strip_prefix("n="));
        let nonce = parts.next().and_then(|part| part.strip_prefix("r="));
        let (user, nonce) = user.zip(nonce).ok_or(Refused)?;
        if nonce.is_empty() {
            return Err(Refused);
        }
        Ok(Self {
            user: unescaped(user)?,
            nonce: nonce.to_owned(),
            bare: bare.to_owned(),
            header: header.to_owned(),
        })
    }
}

/// Commas and equals signs are written as `=2C` and `=3D` in names.
fn unescaped(name: &str) -> Result<String, Refused> {
    let mut pieces = name.split('=');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (sign, rest) = match piece.split_at_checked(2) {
            Some(("2C", rest)) => (',', rest),
            Some(("3D", rest)) => ('=', rest),
            _ => return Err(Refused),
        };
        plain.push(sign);
        plain.push_str(rest);
    }
    Ok(plain)
}

/// A conversation after the first two messages.
#[derive(Clone, Debug)]
pub(crate) struct Conversation {
    mechanism: Mechanism,
    credential: Credential,
    first: ClientFirst,
    server_first: String,
    nonce: String,
}

impl Conversation {
    /// Answers the client's first message; the second value is the server's.
    pub(crate) fn begin(
        mechanism: Mechanism,
        credential: Credential,
        first: ClientFirst,
    ) -> (Self, String) {
        const NONCE_BYTES: usize = 24;
        let own = STANDARD.encode(random(NONCE_BYTES));
        Self::begin_with(mechanism, credential, first, &own)
    }

    fn begin_with(
        mechanism: Mechanism,
        credential: Credential,
        first: ClientFirst,
        own_nonce: &str,
    ) -> (Self, String) {
        let nonce = format!("{}{own_nonce}", first.nonce);
        let salt = STANDARD.encode(&credential.salt);
        let message = format!("r={nonce},s={salt},i={}", credential.iterations);
        let conversation = Self {
            mechanism,
            credential,
            first,
            server_first: message.clone(),
            nonce,
        };
        (conversation, message)
    }

    /// Checks the client's proof; answers the server's own.
    pub(crate) fn finish(&self, payload: &[u8]) -> Result<String, Refused> {
        let text = std::str::from_utf8(payload).map_err(|_| Refused)?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or(Refused)?;
        let mut parts = without_proof.split(',');
        let binding = parts.next().and_then(|part| part.strip_prefix("c="));
        let nonce = parts.next().and_then(|part| part.strip_prefix("r="));
        let header = binding.and_then(|binding| STANDARD.decode(binding).ok());
        if header.as_deref() != Some(self.first.header.as_bytes())
            || nonce != Some(self.nonce.as_str())
        {
            return Err(Refused);
        }
        let proof = STANDARD.decode(proof).map_err(|_| Refused)?;
        let said = format!("{},{},{without_proof}", self.first.bare, self.server_first);
        let signature = self
            .mechanism
            .mac(&self.credential.stored_key, &[said.as_bytes()]);
        if proof.len() != signature.len() {
            return Err(Refused);
        }
        let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        let stored_key = self.mechanism.hash(&client_key);
        if !equal(&stored_key, &self.credential.stored_key) {
            return Err(Refused);
        }
        let own = self
            .mechanism
            .mac(&self.credential.server_key, &[said.as_bytes()]);
        Ok(format!("v={}", STANDARD.encode(own)))
    }
}

/// Takes equally long wherever two keys differ.
fn equal(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credential(
        mechanism: Mechanism,
        user: &str,
        password: &str,
        salt: &str,
        iterations: u32,
    ) -> Credential {
        let salt = STANDARD.decode(salt).unwrap();
        Credential::with_salt(mechanism, (user, password), salt, iterations).unwrap()
    }

    /// The example of RFC 7677.
    fn rfc_7677() -> Conversation {
        let salt = "W22ZaJ0SNY7soEsUEjb6gQ==";
        let credential = credential(Mechanism::Sha256, "user", "pencil", salt, 4096);
        let first = ClientFirst::parse(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").unwrap();
        let own = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let (conversation, message) =
            Conversation::begin_with(Mechanism::Sha256, credential, first, own);
        assert_eq!(
            message,
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        conversation
    }

    #[test]
    fn the_example_of_rfc_7677_succeeds() {
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                    p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let answer = rfc_7677().finish(last.as_bytes());
        assert_eq!(
            answer.as_deref(),
            Ok("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
        );
    }

    #[test]
    fn anything_else_is_refused() {
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        for last in [
            format!("c=biws,r={nonce},p=eHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="),
            format!("c=biws,r={nonce}x,p={proof}"),
            format!("c=eSws,r={nonce},p={proof}"),
            format!("c=biws,r={nonce},p="),
            format!("c=biws,r={nonce},p=AAAA"),
            format!("c=biws,r={nonce}"),
            String::new(),
        ] {
            assert_eq!(rfc_7677().finish(last.as_bytes()), Err(Refused), "{last}");
        }
        assert_eq!(rfc_7677().finish(&[0xff]), Err(Refused));
    }

    #[test]
    fn first_messages_are_read() {
        let user = |text: &str| ClientFirst::parse(text.as_bytes()).map(|first| first.user);
        assert_eq!(user("n,,n=ada,r=abc").as_deref(), Ok("ada"));
        assert_eq!(user("y,,n=a=2Cb=3Dc,r=abc").as_deref(), Ok("a,b=c"));
        for text in [
            "",
            "n,,",
            "n,,n=ada",
            "n,,n=ada,r=",
            "n,,n=a=2,r=abc",
            "n,,n=a=41,r=abc",
            "p=tls-unique,,n=ada,r=abc",
        ] {
            assert_eq!(user(text), Err(Refused), "{text}");
        }
    }

    #[test]
    fn the_older_mechanism_hashes_the_name_with_the_password() {
        // From MongoDB's own example for its drivers: user "user", password "pencil".
        let salt = "rQ9ZY3MntBeuP3E1TDVC4w==";
        let credential = credential(Mechanism::Sha1, "user", "pencil", salt, 10_000);
        let first = ClientFirst::parse(b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL").unwrap();
        let own = "Ho+Vgk7qvUOKUwuWLIWg4l/9SraGMHEE";
        let (conversation, _) = Conversation::begin_with(Mechanism::Sha1, credential, first, own);
        let last = "c=biws,r=fyko+d2lbbFgONRv9qkxdawLHo+Vgk7qvUOKUwuWLIWg4l/9SraGMHEE,\
                    p=MC2T8BvbmWRckDw8oWl5IVghwCY=";
        let answer = conversation.finish(last.as_bytes());
        assert_eq!(answer.as_deref(), Ok("v=UMWeI25JD1yNYZRMpZ4VHvhZ9e0="));
    }

    #[test]
    fn nobody_has_the_same_salt_each_time_and_no_password() {
        for mechanism in MECHANISMS {
            let nobody = |user: &str| Credential::of_nobody(mechanism, b"secret", user);
            let (one, again) = (nobody("ada"), nobody("ada"));
            let real = Credential::new(mechanism, "ada", "pw").unwrap();
            assert_eq!(one.salt, again.salt);
            assert_eq!(one.salt.len(), real.salt.len());
            assert_eq!(one.iterations, real.iterations);
            assert_ne!(one.salt, nobody("bob").salt);
            assert_ne!(one.stored_key, again.stored_key);
        }
    }
}
