//! Consistency levels, and the names of kinds of writes that errors carry.

use super::WireError;

macro_rules! levels {
    ($($level:ident $code:literal $name:literal)*) => {
        /// How many replicas must answer.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Consistency {
            $($level = $code,)*
        }

        impl Consistency {
            #[cfg(test)]
            pub(crate) const ALL_LEVELS: &[Self] = &[$(Self::$level),*];

            pub(crate) fn from_code(code: u16) -> Result<Self, WireError> {
                match code {
                    $($code => Ok(Self::$level),)*
                    other => Err(WireError::Unknown {
                        what: "consistency level",
                        number: i64::from(other),
                    }),
                }
            }

            pub(crate) fn code(self) -> u16 {
                self as u16
            }

            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$level => $name,)*
                }
            }
        }
    };
}

levels! {
    Any 0 "ANY"
    One 1 "ONE"
    Two 2 "TWO"
    Three 3 "THREE"
    Quorum 4 "QUORUM"
    All 5 "ALL"
    LocalQuorum 6 "LOCAL_QUORUM"
    EachQuorum 7 "EACH_QUORUM"
    Serial 8 "SERIAL"
    LocalSerial 9 "LOCAL_SERIAL"
    LocalOne 10 "LOCAL_ONE"
}

impl Consistency {
    /// Whether conditional statements may name it as their serial consistency.
    pub(crate) fn is_serial(self) -> bool {
        matches!(self, Self::Serial | Self::LocalSerial)
    }
}

macro_rules! write_types {
    ($($kind:ident $name:literal)*) => {
        /// What was being written when a write failed.
        #[cfg_attr(
            not(test),
            expect(dead_code, reason = "the protocol has it, and nothing here says it")
        )]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum WriteType {
            $($kind,)*
        }

        impl WriteType {
            #[cfg(test)]
            pub(crate) const ALL_TYPES: &[Self] = &[$(Self::$kind),*];

            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }
    };
}

write_types! {
    Simple "SIMPLE"
    Batch "BATCH"
    UnloggedBatch "UNLOGGED_BATCH"
    Counter "COUNTER"
    BatchLog "BATCH_LOG"
    Cas "CAS"
    View "VIEW"
    Cdc "CDC"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_their_codes_and_names() {
        for (code, level) in (0..).zip(Consistency::ALL_LEVELS) {
            assert_eq!(level.code(), code);
            assert_eq!(Consistency::from_code(code), Ok(*level));
        }
        assert!(Consistency::from_code(11).is_err());
        let serial = Consistency::ALL_LEVELS
            .iter()
            .filter(|level| level.is_serial());
        let names: Vec<&str> = serial.map(|level| level.name()).collect();
        assert_eq!(names, ["SERIAL", "LOCAL_SERIAL"]);
    }
}
