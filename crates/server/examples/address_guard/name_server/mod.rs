//! A small name server, over UDP and TCP, that answers as told.

mod message;
mod zone;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use message::Question;
use zone::Zone;
pub use zone::{Record, Reply, SERVFAIL};

/// An answer over UDP is no longer than this without extensions; a longer one is asked for again over TCP.
const DATAGRAM_BYTES_MAX: usize = 512;
const PORT: u16 = 53;

/// A running one.
#[derive(Clone)]
pub struct NameServer {
    zone: Arc<Mutex<Zone>>,
    connections: Arc<AtomicU64>,
}

impl NameServer {
    /// Starts it; it knows no name.
    pub async fn start(at: IpAddr) -> anyhow::Result<NameServer> {
        let at = SocketAddr::new(at, PORT);
        let datagrams = UdpSocket::bind(at).await.context("the name server's UDP port")?;
        let listener = TcpListener::bind(at).await.context("the name server's TCP port")?;
        let server = NameServer { zone: Arc::default(), connections: Arc::default() };
        tokio::spawn(server.clone().over_udp(datagrams));
        tokio::spawn(server.clone().over_tcp(listener));
        Ok(server)
    }

    /// From now on each question for this name gets the next reply, and those after the last the last again.
    pub fn knows(&self, name: &str, replies: &[Reply]) {
        self.zone.lock().set(name, replies);
    }

    /// The names that were asked for since the last time, in lower case, each as often as for its IPv4 addresses.
    pub fn take_asked(&self) -> Vec<String> {
        self.zone.lock().take_asked()
    }

    /// How often it was dialled: these connections are the resolver's own.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }

    async fn over_udp(self, socket: UdpSocket) {
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        while let Ok((length, peer)) = socket.recv_from(&mut buffer).await {
            let answer = Question::read(&buffer[..length])
                .and_then(|question| self.zone.lock().answer(&question, DATAGRAM_BYTES_MAX));
            if let Some(answer) = answer {
                // A resolver that has gone hears nothing.
                let _ = socket.send_to(&answer, peer).await;
            }
        }
    }

    async fn over_tcp(self, listener: TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            self.connections.fetch_add(1, Ordering::SeqCst);
            let zone = Arc::clone(&self.zone);
            tokio::spawn(async move {
                // Ends when the resolver goes.
                let _ = converse(stream, &zone).await;
            });
        }
    }
}

async fn converse(mut stream: TcpStream, zone: &Mutex<Zone>) -> std::io::Result<()> {
    loop {
        let length = stream.read_u16().await?;
        let mut message = vec![0; usize::from(length)];
        stream.read_exact(&mut message).await?;
        let answer = Question::read(&message)
            .and_then(|question| zone.lock().answer(&question, usize::from(u16::MAX)));
        if let Some(answer) = answer {
            let length = u16::try_from(answer.len()).map_err(std::io::Error::other)?;
            stream.write_all(&[&length.to_be_bytes(), answer.as_slice()].concat()).await?;
        }
    }
}
