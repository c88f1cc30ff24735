//! `applyOps`: does again what entries of the oplog say, one after another. Each is run as the
//! command that it stands for, with that command's privileges.

use bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};
use tessera_mongo_language::error::{Code, Error, bad_value, failed_to_parse};

use crate::access::{self, Access};
use crate::batch::encode;
use crate::collection::Namespace;
use crate::command::Command;
use crate::commands;
use crate::failure::{Failure, Result};
use crate::fields::{ANY, BOOL_OR_NUMBER, Field, Fields, STRING, optional};
use crate::oplog::diff;
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;

pub(crate) const COMMANDS: &[Command] = &[Command::new(
    "applyOps",
    "Does what entries of the oplog say.",
    Access::Authenticated,
    |service, session, request| Box::pin(run(service, session, request)),
)
.writes()];

const FIELDS: &[Field] = &[
    optional("allowAtomic", BOOL_OR_NUMBER),
    optional("alwaysUpsert", BOOL_OR_NUMBER),
    optional("oplogApplicationMode", STRING),
    optional("preCondition", ANY),
];

/// Commands that an entry may have.
const COMMANDS_IN_ENTRIES: &[&str] = &[
    "applyOps",
    "collMod",
    "convertToCapped",
    "create",
    "createIndexes",
    "drop",
    "dropDatabase",
    "dropIndexes",
    "renameCollection",
];

/// Entries within entries.
const MAX_DEPTH: usize = 4;

async fn run(service: &Service, session: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let fields = Fields::of(request, FIELDS)?;
    if fields.get("preCondition").is_some() {
        let message = "preCondition is not supported: check it before the command";
        return Err(Failure::new(Code::COMMAND_NOT_SUPPORTED, message));
    }
    let RawBsonRef::Array(entries) = request.argument() else {
        let message = "applyOps needs an array of operations";
        return Err(failed_to_parse(message).into());
    };
    let mut parsed = Vec::new();
    for entry in entries {
        let RawBsonRef::Document(entry) = entry? else {
            return Err(failed_to_parse("an operation of applyOps is no document").into());
        };
        parsed.push(Document::try_from(entry)?);
    }
    let mut applied = Applied { session, done: 0 };
    match applied.all(service, &parsed, 0).await {
        Ok(()) => {
            let results = vec![Bson::Boolean(true); applied.done];
            Ok(doc! { "applied": number(applied.done), "results": results }.into())
        }
        Err(failure) => {
            let mut results = vec![Bson::Boolean(true); applied.done];
            results.push(false.into());
            let applied = number(applied.done + 1);
            Err(failure.with("applied", applied).with("results", results))
        }
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// What was done so far.
struct Applied<'a> {
    session: &'a mut Session,
    done: usize,
}

impl Applied<'_> {
    async fn all(&mut self, service: &Service, entries: &[Document], depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            let message = "applyOps has operations within operations, too deep";
            return Err(failed_to_parse(message).into());
        }
        for entry in entries {
            Box::pin(self.one(service, entry, depth)).await?;
            if depth == 0 {
                self.done += 1;
            }
        }
        Ok(())
    }

    async fn one(&mut self, service: &Service, entry: &Document, depth: usize) -> Result<()> {
        let operation = text(entry, "op")?;
        if operation == "n" {
            return Ok(());
        }
        let namespace = text(entry, "ns")?;
        let change = document(entry, "o")?;
        match operation {
            "c" => {
                self.command(service, namespace, (entry, change), depth)
                    .await
            }
            "i" => {
                let namespace = Namespace::parse(namespace)?;
                self.put(service, &namespace, change).await
            }
            "u" => {
                let namespace = Namespace::parse(namespace)?;
                let key = document(entry, "o2")?;
                self.update(service, &namespace, (key, change)).await
            }
            "d" => {
                let namespace = Namespace::parse(namespace)?;
                let delete = doc! { "q": change.clone(), "limit": 1 };
                let command = doc! { "delete": namespace.collection(), "deletes": [delete] };
                self.run(service, namespace.database(), command)
                    .await
                    .map(drop)
            }
            other => {
                let message = format!("an operation of applyOps has the unknown kind '{other}'");
                Err(bad_value(message).into())
            }
        }
    }

    /// Stores a document in place of the one with its `_id`, or as a new one: what an entry says
    /// may have been done already.
    async fn put(
        &mut self,
        service: &Service,
        namespace: &Namespace,
        document: &Document,
    ) -> Result<()> {
        let Some(id) = document.get("_id") else {
            return Err(Error::new(Code::NO_SUCH_KEY, "an inserted document has no _id").into());
        };
        let update = doc! {
            "q": { "_id": id.clone() }, "u": document.clone(), "upsert": true, "multi": false,
        };
        let command = doc! {
            "update": namespace.collection(),
            "updates": [update],
            "bypassDocumentValidation": true,
            "bypassEmptyTsReplacement": true,
        };
        self.run(service, namespace.database(), command)
            .await
            .map(drop)
    }

    async fn update(
        &mut self,
        service: &Service,
        namespace: &Namespace,
        (key, change): (&Document, &Document),
    ) -> Result<()> {
        let Some(version) = change.get("$v") else {
            return self.put(service, namespace, change).await;
        };
        let is_known = [Bson::Int32(2), Bson::Int64(2)].contains(version);
        let (true, Ok(diff)) = (is_known, change.get_document("diff")) else {
            let message = "an update of applyOps is neither a document nor {$v: 2, diff: …}";
            return Err(Error::new(Code(4_772_604), message).into());
        };
        let find = doc! {
            "find": namespace.collection(), "filter": key.clone(), "limit": 1,
            "singleBatch": true,
        };
        let found = self.run(service, namespace.database(), find).await?;
        let cursor = found.get_document("cursor").ok();
        let batch = cursor.and_then(|cursor| cursor.get_array("firstBatch").ok());
        let first = batch.and_then(|batch| batch.first());
        // It was removed later, as another entry says.
        let Some(Bson::Document(found)) = first else {
            return Ok(());
        };
        let mut changed = found.clone();
        diff::apply(&mut changed, diff)?;
        self.put(service, namespace, &changed).await
    }

    async fn command(
        &mut self,
        service: &Service,
        namespace: &str,
        (entry, command): (&Document, &Document),
        depth: usize,
    ) -> Result<()> {
        let Some(database) = namespace.strip_suffix(".$cmd") else {
            let message = format!("the command of an operation is in '{namespace}', not in $cmd");
            return Err(bad_value(message).into());
        };
        let name = command.keys().next().map_or("", String::as_str);
        if !COMMANDS_IN_ENTRIES.contains(&name) {
            let message = format!("applyOps cannot run the command '{name}'");
            return Err(Failure::new(Code::COMMAND_NOT_SUPPORTED, message));
        }
        if name == "applyOps" {
            let entries = command.get_array(name).map_err(|_| malformed(name))?;
            let entries = entries.iter().map(|entry| match entry {
                Bson::Document(entry) => Ok(entry.clone()),
                _ => Err(malformed(name)),
            });
            let entries: Vec<Document> = entries.collect::<Result<_>>()?;
            return self.all(service, &entries, depth + 1).await;
        }
        let database = if name == "renameCollection" {
            "admin"
        } else {
            database
        };
        let command = as_command(name, command, entry)?;
        match self.run(service, database, command).await {
            // It was done already.
            Err(failure) if is_repeated(name, failure.code()) => Ok(()),
            done => done.map(drop),
        }
    }

    /// Runs a command as the client who sent the operations.
    async fn run(
        &mut self,
        service: &Service,
        database: &str,
        command: Document,
    ) -> Result<Document> {
        let encoded = encode(&command)?;
        let body = RawDocument::from_bytes(&encoded)?;
        let mut request = Request::parse(body, Vec::new(), Some(database))?;
        request.generic.owner = self.session.login.owner();
        let name = request.name();
        let Some(command) = commands::find(name) else {
            let message = format!("no such command: '{name}'");
            return Err(Failure::new(Code::COMMAND_NOT_FOUND, message));
        };
        access::check(service, self.session, (command, &request)).await?;
        let reply: RawDocumentBuf = (command.run)(service, self.session, &request)
            .await?
            .encode()?;
        let reply = Document::try_from(&*reply)?;
        let errors = reply.get_array("writeErrors").ok();
        match errors.and_then(|errors| errors.first()?.as_document()) {
            None => Ok(reply),
            Some(error) => {
                let code = Code(error.get_i32("code").unwrap_or(8));
                let message = error.get_str("errmsg").unwrap_or_default();
                Err(Error::new(code, message.to_owned()).into())
            }
        }
    }
}

/// The command of an entry as clients send it.
fn as_command(name: &str, command: &Document, entry: &Document) -> Result<Document> {
    let mut sent = command.clone();
    match name {
        "createIndexes" if !command.contains_key("indexes") => {
            let mut spec = command.clone();
            let collection = spec.remove(name);
            Ok(doc! { name: collection, "indexes": [spec] })
        }
        "create" => {
            sent.remove("idIndex");
            Ok(sent)
        }
        "dropIndexes" if !command.contains_key("index") => {
            let dropped = document(entry, "o2")?;
            sent.insert("index", dropped.get("name").cloned().unwrap_or(Bson::Null));
            Ok(sent)
        }
        "renameCollection" => {
            // It names what may be dropped by its identity, which is another one here.
            let drops = !matches!(command.get("dropTarget"), None | Some(Bson::Boolean(false)));
            sent.insert("dropTarget", drops);
            Ok(sent)
        }
        _ => Ok(sent),
    }
}

/// Failures that say that an entry was done before.
fn is_repeated(name: &str, code: Code) -> bool {
    match name {
        "create" => code == Code::NAMESPACE_EXISTS,
        "drop" | "collMod" => code == Code::NAMESPACE_NOT_FOUND,
        "dropIndexes" => [Code::NAMESPACE_NOT_FOUND, Code::INDEX_NOT_FOUND].contains(&code),
        "renameCollection" => code == Code::NAMESPACE_NOT_FOUND,
        _ => false,
    }
}

fn text<'a>(entry: &'a Document, name: &str) -> Result<&'a str> {
    entry.get_str(name).map_err(|_| malformed(name))
}

fn document<'a>(entry: &'a Document, name: &str) -> Result<&'a Document> {
    entry.get_document(name).map_err(|_| malformed(name))
}

fn malformed(name: &str) -> Failure {
    let message = format!("an operation of applyOps needs the field '{name}', of its kind");
    failed_to_parse(message).into()
}
