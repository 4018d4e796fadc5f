//! Which server, with which key, for which tenant: flags before the environment before a profile.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use crate::cli::{DEFAULT_URL, Global};
use crate::exit::Usage;
use crate::output::{self, escape};
use crate::profiles::{Profile, Profiles};

const URL: &str = "WAKEPOST_URL";
const KEY: &str = "WAKEPOST_KEY";
const PROFILE: &str = "WAKEPOST_PROFILE";
const NO_KEY: &str = "no API key: pass --key, set WAKEPOST_KEY, or add a profile (`webhookctl profiles \
                      add`); `wakepost serve` prints one at its first start";
/// A key is short.
const KEY_BYTES_MAX: u64 = 64 * 1024;
/// How long a command has to print a key: somebody may have to type a password.
const COMMAND_LIMIT: Duration = Duration::from_secs(120);

/// What a client is made of.
pub struct Connection {
    /// Where the server is.
    pub url: String,
    /// The key.
    pub key: String,
    /// The tenant to act on.
    pub tenant: Option<String>,
}

/// What was said where, before it is weighed.
struct Said {
    url: Option<String>,
    key: Option<String>,
    tenant: Option<String>,
    profile: Option<(String, Profile)>,
}

impl Connection {
    /// Weighs flags, environment and profile.
    pub async fn resolve(global: &Global) -> anyhow::Result<Connection> {
        // An empty one is as good as none.
        let env = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let flag = |value: &Option<String>| value.clone();
        let named = flag(&global.profile).or_else(|| env(PROFILE));
        let url = flag(&global.url).or_else(|| env(URL));
        let key = flag(&global.key).or_else(|| env(KEY));
        let profile = match (&named, &url, &key) {
            // All is said: no file has to be there, or in order.
            (None, Some(_), Some(_)) => None,
            _ => profile(named)?,
        };
        let said = Said { url, key, tenant: global.tenant.clone(), profile };
        if let (Some(wanted), Some((_, profile)), None) =
            (&global.profile, &said.profile, &global.url)
            && !said.is_for(profile)
        {
            let wanted = escape(wanted);
            output::hint(&format!("note: {URL} stands before the URL of the profile {wanted}"));
        }
        said.weigh().await
    }
}

/// The profile that was named, or the current one.
fn profile(named: Option<String>) -> anyhow::Result<Option<(String, Profile)>> {
    let profiles = Profiles::load()?;
    let Some(name) = named.or_else(|| profiles.current.clone()) else {
        return Ok(None);
    };
    let profile = profiles.get(&name)?.clone();
    Ok(Some((name, profile)))
}

impl Said {
    /// Whether what was said is for the profile's own server. A key goes to no other.
    fn is_for(&self, profile: &Profile) -> bool {
        let plain = |url: &str| url.trim().trim_end_matches('/').to_owned();
        let of_profile = plain(profile.url.as_deref().unwrap_or(DEFAULT_URL));
        self.url.as_deref().is_none_or(|url| plain(url) == of_profile)
    }

    async fn weigh(self) -> anyhow::Result<Connection> {
        let profile = self.profile.as_ref().filter(|(_, profile)| self.is_for(profile));
        let of_profile = profile.map(|(_, profile)| profile);
        let key = match (&self.key, profile) {
            (Some(key), _) => Some(key.clone()),
            (None, Some((name, profile))) => key_of(name, profile).await?,
            (None, None) => None,
        };
        let key = key.map(|key| key.trim().to_owned()).filter(|key| !key.is_empty());
        let key = key.ok_or_else(|| Usage(NO_KEY.to_owned()))?;
        let url = self.url.clone().or_else(|| of_profile?.url.clone());
        let url = url.map(|url| url.trim().to_owned()).filter(|url| !url.is_empty());
        Ok(Connection {
            url: url.unwrap_or_else(|| DEFAULT_URL.to_owned()),
            key,
            tenant: self.tenant.clone().or_else(|| of_profile?.tenant.clone()),
        })
    }
}

async fn key_of(name: &str, profile: &Profile) -> anyhow::Result<Option<String>> {
    match (&profile.key, &profile.key_command) {
        (Some(key), _) => Ok(Some(key.clone())),
        (None, Some(command)) => {
            let printed = printed(command).await;
            printed.map(Some).with_context(|| format!("the key command of the profile {name}"))
        }
        (None, None) => Ok(None),
    }
}

/// What a command prints, on its first line. It may ask for a password at the terminal.
async fn printed(command: &str) -> anyhow::Result<String> {
    let (shell, flag) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
    let mut child = Command::new(shell)
        .args([flag, command])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("it does not start")?;
    let mut stdout = child.stdout.take().context("it has no output")?.take(KEY_BYTES_MAX);
    let mut text = String::new();
    let run = async {
        stdout.read_to_string(&mut text).await?;
        drop(stdout);
        child.wait().await
    };
    let ended = tokio::time::timeout(COMMAND_LIMIT, run).await;
    let status = ended.with_context(|| format!("it took longer than {COMMAND_LIMIT:?}"))??;
    if !status.success() {
        bail!("it ended with {status}");
    }
    match text.lines().next() {
        Some(key) if !key.trim().is_empty() => Ok(key.trim().to_owned()),
        _ => bail!("it printed nothing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Option<(String, Profile)> {
        let profile = Profile {
            url: Some("http://profile/".to_owned()),
            key: Some("of-profile".to_owned()),
            key_command: None,
            tenant: Some("acme".to_owned()),
        };
        Some(("p".to_owned(), profile))
    }

    fn said(url: Option<&str>, key: Option<&str>, tenant: Option<&str>) -> Said {
        let text = |text: Option<&str>| text.map(str::to_owned);
        Said { url: text(url), key: text(key), tenant: text(tenant), profile: profile() }
    }

    #[tokio::test]
    async fn what_is_said_stands_before_the_profile() {
        let plain = said(None, None, None).weigh().await.expect("a connection");
        assert_eq!((plain.url.as_str(), plain.key.as_str()), ("http://profile/", "of-profile"));
        assert_eq!(plain.tenant.as_deref(), Some("acme"));
        let other = said(None, Some("k"), Some("t")).weigh().await.expect("a connection");
        assert_eq!((other.url.as_str(), other.key.as_str()), ("http://profile/", "k"));
        assert_eq!(other.tenant.as_deref(), Some("t"));
        let same = said(Some("http://profile"), None, None).weigh().await.expect("a connection");
        assert_eq!(same.key, "of-profile");
    }

    #[tokio::test]
    async fn a_profiles_key_goes_to_no_other_server() {
        let refused = said(Some("http://other"), None, None).weigh().await;
        assert!(refused.err().expect("no key").is::<Usage>());
        let other = said(Some("http://other"), Some("k"), None).weigh().await.expect("a key");
        assert_eq!((other.key.as_str(), other.tenant), ("k", None));
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_key_can_be_what_a_command_prints() {
        assert_eq!(printed("printf ' k1 \\nmore\\n'").await.expect("a key"), "k1");
        for command in ["exit 3", "true", "echo"] {
            assert!(printed(command).await.is_err(), "{command}");
        }
    }
}
