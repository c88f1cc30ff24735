//! The header of an envelope: nine bytes.

use super::{Version, WireError};

/// The length of a header.
pub(crate) const HEADER_LENGTH: usize = 9;
const RESPONSE: u8 = 0x80;

/// Flags of a header.
pub(crate) mod flag {
    pub(crate) const COMPRESSED: u8 = 0x01;
    pub(crate) const TRACING: u8 = 0x02;
    pub(crate) const CUSTOM_PAYLOAD: u8 = 0x04;
    pub(crate) const WARNING: u8 = 0x08;
}

macro_rules! opcodes {
    ($($opcode:ident $code:literal $is_request:literal)*) => {
        /// What a message is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Opcode {
            $($opcode = $code,)*
        }

        impl Opcode {
            pub(crate) fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$opcode),)*
                    _ => None,
                }
            }

            /// Its name, as it is written here.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$opcode => stringify!($opcode),)*
                }
            }

            /// Whether clients send it.
            pub(crate) fn is_request(self) -> bool {
                match self {
                    $(Self::$opcode => $is_request,)*
                }
            }
        }
    };
}

opcodes! {
    Error 0x00 false
    Startup 0x01 true
    Ready 0x02 false
    Authenticate 0x03 false
    Options 0x05 true
    Supported 0x06 false
    Query 0x07 true
    Result 0x08 false
    Prepare 0x09 true
    Execute 0x0a true
    Register 0x0b true
    Event 0x0c false
    Batch 0x0d true
    AuthChallenge 0x0e false
    AuthResponse 0x0f true
    AuthSuccess 0x10 false
}

/// The header of an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: Version,
    pub(crate) flags: u8,
    pub(crate) stream: i16,
    pub(crate) opcode: Opcode,
    /// The length of the body.
    pub(crate) length: usize,
}

impl Header {
    /// Reads the header of a request.
    pub(super) fn decode(bytes: &[u8; HEADER_LENGTH]) -> Result<Self, WireError> {
        let [version, flags, s1, s2, code, l1, l2, l3, l4] = *bytes;
        if version & RESPONSE != 0 {
            return Err(WireError::NotAllowed("A response was sent as a request"));
        }
        let version = Version::from_number(version)?;
        let length = i32::from_be_bytes([l1, l2, l3, l4]);
        let length = usize::try_from(length).map_err(|_| WireError::NegativeBodyLength(length))?;
        let stream = i16::from_be_bytes([s1, s2]);
        if stream < 0 {
            let number = i64::from(stream);
            return Err(WireError::Unknown {
                what: "stream id",
                number,
            });
        }
        let unknown = || WireError::Unknown {
            what: "opcode",
            number: i64::from(code),
        };
        let opcode = Opcode::from_code(code)
            .filter(|opcode| opcode.is_request())
            .ok_or_else(unknown)?;
        Ok(Self {
            version,
            flags,
            stream,
            opcode,
            length,
        })
    }

    /// Appends the header of a response.
    pub(super) fn encode_response(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.version.number() | RESPONSE, self.flags]);
        out.extend_from_slice(&self.stream.to_be_bytes());
        out.push(self.opcode as u8);
        super::writer::put_length(out, self.length);
    }

    pub(crate) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}
