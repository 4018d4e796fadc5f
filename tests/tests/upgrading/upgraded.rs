//! The data of an earlier release, opened by this one.

use std::sync::Arc;

use serde_json::{Value, json};
use wakepost_tests::{
    Api, Database, Gateway, Lease, Past, Prepared, Receiver, Reply, Worker, migrations, until,
};

use super::RELEASE;

/// Nothing is too old, however old the fixture is.
const KEEP: &str = "[retention]
bodies_days = 36500
events_days = 36500
runs_days = 36500
dead_letters_days = 36500
receipts_days = 36500
";

/// What changes by itself, by being looked at, or because it lay ahead.
const FLEETING: [&str; 3] = ["last_used_at", "last_seen_at", "expires_at"];

/// A gateway on old data.
pub struct Upgraded {
    pub gateway: Gateway,
    /// A caller with the first admin key of back then.
    pub api: Api,
    /// Takes whatever is sent to it.
    pub receiver: Arc<Receiver>,
    /// What clients were told.
    pub told: Value,
}

impl Upgraded {
    /// Puts the data where a gateway finds it; answers the gateway and its receiver.
    pub async fn prepare(database: Database) -> (Prepared, Receiver, Past) {
        let receiver = Receiver::start(|_| Reply::new(200, "thanks")).await;
        let setup = Gateway::setup(database)
            .setting("WAKEPOST_MASTER_KEY", "")
            .setting("WAKEPOST_PUBLIC_URL", "https://hooks.example.com")
            .setting("WAKEPOST_ALLOW_HTTP", "true")
            .setting("WAKEPOST_ALLOW_PRIVATE", "true")
            .file(KEEP);
        let (prepared, past) = (setup.prepare().await, Past::of(RELEASE, database));
        past.put(&prepared, receiver.url("").trim_end_matches('/')).await;
        (prepared, receiver, past)
    }

    /// Starts this release on it.
    pub async fn start(database: Database) -> Upgraded {
        let (prepared, receiver, past) = Upgraded::prepare(database).await;
        says_what_is_missing(&prepared, database).await;
        Upgraded::new(prepared.start().await, receiver.into(), past.told())
    }

    /// What a gateway was started on.
    pub fn new(gateway: Gateway, receiver: Arc<Receiver>, told: Value) -> Upgraded {
        let api = gateway.admin().with_key(told["admin_key"].as_str().expect("a key"));
        Upgraded { gateway, api, receiver, told }
    }

    /// The same through another node.
    pub fn through(&self, gateway: Gateway) -> Upgraded {
        Upgraded::new(gateway, self.receiver.clone(), self.told.clone())
    }

    /// A key of back then.
    pub fn key(&self, role: &str) -> Api {
        self.api.with_key(self.told["keys"][role].as_str().expect("a key"))
    }

    /// The id of a job by the name it was given.
    pub fn job(&self, name: &str) -> String {
        self.told["jobs"][name].as_str().unwrap_or_else(|| panic!("no job {name}")).to_owned()
    }

    /// A lease of back then, in the hands of its worker.
    pub fn lease(&self, name: &str) -> Lease {
        Lease::new(&self.api, self.told["leases"][name].clone())
    }

    /// Leases the job of this kind.
    pub async fn leased(&self, kind: &str) -> Lease {
        Worker::new(&self.api, "new").wait_with(json!({"kinds": [kind], "lease_s": 60})).await
    }

    /// Leases the job of this kind, which is also its name, and makes sure that it is that one.
    pub async fn leased_again(&self, name: &str) -> Lease {
        let lease = self.leased(name).await;
        assert_eq!(lease.id(), self.job(name), "{name}");
        lease
    }

    /// Waits until a job stands so.
    pub async fn becomes(&self, job: &str, status: &str) -> Value {
        until(&format!("{job} is {status}"), async || {
            let shown = self.api.show_job(job).await;
            (shown["status"] == status).then_some(shown)
        })
        .await
    }

    /// All that was shown once and for all is shown still. There may be more beside it.
    pub async fn shows_what_it_showed(&self) {
        for (path, was) in self.told["shown"].as_object().expect("pages") {
            let now = self.api.get(path).await.is(200).json();
            if let Some(lost) = lost(was, &now) {
                panic!("{path}: {lost}");
            }
        }
    }
}

/// What of `was` is no more.
fn lost(was: &Value, now: &Value) -> Option<String> {
    match (was, now) {
        (Value::Object(was), Value::Object(now)) => was
            .iter()
            .filter(|(name, _)| !FLEETING.contains(&name.as_str()))
            .find_map(|(name, was)| {
                let now = now.get(name).unwrap_or(&Value::Null);
                lost(was, now).map(|lost| format!("{name}.{lost}"))
            }),
        (Value::Array(was), Value::Array(now)) if was.len() == now.len() => {
            was.iter().zip(now).find_map(|(was, now)| lost(was, now))
        }
        (was, now) => (was != now).then(|| format!(": {was} became {now}")),
    }
}

/// `migrate --check` names just what was appended since.
async fn says_what_is_missing(prepared: &Prepared, database: Database) {
    let then = Past::migrations(RELEASE);
    let folder = if database == Database::Sqlite { "/sqlite/" } else { "/postgres/" };
    let appended: Vec<String> = migrations()
        .into_keys()
        .filter(|path| path.contains(folder) && !then.contains_key(path))
        .filter_map(|path| {
            Some(path.rsplit('/').next()?.trim_end_matches(".sql").replacen('_', " ", 1))
        })
        .collect();
    let said = prepared.run(&["migrate", "--check"]).await;
    let said = said.ends_with(i32::from(!appended.is_empty())).stdout;
    let mut named = said.lines().filter_map(|line| line.strip_prefix("missing: "));
    assert!(named.by_ref().eq(appended.iter().map(String::as_str)), "{appended:?} in {said}");
    assert_eq!(said.contains("up to date"), appended.is_empty(), "{said}");
}
