//! The receiver of deliveries, a process of its own: what it costs must not be taken from the publishers.

use tokio::process::Command;

use super::child::Child;
use crate::load::connection::Connection;
use crate::serve::receiver::{COUNT, HOOK};

/// A running receiver.
pub struct Receiver {
    /// The process.
    pub child: Child,
}

/// A look at how many deliveries came, over a kept connection.
pub struct Tally {
    connection: Connection,
    request: String,
}

impl Receiver {
    /// Starts one.
    pub async fn start() -> anyhow::Result<Receiver> {
        let mut command = Command::new(std::env::current_exe()?);
        Ok(Receiver { child: Child::start(command.arg("serve-receiver")).await? })
    }

    /// Where deliveries go.
    pub fn url(&self) -> String {
        format!("http://{}{HOOK}", self.child.address)
    }

    /// A look at what came.
    pub async fn tally(&self) -> anyhow::Result<Tally> {
        let address = self.child.address;
        let connection = Connection::open(address).await?;
        Ok(Tally {
            connection,
            request: format!("GET {COUNT} HTTP/1.1\r\nhost: {address}\r\n\r\n"),
        })
    }
}

impl Tally {
    /// How many came so far.
    pub async fn count(&mut self) -> anyhow::Result<u64> {
        let answer = self.connection.exchange(self.request.as_bytes()).await?;
        Ok(std::str::from_utf8(answer.body)?.parse()?)
    }
}
