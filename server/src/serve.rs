//! `tessera serve`: start everything in order, run, stop everything in order.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use tessera_core::Store;
use tessera_core::background::Background;
use tessera_core::engine::Engine;
use tessera_core::store::StoreOptions;
use tessera_frontend::{About, Listener, Logins, Shutdown, Timeouts};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tracing::{info, warn};

use crate::banner::{self, Banner};
use crate::control::Control;
use crate::error::Error;
use crate::front_ends::{self, Row, Services};
use crate::listener::{Acceptor, Reserved};
use crate::settings::{Config, EngineChoice, LogFormat, Setting, Settings};
use crate::signals::{Hangups, Signals};
use crate::tls::Tls;
use crate::{VERSION, allocator, notify, open_files, output, storage, telemetry};

/// The longest wait for blocking work, which must not keep the process alive.
const LEFTOVER_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the server until it is told to stop. `started` is when the process did.
pub(crate) fn run(settings: &Settings, started: Instant) -> Result<(), Error> {
    telemetry::init(&settings.config);
    for (variable, known) in &settings.suspicious {
        warn!("{variable} is not a setting; did you mean {known}?");
    }
    let runtime =
        Runtime::new().map_err(|error| Error::Failed(format!("cannot start threads: {error}")))?;
    let outcome = runtime.block_on(serve(settings, started));
    runtime.shutdown_timeout(LEFTOVER_TIMEOUT);
    outcome
}

async fn serve(settings: &Settings, started: Instant) -> Result<(), Error> {
    let config = &settings.config;
    // Errors that can be found without touching the data come first.
    check_exposure(settings)?;
    say_how_to_begin(config);
    let given = Tls::given(config)?;
    let reserved = reserve(config)?;
    open_files::prepare(config.max_connections * reserved.len());

    let engine = storage::open(config).await?;
    let served = serve_data(settings, started, engine.clone(), (reserved, given)).await;
    let closed = engine.close().await.map_err(|error| {
        Error::Failed(format!(
            "the data was not closed cleanly; it is checked at the next start: {error}"
        ))
    });
    served.and(closed)?;
    info!("stopped");
    Ok(())
}

/// Runs on open data, which the caller closes however this ends.
async fn serve_data(
    settings: &Settings,
    started: Instant,
    engine: Arc<dyn Engine>,
    (reserved, given): (Vec<Reserved>, Option<Tls>),
) -> Result<(), Error> {
    let config = &settings.config;
    let options = StoreOptions {
        models: front_ends::models(),
        throttling: config.partitions.throttling,
        limits: config.partitions.limits,
        memory: config.memory_budget(),
        feeds: config.feeds,
        ..StoreOptions::default()
    };
    let store = Store::open(engine, options).await.map_err(|error| {
        Error::Failed(format!(
            "cannot use the data in {}: {error}",
            storage::place(config)
        ))
    })?;
    let background = Background::start(store.clone());
    let served = Server {
        settings,
        config,
        store,
        started,
    }
    .run(reserved, given)
    .await;
    background.stop().await;
    served
}

/// Refuses addresses that other machines can reach for front ends without authentication or with
/// weak secrets.
fn check_exposure(settings: &Settings) -> Result<(), Error> {
    let config = &settings.config;
    for (row, address) in exposed(config) {
        let name = row.setting.name;
        let reached = format!(
            "{name} = \"{address}\" ({}) can be reached from other machines",
            settings.origin(name)
        );
        let refused = if !(row.has_users)(config) {
            Some(format!(
                "it does not require authentication; {}",
                advice(row, address)
            ))
        } else {
            (row.weakness)(config).map(|weakness| {
                let local = local_advice(address);
                format!("{weakness}; make one with openssl rand -base64 48, or {local}")
            })
        };
        if let Some(why) = refused {
            return Err(Error::Settings(format!("{reached}, and {why}")));
        }
    }
    let has_tls = config.tls_self_signed || config.tls_cert.is_some();
    for (row, address) in exposed(config).filter(|_| !has_tls) {
        warn!(
            front_end = row.setting.name,
            %address,
            "passwords, keys and data travel unencrypted to other machines: set tls-cert and \
             tls-key, or tls-self-signed"
        );
    }
    Ok(())
}

/// The front ends that other machines can reach.
fn exposed(config: &Config) -> impl Iterator<Item = (&'static Row, &SocketAddr)> {
    front_ends::TABLE.iter().filter_map(|row| {
        let (_, address) = config
            .listen
            .iter()
            .find(|(name, _)| *name == row.setting.name)?;
        let is_local = address.ip().to_canonical().is_loopback();
        (!is_local).then_some((row, address))
    })
}

fn advice(row: &Row, address: &SocketAddr) -> String {
    let local = local_advice(address);
    let option = |fits: &dyn Fn(&Setting) -> bool| row.options.iter().find(|option| fits(option));
    let users = option(&|option| option.secret);
    let authentication = option(&|option| option.name.ends_with("-auth"));
    match (users, authentication) {
        (Some(users), Some(authentication)) => format!(
            "set {}, or {} if there are users already, or {local}",
            users.name, authentication.name
        ),
        (Some(users), None) => format!("set {}, or {local}", users.name),
        (None, _) => local,
    }
}

fn local_advice(address: &SocketAddr) -> String {
    format!(
        "listen on 127.0.0.1:{} and forward the port, for example with ssh -L",
        address.port()
    )
}

/// Where authentication is required and the settings name no user, logs how to create the first.
fn say_how_to_begin(config: &Config) {
    let is_on = |row: &Row| {
        config
            .listen
            .iter()
            .any(|(name, _)| *name == row.setting.name)
    };
    for row in front_ends::TABLE.iter().filter(|row| is_on(row)) {
        if let Some(how) = (row.first_user)(config) {
            info!(front_end = row.setting.name, "{how}");
        }
    }
}

fn reserve(config: &Config) -> Result<Vec<Reserved>, Error> {
    if config.listen.is_empty() {
        return Err(Error::Settings(
            "every front end is off, so no client could connect; turn one on, \
             for example with --console 127.0.0.1:8080"
                .to_owned(),
        ));
    }
    let mut reserved = Vec::new();
    let mut failures = Vec::new();
    for row in front_ends::TABLE {
        let asked = config
            .listen
            .iter()
            .find(|(name, _)| *name == row.setting.name);
        match asked.map(|(_, address)| Reserved::new(row, *address)) {
            None => {}
            Some(Ok(taken)) => reserved.push(taken),
            Some(Err(error)) => failures.push(error.to_string()),
        }
    }
    match failures.is_empty() {
        true => Ok(reserved),
        // All of them in one message.
        false => Err(Error::Failed(failures.join("; "))),
    }
}

/// A server whose store is open.
struct Server<'a> {
    settings: &'a Settings,
    config: &'a Config,
    store: Store,
    started: Instant,
}

impl Server<'_> {
    async fn run(&self, reserved: Vec<Reserved>, given: Option<Tls>) -> Result<(), Error> {
        let data = self.data_folder()?;
        let tls = match given {
            None if self.config.tls_self_signed => Some(Tls::self_signed(data.as_deref())?),
            given => given,
        };
        let (stop, stopping) = watch::channel(false);
        let shutdown = Shutdown::new(stopping);
        // From here on a signal stops the server in order; before, it just ends the process.
        let installed = Signals::install().and_then(|signals| Ok((signals, Hangups::install()?)));
        let (mut signals, mut hangups) = installed
            .map_err(|error| Error::Failed(format!("cannot listen for signals: {error}")))?;

        let giving_back = tokio::spawn(allocator::give_back_what_is_freed());
        let mut tasks = JoinSet::new();
        if let Some(control) = data.as_deref().and_then(|data| self.control(data)) {
            tasks.spawn(control.run(self.store.clone(), shutdown.clone()));
        }
        let listeners = self.listen(reserved, tls.as_ref(), &shutdown, &mut tasks)?;
        self.announce(data.as_deref(), tls.as_ref(), &listeners);
        notify::ready();

        let signal = loop {
            tokio::select! {
                signal = signals.next() => break signal,
                () = hangups.next() => {
                    notify::reloading();
                    self.reload(tls.as_ref());
                    notify::ready();
                }
            }
        };
        notify::stopping();
        info!(signal, "stopping; a second signal stops at once");
        signals.exit_on_next();
        stop.send_replace(true);
        self.finish(tasks).await;
        giving_back.abort();
        Ok(())
    }

    /// Reloads the settings that may change while the server runs. Those that cannot be read stay
    /// as they were.
    fn reload(&self, tls: Option<&Tls>) {
        let certificate = match tls.map(Tls::reload) {
            None => "none".to_owned(),
            Some(Ok(fingerprint)) => fingerprint,
            Some(Err(error)) => {
                warn!(%error, "SIGHUP: the TLS certificate stays as it was");
                "as it was".to_owned()
            }
        };
        let level = match self.settings.read_again() {
            Ok(settings) => telemetry::set_level(settings.config.log_level),
            Err(error) => {
                warn!(%error, "SIGHUP: the log level stays as it was");
                "as it was".to_owned()
            }
        };
        info!(
            certificate,
            level,
            "SIGHUP: reloaded the TLS certificate and the log level; other settings take a restart"
        );
    }

    fn data_folder(&self) -> Result<Option<PathBuf>, Error> {
        if *self.config.engine() != EngineChoice::Rocks {
            return Ok(None);
        }
        let data = &self.config.data;
        let absolute = std::path::absolute(data).map_err(|error| {
            Error::Failed(format!(
                "cannot find the data folder {}: {error}",
                data.display()
            ))
        })?;
        Ok(Some(absolute))
    }

    /// Without the control socket the server still runs.
    fn control(&self, data: &Path) -> Option<Control> {
        Control::bind(data)
            .inspect_err(|error| {
                warn!(%error, "no control socket: no backups and no advice while the server runs");
            })
            .ok()
    }

    fn listen(
        &self,
        reserved: Vec<Reserved>,
        tls: Option<&Tls>,
        shutdown: &Shutdown,
        tasks: &mut JoinSet<()>,
    ) -> Result<Vec<Listener>, Error> {
        let listener = |reserved: &Reserved| {
            let address = reserved.address()?;
            Ok(Listener {
                name: reserved.row.setting.name,
                address,
                tls: tls.is_some(),
            })
        };
        let listeners = reserved
            .iter()
            .map(listener)
            .collect::<Result<Vec<_>, Error>>()?;
        let about = About {
            version: VERSION,
            engine: storage::name(self.config),
            started: self.started,
            listeners: listeners.clone(),
        };
        let services = Services {
            config: self.config,
            store: self.store.clone(),
            about,
        };
        let connection_ids = Arc::new(AtomicU64::new(0));
        let logins = Arc::new(Logins::default());
        let neighbours: Arc<[Listener]> = listeners.clone().into();
        for reserved in reserved {
            let acceptor = Acceptor {
                name: reserved.row.setting.name,
                front_end: (reserved.row.start)(&services)?,
                tls: tls.map(|tls| tls.acceptor(reserved.row.protocols)),
                timeouts: Timeouts {
                    idle: self.config.idle_timeout,
                    stalled: self.config.read_timeout,
                },
                permits: Arc::new(Semaphore::new(self.config.max_connections)),
                places: Arc::default(),
                memory: self.store.memory().clone(),
                logins: Arc::clone(&logins),
                listeners: Arc::clone(&neighbours),
                shutdown: shutdown.clone(),
                connection_ids: connection_ids.clone(),
            };
            tasks.spawn(Arc::new(acceptor).run(reserved.listen()?));
        }
        Ok(listeners)
    }

    /// The banner comes last: scripts wait for it.
    fn announce(&self, data: Option<&Path>, tls: Option<&Tls>, listeners: &[Listener]) {
        for listener in listeners {
            let Listener { name, address, tls } = listener;
            info!(front_end = name, %address, tls, "listening");
        }
        let took = self.started.elapsed();
        let banner = Banner {
            config: self.config,
            data,
            tls,
            listeners,
            took,
        };
        let text = match self.config.log {
            LogFormat::Text => banner::text(&banner),
            LogFormat::Json => banner::json(&banner),
        };
        if let Err(error) = output::print(&text) {
            warn!(%error, "the start-up text could not be written to standard output");
        }
    }

    /// Waits for running requests up to the limit; dropping the tasks cuts off the rest.
    async fn finish(&self, mut tasks: JoinSet<()>) {
        let all = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(self.config.shutdown_timeout, all)
            .await
            .is_err()
        {
            warn!("some connections did not end within the shutdown-timeout and were cut off");
        }
    }
}
