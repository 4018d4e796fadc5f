//! One kept HTTP/1.1 connection: writes a ready request, reads one answer.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Half of what our server's listener gives a connection to send its next request's head.
const IDLE_MAX: Duration = Duration::from_secs(5);

/// A connection, and room for one answer.
pub struct Connection {
    address: SocketAddr,
    stream: TcpStream,
    buffer: Vec<u8>,
    used: Instant,
}

/// An answer that was read whole.
pub struct Answer<'a> {
    /// Its status.
    pub status: u16,
    /// Its status line and headers.
    pub head: &'a [u8],
    /// Its body.
    pub body: &'a [u8],
}

/// Where the parts of an answer lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    status: u16,
    head_bytes: usize,
    body_bytes: usize,
}

impl Connection {
    /// Connects.
    pub async fn open(address: SocketAddr) -> anyhow::Result<Connection> {
        let stream = connect(address).await?;
        Ok(Connection { address, stream, buffer: vec![0; 4096], used: Instant::now() })
    }

    /// Sends a request and reads its answer. A connection that idled is opened anew first: the server may be about
    /// to close it, and what is sent then is lost.
    pub async fn exchange(&mut self, request: &[u8]) -> anyhow::Result<Answer<'_>> {
        let now = Instant::now();
        if now.duration_since(self.used) > IDLE_MAX {
            self.stream = connect(self.address).await?;
        }
        // A long poll is no idling, but it may be answered long after it was sent.
        let answered = self.answered(request).await?;
        self.used = Instant::now();
        let (head, body) = self.buffer.split_at(answered.head_bytes);
        Ok(Answer { status: answered.status, head, body: &body[..answered.body_bytes] })
    }

    async fn answered(&mut self, request: &[u8]) -> anyhow::Result<Head> {
        self.stream.write_all(request).await?;
        let mut filled = 0;
        let mut head = None;
        loop {
            let count = self.stream.read(&mut self.buffer[filled..]).await?;
            if count == 0 {
                bail!("the server closed the connection");
            }
            filled += count;
            if head.is_none() {
                head = read_head(&self.buffer[..filled])?;
            }
            let whole = head.as_ref().map(|head| head.head_bytes + head.body_bytes);
            match (head, whole) {
                (Some(head), Some(whole)) if filled >= whole => return Ok(head),
                _ if whole.unwrap_or(filled) > ANSWER_BYTES_MAX => bail!("the answer is too large"),
                _ => self.grow(whole.unwrap_or(0), filled),
            }
        }
    }

    fn grow(&mut self, whole: usize, filled: usize) {
        let wanted = if filled == self.buffer.len() { whole.max(filled * 2) } else { whole };
        if wanted > self.buffer.len() {
            self.buffer.resize(wanted, 0);
        }
    }
}

async fn connect(address: SocketAddr) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Reads the head, if all of it is there. Only what our own server sends is understood.
fn read_head(bytes: &[u8]) -> anyhow::Result<Option<Head>> {
    let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&bytes[..end]).context("a head that is not text")?;
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.get(9..12)?.parse().ok());
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse().ok()).flatten()
    });
    Ok(Some(Head {
        status: status.context("an answer without a status")?,
        head_bytes: end + 4,
        body_bytes: length.context("an answer without a content-length")?,
    }))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_connection_that_idled_is_opened_anew_and_one_in_use_is_kept() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut connection = Connection::open(listener.local_addr().unwrap()).await.unwrap();
        let serving = tokio::spawn(async move {
            let mut peers = Vec::new();
            for answers in [2, 1] {
                let (mut peer, from) = listener.accept().await.unwrap();
                for _ in 0..answers {
                    peer.read_exact(&mut [0; 4]).await.unwrap();
                    peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
                }
                peers.push(from);
            }
            peers
        });
        for idled in [Duration::ZERO, Duration::ZERO, IDLE_MAX * 2] {
            connection.used = Instant::now().checked_sub(idled).unwrap();
            assert_eq!(connection.exchange(b"ping").await.unwrap().status, 200);
        }
        let peers = serving.await.unwrap();
        assert_ne!(peers[0], peers[1]);
    }

    #[test]
    fn a_head_tells_the_status_and_where_the_body_lies() {
        let head = read_head(b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\nok").unwrap();
        let expected = Head { status: 202, head_bytes: 44, body_bytes: 2 };
        assert_eq!(head, Some(expected));
        assert_eq!(read_head(b"HTTP/1.1 202 Acc").unwrap(), None);
    }

    #[test]
    fn an_answer_of_unknown_length_is_refused() {
        assert!(read_head(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
