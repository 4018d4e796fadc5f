//! Calls to a gateway's API over one kept connection.

use std::net::SocketAddr;

use anyhow::bail;

use crate::load::connection::Connection;

/// One connection with a key.
pub struct Api {
    connection: Connection,
    head: String,
    request: Vec<u8>,
}

impl Api {
    /// Connects.
    pub async fn connect(address: SocketAddr, key: &str) -> anyhow::Result<Api> {
        let head = format!(
            "host: {address}\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n"
        );
        Ok(Api { connection: Connection::open(address).await?, head, request: Vec::new() })
    }

    /// Posts JSON and answers what came back; anything but success is an error.
    pub async fn post(&mut self, path: &str, body: impl AsRef<[u8]>) -> anyhow::Result<Vec<u8>> {
        let body = body.as_ref();
        let length = body.len();
        let head =
            format!("POST /api/v1{path} HTTP/1.1\r\n{}content-length: {length}\r\n\r\n", self.head);
        self.request.clear();
        self.request.extend_from_slice(head.as_bytes());
        self.request.extend_from_slice(body);
        let answer = self.connection.exchange(&self.request).await?;
        if !(200..300).contains(&answer.status) {
            let text = String::from_utf8_lossy(answer.body);
            bail!("POST {path} was answered {}: {text}", answer.status);
        }
        Ok(answer.body.to_vec())
    }
}
