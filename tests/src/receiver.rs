//! An agent that jobs are posted to: a real server on the loopback address.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::waiting::until;

/// One request that came.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its method.
    pub method: Method,
    /// Its path.
    pub path: String,
    /// What stands behind the question mark.
    pub query: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl Seen {
    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }

    /// A header that must be there.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.and_then(|value| value.to_str().ok()).unwrap_or_else(|| panic!("there is no {name}"))
    }
}

/// What it is answered.
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
    delay: Option<Duration>,
    hangs: bool,
}

impl Reply {
    /// A status and a body.
    pub fn new(status: u16, body: impl ToString) -> Reply {
        Reply { status, headers: Vec::new(), body: body.to_string(), delay: None, hangs: false }
    }

    /// None, for ever.
    pub fn none() -> Reply {
        Reply { hangs: true, ..Reply::new(500, "") }
    }

    /// The same, but not at once.
    pub fn after(self, delay: Duration) -> Reply {
        Reply { delay: Some(delay), ..self }
    }

    /// With one header more.
    pub fn with_header(mut self, name: &'static str, value: impl ToString) -> Reply {
        self.headers.push((name, value.to_string()));
        self
    }
}

/// The server. It ends with the test.
pub struct Receiver {
    url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    serving: JoinHandle<()>,
}

impl Receiver {
    /// Starts a server that answers every request with what `answer` makes of it.
    pub async fn start(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Receiver {
        Receiver::start_with(None, answer).await
    }

    /// The same behind TLS, at `localhost`.
    pub async fn start_tls(
        acceptor: TlsAcceptor,
        answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Receiver {
        Receiver::start_with(Some(acceptor), answer).await
    }

    async fn start_with(
        acceptor: Option<TlsAcceptor>,
        answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let url = match acceptor {
            Some(_) => format!("https://localhost:{}", address.port()),
            None => format!("http://{address}"),
        };
        let seen = Arc::new(Mutex::new(Vec::new()));
        let serving = tokio::spawn(serve(listener, acceptor, Arc::new(answer), seen.clone()));
        Receiver { url, seen, serving }
    }

    /// An address on it.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// What came to a path so far.
    pub fn seen(&self, path: &str) -> Vec<Seen> {
        let seen = self.seen.lock().expect("the log");
        seen.iter().filter(|seen| seen.path == path).cloned().collect()
    }

    /// Waits until as many requests came to a path.
    pub async fn wait(&self, path: &str, count: usize) -> Vec<Seen> {
        until("the agent is called", || async {
            Some(self.seen(path)).filter(|seen| seen.len() >= count)
        })
        .await
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve<F>(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    answer: Arc<F>,
    log: Arc<Mutex<Vec<Seen>>>,
) where
    F: Fn(&Seen) -> Reply + Send + Sync + 'static,
{
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, answer, log) = (acceptor.clone(), answer.clone(), log.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let (answer, log) = (answer.clone(), log.clone());
                async move {
                    let (parts, body) = request.into_parts();
                    let Ok(body) = body.collect().await else {
                        return Ok::<_, Infallible>(Response::<Full<Bytes>>::new(Full::default()));
                    };
                    let seen = Seen {
                        method: parts.method,
                        path: parts.uri.path().to_owned(),
                        query: parts.uri.query().unwrap_or_default().to_owned(),
                        headers: parts.headers,
                        body: body.to_bytes(),
                    };
                    log.lock().expect("the log").push(seen.clone());
                    let reply = answer(&seen);
                    if reply.hangs {
                        std::future::pending::<()>().await;
                    }
                    if let Some(delay) = reply.delay {
                        tokio::time::sleep(delay).await;
                    }
                    let mut response = Response::builder().status(reply.status);
                    for (name, value) in reply.headers {
                        response = response.header(name, value);
                    }
                    Ok(response.body(Full::from(reply.body)).expect("an answer"))
                }
            });
            let http = http1::Builder::new();
            match acceptor {
                None => drop(http.serve_connection(TokioIo::new(stream), service).await),
                Some(acceptor) => {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    drop(http.serve_connection(TokioIo::new(stream), service).await);
                }
            }
        });
    }
}
