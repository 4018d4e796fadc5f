//! The proof: everything hostile is sent to and nothing is dialled; the same without the guard, and everything is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{bail, ensure};
use parking_lot::Mutex;
use wakepost_server::outbound::{AddressPolicy, SendError, Target, Trust};

use crate::corpus::{Corpus, HostileUrl, host};
use crate::dialled::{Listener, connects};
use crate::name_server::{NameServer, Record, Reply};
use crate::names::{self, Becomes, Case};
use crate::namespace::{self, NAME_SERVER, SEARCH_DOMAIN};
use crate::sending::{Sender, is_refusal};

const PUBLIC: IpAddr = IpAddr::V4(Ipv4Addr::new(93, 184, 216, 34));
const PUBLIC_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2606, 0x2800, 0x21f, 0, 0, 0, 0, 1));

/// Other ways to write a mail server that is inside. A mail has no URL, so its host goes to the resolver as it is.
const HOSTILE_MAIL_HOSTS: &[&str] = &[
    "localhost",
    "LOCALHOST",
    "localhost.",
    "mailhub",
    "mailhub.",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "127.1",
    "127.0.0.1.",
    "[::1]",
    "[127.0.0.1]",
    "１２７.0.0.1",
    "127。0。0。1",
    "mail.internal",
    "smtp.local",
    "mail.default.svc",
    "private.hosts.example",
];

/// Runs the whole proof, and says what was tried.
pub fn run() -> anyhow::Result<()> {
    let _shown = namespace::settle()?;
    tokio::runtime::Runtime::new()?.block_on(async {
        let proof = Proof::start().await?;
        let corpus = Corpus::read();
        proof.urls(&corpus.urls).await?;
        proof.addresses(&corpus).await?;
        proof.names(&corpus).await?;
        let cases = names::cases();
        for case in &cases {
            proof.case(case).await?;
        }
        proof.mail(&corpus).await?;
        let dialled = proof.control(&corpus).await?;
        proof.harmless(&corpus).await?;
        report(&corpus, cases.len(), dialled);
        Ok(())
    })
}

struct Proof {
    name_server: NameServer,
    listener: Listener,
    sender: Sender,
    /// What the kernel had counted when it was last looked at.
    counted: Mutex<u64>,
}

impl Proof {
    async fn start() -> anyhow::Result<Proof> {
        let name_server = NameServer::start(NAME_SERVER.into()).await?;
        let listener = Listener::start().await?;
        let counted = Mutex::new(connects()?);
        Ok(Proof { name_server, listener, sender: Sender::new()?, counted })
    }

    /// What was dialled since the last time; the resolver's own connections to its name server are not meant.
    async fn dialled(&self) -> anyhow::Result<Vec<IpAddr>> {
        let now = connects()? - self.name_server.connections();
        let count = now - std::mem::replace(&mut *self.counted.lock(), now);
        let seen = self.listener.take(count).await;
        ensure!(seen.len() as u64 == count, "{count} connects were counted, but {seen:?} seen");
        Ok(seen)
    }

    async fn nothing_is_dialled(&self, what: &str) -> anyhow::Result<()> {
        let dialled = self.dialled().await?;
        ensure!(dialled.is_empty(), "{what}: {dialled:?} dialled");
        Ok(())
    }

    async fn is_refused(&self, url: &str) -> anyhow::Result<()> {
        let error = self.sender.send(url, Trust::Guarded).await?;
        ensure!(is_refusal(&error), "{url}: not refused: {error:?}");
        self.nothing_is_dialled(url).await
    }

    /// A URL that is refused is not sent. Where a laxer policy reads it, it is refused again when it is sent.
    async fn urls(&self, urls: &[HostileUrl]) -> anyhow::Result<()> {
        for HostileUrl { url, refusal, always } in urls {
            let strict = Target::parse(url, &AddressPolicy::default());
            let read = strict.map_err(|refusal| refusal.to_string());
            ensure!(read.as_ref().err() == Some(refusal), "{url:?} was read as {read:?}");
            let readable = Target::parse(url, &AddressPolicy::trusted()).is_ok();
            ensure!(!(readable && *always), "{url:?} was read for an operator");
            if readable {
                self.is_refused(url).await?;
            }
        }
        let asked = self.name_server.take_asked();
        ensure!(asked.is_empty(), "a refused URL was looked up: {asked:?}");
        Ok(())
    }

    /// Each hostile address as a name server's answer: alone, and among public ones.
    async fn addresses(&self, corpus: &Corpus) -> anyhow::Result<()> {
        for (n, hostile) in corpus.addresses.iter().enumerate() {
            let (name, ip) = (format!("a{n}.example.org"), hostile.ip);
            let answers: [&[IpAddr]; 4] =
                [&[ip], &[ip, PUBLIC], &[PUBLIC, ip], &[PUBLIC, PUBLIC_V6, ip, PUBLIC, PUBLIC_V6]];
            self.name_server.knows(&name, &answers.map(|ips| reply(&name, ips)));
            let url = format!("https://{name}/hook");
            for _ in answers {
                let error = self.sender.send(&url, Trust::Guarded).await?;
                let why = format!("{name} resolves to {ip}, which is {}", hostile.refusal);
                ensure!(
                    is_refusal(&error) && error.operator_text.as_deref() == Some(why.as_str()),
                    "{ip} as an answer: {error:?}"
                );
                self.nothing_is_dialled(&ip.to_string()).await?;
            }
            // Once for each try: there is no second answer that goes unchecked.
            let asked = self.name_server.take_asked();
            ensure!(asked == vec![name; answers.len()], "asked for {asked:?}");
        }
        Ok(())
    }

    async fn names(&self, corpus: &Corpus) -> anyhow::Result<()> {
        for hostile in &corpus.names {
            self.name_server.knows(&hostile.name, &[reply(&hostile.name, &[hostile.ip])]);
            self.is_refused(&format!("https://{}/hook", hostile.name)).await?;
        }
        Ok(())
    }

    async fn case(&self, case: &Case) -> anyhow::Result<()> {
        let what = format!("{} ({})", case.what, case.name);
        for (name, replies) in &case.known {
            self.name_server.knows(name, replies);
        }
        self.name_server.take_asked();
        for becomes in &case.tries {
            let url = format!("https://{}/hook", case.name);
            let error = self.sender.send(&url, Trust::Guarded).await?;
            let dialled = self.dialled().await?;
            ensure!(
                fits(becomes, &error, &dialled),
                "{what}: {becomes:?}, but {dialled:?} dialled, {error:?}"
            );
        }
        let asked = self.name_server.take_asked();
        let meant = case.name.trim_end_matches('.').to_ascii_lowercase();
        ensure!(asked.iter().all(|name| *name == meant), "{what}: asked for {asked:?}");
        ensure!(case.asks != asked.is_empty(), "{what}: asked for {asked:?}");
        Ok(())
    }

    /// Mails go out by another door.
    async fn mail(&self, corpus: &Corpus) -> anyhow::Result<()> {
        self.name_server.knows(
            &format!("mailhub.{SEARCH_DOMAIN}"),
            &[reply(&format!("mailhub.{SEARCH_DOMAIN}"), &[PUBLIC])],
        );
        for host in HOSTILE_MAIL_HOSTS {
            let mailed = self.sender.mail(host, Trust::Guarded).await;
            ensure!(mailed.is_err(), "a mail was handed to {host}");
            self.nothing_is_dialled(&format!("mail to {host}")).await?;
        }
        for (n, hostile) in corpus.addresses.iter().enumerate() {
            let name = format!("m{n}.example.org");
            self.name_server.knows(&name, &[reply(&name, &[PUBLIC, hostile.ip])]);
            for host in [hostile.ip.to_string(), name] {
                ensure!(self.sender.mail_is_refused(&host).await, "mail to {host} was not refused");
                self.nothing_is_dialled(&format!("mail to {host}")).await?;
            }
        }
        let asked = self.name_server.take_asked();
        let searched = asked.iter().find(|name| name.ends_with(SEARCH_DOMAIN));
        ensure!(searched.is_none(), "a mail's host was looked up as {searched:?}");
        Ok(())
    }

    /// The same addresses without the guard, by an operator's request and mail: the counter sees every one of them
    /// that the kernel dials at all.
    async fn control(&self, corpus: &Corpus) -> anyhow::Result<usize> {
        let mut count = 0;
        for hostile in &corpus.addresses {
            let expected: Vec<_> = seen_as(hostile.ip).into_iter().collect();
            self.sender.send(&format!("https://{}/", host(hostile.ip)), Trust::Trusted).await?;
            let dialled = self.dialled().await?;
            ensure!(dialled == expected, "control: {dialled:?} dialled for {}", hostile.ip);
            count += dialled.len();
        }
        let mailed = self.sender.mail("10.0.0.1", Trust::Trusted).await;
        let dialled = self.dialled().await?;
        ensure!(
            dialled == [IpAddr::from([10, 0, 0, 1])],
            "control: a mail: {mailed:?}, {dialled:?} dialled"
        );
        Ok(count)
    }

    /// The guard lets through what it should.
    async fn harmless(&self, corpus: &Corpus) -> anyhow::Result<()> {
        for (n, ip) in corpus.harmless.addresses.iter().enumerate() {
            let name = format!("h{n}.example.org");
            self.name_server.knows(&name, &[reply(&name, &[*ip])]);
            for host in [host(*ip), name] {
                self.reaches(&format!("https://{host}/hook"), *ip).await?;
            }
        }
        for url in &corpus.harmless.urls {
            let Ok(target) = Target::parse(url, &AddressPolicy::default()) else {
                bail!("{url} was refused");
            };
            let host = target.host().to_string();
            match host.trim_matches(['[', ']']).parse() {
                Ok(ip) => self.reaches(url, ip).await?,
                Err(_) => {
                    let owner = host.trim_end_matches('.');
                    self.name_server.knows(owner, &[reply(owner, &[PUBLIC])]);
                    self.reaches(url, PUBLIC).await?;
                }
            }
        }
        Ok(())
    }

    async fn reaches(&self, url: &str, ip: IpAddr) -> anyhow::Result<()> {
        let error = self.sender.send(url, Trust::Guarded).await?;
        let dialled = self.dialled().await?;
        ensure!(dialled == [ip], "{url}: {dialled:?} dialled in place of {ip}: {error:?}");
        Ok(())
    }
}

fn report(corpus: &Corpus, cases: usize, dialled: usize) {
    let (hostile, harmless) = (corpus.addresses.len(), &corpus.harmless);
    println!("not one connect for all that is hostile:");
    println!("  {} URLs", corpus.urls.len());
    println!(
        "  {hostile} addresses, each in 4 answers of a name server, and as a mail server's in 2 ways"
    );
    println!("  {} names that lead inside", corpus.names.len());
    println!("  {} mail hosts", HOSTILE_MAIL_HOSTS.len());
    println!("{cases} cases of what a name server may do ended as they should");
    println!("control: without the guard {dialled} of the {hostile} addresses are dialled;");
    println!("  the other {} the kernel itself does not dial", hostile - dialled);
    println!(
        "let through: {} harmless addresses, written and as answers, and {} URLs",
        harmless.addresses.len(),
        harmless.urls.len()
    );
}

fn reply(owner: &str, ips: &[IpAddr]) -> Reply {
    let owner = owner.trim_end_matches('.');
    Reply::Records(
        ips.iter().map(|ip| Record::Address { owner: owner.to_owned(), ip: *ip }).collect(),
    )
}

fn fits(becomes: &Becomes, error: &SendError, dialled: &[IpAddr]) -> bool {
    match becomes {
        Becomes::Refused => is_refusal(error) && dialled.is_empty(),
        Becomes::Fails(class) => error.class == *class && dialled.is_empty(),
        Becomes::Dials(ips) => matches!(dialled, [ip] if ips.contains(ip)),
    }
}

/// What the listener sees of a dialled address; nothing where the kernel refuses to dial it.
fn seen_as(ip: IpAddr) -> Option<IpAddr> {
    match ip.to_canonical() {
        ip if ip.is_multicast() => None,
        IpAddr::V4(Ipv4Addr::BROADCAST) => None,
        // Without a zone.
        IpAddr::V6(ip) if ip.is_unicast_link_local() => None,
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Some(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Some(Ipv6Addr::LOCALHOST.into()),
        ip => Some(ip),
    }
}
