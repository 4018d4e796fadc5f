//! A wire between a gateway and PostgreSQL that can be cut right after a commit went through, and before the gateway
//! hears of it.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::config::Host;
use wakepost_tests::until;

/// A message of PostgreSQL's protocol is its kind, its length, and as much as that says, itself included.
const LENGTH_BYTES: usize = 4;
/// No message of a test is longer; a longer one is not read as what it is.
const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What the server says of the end of a transaction that left nothing.
const ROLLED_BACK: &[u8] = b"ROLLBACK\0";

/// The wire, and what it is told to do. It ends with the test.
pub struct Wire {
    url: String,
    orders: Arc<Mutex<Orders>>,
    // Of its own: the database is dropped through the wire, while the test's thread waits for that.
    runtime: Option<Runtime>,
}

#[derive(Default)]
struct Orders {
    /// The statement after whose commit the next cut comes.
    marker: Option<&'static str>,
    cuts: usize,
}

impl Wire {
    /// A wire to the server of all tests.
    pub fn to_the_server() -> Wire {
        let server = std::env::var("WAKEPOST_TEST_DATABASE_URL").expect("a server");
        let config: tokio_postgres::Config = server.parse().expect("a URL");
        let [Host::Tcp(host)] = config.get_hosts() else { panic!("not one host") };
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let here = listener.local_addr().expect("an address");
        // Only the end of the authority, never what is before it.
        let (user, rest) = server.rsplit_once('@').expect("a user");
        let (_, database) = rest.split_once('/').expect("a database");
        let url = format!("{user}@{here}/{database}");
        let orders = Arc::<Mutex<Orders>>::default();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        runtime.spawn(serve(listener, (host.clone(), port), orders.clone()));
        Wire { url, orders, runtime: Some(runtime) }
    }

    /// The server, through the wire.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Cuts the next connection on which a statement with these words was committed, once it was.
    pub fn cut_after(&self, marker: &'static str) {
        self.orders.lock().expect("the orders").marker = Some(marker);
    }

    /// How many were cut so far.
    pub fn cuts(&self) -> usize {
        self.orders.lock().expect("the orders").cuts
    }

    /// Cuts one, and waits until that has happened.
    pub async fn cuts_after(&self, marker: &'static str) {
        let before = self.cuts();
        self.cut_after(marker);
        until(&format!("a connection is cut after {marker}"), || async {
            (self.cuts() > before).then_some(())
        })
        .await;
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn serve(listener: std::net::TcpListener, server: (String, u16), orders: Arc<Mutex<Orders>>) {
    listener.set_nonblocking(true).expect("a setting");
    let listener = TcpListener::from_std(listener).expect("a listener");
    while let Ok((client, _)) = listener.accept().await {
        let (server, orders) = (server.clone(), orders.clone());
        tokio::spawn(async move {
            let Ok(server) = TcpStream::connect((&*server.0, server.1)).await else { return };
            let _ = client.set_nodelay(true);
            let _ = server.set_nodelay(true);
            let asked = Arc::<Mutex<Asked>>::default();
            let ((from_client, to_client), (from_server, to_server)) =
                (client.into_split(), server.into_split());
            // Whichever way ends first takes the other with it.
            tokio::select! {
                _ = ask(BufReader::new(from_client), to_server, &asked, &orders) => {}
                _ = answer(BufReader::new(from_server), to_client, &asked, &orders) => {}
            }
        });
    }
}

/// What one connection has asked for.
#[derive(Default)]
struct Asked {
    /// The texts of what it prepared.
    statements: HashMap<String, String>,
    /// A statement of the next cut has been run since the last commit.
    is_marked: bool,
}

async fn ask(
    mut client: BufReader<OwnedReadHalf>,
    mut server: OwnedWriteHalf,
    asked: &Mutex<Asked>,
    orders: &Mutex<Orders>,
) -> io::Result<()> {
    // The first message has no kind.
    let first = rest_of_message(&mut client, Vec::new()).await?;
    server.write_all(&first).await?;
    loop {
        let message = message(&mut client).await?;
        let body = &message[1 + LENGTH_BYTES..];
        {
            let marker = orders.lock().expect("the orders").marker;
            let mut asked = asked.lock().expect("one connection");
            let ran = match message[0] {
                b'Q' => Some(text(body).0),
                b'P' => {
                    let (name, rest) = text(body);
                    let statement = text(rest).0;
                    asked.statements.insert(name, statement);
                    None
                }
                b'B' => asked.statements.get(&text(text(body).1).0).cloned(),
                _ => None,
            };
            let is_meant = |ran: &String| marker.is_some_and(|marker| ran.contains(marker));
            asked.is_marked |= ran.as_ref().is_some_and(is_meant);
        }
        server.write_all(&message).await?;
    }
}

async fn answer(
    mut server: BufReader<OwnedReadHalf>,
    mut client: OwnedWriteHalf,
    asked: &Mutex<Asked>,
    orders: &Mutex<Orders>,
) -> io::Result<()> {
    // All that was answered since the last time the server was ready: none of it may arrive if it is cut.
    let (mut answers, mut has_failed) = (Vec::new(), false);
    loop {
        let message = message(&mut server).await?;
        let (kind, state) = (message[0], message[message.len() - 1]);
        answers.extend_from_slice(&message);
        has_failed |= kind == b'E' || message[1 + LENGTH_BYTES..].starts_with(ROLLED_BACK);
        if kind == b'Z' {
            // Outside a transaction: what was run is committed, or was rolled back.
            if state == b'I' && asked.lock().expect("one connection").is_committed(has_failed) {
                let mut orders = orders.lock().expect("the orders");
                if orders.marker.take().is_some() {
                    orders.cuts += 1;
                    return Ok(());
                }
            }
            has_failed &= state != b'I';
        }
        // During a greeting, and while nothing is meant, nothing is held back.
        if kind == b'Z' || !asked.lock().expect("one connection").is_marked {
            client.write_all(&answers).await?;
            answers.clear();
        }
    }
}

impl Asked {
    /// Whether what was marked has been committed. What comes next is not marked yet.
    fn is_committed(&mut self, has_failed: bool) -> bool {
        std::mem::take(&mut self.is_marked) && !has_failed
    }
}

async fn message(from: &mut BufReader<OwnedReadHalf>) -> io::Result<Vec<u8>> {
    let kind = from.read_u8().await?;
    rest_of_message(from, vec![kind]).await
}

async fn rest_of_message(
    from: &mut BufReader<OwnedReadHalf>,
    mut message: Vec<u8>,
) -> io::Result<Vec<u8>> {
    let length = from.read_u32().await?;
    let bytes = (length as usize).saturating_sub(LENGTH_BYTES);
    assert!(bytes <= MESSAGE_BYTES_MAX, "a message of {bytes} bytes");
    message.extend_from_slice(&length.to_be_bytes());
    let start = message.len();
    message.resize(start + bytes, 0);
    from.read_exact(&mut message[start..]).await?;
    Ok(message)
}

/// A text that ends with a zero, and what comes after it.
fn text(bytes: &[u8]) -> (String, &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
    (text, bytes.get(end + 1..).unwrap_or_default())
}
