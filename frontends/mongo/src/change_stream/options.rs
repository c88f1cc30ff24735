//! The options of `$changeStream`: what is watched, from where, and what events show.

use bson::{Bson, RawDocumentBuf, Timestamp};
use tessera_mongo_language::error::{Code, Error, bad_value};

use crate::change_stream::token::{At, Token};
use crate::collection::Namespace;
use crate::failure::{Failure, Result};
use crate::fields::{BOOL_OR_NUMBER, DOCUMENT, Field, Fields, STRING, TIMESTAMP, optional};

/// How the stage is called in errors.
const STAGE: &str = "$changeStream";

const FIELDS: &[Field] = &[
    optional("fullDocument", STRING).not_null(),
    optional("fullDocumentBeforeChange", STRING).not_null(),
    optional("resumeAfter", DOCUMENT),
    optional("startAfter", DOCUMENT),
    optional("startAtOperationTime", TIMESTAMP),
    optional("allChangesForCluster", BOOL_OR_NUMBER),
    optional("showExpandedEvents", BOOL_OR_NUMBER),
    optional("showSystemEvents", BOOL_OR_NUMBER),
    optional("matchCollectionUUIDForUpdateLookup", BOOL_OR_NUMBER),
    optional("showMigrationEvents", BOOL_OR_NUMBER),
    optional("allowToRunOnConfigDB", BOOL_OR_NUMBER),
    optional("allowToRunOnSystemNS", BOOL_OR_NUMBER),
];

/// Options that ask for what the feed does not keep.
const NEEDING_IMAGES: &[&str] = &["whenAvailable", "required"];

/// Which changes a stream tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Collection(Namespace),
    Database(String),
    Cluster,
}

/// Where a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// With what is changed from now on.
    Now,
    /// With the first change at this time or later.
    At(Timestamp),
    /// Behind the event of this token.
    After(Token),
}

/// A stream as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) scope: Scope,
    pub(crate) begin: Begin,
    /// Whether updates show the document as it is when the event is read.
    pub(crate) looks_up: bool,
    /// Whether updates explain paths that may be misread.
    pub(crate) is_expanded: bool,
}

impl Options {
    /// Reads the stage's argument, in a command on this database and perhaps a collection.
    pub(crate) fn parse(
        argument: &Bson,
        database: &str,
        collection: Option<&Namespace>,
    ) -> Result<Self> {
        let Bson::Document(argument) = argument else {
            let message = "$changeStream stage expects a document as argument";
            return Err(Error::new(Code(50_808), message).into());
        };
        let argument = RawDocumentBuf::try_from(argument)?;
        let fields = Fields::of_document(STAGE, &argument, FIELDS)?;
        let flag = |name: &str| fields.bool(name).unwrap_or(false);
        let all = flag("allChangesForCluster");
        Ok(Self {
            scope: scope(database, collection, all)?,
            begin: begin(&fields)?,
            looks_up: looks_up(&fields)?,
            is_expanded: flag("showExpandedEvents"),
        })
    }
}

fn scope(database: &str, collection: Option<&Namespace>, all: bool) -> Result<Scope> {
    if all {
        if database == "admin" && collection.is_none() {
            return Ok(Scope::Cluster);
        }
        let found = collection.map_or_else(|| database.to_owned(), ToString::to_string);
        let message = format!(
            "A $changeStream with 'allChangesForCluster:true' may only be opened on the 'admin' \
             database, and with no collection name; found {found}"
        );
        return Err(Failure::new(Code::INVALID_OPTIONS, message));
    }
    let refuse = |message: String| Err(Failure::new(Code::INVALID_NAMESPACE, message));
    if ["admin", "config", "local"].contains(&database) {
        return refuse(format!(
            "$changeStream may not be opened on the internal {database} database"
        ));
    }
    match collection {
        None => Ok(Scope::Database(database.to_owned())),
        Some(namespace) if namespace.collection().starts_with("system.") => refuse(format!(
            "$changeStream may not be opened on the internal {namespace} collection"
        )),
        Some(namespace) => Ok(Scope::Collection(namespace.clone())),
    }
}

fn begin(fields: &Fields<'_>) -> Result<Begin> {
    let token = |name: &str| fields.document(name).map(Token::parse).transpose();
    let (resume, start) = (
        fields.document("resumeAfter"),
        fields.document("startAfter"),
    );
    let time = fields.timestamp("startAtOperationTime");
    if resume.is_some() && start.is_some() {
        let message = "Do not specify both 'resumeAfter' and 'startAfter' in a $changeStream stage";
        return Err(Error::new(Code(50_865), message).into());
    }
    if time.is_some() && (resume.is_some() || start.is_some()) {
        let message = "Only one type of resume option is allowed, but multiple were found.";
        return Err(Error::new(Code(40_674), message).into());
    }
    if let Some(token) = token("resumeAfter")? {
        if token.at == At::Invalidate {
            let message = "Attempting to resume a change stream using 'resumeAfter' is not allowed \
                           from an invalidate notification";
            return Err(Failure::new(Code::INVALID_RESUME_TOKEN, message));
        }
        return Ok(Begin::After(token));
    }
    Ok(match (token("startAfter")?, time) {
        (Some(token), _) => Begin::After(token),
        (None, Some(time)) => Begin::At(time),
        (None, None) => Begin::Now,
    })
}

fn looks_up(fields: &Fields<'_>) -> Result<bool> {
    let unknown = |name: &str, value: &str| {
        bad_value(format!(
            "Enumeration value '{value}' for field '{STAGE}.{name}' is not a valid value."
        ))
    };
    let (before, after) = ("fullDocumentBeforeChange", "fullDocument");
    match fields.str(before) {
        None | Some("off") => {}
        Some(value) if NEEDING_IMAGES.contains(&value) => return Err(no_images(before, value)),
        Some(value) => return Err(unknown(before, value).into()),
    }
    match fields.str(after) {
        None | Some("default") => Ok(false),
        Some("updateLookup") => Ok(true),
        Some(value) if NEEDING_IMAGES.contains(&value) => Err(no_images(after, value)),
        Some(value) => Err(unknown(after, value).into()),
    }
}

fn no_images(option: &str, value: &str) -> Failure {
    let message = format!(
        "{option}: '{value}' needs pre- and post-images, which this server does not keep yet; use \
         fullDocument: 'updateLookup'"
    );
    Failure::new(Code::COMMAND_NOT_SUPPORTED, message)
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};
    use tessera_core::feed::position::Position;
    use tessera_core::feed::stamp::Stamp;

    use super::*;

    fn parse(argument: Document, database: &str, collection: Option<&str>) -> Result<Options> {
        let namespace = collection.map(|name| Namespace::new(database, name).unwrap());
        Options::parse(&Bson::Document(argument), database, namespace.as_ref())
    }

    fn code(argument: Document) -> i32 {
        parse(argument, "shop", Some("orders"))
            .unwrap_err()
            .code()
            .0
    }

    fn token(at: At) -> Document {
        let position = Position::at(Stamp::end_of(1, 7));
        Token { position, at }.document()
    }

    #[test]
    fn what_is_watched_is_what_the_command_names() {
        let scope = |all: bool, database: &str, collection: Option<&str>| {
            parse(doc! { "allChangesForCluster": all }, database, collection)
                .map(|options| options.scope)
                .map_err(|failure| failure.code())
        };
        let orders = Namespace::new("shop", "orders").unwrap();
        assert_eq!(
            scope(false, "shop", Some("orders")),
            Ok(Scope::Collection(orders))
        );
        assert_eq!(
            scope(false, "shop", None),
            Ok(Scope::Database("shop".to_owned()))
        );
        assert_eq!(scope(true, "admin", None), Ok(Scope::Cluster));
        assert_eq!(scope(true, "shop", None), Err(Code::INVALID_OPTIONS));
        assert_eq!(scope(true, "admin", Some("x")), Err(Code::INVALID_OPTIONS));
        for database in ["admin", "config", "local"] {
            assert_eq!(scope(false, database, None), Err(Code::INVALID_NAMESPACE));
            assert_eq!(
                scope(false, database, Some("x")),
                Err(Code::INVALID_NAMESPACE)
            );
        }
        let views = scope(false, "shop", Some("system.views"));
        assert_eq!(views, Err(Code::INVALID_NAMESPACE));
    }

    #[test]
    fn a_stream_begins_where_it_is_told_to() {
        let begin = |argument: Document| parse(argument, "shop", None).unwrap().begin;
        let time = Timestamp {
            time: 5,
            increment: 1,
        };
        assert_eq!(begin(doc! {}), Begin::Now);
        assert_eq!(begin(doc! { "resumeAfter": null }), Begin::Now);
        assert_eq!(
            begin(doc! { "startAtOperationTime": time }),
            Begin::At(time)
        );
        for (option, at) in [
            ("resumeAfter", At::Event),
            ("resumeAfter", At::Mark),
            ("startAfter", At::Event),
            ("startAfter", At::Invalidate),
        ] {
            let Begin::After(token) = begin(doc! { option: token(at) }) else {
                panic!("{option}");
            };
            assert_eq!(token.at, at);
        }
    }

    #[test]
    fn mistakes_have_their_codes() {
        let time = Timestamp {
            time: 5,
            increment: 1,
        };
        let event = || token(At::Event);
        assert_eq!(
            code(doc! { "resumeAfter": event(), "startAfter": event() }),
            50_865
        );
        assert_eq!(
            code(doc! { "resumeAfter": event(), "startAtOperationTime": time }),
            40_674
        );
        assert_eq!(
            code(doc! { "startAfter": event(), "startAtOperationTime": time }),
            40_674
        );
        assert_eq!(code(doc! { "resumeAfter": token(At::Invalidate) }), 260);
        assert_eq!(code(doc! { "resumeAfter": {} }), 40_648);
        assert_eq!(code(doc! { "resumeAfter": 5 }), 14);
        assert_eq!(code(doc! { "startAtOperationTime": 5 }), 14);
        assert_eq!(code(doc! { "fullDocument": "all" }), 2);
        assert_eq!(code(doc! { "fullDocument": 1 }), 14);
        assert_eq!(code(doc! { "fullDocument": "required" }), 115);
        assert_eq!(
            code(doc! { "fullDocumentBeforeChange": "whenAvailable" }),
            115
        );
        assert_eq!(code(doc! { "fullDocumentBeforeChange": "default" }), 2);
        assert_eq!(code(doc! { "unknown": 1 }), 40_415);
        let options = Options::parse(&Bson::Int32(1), "shop", None);
        assert_eq!(options.unwrap_err().code().0, 50_808);
    }
}
