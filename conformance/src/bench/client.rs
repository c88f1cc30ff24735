//! A client of MongoDB's protocol that sends any command, one after the other.

use std::net::SocketAddr;

use bson::{Bson, Document};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::Failure;
use crate::bench::mongo::{DATABASE, message};

/// One connection that waits for each answer.
pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: Vec::new(),
        })
    }

    /// Runs a write that must change so many documents.
    pub(crate) async fn changed(
        &mut self,
        command: Document,
        expected: i64,
    ) -> Result<(), Failure> {
        let answer = self.run(command).await?;
        match answer.get("n").and_then(number) {
            Some(n) if n == expected && !answer.contains_key("writeErrors") => Ok(()),
            _ => Err(format!("refused: {answer}").into()),
        }
    }

    /// Runs a command and answers what came, unless it is a refusal.
    pub(crate) async fn run(&mut self, mut command: Document) -> Result<Document, Failure> {
        if !command.contains_key("$db") {
            command.insert("$db", DATABASE);
        }
        self.stream.write_all(&message(&command)?).await?;
        let length = self.stream.read_u32_le().await?;
        self.buffer
            .resize(usize::try_from(length)?.saturating_sub(4), 0);
        self.stream.read_exact(&mut self.buffer).await?;
        // The rest of the header, flags and the kind of the only section.
        let body = self.buffer.get(12 + 4 + 1..).ok_or("a short answer")?;
        let answer = Document::from_reader(body)?;
        match answer.get_f64("ok") {
            Ok(1.0) => Ok(answer),
            _ => Err(format!("refused: {answer}").into()),
        }
    }
}

pub(crate) fn number(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(number) => Some((*number).into()),
        Bson::Int64(number) => Some(*number),
        _ => None,
    }
}
