//! Responses as clients read them.

use std::net::SocketAddr;

use crate::error::{Answers, CqlError, ErrorKind, Failure};
use crate::types::{DataType, Native, UserType};
use crate::wire::header::HEADER_LENGTH;
use crate::wire::reader::{Read, Reader};
use crate::wire::response::{
    ChangeTarget, ChangeType, ColumnSpec, Event, Extras, Metadata, NodeChange, Prepared, Response,
    ResultBody, Rows, SchemaChange,
};
use crate::wire::{Opcode, Version, WireError, WriteType, data_type, flag};

/// A response as it was read.
#[derive(Debug, PartialEq)]
pub(crate) struct Decoded {
    pub(crate) stream: i16,
    pub(crate) extras: Extras,
    pub(crate) response: Response,
    /// The length of the envelope.
    pub(crate) length: usize,
}

/// Reads the envelope at the start of `bytes`.
pub(in crate::wire) fn decode_response(bytes: &[u8]) -> Read<Decoded> {
    let truncated = WireError::Truncated { needed: 1 };
    let (header, rest) = bytes
        .split_first_chunk::<HEADER_LENGTH>()
        .ok_or(truncated)?;
    let [version, flags, high, low, opcode, l1, l2, l3, l4] = *header;
    let version = Version::from_number(version ^ 0x80)?;
    let length = usize::try_from(i32::from_be_bytes([l1, l2, l3, l4])).unwrap();
    let mut reader = Reader::new(Reader::new(rest).take(length)?);
    let mut extras = Extras::default();
    if flags & flag::TRACING != 0 {
        extras.tracing = Some(reader.uuid()?);
    }
    if flags & flag::WARNING != 0 {
        extras.warnings = owned(reader.string_list()?);
    }
    if flags & flag::CUSTOM_PAYLOAD != 0 {
        let payload = reader.bytes_map()?;
        let pairs = payload
            .into_iter()
            .map(|(name, bytes)| (name.to_owned(), bytes.to_vec()));
        extras.payload = pairs.collect();
    }
    let opcode = Opcode::from_code(opcode).unwrap();
    let response = read_body(&mut reader, opcode, version)?;
    reader.finish()?;
    let stream = i16::from_be_bytes([high, low]);
    Ok(Decoded {
        stream,
        extras,
        response,
        length: HEADER_LENGTH + length,
    })
}

fn owned(list: Vec<&str>) -> Vec<String> {
    list.into_iter().map(str::to_owned).collect()
}

fn read_body(reader: &mut Reader<'_>, opcode: Opcode, version: Version) -> Read<Response> {
    Ok(match opcode {
        Opcode::Error => Response::Error(read_error(reader, version)?),
        Opcode::Ready => Response::Ready,
        Opcode::Authenticate => Response::Authenticate(reader.string()?.to_owned()),
        Opcode::Supported => Response::Supported(reader.list(4, |reader| {
            Ok((reader.string()?.to_owned(), owned(reader.string_list()?)))
        })?),
        Opcode::Result => Response::Result(read_result(reader, version)?),
        Opcode::Event => Response::Event(read_event(reader)?),
        Opcode::AuthChallenge => {
            Response::AuthChallenge(reader.bytes()?.unwrap_or_default().to_vec())
        }
        Opcode::AuthSuccess => Response::AuthSuccess(reader.bytes()?.map(<[u8]>::to_vec)),
        request => panic!("{request:?} is no response"),
    })
}

fn read_error(reader: &mut Reader<'_>, version: Version) -> Read<CqlError> {
    let code = reader.int()?;
    let message = reader.string()?.to_owned();
    let kind = match code {
        0x0000 => ErrorKind::Server,
        0x000a => ErrorKind::Protocol,
        0x0100 => ErrorKind::BadCredentials,
        0x1000 => ErrorKind::Unavailable {
            consistency: reader.consistency()?,
            required: reader.int()?,
            alive: reader.int()?,
        },
        0x1001 => ErrorKind::Overloaded,
        0x1002 => ErrorKind::IsBootstrapping,
        0x1003 => ErrorKind::Truncate,
        0x1100 => {
            let (answers, write_type) = (read_answers(reader)?, read_write_type(reader)?);
            let has_contentions = version == Version::V5 && write_type == WriteType::Cas;
            let contentions = if has_contentions { reader.short()? } else { 0 };
            ErrorKind::WriteTimeout {
                answers,
                write_type,
                contentions,
            }
        }
        0x1200 => ErrorKind::ReadTimeout {
            answers: read_answers(reader)?,
            data_present: reader.byte()? != 0,
        },
        0x1300 => ErrorKind::ReadFailure {
            answers: read_answers(reader)?,
            failures: read_failures(reader)?,
            data_present: reader.byte()? != 0,
        },
        0x1400 => ErrorKind::FunctionFailure {
            keyspace: reader.string()?.to_owned(),
            function: reader.string()?.to_owned(),
            argument_types: owned(reader.string_list()?),
        },
        0x1500 => ErrorKind::WriteFailure {
            answers: read_answers(reader)?,
            failures: read_failures(reader)?,
            write_type: read_write_type(reader)?,
        },
        0x1600 => ErrorKind::CdcWriteFailure,
        0x1700 => ErrorKind::CasWriteUnknown {
            answers: read_answers(reader)?,
        },
        0x2000 => ErrorKind::Syntax,
        0x2100 => ErrorKind::Unauthorized,
        0x2200 => ErrorKind::Invalid,
        0x2300 => ErrorKind::Configuration,
        0x2400 => ErrorKind::AlreadyExists {
            keyspace: reader.string()?.to_owned(),
            table: reader.string()?.to_owned(),
        },
        0x2500 => ErrorKind::Unprepared {
            id: reader.short_bytes()?.to_vec(),
        },
        other => panic!("no error has the code {other:#x}"),
    };
    Ok(CqlError { kind, message })
}

fn read_answers(reader: &mut Reader<'_>) -> Read<Answers> {
    let consistency = reader.consistency()?;
    let (received, required) = (reader.int()?, reader.int()?);
    Ok(Answers {
        consistency,
        received,
        required,
    })
}

fn read_write_type(reader: &mut Reader<'_>) -> Read<WriteType> {
    let name = reader.string()?;
    Ok(*WriteType::ALL_TYPES
        .iter()
        .find(|kind| kind.name() == name)
        .unwrap())
}

/// The failures of version 5.
fn read_failures(reader: &mut Reader<'_>) -> Read<Vec<Failure>> {
    let count = reader.long_count(7)?;
    reader.items(count, |reader| {
        Ok(Failure {
            address: reader.address()?,
            reason: reader.short()?,
        })
    })
}

fn read_event(reader: &mut Reader<'_>) -> Read<Event> {
    let kind = reader.string()?;
    if kind == "SCHEMA_CHANGE" {
        return Ok(Event::Schema(read_schema_change(reader)?));
    }
    let change = match reader.string()? {
        "NEW_NODE" => NodeChange::New,
        "REMOVED_NODE" => NodeChange::Removed,
        "UP" => NodeChange::Up,
        "DOWN" => NodeChange::Down,
        other => panic!("{other}"),
    };
    let address = reader.address()?;
    let node = SocketAddr::new(address, u16::try_from(reader.int()?).unwrap());
    Ok(match kind {
        "TOPOLOGY_CHANGE" => Event::Topology(change, node),
        "STATUS_CHANGE" => Event::Status(change, node),
        other => panic!("{other}"),
    })
}

fn read_schema_change(reader: &mut Reader<'_>) -> Read<SchemaChange> {
    let change = match reader.string()? {
        "CREATED" => ChangeType::Created,
        "UPDATED" => ChangeType::Updated,
        "DROPPED" => ChangeType::Dropped,
        other => panic!("{other}"),
    };
    let target = reader.string()?;
    let keyspace = reader.string()?.to_owned();
    let target = match target {
        "KEYSPACE" => ChangeTarget::Keyspace,
        "TABLE" => ChangeTarget::Table(reader.string()?.to_owned()),
        "TYPE" => ChangeTarget::Type(reader.string()?.to_owned()),
        function => {
            let name = reader.string()?.to_owned();
            let arguments = owned(reader.string_list()?);
            match function {
                "FUNCTION" => ChangeTarget::Function(name, arguments),
                "AGGREGATE" => ChangeTarget::Aggregate(name, arguments),
                other => panic!("{other}"),
            }
        }
    };
    Ok(SchemaChange {
        change,
        keyspace,
        target,
    })
}

fn read_result(reader: &mut Reader<'_>, version: Version) -> Read<ResultBody> {
    Ok(match reader.int()? {
        1 => ResultBody::Void,
        2 => ResultBody::Rows(read_rows(reader)?),
        3 => ResultBody::SetKeyspace(reader.string()?.to_owned()),
        4 => ResultBody::Prepared(read_prepared(reader, version)?),
        5 => ResultBody::SchemaChange(read_schema_change(reader)?),
        other => panic!("no result is of kind {other}"),
    })
}

fn read_rows(reader: &mut Reader<'_>) -> Read<Rows> {
    let (metadata, columns) = read_metadata(reader)?;
    let count = reader.int()?;
    let mut rows = Rows::new(metadata);
    for _ in 0..count {
        let cells = reader.items(columns, Reader::bytes)?;
        rows.push(cells);
    }
    Ok(rows)
}

/// The metadata, and how many columns there are even if they are not described.
fn read_metadata(reader: &mut Reader<'_>) -> Read<(Metadata, usize)> {
    let flags = reader.int()?;
    let count = usize::try_from(reader.int()?).unwrap();
    let mut metadata = Metadata::default();
    if flags & 2 != 0 {
        metadata.paging_state = reader.bytes()?.map(<[u8]>::to_vec);
    }
    if flags & 8 != 0 {
        metadata.new_metadata_id = Some(reader.short_bytes()?.to_vec());
    }
    metadata.skip_columns = flags & 4 != 0;
    if !metadata.skip_columns {
        metadata.columns = read_columns(reader, count, flags)?.into();
    }
    Ok((metadata, count))
}

fn read_columns(reader: &mut Reader<'_>, count: usize, flags: i32) -> Read<Vec<ColumnSpec>> {
    let shared = if flags & 1 == 0 {
        None
    } else {
        Some((reader.string()?, reader.string()?))
    };
    reader.items(count, |reader| {
        let (keyspace, table) = match shared {
            Some(table) => table,
            None => (reader.string()?, reader.string()?),
        };
        Ok(ColumnSpec {
            keyspace: keyspace.to_owned(),
            table: table.to_owned(),
            name: reader.string()?.to_owned(),
            data_type: read_type(reader)?,
        })
    })
}

fn read_prepared(reader: &mut Reader<'_>, version: Version) -> Read<Prepared> {
    let id = reader.short_bytes()?.to_vec();
    let mut result_metadata_id = Vec::new();
    if version == Version::V5 {
        result_metadata_id = reader.short_bytes()?.to_vec();
    }
    let flags = reader.int()?;
    let count = usize::try_from(reader.int()?).unwrap();
    let mut partition_key = Vec::new();
    if version != Version::V3 {
        let indexes = reader.long_count(2)?;
        partition_key = reader.items(indexes, Reader::short)?;
    }
    let markers = read_columns(reader, count, flags)?;
    let (metadata, _) = read_metadata(reader)?;
    let result = (!metadata.skip_columns).then_some(metadata.columns);
    Ok(Prepared {
        id,
        result_metadata_id,
        markers,
        partition_key,
        result,
    })
}

/// A type. That it is frozen is not told, and custom names are read for natives only.
fn read_type(reader: &mut Reader<'_>) -> Read<DataType> {
    Ok(match reader.short()? {
        data_type::CUSTOM => {
            let class = reader.string()?;
            let mut natives = Native::ALL.iter().map(|native| DataType::from(*native));
            natives.find(|native| native.class_name() == class).unwrap()
        }
        data_type::LIST => DataType::list(read_type(reader)?),
        data_type::SET => DataType::set(read_type(reader)?),
        data_type::MAP => {
            let key = read_type(reader)?;
            DataType::map(key, read_type(reader)?)
        }
        data_type::TUPLE => DataType::Tuple(reader.list(2, |reader| read_type(reader))?),
        data_type::USER => {
            let (keyspace, name) = (reader.string()?.to_owned(), reader.string()?.to_owned());
            let fields = reader.list(4, |reader| {
                Ok((reader.string()?.to_owned(), read_type(reader)?))
            })?;
            let definition = Box::new(UserType {
                keyspace,
                name,
                fields,
            });
            DataType::User {
                definition,
                frozen: false,
            }
        }
        id => Native::ALL
            .iter()
            .find(|native| native.id() == id)
            .copied()
            .unwrap()
            .into(),
    })
}
