//! Accepted definitions of accounts and tables are read back unchanged: random policies and
//! properties, from their bytes and through a store that is opened again.
//! `TESSERA_DEFINITIONS=1000000` makes more of them.

use std::collections::HashMap;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tessera_core::Store;
use tessera_core::memory::MemoryEngine;
use tessera_core::model::Model;
use tessera_core::store::StoreOptions;

use super::cors::CorsRule;
use super::properties::{Logging, Metrics};
use super::{AccessPolicy, ServiceProperties, Update, acl};
use crate::model::{API, TableModel};
use crate::tables::{self, Mode, TableRecord};

/// How many definitions are made up.
fn cases() -> u64 {
    let wanted = std::env::var("TESSERA_DEFINITIONS").ok();
    wanted
        .and_then(|wanted| wanted.parse().ok())
        .unwrap_or(2_000)
}

/// One of this many goes through a store.
const STORED_EACH: u64 = 20;

/// Makes random definitions, the same ones for the same seed.
struct MadeUp(StdRng);

impl MadeUp {
    fn of(case: u64) -> Self {
        Self(StdRng::seed_from_u64(case))
    }

    fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end)
    }

    fn text(&mut self, longest: usize) -> String {
        const ODD: &[&str] = &[
            "", "&amp;", "<x>", "]]>", "'\"", "ä☃", "𐍈", "\u{301}", " ", "\n", "%",
        ];
        let mut text = String::new();
        for _ in 0..self.below(longest) {
            match self.below(6) {
                0 => text.push_str(ODD[self.below(ODD.len())]),
                1 => text.extend(char::from_u32(self.0.random_range(1..0x11_0000))),
                _ => text.push('c'),
            }
        }
        text
    }

    fn maybe<T>(&mut self, make: impl Fn(&mut Self) -> T) -> Option<T> {
        (self.below(2) == 0).then(|| make(self))
    }

    fn policy(&mut self) -> AccessPolicy {
        const TIMES: &[&str] = &[
            "",
            "2020-01-01",
            "2020-01-01T00:00Z",
            "9999-12-31T23:59:59.9999999Z",
        ];
        const PERMISSIONS: &[&str] = &["", "r", "raud", "au", "dr", "x"];
        AccessPolicy {
            id: self.text(70),
            start: self.maybe(|it| TIMES[it.below(TIMES.len())].to_owned()),
            expiry: self.maybe(|it| TIMES[it.below(TIMES.len())].to_owned()),
            permission: self.maybe(|it| PERMISSIONS[it.below(PERMISSIONS.len())].to_owned()),
        }
    }

    fn policies(&mut self) -> Vec<AccessPolicy> {
        (0..self.below(6)).map(|_| self.policy()).collect()
    }

    fn metrics(&mut self) -> Metrics {
        let enabled = self.below(2) == 0;
        Metrics {
            enabled,
            include_apis: enabled && self.below(2) == 0,
            retention_days: self.maybe(|it| it.0.random_range(0..400)),
        }
    }

    fn names(&mut self) -> Vec<String> {
        const NAMES: &[&str] = &[
            "*",
            "http://a.example",
            "x-ms-meta*",
            "x-ms",
            "https://*.b.example",
        ];
        let names = 0..self.below(4);
        names
            .map(|_| match self.below(4) {
                0 => self.text(6),
                _ => NAMES[self.below(NAMES.len())].to_owned(),
            })
            .collect()
    }

    fn properties(&mut self) -> ServiceProperties {
        let rule = |it: &mut Self| CorsRule {
            allowed_origins: it.names(),
            allowed_methods: vec!["GET".to_owned(), "MERGE".to_owned()],
            allowed_headers: it.names(),
            exposed_headers: it.names(),
            max_age_seconds: it.0.random(),
        };
        ServiceProperties {
            logging: Logging {
                read: self.below(2) == 0,
                write: self.below(2) == 0,
                delete: self.below(2) == 0,
                retention_days: self.maybe(|it| it.0.random_range(0..400)),
            },
            hour_metrics: self.metrics(),
            minute_metrics: self.metrics(),
            cors: (0..self.below(4)).map(|_| rule(self)).collect(),
        }
    }
}

#[test]
fn accepted_properties_and_policies_read_back_from_their_bytes() {
    let (mut policies, mut properties) = (0, 0);
    for case in 0..cases() {
        let mut made_up = MadeUp::of(case);
        let sent = acl::write_xml(&made_up.policies());
        if let Ok(accepted) = acl::read_xml(&sent) {
            policies += 1;
            let record = TableRecord {
                name: made_up.text(63),
                policies: accepted.clone(),
            };
            let again = TableRecord::read(&record.write().unwrap()).unwrap();
            assert_eq!(again, record, "case {case}");
            let shown = acl::read_xml(&acl::write_xml(&again.policies));
            assert_eq!(shown.ok(), Some(accepted), "case {case}");
        }
        let sent = made_up.properties().write_xml();
        if let Ok(update) = Update::read_xml(&sent) {
            properties += 1;
            let mut kept = ServiceProperties::default();
            kept.apply(update);
            let again = ServiceProperties::read(Some(&kept.write().unwrap())).unwrap();
            assert_eq!(again, kept, "case {case}");
            let mut shown = ServiceProperties::default();
            shown.apply(Update::read_xml(&again.write_xml()).unwrap());
            assert_eq!(shown, kept, "case {case}");
        }
    }
    assert!(policies * 20 > cases(), "{policies} policies accepted");
    assert!(
        properties * 20 > cases(),
        "{properties} properties accepted"
    );
}

async fn open(engine: &Arc<MemoryEngine>) -> Store {
    let model: Arc<dyn Model> = Arc::new(TableModel);
    let options = StoreOptions {
        models: HashMap::from([(API.to_owned(), model)]),
        ..StoreOptions::default()
    };
    let engine = Arc::<MemoryEngine>::clone(engine);
    Store::open(engine, options).await.unwrap()
}

#[tokio::test]
async fn tables_are_there_with_their_policies_when_the_store_is_opened_again() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine).await;
    let mut kept = HashMap::new();
    for case in 0..cases() / STORED_EACH {
        let mut made_up = MadeUp::of(case);
        let mode = [Mode::Storage, Mode::Cosmos][made_up.below(2)];
        let name = match made_up.below(3) {
            0 => made_up.text(260),
            _ => format!("Table{case}"),
        };
        let Ok(container) = tables::container(mode, "account", &name) else {
            continue;
        };
        if tables::create(&store, &container, &name, None)
            .await
            .is_err()
        {
            continue;
        }
        let policies = acl::read_xml(&acl::write_xml(&made_up.policies())).unwrap_or_default();
        let set = tables::set_policies(&store, &container, policies.clone());
        set.await.unwrap();
        kept.insert(container, TableRecord { name, policies });
    }
    let mut accounts = HashMap::new();
    for case in 0..cases() / STORED_EACH {
        let sent = MadeUp::of(case).properties().write_xml();
        let Ok(update) = Update::read_xml(&sent) else {
            continue;
        };
        let mut properties = ServiceProperties::default();
        properties.apply(update);
        let (account, bytes) = (format!("account{case}"), properties.write().unwrap());
        let set = store.alter_database(API, &account, move |_| Ok(bytes.clone()));
        set.await.unwrap();
        accounts.insert(account, properties);
    }
    drop(store);
    let store = open(&engine).await;
    for (account, properties) in accounts {
        let stored = store.database(API, &account).await.unwrap();
        assert_eq!(
            ServiceProperties::read(stored.as_deref()).unwrap(),
            properties
        );
    }
    assert_eq!(store.damaged_containers().await.unwrap(), []);
    let listed = store.list_containers(API, Some("account")).await.unwrap();
    assert_eq!(listed.len(), kept.len());
    for (container, record) in kept {
        assert_eq!(tables::find(&store, &container).await.unwrap(), record);
    }
}
