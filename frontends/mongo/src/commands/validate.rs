//! `validate`: compares a collection with its indexes.

use bson::{Bson, Document, doc};
use tessera_core::Transaction;
use tessera_core::definition::IndexState;
use tessera_mongo_language::error::{Code, Error};

use crate::access::{Access, Action};
use crate::collection::{Namespace, Validator};
use crate::command::Command;
use crate::execute::decode;
use crate::failure::{Failure, Result};
use crate::fields::truth;
use crate::index::keys;
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::write::target::{Target, on_view};

pub(crate) const COMMANDS: &[Command] = &[Command::new(
    "validate",
    "Compares a collection with its indexes.",
    Access::Collection(&[Action::Validate]),
    |service, session, request| Box::pin(validate(service, session, request)),
)];

/// What is asked for. Options may be of any type, and unknown ones mean nothing.
struct Asked {
    metadata: bool,
    repair: bool,
    fix_multikey: bool,
}

impl Asked {
    fn read(request: &Request<'_>) -> Result<Self> {
        let flag = |name: &str| {
            let value = request.body.get(name)?;
            let value = value.filter(|value| value.as_null().is_none());
            Ok::<_, Failure>(value.is_some_and(|value| truth(value).unwrap_or(true)))
        };
        let asked = Self {
            metadata: flag("metadata")?,
            repair: flag("repair")?,
            fix_multikey: flag("fixMultikey")?,
        };
        let (full, background) = (flag("full")?, flag("background")?);
        let conformance = flag("checkBSONConformance")?;
        let refused = if background && (full || asked.repair) {
            "a validation in the background can be neither full nor a repair"
        } else if asked.metadata && (full || asked.repair || background || conformance) {
            "a validation of the metadata alone takes no options that read documents"
        } else if conformance && asked.repair {
            "a repair cannot check the conformance of documents"
        } else {
            return Ok(asked);
        };
        Err(Error::new(Code::INVALID_OPTIONS, refused).into())
    }

    /// How the server names what it would do to errors. There is nothing to repair: indexes are
    /// written with their documents, in one step.
    fn repair_mode(&self) -> &'static str {
        match (self.repair, self.fix_multikey) {
            (true, _) => "FixErrors",
            (false, true) => "AdjustMultikey",
            (false, false) => "None",
        }
    }
}

async fn validate(
    service: &Service,
    session: &mut Session,
    request: &Request<'_>,
) -> Result<Reply> {
    let asked = Asked::read(request)?;
    let name = request.collection()?;
    let missing = |namespace: String| {
        let message = format!("Collection '{namespace}' does not exist to validate.");
        Failure::new(Code::NAMESPACE_NOT_FOUND, message)
    };
    if name.starts_with('$') {
        return Err(missing(format!("{}.{name}", request.database)));
    }
    let namespace = Namespace::new(request.database, name)?;
    let mut transaction = service.store.begin().await?;
    let target = Target::find(&service.data, &mut transaction, &namespace).await?;
    let Some(target) = target else {
        return Err(missing(namespace.to_string()));
    };
    if target.collection.view.is_some() {
        return Err(on_view(&namespace));
    }
    let mut reply = doc! {
        "ns": namespace.to_string(),
        "uuid": target.collection.uuid_bson(),
    };
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    if !asked.metadata {
        let checked = Checked::read(&mut transaction, &target).await?;
        session.spent(transaction.meter());
        if checked.invalid > 0 {
            errors.push(format!("{} documents are not valid BSON", checked.invalid));
        }
        errors.extend(faults(service, &target).await?);
        if checked.non_compliant > 0 {
            let message = "Detected one or more documents not compliant with the collection's \
                           schema.";
            warnings.push(message);
        }
        let keys = checked.keys.iter();
        let keys = keys.map(|(name, keys)| (name.clone(), number(*keys)));
        reply.extend(doc! {
            "nInvalidDocuments": number(checked.invalid),
            "nNonCompliantDocuments": number(checked.non_compliant),
            "nrecords": number(checked.documents),
            "keysPerIndex": keys.collect::<Document>(),
        });
    }
    let live = target.collection.live_indexes(&target.container.definition);
    let specs = std::iter::once(&target.collection.id_index).chain(live.map(|(spec, ..)| spec));
    let details = specs.map(|spec| {
        let details = doc! { "valid": errors.is_empty(), "spec": spec.document.clone() };
        (spec.name.clone(), Bson::Document(details))
    });
    let details: Document = details.collect();
    reply.extend(doc! {
        "nIndexes": i32::try_from(details.len()).unwrap_or(i32::MAX),
        "indexDetails": details,
        "valid": errors.is_empty(),
        "repaired": false,
        "repairMode": asked.repair_mode(),
        "readTimestamp": Bson::Null,
        "warnings": warnings,
        "errors": errors,
        "extraIndexEntries": [],
        "missingIndexEntries": [],
        "corruptRecords": [],
    });
    Ok(reply.into())
}

/// Where the indexes and counts of a collection disagree with its documents. One that is being
/// built does not agree yet.
async fn faults(service: &Service, target: &Target) -> Result<Vec<String>> {
    let mut indexes = target.container.definition.indexes.iter();
    if indexes.any(|index| index.state != IndexState::Ready) {
        return Ok(Vec::new());
    }
    Ok(service.store.verify(&target.namespace.container).await?)
}

/// What reading a whole collection found.
#[derive(Default)]
struct Checked {
    documents: i64,
    invalid: i64,
    /// Documents that the validator would refuse now.
    non_compliant: i64,
    keys: Vec<(String, i64)>,
}

impl Checked {
    async fn read(transaction: &mut Transaction, target: &Target) -> Result<Self> {
        let mut checked = Self::default();
        let specs: Vec<_> = target
            .collection
            .live_indexes(&target.container.definition)
            .map(|(spec, ..)| spec)
            .collect();
        let mut counts = vec![0; specs.len()];
        let mut continuation = None;
        loop {
            let request = tessera_core::reading::PageRequest {
                max_items: 1_000,
                continuation: continuation.take(),
                ..Default::default()
            };
            let span = tessera_core::reading::Span::All;
            let page = transaction.scan(&target.container, &span, &request).await?;
            for item in &page.items {
                checked.documents += 1;
                let Ok(document) = decode(&item.body) else {
                    checked.invalid += 1;
                    continue;
                };
                let validator = target.collection.validator.as_ref();
                let refused = |validator: &Validator| validator.rules.check(&document).is_err();
                checked.non_compliant += i64::from(validator.is_some_and(refused));
                for (spec, count) in specs.iter().zip(&mut counts) {
                    let entries = keys::of(spec, &document)?.entries.len();
                    *count += i64::try_from(entries).unwrap_or(i64::MAX);
                }
            }
            match page.continuation {
                None => break,
                next => continuation = next,
            }
        }
        let id = target.collection.id_index.name.clone();
        checked.keys.push((id, checked.documents));
        let names = specs.iter().map(|spec| spec.name.clone());
        checked.keys.extend(names.zip(counts));
        Ok(checked)
    }
}

fn number(number: i64) -> Bson {
    i32::try_from(number).map_or(Bson::Int64(number), Bson::Int32)
}
