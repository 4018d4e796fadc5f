//! The names that the operator wrote into the machine's hosts file.

use std::io;
use std::net::IpAddr;

use tokio::fs::File;
use tokio::io::AsyncReadExt;

const PATH: &str = "/etc/hosts";

/// As much of it as is read. Lists of advertisers to block are the longest there are, at a few MiB.
const BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The addresses that the file has for this name; none where there is no such file.
pub(super) async fn find(name: &str) -> Vec<IpAddr> {
    // Whoever cannot read the file has no names in it.
    let text = read().await.unwrap_or_default();
    addresses(&String::from_utf8_lossy(&text), name)
}

async fn read() -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(PATH).await?.take(BYTES_MAX).read_to_end(&mut text).await?;
    Ok(text)
}

fn addresses(text: &str, name: &str) -> Vec<IpAddr> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let mut found = Vec::new();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_ascii_whitespace();
        // What is no address here, such as one with a zone, is none that could be checked.
        let Some(Ok(ip)) = words.next().map(str::parse) else { continue };
        if words.any(|word| word.eq_ignore_ascii_case(name)) {
            found.push(ip);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_all_addresses_of_all_its_lines() {
        let text = "# a list\n127.0.0.1\tlocalhost\n10.0.0.5  agent.corp.example agent # ours\n\
                    fd00::5 Agent.Corp.Example\nfe80::1%lo agent.corp.example\n::1\n\
                    10.0.0.6 other.corp.example#agent.corp.example\n10.0.0.7 x.agent.corp.example\n";
        let found = |name| addresses(text, name).iter().map(IpAddr::to_string).collect::<Vec<_>>();
        assert_eq!(found("agent.corp.example"), ["10.0.0.5", "fd00::5"]);
        assert_eq!(found("AGENT.corp.example."), ["10.0.0.5", "fd00::5"]);
        assert_eq!(found("other.corp.example"), ["10.0.0.6"]);
        assert_eq!(found("localhost"), ["127.0.0.1"]);
        assert_eq!(found("corp.example"), [""; 0]);
        assert_eq!(found("10.0.0.5"), [""; 0]);
    }
}
