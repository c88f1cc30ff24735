//! Follows a collection while its server goes away and comes back; `clients/mongo/README.md` says
//! how.
//!
//! ```text
//! cargo run --release --bin mongo_follow -- mongodb://127.0.0.1:27017
//! ```

use std::process::ExitCode;
use std::time::Duration;

use mongodb::bson::Document;
use mongodb::change_stream::event::ResumeToken;
use mongodb::error::Result;
use mongodb::options::ClientOptions;
use mongodb::{Client, Collection};

/// Every so many events the stream is opened anew.
const REOPEN: usize = 20;

/// What is kept from one stream to the next.
struct Follower {
    things: Collection<Document>,
    token: Option<ResumeToken>,
    count: usize,
    is_over: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let endpoint = std::env::args().nth(1).expect("the address of a server");
    let mut settings = ClientOptions::parse(&endpoint).await.expect("an address");
    settings.server_selection_timeout = Some(Duration::from_secs(20));
    let client = Client::with_options(settings).expect("settings");
    let mut follower = Follower {
        things: client.database("followed").collection("things"),
        token: None,
        count: 0,
        is_over: false,
    };
    while !follower.is_over {
        if let Err(error) = follower.follow().await {
            println!("met {error:.200}");
            if follower.token.is_none() {
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

impl Follower {
    /// Opens a stream and reads it for a while.
    async fn follow(&mut self) -> Result<()> {
        let mut asked = self.things.watch().max_await_time(Duration::from_millis(500));
        match self.token.clone() {
            Some(token) if self.count / REOPEN % 2 == 0 => asked = asked.resume_after(token),
            Some(token) => asked = asked.start_after(token),
            None => {}
        }
        let mut stream = asked.await?;
        if self.token.is_none() {
            println!("ready");
        }
        loop {
            let Some(event) = stream.next_if_any().await? else {
                continue;
            };
            self.count += 1;
            let key = event.document_key.unwrap_or_default();
            let key = key.get_str("_id").unwrap_or("nothing");
            let operation = format!("{:?}", event.operation_type).to_lowercase();
            println!("event {} {operation} {key}", self.count);
            self.token = Some(event.id);
            self.is_over = key == "end";
            if self.is_over || self.count.is_multiple_of(REOPEN) {
                return Ok(());
            }
        }
    }
}
