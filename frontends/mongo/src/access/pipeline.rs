//! The privileges that a parsed pipeline needs, nested stages included. They are derived from the
//! stages that run, so that the checked pipeline and the executed one are the same.

use tessera_mongo_language::pipeline::{Asked, Namespace, Pipeline, SystemStage, Touch};

use super::{Action, Need};
use crate::aggregate::server_stages;
use crate::auth::login::Identity;

/// Where a pipeline runs.
pub(crate) struct Over<'a> {
    pub(crate) database: &'a str,
    /// None: it has a source of its own.
    pub(crate) collection: Option<&'a str>,
    pub(crate) bypasses_validation: bool,
}

/// Everything that a pipeline needs of this user.
pub(crate) fn needs(pipeline: &Pipeline, over: &Over<'_>, user: &Identity) -> Vec<Need> {
    let mut needs = Vec::new();
    if !pipeline.has_own_source() {
        needs.push(over.need(Action::Find));
    }
    for touch in pipeline.touches() {
        match touch {
            Touch::Read(namespace) => needs.push(over.on(&namespace, Action::Find)),
            Touch::Replace(namespace) => {
                needs.push(over.on(&namespace, Action::Insert));
                needs.push(over.on(&namespace, Action::Remove));
                needs.extend(over.bypass(&namespace));
            }
            Touch::Merge {
                into,
                inserts,
                updates,
            } => {
                needs.extend(inserts.then(|| over.on(&into, Action::Insert)));
                needs.extend(updates.then(|| over.on(&into, Action::Update)));
                needs.extend(over.bypass(&into));
            }
            Touch::Ask(stage) => needs.extend(over.ask(&stage, user)),
        }
    }
    needs
}

impl Over<'_> {
    /// An action on what the pipeline runs over.
    fn need(&self, action: Action) -> Need {
        match self.collection {
            Some(collection) => Need::on_collection(action, self.database, collection),
            None => Need::on_database(action, self.database),
        }
    }

    /// An action on a collection that a stage names.
    fn on(&self, namespace: &Namespace, action: Action) -> Need {
        let database = namespace.database.as_deref().unwrap_or(self.database);
        Need::on_collection(action, database, &namespace.collection)
    }

    fn bypass(&self, namespace: &Namespace) -> Option<Need> {
        let bypass = Action::BypassDocumentValidation;
        self.bypasses_validation.then(|| self.on(namespace, bypass))
    }

    /// What the stages need that the server answers.
    fn ask(&self, stage: &SystemStage, user: &Identity) -> Vec<Need> {
        let argument = &stage.argument;
        match stage.asked {
            Asked::ChangeStream => match (self.database, self.collection) {
                ("admin", None) => vec![
                    Need::on_any_database(Action::ChangeStream),
                    Need::on_any_database(Action::Find),
                ],
                _ => vec![self.need(Action::ChangeStream), self.need(Action::Find)],
            },
            Asked::ChangeStreamSplit => Vec::new(),
            Asked::CollStats => vec![self.need(Action::CollStats)],
            Asked::CurrentOp if !server_stages::asks_for_all_users(argument) => Vec::new(),
            Asked::CurrentOp => vec![Need::on_cluster(Action::Inprog)],
            Asked::GeoNear | Asked::Search | Asked::SearchMeta | Asked::VectorSearch => {
                vec![self.need(Action::Find)]
            }
            Asked::IndexStats => vec![self.need(Action::IndexStats)],
            Asked::ListCatalog if self.collection.is_none() => vec![
                Need::on_cluster(Action::ListDatabases),
                Need::on_any_database(Action::ListCollections),
                Need::on_any_database(Action::ListIndexes),
            ],
            Asked::ListCatalog => vec![
                self.need(Action::ListCollections),
                self.need(Action::ListIndexes),
            ],
            Asked::ListClusterCatalog if self.database == "admin" => {
                vec![Need::on_cluster(Action::ListClusterCatalog)]
            }
            Asked::ListClusterCatalog => vec![self.need(Action::ListCollections)],
            Asked::ListLocalSessions | Asked::ListSessions
                if server_stages::asks_for_own_sessions(argument, user.owner) =>
            {
                Vec::new()
            }
            Asked::ListLocalSessions | Asked::ListSessions => {
                vec![Need::on_cluster(Action::ListSessions)]
            }
            Asked::ListSampledQueries => vec![Need::on_cluster(Action::ListSampledQueries)],
            Asked::ListSearchIndexes => vec![self.need(Action::ListSearchIndexes)],
            Asked::PlanCacheStats => vec![self.need(Action::PlanCacheRead)],
            Asked::QuerySettings => vec![Need::on_cluster(Action::QuerySettings)],
            Asked::QueryStats => vec![Need::on_cluster(Action::QueryStatsRead)],
            Asked::ShardedDataDistribution => {
                vec![Need::on_cluster(Action::ShardedDataDistribution)]
            }
        }
    }
}
