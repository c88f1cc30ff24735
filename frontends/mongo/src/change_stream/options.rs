//! The options of `$changeStream`: what is watched, from where, and what events show.

use bson::{Bson, RawDocumentBuf, Timestamp};
use tessera_mongo_language::error::{Code, Error};

use crate::change_stream::images::Images;
use crate::change_stream::token::{At, Token};
use crate::collection::Namespace;
use crate::failure::{Failure, Result};
use crate::fields::{BOOL, DOCUMENT, Field, Fields, STRING, TIMESTAMP, optional};

/// How the stage is called in errors.
const STAGE: &str = "$changeStream";

const FIELDS: &[Field] = &[
    optional("fullDocument", STRING),
    optional("fullDocumentBeforeChange", STRING),
    optional("resumeAfter", DOCUMENT),
    optional("startAfter", DOCUMENT),
    optional("startAtOperationTime", TIMESTAMP),
    optional("allChangesForCluster", BOOL).not_null(),
    optional("showExpandedEvents", BOOL).not_null(),
    optional("showSystemEvents", BOOL).not_null(),
    optional("matchCollectionUUIDForUpdateLookup", BOOL).not_null(),
    optional("showMigrationEvents", BOOL).not_null(),
    optional("allowToRunOnConfigDB", BOOL).not_null(),
    optional("allowToRunOnSystemNS", BOOL).not_null(),
];

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
    pub(crate) images: Images,
    /// Whether events tell more: of definitions, and of paths that may be misread.
    pub(crate) is_expanded: bool,
    /// Whether they also tell what the server does by itself, and of collections of the system.
    pub(crate) shows_system: bool,
    /// Whether large events come in fragments.
    pub(crate) splits: bool,
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
            return Err(Error::new(Code(6_188_500), message).into());
        };
        let argument = RawDocumentBuf::try_from(argument)?;
        let fields = Fields::of_document(STAGE, &argument, FIELDS)?;
        let flag = |name: &str| fields.bool(name).unwrap_or(false);
        let all = flag("allChangesForCluster");
        Ok(Self {
            scope: scope(database, collection, all)?,
            begin: begin(&fields)?,
            images: Images::parse(&fields)?,
            is_expanded: flag("showExpandedEvents"),
            shows_system: flag("showSystemEvents"),
            splits: false,
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
    fn images_are_shown_as_asked() {
        use crate::change_stream::images::Image;

        let images = |argument: Document| parse(argument, "shop", None).unwrap().images;
        let after = |value: Option<&str>| images(doc! { "fullDocument": value }).after;
        let before =
            |value: Option<&str>| images(doc! { "fullDocumentBeforeChange": value }).before;
        for (value, expected) in [
            (None, Image::Off),
            (Some("default"), Image::Off),
            (Some("updateLookup"), Image::LookedUp),
            (Some("whenAvailable"), Image::WhenAvailable),
            (Some("required"), Image::Required),
        ] {
            assert_eq!(after(value), expected);
        }
        for (value, expected) in [
            (None, Image::Off),
            (Some("off"), Image::Off),
            (Some("whenAvailable"), Image::WhenAvailable),
            (Some("required"), Image::Required),
        ] {
            assert_eq!(before(value), expected);
        }
        assert!(!images(doc! { "fullDocument": "updateLookup" }).are_kept());
        assert!(images(doc! { "fullDocumentBeforeChange": "required" }).are_kept());
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
        assert_eq!(code(doc! { "resumeAfter": {} }), 40_647);
        assert_eq!(code(doc! { "resumeAfter": 5 }), 14);
        assert_eq!(code(doc! { "startAtOperationTime": 5 }), 14);
        assert_eq!(code(doc! { "fullDocument": "all" }), 2);
        assert_eq!(code(doc! { "fullDocument": 1 }), 14);
        for flag in ["allChangesForCluster", "showExpandedEvents"] {
            for value in [Bson::Null, 1.into(), 1.0.into(), "true".into()] {
                assert_eq!(code(doc! { flag: value }), 14, "{flag}");
            }
        }
        assert_eq!(code(doc! { "fullDocumentBeforeChange": "default" }), 2);
        assert_eq!(code(doc! { "unknown": 1 }), 40_415);
        let options = Options::parse(&Bson::Int32(1), "shop", None);
        assert_eq!(options.unwrap_err().code().0, 6_188_500);
    }
}
