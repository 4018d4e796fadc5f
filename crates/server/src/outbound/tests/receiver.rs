//! A receiver on loopback that does as told, a resolver that answers as told, and requests.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::outbound::*;

/// Counts its connections, and how many of them have ended.
pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

impl Receiver {
    /// Runs `serve` on each connection, on a free port.
    pub(super) async fn start<S, F>(serve: S) -> Receiver
    where
        S: Fn(TcpStream) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        Receiver::start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), serve).await
    }

    pub(super) async fn start_at<S, F>(address: SocketAddr, serve: S) -> Receiver
    where
        S: Fn(TcpStream) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.unwrap();
        let receiver = Receiver {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            ended: Arc::default(),
        };
        let (connections, ended) = (receiver.connections.clone(), receiver.ended.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                let (served, ended) = (serve(stream), ended.clone());
                tokio::spawn(async move {
                    served.await;
                    ended.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        receiver
    }

    /// Answers each request on each connection with the same bytes.
    pub(super) async fn answering(answer: &'static str) -> Receiver {
        Receiver::start(move |stream| answer_all(stream, answer)).await
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Waits until a connection has ended, as its peer sees it.
    pub(super) async fn one_ended(&self) -> bool {
        for _ in 0..100 {
            if self.ended.load(Ordering::SeqCst) > 0 {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        false
    }

    pub(super) fn request(&self) -> OutboundRequest {
        request(&format!("http://{}/hook", self.address))
    }
}

pub(super) async fn answer_all(mut stream: TcpStream, answer: &'static str) {
    while read_request(&mut stream).await.is_some() {
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Reads the head of a request and its body `{}`; `None` when the peer has gone.
pub(super) async fn read_request<S: AsyncRead + Unpin>(stream: &mut S) -> Option<String> {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n{}") {
        let mut byte = [0];
        match stream.read(&mut byte).await {
            Ok(1) => text.push(byte[0]),
            _ => return None,
        }
    }
    Some(String::from_utf8(text).unwrap())
}

/// Waits until the peer goes.
pub(super) async fn until_closed(stream: &mut TcpStream) {
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await.is_ok_and(|count| count > 0) {}
}

/// Answers with each list in turn; the last one stays.
pub(super) struct StubResolver {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl StubResolver {
    pub(super) fn new(answers: &[&[&str]]) -> Arc<StubResolver> {
        let parse = |answer: &&[&str]| answer.iter().map(|ip| ip.parse().unwrap()).collect();
        Arc::new(StubResolver {
            answers: Mutex::new(answers.iter().map(parse).collect()),
            asked: Mutex::default(),
        })
    }

    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

#[async_trait]
impl Resolver for StubResolver {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<IpAddr>> {
        self.asked.lock().push(format!("{host}:{port}"));
        let mut answers = self.answers.lock();
        match answers.len() {
            0 => Err(io::Error::other("no such host")),
            1 => Ok(answers[0].clone()),
            _ => Ok(answers.pop_front().unwrap()),
        }
    }
}

/// Sends to written addresses and to what the resolver says, wherever that is.
pub(super) fn open_client(resolver: Arc<StubResolver>) -> GuardedClient {
    client_with(resolver, ClientSettings { policy: AddressPolicy::trusted(), ..Default::default() })
}

pub(super) fn client_with(resolver: Arc<StubResolver>, settings: ClientSettings) -> GuardedClient {
    GuardedClient::new(resolver, settings).unwrap()
}

/// No test waits longer than this for a hostile receiver.
pub(super) const DEADLINE: Duration = Duration::from_millis(1500);

pub(super) fn request(url: &str) -> OutboundRequest {
    OutboundRequest {
        target: Target::parse(url, &AddressPolicy::trusted()).unwrap(),
        trust: Trust::Guarded,
        method: Method::POST,
        headers: HeaderMap::new(),
        body: Bytes::from_static(b"{}"),
        timeout: DEADLINE,
        body_bytes_max: 4096,
        keep: KeepBody::Prefix,
        identity: None,
    }
}

/// The error, after checking that it came by the deadline.
pub(super) async fn failure(client: &GuardedClient, request: OutboundRequest) -> SendError {
    let error = client.send(request).await.unwrap_err();
    assert!(error.timings.total < DEADLINE + Duration::from_secs(3), "{error:?}");
    error
}
