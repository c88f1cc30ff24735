//! The login of one connection: the SCRAM conversation in progress, and the authenticated user.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, RawBsonRef, RawDocument, doc};
use tessera_mongo_language::error::Code;

use super::record::Name;
use super::restriction::{self, Ends};
use super::scram::{ClientFirst, Conversation, Mechanism, Refused};
use super::users::Granted;
use crate::access::{Action, Need, Resource};
use crate::failure::{Failure, Result};
use crate::logical::Owner;
use crate::service::Service;

/// Who a connection belongs to, and who it is about to belong to.
#[derive(Debug, Default)]
pub(crate) struct Login {
    pub(crate) identity: Option<Identity>,
    pending: Option<Pending>,
}

/// A user who has logged in.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) name: Name,
    pub(crate) granted: Granted,
    /// The owner of the sessions that are used over this connection.
    pub(crate) owner: Owner,
    /// When the user's roles were read.
    generation: u64,
}

#[derive(Debug)]
struct Pending {
    name: Name,
    step: Step,
    /// Whether the client leaves out the last, empty exchange.
    short: bool,
}

#[derive(Debug)]
enum Step {
    /// The client's proof is awaited.
    Proof(Box<Conversation>),
    /// The proof was good, and an empty message ends it.
    Empty,
}

/// One conversation at a time needs no other number.
const CONVERSATION: i32 = 1;

impl Login {
    /// Begins a conversation.
    pub(crate) async fn start(
        &mut self,
        service: &Service,
        database: &str,
        command: &RawDocument,
    ) -> Result<Document> {
        self.pending = None;
        let mechanism = command.get_str("mechanism").unwrap_or_default();
        let Some(mechanism) = Mechanism::parse(mechanism) else {
            let message = format!(
                "Received authentication for mechanism {mechanism} which is unknown or not enabled"
            );
            return Err(Failure::new(Code::MECHANISM_UNAVAILABLE, message));
        };
        let payload = payload(command)?;
        let first = ClientFirst::parse(&payload).map_err(|Refused| failed())?;
        let name = Name::new(&first.user, database);
        let credential = service
            .users
            .credential(&service.store, &name, mechanism)
            .await?;
        let (conversation, message) = Conversation::begin(mechanism, credential, first);
        let options = command.get_document("options").ok();
        let short = options.and_then(|options| options.get_bool("skipEmptyExchange").ok());
        self.pending = Some(Pending {
            name,
            step: Step::Proof(Box::new(conversation)),
            short: short.unwrap_or(false),
        });
        Ok(answer(command, &message, false))
    }

    /// Goes on with the conversation.
    pub(crate) async fn proceed(
        &mut self,
        service: &Service,
        command: &RawDocument,
        client: IpAddr,
    ) -> Result<Document> {
        let Some(pending) = self.pending.take() else {
            let message = "No SASL session state found";
            return Err(Failure::new(Code::PROTOCOL_ERROR, message));
        };
        if command.get_i32("conversationId").unwrap_or(CONVERSATION) != CONVERSATION {
            let message = "sasl: Mismatched conversation id";
            return Err(Failure::new(Code::PROTOCOL_ERROR, message));
        }
        let payload = payload(command)?;
        match pending.step {
            Step::Proof(conversation) => {
                let message = conversation.finish(&payload).map_err(|Refused| failed())?;
                if pending.short {
                    self.identify(service, pending.name, client).await?;
                    return Ok(answer(command, &message, true));
                }
                self.pending = Some(Pending {
                    step: Step::Empty,
                    ..pending
                });
                Ok(answer(command, &message, false))
            }
            Step::Empty if payload.is_empty() => {
                self.identify(service, pending.name, client).await?;
                Ok(answer(command, "", true))
            }
            Step::Empty => Err(failed()),
        }
    }

    /// Who the client is about to prove to be.
    pub(crate) fn claimed(&self) -> Option<String> {
        let pending = self.pending.as_ref();
        pending.map(|pending| pending.name.to_string())
    }

    async fn identify(&mut self, service: &Service, name: Name, client: IpAddr) -> Result<()> {
        let identity = Identity::read(service, name, client).await?;
        self.identity = Some(identity.ok_or_else(failed)?);
        Ok(())
    }

    /// Reads the user's roles again if users or roles have changed. A user who is gone, or may not
    /// log in from there any more, is logged out.
    pub(crate) async fn refresh(&mut self, service: &Service, client: IpAddr) -> Result<()> {
        let Some(identity) = &self.identity else {
            return Ok(());
        };
        if identity.generation != service.users.generation() {
            self.identity = Identity::read(service, identity.name.clone(), client).await?;
        }
        Ok(())
    }

    pub(crate) fn end(&mut self) {
        *self = Self::default();
    }

    /// The owner of the sessions that are used over this connection.
    pub(crate) fn owner(&self) -> Owner {
        let identity = self.identity.as_ref();
        identity.map_or_else(Owner::nobody, |identity| identity.owner)
    }
}

impl Identity {
    /// Whether the user's roles allow this.
    pub(crate) fn may(&self, need: &Need) -> bool {
        let mut privileges = self.granted.privileges.iter();
        privileges.any(|privilege| privilege.allows(need))
    }

    /// Whether they allow all of these actions on a collection.
    pub(crate) fn may_all(&self, actions: &[Action], database: &str, collection: &str) -> bool {
        let may = |action: &Action| self.may(&Need::on_collection(*action, database, collection));
        actions.iter().all(may)
    }

    /// Whether they allow anything at all in a database.
    pub(crate) fn reaches_database(&self, database: &str) -> bool {
        let mut privileges = self.granted.privileges.iter();
        privileges.any(|privilege| privilege.reaches_database(database))
    }

    /// Whether they allow anything at all on a collection.
    pub(crate) fn reaches_collection(&self, database: &str, collection: &str) -> bool {
        let resource = Resource::Collection(database.to_owned(), collection.to_owned());
        let mut privileges = self.granted.privileges.iter();
        privileges.any(|privilege| privilege.reaches(&resource))
    }

    /// The user of this name, if there is one who may log in from this address.
    async fn read(service: &Service, name: Name, client: IpAddr) -> Result<Option<Self>> {
        // Before what is read: a change while reading makes it be read again.
        let generation = service.users.generation();
        let Some(user) = service.users.find(&service.store, &name).await? else {
            return Ok(None);
        };
        let granted = service.users.expand(&service.store, &user.roles).await?;
        let listens = service.config.address.map(|address| address.ip());
        let ends = Ends {
            client,
            server: listens.filter(|address| !address.is_unspecified()),
        };
        let mut restrictions = std::iter::once(&user.restrictions).chain(&granted.restrictions);
        if !restrictions.all(|restrictions| restriction::lets_in(restrictions, ends)) {
            return Ok(None);
        }
        Ok(Some(Self {
            owner: Owner::of(&name.to_string()),
            name,
            granted,
            generation,
        }))
    }
}

fn failed() -> Failure {
    Failure::new(Code::AUTHENTICATION_FAILED, "Authentication failed.")
}

/// The mechanism's message, which comes as bytes, or as a text in base64.
fn payload(command: &RawDocument) -> Result<Vec<u8>> {
    match command.get("payload")? {
        Some(RawBsonRef::Binary(payload)) => Ok(payload.bytes.to_vec()),
        Some(RawBsonRef::String(payload)) => STANDARD.decode(payload).map_err(|_| failed()),
        _ => {
            let message = "BSON field 'payload' must be binary data or a string";
            Err(Failure::new(Code::TYPE_MISMATCH, message))
        }
    }
}

/// Answers in the form in which the client asked.
fn answer(command: &RawDocument, message: &str, done: bool) -> Document {
    let payload = match command.get("payload") {
        Ok(Some(RawBsonRef::String(_))) => Bson::String(STANDARD.encode(message)),
        _ => Bson::Binary(Binary {
            subtype: BinarySubtype::Generic,
            bytes: message.as_bytes().to_vec(),
        }),
    };
    doc! { "conversationId": CONVERSATION, "done": done, "payload": payload }
}
