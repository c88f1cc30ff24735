//! One connection: packets in, packets out, one at a time.
//!
//! A packet is read into one buffer and answered with one write. Malformed bytes get an error if a
//! reply is possible, and end this connection.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use bson::RawDocument;
use bytes::Bytes;
use tessera_core::deadline;
use tessera_core::memory_budget::{Grant, OutOfMemory, Purpose};
use tessera_frontend::{Activity, Connection, Listener, Shutdown, http_refusal};
use tessera_mongo_language::error::Code;
use tracing::debug;

use crate::dispatch::{self, Answer, Incoming};
use crate::failure::Failure;
use crate::labels;
use crate::line::{Arrived, Ended, Line, READ_BYTES};
use crate::reply;
use crate::service::Service;
use crate::session::{GUARANTEED_REPLY, Link, Session};
use crate::wire::compression::{self, Compressor};
use crate::wire::header::{Header, op_code};
use crate::wire::message::{self, Flags};
use crate::wire::{Malformed, query};

/// A larger output buffer is not kept for the next reply.
const KEPT_OUTPUT_BYTES: usize = GUARANTEED_REPLY as usize;

/// What a request takes beyond this is asked for.
const GUARANTEED: u32 = 16 << 10;

/// How long a message waits for memory that others have, before it is refused.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// How much longer a byte takes to be compressed than to be read.
const COMPRESSION_WORK: usize = 8;

/// Serves one connection until it ends.
pub(crate) async fn serve(service: Arc<Service>, connection: Connection) {
    let Connection {
        stream,
        activity,
        gate,
        peer,
        id,
        listeners,
        shutdown,
        ..
    } = connection;
    let line = Arc::new(Line::new(stream));
    let link = Link {
        connection: id,
        peer,
        shutdown: shutdown.clone(),
        gate,
        line: Some(Arc::clone(&line)),
    };
    let session = Session::new(&service, link);
    let mut connection = Served {
        service,
        session,
        line,
        activity,
        listeners,
        shutdown,
        output: Vec::new(),
        body: Grant::new(Purpose::Requests, GUARANTEED),
    };
    let ended = connection.run().await;
    debug!(why = ended.0, "connection ends");
}

struct Served {
    service: Arc<Service>,
    session: Session,
    line: Arc<Line>,
    activity: Activity,
    listeners: Arc<[Listener]>,
    shutdown: Shutdown,
    output: Vec<u8>,
    /// What the message takes that is being read or answered.
    body: Grant,
}

impl Served {
    async fn run(&mut self) -> Ended {
        // One wait for all requests: to begin and end one costs a lock each time.
        let mut shutdown = self.shutdown.clone();
        let mut stopping = pin!(shutdown.requested());
        loop {
            let arrived = tokio::select! {
                biased;
                () = &mut stopping => return Ended("the server is stopping"),
                arrived = self.line.packet(READ_BYTES) => arrived,
            };
            let packet = match arrived {
                Ok(Arrived::Whole(header, packet)) => Ok(Some((header, packet))),
                Ok(Arrived::Large(header)) => Box::pin(self.large_packet(header)).await,
                Err(ended) => Err(ended),
            };
            let (header, packet) = match packet {
                Ok(Some(packet)) => packet,
                // It was refused, and the next may be answered.
                Ok(None) => match self.send().await {
                    Ok(()) => continue,
                    Err(ended) => return ended,
                },
                Err(ended) => {
                    let _told = self.send().await.is_ok();
                    return self.refuse_http().await.unwrap_or(ended);
                }
            };
            let running = self.activity.begin();
            let answered = self.answer(header, packet).await;
            drop(running);
            self.body.shrink(0);
            // What was answered lies in the output alone by now.
            self.session.answer.shrink(self.output.len());
            if let Err(ended) = answered {
                // What went wrong may be said; if it cannot be sent, there is no one to tell.
                let _told = self.send().await.is_ok();
                return ended;
            }
            if let Err(ended) = self.send().await {
                return ended;
            }
        }
    }

    /// Reads a packet that needs a grant of memory; none if it was refused.
    async fn large_packet(&mut self, header: Header) -> Result<Option<(Header, Bytes)>, Ended> {
        self.check_before_login(header, header.length)?;
        // While memory is waited for the client owes nothing.
        let waiting = self.activity.begin();
        let covered = self.cover(header.length).await;
        drop(waiting);
        // From here on it owes the rest, and may not be as silent as between two requests.
        self.activity.received(0);
        if let Err(refused) = covered {
            self.line.skip(header).await?;
            self.refuse_for_memory(header, &refused);
            return Ok(None);
        }
        match self.line.packet(header.length).await? {
            Arrived::Whole(header, packet) => Ok(Some((header, packet))),
            Arrived::Large(_) => Err(Ended("a message has become longer")),
        }
    }

    /// Whoever has not logged in where everyone must has nothing large to say.
    fn check_before_login(&mut self, header: Header, length: usize) -> Result<(), Ended> {
        if length <= READ_BYTES || self.session.may(|_| true) {
            return Ok(());
        }
        let message = "a message before the login may have at most 16384 bytes";
        Err(self.refuse(header, &Malformed::protocol(message)))
    }

    async fn cover(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        let mut shutdown = self.shutdown.clone();
        let memory = self.service.store.memory();
        tokio::select! {
            covered = self.body.wait_to_cover(memory, bytes, LONGEST_WAIT) => covered,
            // What is not there yet is refused, and the connection ends with the next packet.
            () = shutdown.requested() => self.body.cover_exactly(memory, bytes),
        }
    }

    fn refuse_for_memory(&mut self, header: Header, refused: &OutOfMemory) {
        let failure = labels::of_shortage(refused, self.session.understands_overload);
        match header.op_code {
            op_code::QUERY => self.put_query_failure(header, &failure),
            _ => self.put_failure(header, &failure),
        }
    }

    /// Tells a client that speaks HTTP where it is. None: it does not.
    async fn refuse_http(&self) -> Option<Ended> {
        if !self.line.speaks_http() {
            return None;
        }
        let refusal = http_refusal("MongoDB", &self.listeners);
        // If it cannot be sent, there is no one to tell.
        let _told = self.line.send(&refusal).await.is_ok();
        Some(Ended("the client speaks HTTP"))
    }

    /// Answers one packet into the output.
    async fn answer(&mut self, header: Header, packet: Bytes) -> Result<(), Ended> {
        if header.op_code != op_code::COMPRESSED {
            return self.answer_plain(header, packet, None).await;
        }
        let expanded = compression::expanded_length(&packet).unwrap_or(0);
        self.check_before_login(header, expanded)?;
        if let Err(refused) = self.cover(packet.len().saturating_add(expanded)).await {
            self.refuse_for_memory(header, &refused);
            return Ok(());
        }
        let (compressor, packet) = deadline::apart(expanded, || compression::expand(&packet))
            .map_err(|malformed| self.refuse(header, &malformed))?;
        if !self.session.compressors.contains(&compressor) {
            let malformed = Malformed::protocol("a message is compressed in a way not agreed on");
            return Err(self.refuse(header, &malformed));
        }
        let header = packet.first_chunk().and_then(Header::parse);
        let header = header.ok_or(Ended("a compressed message holds no message"))?;
        self.answer_plain(header, packet.into(), Some(compressor))
            .await
    }

    async fn answer_plain(
        &mut self,
        header: Header,
        packet: Bytes,
        compressor: Option<Compressor>,
    ) -> Result<(), Ended> {
        match header.op_code {
            op_code::MESSAGE => self.answer_message(header, packet, compressor).await,
            op_code::QUERY => self.answer_query(header, packet).await,
            op_code::GET_MORE => {
                let failure = Failure::new(
                    Code::UNSUPPORTED_OP_QUERY_COMMAND,
                    "OP_GET_MORE is no longer supported; the driver may be too old",
                );
                self.put_query_failure(header, &failure);
                Err(Ended("a message of a kind that is no longer supported"))
            }
            _ => Err(Ended("a message of an unknown kind")),
        }
    }

    async fn answer_message(
        &mut self,
        header: Header,
        packet: Bytes,
        compressor: Option<Compressor>,
    ) -> Result<(), Ended> {
        let decoded = deadline::apart(packet.len(), || message::decode(&packet));
        let message = match decoded {
            Ok(message) => message,
            Err(malformed) => return Err(self.refuse(header, &malformed)),
        };
        let flags = message.flags;
        let compressor = compressor.filter(|_| may_be_compressed(message.body));
        let incoming = Incoming {
            body: message.body,
            sequences: message.sequences,
            database: None,
            packet: &packet,
            exhaust: flags.exhaust_allowed,
        };
        let mut responds_to = header.request_id;
        let mut incoming = deadline::apart(packet.len(), || incoming.parse());
        loop {
            let answer = dispatch::answer(&self.service, &mut self.session, &mut incoming).await;
            let (reply, more) = match answer {
                Answer::Reply(reply) => (reply, false),
                Answer::MoreToCome(reply) => (reply, true),
                Answer::Close => return Err(Ended("a test asked for it")),
            };
            if flags.more_to_come {
                // Who sends this does not read a reply.
                return Ok(());
            }
            let reply_flags = Flags {
                checksum: flags.checksum,
                more_to_come: more,
                exhaust_allowed: false,
            };
            let id = next_id();
            let start = self.output.len();
            message::encode(&mut self.output, (id, responds_to), reply_flags, &reply);
            if let Some(compressor) = compressor {
                let length = self.output.len() - start;
                let output = &mut self.output;
                deadline::apart(length * COMPRESSION_WORK, || {
                    compression::compress(output, start, compressor);
                });
            }
            if !more {
                return Ok(());
            }
            self.send().await?;
            if self.shutdown.is_requested() {
                return Err(Ended("the server is stopping"));
            }
            responds_to = id;
        }
    }

    /// Only the first hello may come this way.
    async fn answer_query(&mut self, header: Header, packet: Bytes) -> Result<(), Ended> {
        let query = match query::decode(&packet) {
            Ok(query) => query,
            Err(malformed) => return Err(self.refuse_query(header, &malformed)),
        };
        let Some(database) = query.namespace.strip_suffix(".$cmd") else {
            let failure = Failure::new(
                Code::UNSUPPORTED_OP_QUERY_COMMAND,
                "OP_QUERY is no longer supported; the driver may be too old",
            );
            self.put_query_failure(header, &failure);
            return Ok(());
        };
        let incoming = Incoming {
            body: query.document,
            sequences: Vec::new(),
            database: Some(database),
            packet: &packet,
            exhaust: false,
        };
        let mut incoming = incoming.parse_legacy();
        let answer = dispatch::answer(&self.service, &mut self.session, &mut incoming).await;
        let (Answer::Reply(reply) | Answer::MoreToCome(reply)) = answer else {
            return Err(Ended("a test asked for it"));
        };
        let ids = (next_id(), header.request_id);
        query::encode_reply(&mut self.output, ids, query::AWAIT_CAPABLE, &reply);
        Ok(())
    }

    fn refuse(&mut self, header: Header, malformed: &Malformed) -> Ended {
        let failure = Failure::new(malformed.code, malformed.message);
        self.put_failure(header, &failure);
        Ended(malformed.message)
    }

    fn put_failure(&mut self, header: Header, failure: &Failure) {
        if let Some(reply) = reply::encode_failure(failure) {
            let ids = (next_id(), header.request_id);
            message::encode(&mut self.output, ids, Flags::default(), &reply);
        }
    }

    fn refuse_query(&mut self, header: Header, malformed: &Malformed) -> Ended {
        let failure = Failure::new(malformed.code, malformed.message);
        self.put_query_failure(header, &failure);
        Ended(malformed.message)
    }

    fn put_query_failure(&mut self, header: Header, failure: &Failure) {
        if let Some(reply) = reply::encode_query_failure(failure) {
            let ids = (next_id(), header.request_id);
            query::encode_reply(&mut self.output, ids, query::QUERY_FAILURE, &reply);
        }
    }

    /// Sends what is in the output.
    async fn send(&mut self) -> Result<(), Ended> {
        if self.output.is_empty() {
            return Ok(());
        }
        let sent = self.line.send(&self.output).await;
        sent.map_err(|_| Ended("a reply could not be sent"))?;
        if self.output.capacity() > KEPT_OUTPUT_BYTES {
            self.output = Vec::new();
        }
        self.output.clear();
        self.session.answer.shrink(0);
        Ok(())
    }
}

/// Whether the reply to a command may be compressed.
fn may_be_compressed(body: &RawDocument) -> bool {
    let first = body.iter_elements().next().and_then(Result::ok);
    compression::allows(first.map_or("", |first| first.key().as_str()))
}

/// Numbers replies.
fn next_id() -> i32 {
    static LAST: AtomicI32 = AtomicI32::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}
