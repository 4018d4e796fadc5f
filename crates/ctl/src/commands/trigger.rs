//! `webhookctl trigger`: a realistic request, really signed, as the provider would send it.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use wakepost_client::{NewSource, PageQuery, Rotation, Source, SourceFields, Trial};
use wakepost_domain::Timestamp;
use wakepost_domain::ports::Entropy;
use wakepost_providers::{Keys, Provider, Sample, Settings, SignedRequest, registry};

use crate::exit::Usage;
use crate::output::{self, Progress, escape};
use crate::session::Session;

/// The name of the sources that triggers make.
const TEST_SOURCE: &str = "webhookctl trigger";

#[derive(Args)]
pub struct Trigger {
    /// Whose request: github, stripe, slack …
    provider: String,
    /// What happened; without it the events there are samples of are listed
    pub event: Option<String>,
    /// The source to send it to; by default the one source of this provider. Where only the provider can sign for
    /// its sources, a test source with a new key
    #[arg(long, value_name = "ID")]
    source: Option<String>,
    /// Sign with this secret, or private key, in place of the server's copy
    #[arg(long, env = "WAKEPOST_SOURCE_SECRET", hide_env_values = true)]
    secret: Option<String>,
    /// Make keys for a test source of your own, print them and send nothing
    #[arg(long, conflicts_with_all = ["event", "source", "wrong", "print"])]
    pub new_keys: bool,
    /// Sign with a secret that is not the source's
    #[arg(long, group = "wrong")]
    bad_signature: bool,
    /// Sign for a time that is past
    #[arg(long, group = "wrong")]
    stale: bool,
    /// Send it twice
    #[arg(long, group = "wrong")]
    duplicate: bool,
    /// Send so many different ones
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: u32,
    /// Print the request and send nothing; `webhookctl verify` reads it
    #[arg(long, requires = "secret", conflicts_with_all = ["duplicate", "repeat"])]
    print: bool,
}

impl Trigger {
    /// Says which events there are samples of.
    pub fn list_samples(&self) -> anyhow::Result<()> {
        let provider = self.provider()?;
        output::hint(&format!("say which: webhookctl trigger {} EVENT", provider.name()));
        Ok(output::print(&sample_names(provider).join("\n"))?)
    }

    /// Prints what a test source verifies with and what a trigger signs with. Nobody but the provider can sign for
    /// the provider's own public key.
    pub fn make_keys(&self, as_json: bool) -> anyhow::Result<()> {
        let provider = self.provider()?;
        let Keys { signs, verifies } = provider.sample_keys(&Settings::new(), &SystemEntropy);
        if as_json {
            let keys = json!({"source_secret": verifies, "signing_secret": signs});
            return Ok(output::print(&keys.to_string())?);
        }
        let name = provider.name();
        output::print(&format!(
            "webhookctl sources create {name} --name test --secret '{verifies}'\n\
             webhookctl trigger {name} {} --source src_… --secret '{signs}'",
            sample_names(provider).first().unwrap_or(&"EVENT")
        ))?;
        output::hint("keep the second key: it is nowhere else");
        Ok(())
    }

    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let provider = self.provider()?;
        let event = self.event.as_deref().unwrap_or_default();
        let sample = provider.samples().iter().find(|sample| sample.event_type == event);
        let sample = sample.ok_or_else(|| {
            let known = sample_names(provider).join(", ");
            Usage(format!("{} has no sample {event:?}; there are {known}", provider.name()))
        })?;
        let (source, secret) = match self.own_keys(provider) {
            Some(Keys { signs, verifies }) => {
                (self.test_source(session, verifies).await?, Some(signs))
            }
            None => (self.source(session).await?, self.secret.clone()),
        };
        let progress = Progress::beside_output("sent", Some(u64::from(self.repeat)));
        for sent in 1..=self.repeat {
            match &secret {
                Some(secret) => self.send(session, provider, sample, &source, secret).await?,
                None => self.ask_server(session, &source).await?,
            }
            progress.at(u64::from(sent), 0);
        }
        Ok(())
    }

    fn provider(&self) -> Result<&'static dyn Provider, Usage> {
        registry::find(&self.provider).ok_or_else(|| {
            let known: Vec<&str> = registry::all().iter().map(|provider| provider.name()).collect();
            Usage(format!("no provider {:?}; there are {}", self.provider, known.join(", ")))
        })
    }

    /// A key pair, where the provider's sources hold only a public key and no other key was named.
    fn own_keys(&self, provider: &dyn Provider) -> Option<Keys> {
        if self.source.is_some() || self.secret.is_some() {
            return None;
        }
        let keys = provider.sample_keys(&Settings::new(), &SystemEntropy);
        Some(keys).filter(|keys| keys.signs != keys.verifies)
    }

    /// The source that triggers go to which nobody but we can sign for: made once, and given the new public key each
    /// time, since the private one is kept nowhere.
    async fn test_source(&self, session: &Session, public: String) -> anyhow::Result<Source> {
        let mut sources = self.sources(session).await?;
        sources.retain(|source| source.name == TEST_SOURCE);
        let source = match sources.pop() {
            Some(source) => {
                let rotation = Rotation { secret: Some(public), grace_s: Some(0) };
                session.client.rotate_source(&source.id, &rotation).await?;
                source
            }
            None => {
                let name = Some(TEST_SOURCE.to_owned());
                let fields = SourceFields { name, secret: Some(public), ..SourceFields::default() };
                let source = NewSource { provider: self.provider.clone(), fields };
                session.client.create_source(&source).await?
            }
        };
        output::hint(&format!(
            "nobody but {} can sign for its own key: sent to the test source {}, with a key of its own",
            self.provider, source.id
        ));
        Ok(source)
    }

    /// All of the provider.
    async fn sources(&self, session: &Session) -> anyhow::Result<Vec<Source>> {
        let query = PageQuery { limit: Some(500), cursor: None };
        let mut sources = session.client.list_sources(&query).await?.data;
        sources.retain(|source| source.provider == self.provider);
        Ok(sources)
    }

    /// The source that was named, or the only one of the provider.
    async fn source(&self, session: &Session) -> anyhow::Result<Source> {
        if let Some(id) = &self.source {
            return Ok(session.client.get_source(id).await?);
        }
        let mut sources = self.sources(session).await?;
        match sources.len() {
            1 => Ok(sources.remove(0)),
            0 => Err(Usage(format!(
                "there is no {0} source; make one: webhookctl sources create {0}",
                self.provider
            ))
            .into()),
            _ => {
                let ids: Vec<String> = sources.into_iter().map(|source| source.id).collect();
                Err(Usage(format!("say which with --source: {}", ids.join(", "))).into())
            }
        }
    }

    fn variant(&self) -> Option<&'static str> {
        match (self.bad_signature, self.stale, self.duplicate) {
            (true, ..) => Some("bad_signature"),
            (_, true, _) => Some("stale"),
            (.., true) => Some("duplicate"),
            _ => None,
        }
    }

    /// The server signs: it has the secret.
    async fn ask_server(&self, session: &Session, source: &Source) -> anyhow::Result<()> {
        let trial =
            Trial { event_type: self.event.clone(), variant: self.variant().map(str::to_owned) };
        let call = session.client.test_source(&source.id, &trial);
        if let Some(tried) = session.answer(call).await? {
            output::print(&line(tried.status_code, &tried.body.to_string()))?;
            self.judge(source, tried.status_code)?;
        }
        Ok(())
    }

    /// A good request that is refused is a failure; a spoilt one is meant to be.
    fn judge(&self, source: &Source, status: u16) -> anyhow::Result<()> {
        let is_spoilt = self.bad_signature || self.stale;
        if is_spoilt || (200..300).contains(&status) {
            return Ok(());
        }
        anyhow::bail!("it was refused: `webhookctl sources receipts {}` says why", source.id)
    }

    /// We sign: the secret was given.
    async fn send(
        &self,
        session: &Session,
        provider: &dyn Provider,
        sample: &Sample,
        source: &Source,
        secret: &str,
    ) -> anyhow::Result<()> {
        let request = self.signed(provider, sample, source, secret)?;
        if self.print {
            return Ok(output::print_exact(&as_file(&request))?);
        }
        let times = if self.duplicate { 2 } else { 1 };
        for _ in 0..times {
            let (headers, body) = (request.headers.clone(), request.body.clone());
            let (status, body) = session.client.deliver(&source.id, headers, body).await?;
            output::print(&line(status, &String::from_utf8_lossy(&body)))?;
            self.judge(source, status)?;
        }
        Ok(())
    }

    fn signed(
        &self,
        provider: &dyn Provider,
        sample: &Sample,
        source: &Source,
        secret: &str,
    ) -> anyhow::Result<SignedRequest> {
        let settings: Settings = source.settings.clone();
        let late = Duration::from_secs(source.tolerance_s.unwrap_or(300).saturating_add(60));
        let now = now();
        let at = if self.stale { now.before(late) } else { now };
        let id = random_id();
        let url = source.ingest_url.clone().unwrap_or_default();
        let mut request = sample.request(&url, &id, at);
        let other = provider.sample_keys(&settings, &SystemEntropy).signs;
        let secret = if self.bad_signature { &other } else { secret };
        provider
            .sign(&mut request, secret, &settings, &id, at)
            .map_err(|problem| Usage(format!("it cannot be signed: {problem}")))?;
        Ok(request)
    }
}

fn sample_names(provider: &dyn Provider) -> Vec<&'static str> {
    provider.samples().iter().map(|sample| sample.event_type).collect()
}

fn line(status: u16, body: &str) -> String {
    format!("{status} {}", escape(body))
}

/// The request as it goes over the wire, for a file: a line break more would break the signature.
fn as_file(request: &SignedRequest) -> Vec<u8> {
    let mut file = format!("{} {}\n", request.method, escape(&request.url)).into_bytes();
    for (name, value) in &request.headers {
        file.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\n"].concat());
    }
    file.push(b'\n');
    file.extend(&request.body);
    file
}

pub fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
}

struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, buffer: &mut [u8]) {
        getrandom::fill(buffer).expect("the system gives random bytes");
    }
}

/// Digits alone: some providers' ids are numbers.
fn random_id() -> String {
    let mut bytes = [0u8; 8];
    SystemEntropy.fill(&mut bytes);
    (u64::from_be_bytes(bytes) >> 11).to_string()
}
