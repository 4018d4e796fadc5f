//! From a name to its addresses.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::net::lookup_host;
use tokio::sync::Semaphore;

use super::hosts;

/// Finds the addresses of a name. Tests and simulations supply their own.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// All addresses of `host`, best first.
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<IpAddr>>;
}

/// Asks the operating system.
#[derive(Debug, Clone)]
pub struct SystemResolver {
    turns: Arc<Semaphore>,
}

/// The system's look-up occupies a thread until it ends, even when nobody waits any more. This
/// many dead name servers at once still leave threads for the rest of the program.
const LOOKUPS_MAX: usize = 128;

impl SystemResolver {
    /// A resolver of the operating system's names.
    pub fn new() -> SystemResolver {
        SystemResolver { turns: Arc::new(Semaphore::new(LOOKUPS_MAX)) }
    }
}

impl Default for SystemResolver {
    fn default() -> SystemResolver {
        SystemResolver::new()
    }
}

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<IpAddr>> {
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(io::Error::other)?;
        // The system does not find an absolute name in this file.
        let written = hosts::find(host).await;
        if !written.is_empty() {
            return Ok(written);
        }
        let name = absolute(host);
        // A task of its own, so that a caller who gives up does not free the turn while the
        // thread is still busy.
        let lookup = tokio::spawn(async move {
            let _turn = turn;
            let found = lookup_host((name, port)).await?;
            Ok(found.map(|address| address.ip()).collect())
        });
        lookup.await.map_err(io::Error::other)?
    }
}

/// Without the last dot, a search domain of this machine could turn `api.example.com` into
/// `api.example.com.corp.internal`.
fn absolute(host: &str) -> String {
    match host.contains('.') && !host.ends_with('.') {
        true => format!("{host}."),
        false => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_dot_is_looked_up_as_absolute() {
        assert_eq!(absolute("api.example.com"), "api.example.com.");
        assert_eq!(absolute("api.example.com."), "api.example.com.");
        assert_eq!(absolute("localhost"), "localhost");
    }

    #[tokio::test]
    async fn the_system_knows_localhost() {
        let found = SystemResolver::new().resolve("localhost", 80).await.unwrap();
        assert!(!found.is_empty());
        assert!(found.iter().all(IpAddr::is_loopback));
    }
}
