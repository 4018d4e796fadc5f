//! What was dialled in this network namespace: counted by the kernel, and told by a listener at every address.

use std::fs;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::time::sleep;

/// The ports that guarded requests and mails may use.
const PORTS: [u16; 7] = [80, 443, 8443, 25, 465, 587, 2525];

/// How long the listener may take to tell of a connection that the kernel has counted.
const TOLD_WITHIN: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Listens at every address there is, on the ports in question.
pub struct Listener {
    seen: Arc<Mutex<Vec<IpAddr>>>,
}

impl Listener {
    /// Starts to listen.
    pub async fn start() -> anyhow::Result<Listener> {
        let seen = Arc::<Mutex<Vec<IpAddr>>>::default();
        for port in PORTS {
            let everywhere = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
            let listener = TcpListener::bind(everywhere).await;
            let listener = listener.with_context(|| format!("listening on port {port}"))?;
            let seen = Arc::clone(&seen);
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    // Where it was dialled: here, every address is our own.
                    let at = stream.local_addr().map(|address| address.ip().to_canonical());
                    seen.lock().extend(at);
                }
            });
        }
        Ok(Listener { seen })
    }

    /// The addresses that were dialled since the last time, once there are as many as the kernel has counted.
    pub async fn take(&self, counted: u64) -> Vec<IpAddr> {
        let rounds = TOLD_WITHIN.as_millis() / POLL_INTERVAL.as_millis();
        for _ in 0..rounds {
            if self.seen.lock().len() as u64 >= counted {
                break;
            }
            sleep(POLL_INTERVAL).await;
        }
        std::mem::take(&mut self.seen.lock())
    }
}

/// How many connections were begun in this namespace, wherever to: the kernel counts each first packet that it sends.
pub fn connects() -> anyhow::Result<u64> {
    let table = fs::read_to_string("/proc/net/snmp").context("reading the kernel's counters")?;
    let mut lines = table.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = lines.next().zip(lines.next()).context("no counters of TCP")?;
    let mut counters = names.split(' ').zip(values.split(' '));
    let (_, count) = counters.find(|(name, _)| *name == "ActiveOpens").context("no ActiveOpens")?;
    count.parse().context("reading ActiveOpens")
}
