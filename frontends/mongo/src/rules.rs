//! Rules for every command: the stable API, read and write concerns, and the fields of sessions and
//! transactions.

use tessera_mongo_language::error::Code;

use crate::command::Command;
use crate::concern::Level;
use crate::failure::{Failure, Result};
use crate::request::Request;

/// The error of an `apiStrict` or `apiDeprecationErrors` without a version.
const API_VERSION_REQUIRED: Code = Code(4_886_600);

/// Refuses what may not be asked of a command.
pub(crate) fn check(command: &Command, request: &Request<'_>) -> Result<()> {
    check_api(command, request)?;
    check_numbers(command, request)?;
    if command.admin_only && request.database != "admin" {
        let message = format!(
            "{} may only be run against the admin database.",
            command.name
        );
        return Err(Failure::new(Code::UNAUTHORIZED, message));
    }
    check_concerns(command, request)
}

fn check_api(command: &Command, request: &Request<'_>) -> Result<()> {
    let api = request.generic.api;
    match api.version {
        None if api.strict.is_some() || api.deprecation_errors.is_some() => {
            let message =
                "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion";
            Err(Failure::new(API_VERSION_REQUIRED, message))
        }
        Some(version) if version != "1" => {
            let message = "API version must be \"1\"";
            Err(Failure::new(Code::API_VERSION_ERROR, message))
        }
        Some(_) if api.strict == Some(true) && !command.stable => {
            let message = format!(
                "Provided apiStrict:true, but the command {} is not in API Version 1.",
                command.name
            );
            Err(Failure::new(Code::API_STRICT_ERROR, message))
        }
        _ => Ok(()),
    }
}

fn check_numbers(command: &Command, request: &Request<'_>) -> Result<()> {
    let generic = &request.generic;
    let invalid = |message: &str| Err(Failure::new(Code::INVALID_OPTIONS, message));
    match (generic.autocommit, generic.start_transaction) {
        (Some(true), _) => return invalid("Specifying autocommit=true is not allowed."),
        (_, Some(false)) => return invalid("Specifying startTransaction=false is not allowed."),
        (None, Some(true)) => {
            return invalid(
                "'startTransaction' field requires 'autocommit' field to also be specified",
            );
        }
        _ => {}
    }
    let Some(number) = generic.transaction_number else {
        return match generic.autocommit {
            Some(_) => {
                invalid("'autocommit' field requires a transaction number to also be specified")
            }
            None => Ok(()),
        };
    };
    if generic.session().is_none() {
        return invalid("Transaction number requires a session ID to also be specified");
    }
    if number < 0 {
        return invalid("Transaction number cannot be negative");
    }
    if request.in_transaction() {
        if !command.in_transactions {
            let message = format!(
                "Cannot run '{}' in a multi-document transaction.",
                command.name
            );
            return Err(Failure::new(
                Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                message,
            ));
        }
        let database = request.database;
        let of_server = ["config", "local"].contains(&database);
        if of_server || (database == "admin" && !command.admin_only) {
            let message =
                format!("Cannot run command against the '{database}' database in a transaction.");
            let code = Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION;
            return Err(Failure::new(code, message));
        }
    } else if !command.retryable {
        let message = format!(
            "txnNumber may only be provided for multi-document transactions and retryable write \
             commands. autocommit:false was not provided, and {} is not a retryable write command.",
            command.name
        );
        return Err(Failure::new(Code::NOT_A_RETRYABLE_WRITE_COMMAND, message));
    }
    Ok(())
}

fn check_concerns(command: &Command, request: &Request<'_>) -> Result<()> {
    let generic = &request.generic;
    let invalid = |message: String| Err(Failure::new(Code::INVALID_OPTIONS, message));
    if generic.write_concern.is_some() && !command.takes_write_concern {
        return invalid("Command does not support writeConcern".to_owned());
    }
    let Some(read_concern) = &generic.read_concern else {
        return Ok(());
    };
    let level = read_concern.level.unwrap_or(Level::Local);
    // The first statement of a transaction says it for all of them.
    let takes = match level {
        _ if request.in_transaction() => true,
        Level::Snapshot => command.takes_snapshot,
        _ => command.takes_read_concern,
    };
    if level != Level::Local && !takes {
        return invalid(format!(
            "Command {} does not support {{ readConcern: {{ level: \"{}\" }} }}",
            command.name,
            level.name()
        ));
    }
    if request.in_transaction() && generic.start_transaction != Some(true) {
        return invalid(
            "Only the first command in a transaction may specify a readConcern".to_owned(),
        );
    }
    let both = read_concern
        .after_cluster_time
        .and(read_concern.at_cluster_time);
    if both.is_some() {
        return invalid("Specifying a timestamp for both is not allowed".to_owned());
    }
    if read_concern.at_cluster_time.is_some() && level != Level::Snapshot {
        return invalid(
            "readConcern.atClusterTime is only allowed with level \"snapshot\"".to_owned(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bson::spec::BinarySubtype;
    use bson::{Binary, Bson, Document, RawDocumentBuf, doc};

    use super::*;
    use crate::access::Access;
    use crate::reply::Reply;

    const PLAIN: Command = Command::new("plain", "", Access::Anyone, |_, _, _| {
        Box::pin(async { Ok(Reply::ok()) })
    });
    const WRITE: Command = Command::new("write", "", Access::Anyone, |_, _, _| {
        Box::pin(async { Ok(Reply::ok()) })
    })
    .stable()
    .writes()
    .reads()
    .retryable()
    .in_transactions();

    fn code(command: &Command, more: Document) -> Option<i32> {
        let mut body = doc! { "x": 1, "$db": "test" };
        body.extend(more);
        let body = RawDocumentBuf::try_from(&body).unwrap();
        let request = Request::parse(&body, Vec::new(), None).unwrap();
        check(command, &request)
            .err()
            .map(|failure| failure.code().0)
    }

    fn with_session(more: Document) -> Document {
        let id = Bson::Binary(Binary {
            subtype: BinarySubtype::Uuid,
            bytes: vec![1; 16],
        });
        let mut fields = doc! { "lsid": { "id": id } };
        fields.extend(more);
        fields
    }

    #[test]
    fn the_stable_api_is_kept() {
        assert_eq!(code(&PLAIN, doc! {}), None);
        assert_eq!(code(&PLAIN, doc! { "apiVersion": "1" }), None);
        assert_eq!(
            code(&PLAIN, doc! { "apiVersion": "1", "apiStrict": true }),
            Some(323)
        );
        assert_eq!(
            code(&WRITE, doc! { "apiVersion": "1", "apiStrict": true }),
            None
        );
        assert_eq!(code(&PLAIN, doc! { "apiVersion": "2" }), Some(322));
        assert_eq!(code(&PLAIN, doc! { "apiStrict": true }), Some(4_886_600));
    }

    #[test]
    fn numbers_need_a_session_and_a_command_that_takes_them() {
        for (command, fields, expected) in [
            (&WRITE, doc! { "txnNumber": 1i64 }, Some(72)),
            (&WRITE, with_session(doc! { "txnNumber": 1i64 }), None),
            (&WRITE, with_session(doc! { "txnNumber": -1i64 }), Some(72)),
            (
                &PLAIN,
                with_session(doc! { "txnNumber": 1i64 }),
                Some(50768),
            ),
            (
                &PLAIN,
                with_session(doc! { "txnNumber": 1i64, "autocommit": false }),
                Some(263),
            ),
            (
                &WRITE,
                with_session(doc! { "txnNumber": 1i64, "autocommit": false }),
                None,
            ),
            (
                &WRITE,
                with_session(doc! { "txnNumber": 1i64, "autocommit": true }),
                Some(72),
            ),
            (&WRITE, with_session(doc! { "autocommit": false }), Some(72)),
            (
                &WRITE,
                with_session(doc! { "startTransaction": true }),
                Some(72),
            ),
        ] {
            assert_eq!(code(command, fields.clone()), expected, "{fields}");
        }
    }

    #[test]
    fn concerns_go_to_commands_that_know_them() {
        assert_eq!(code(&PLAIN, doc! { "writeConcern": { "w": 1 } }), Some(72));
        assert_eq!(code(&WRITE, doc! { "writeConcern": { "w": 1 } }), None);
        assert_eq!(
            code(&PLAIN, doc! { "readConcern": { "level": "local" } }),
            None
        );
        assert_eq!(
            code(&PLAIN, doc! { "readConcern": { "level": "majority" } }),
            Some(72)
        );
        assert_eq!(
            code(&WRITE, doc! { "readConcern": { "level": "majority" } }),
            None
        );
        let first = doc! {
            "txnNumber": 1i64, "autocommit": false, "startTransaction": true,
            "readConcern": { "level": "majority" },
        };
        let command = PLAIN.in_transactions();
        assert_eq!(code(&command, with_session(first)), None);
        assert_eq!(code(&PLAIN.admin_only(), doc! {}), Some(13));
    }
}
