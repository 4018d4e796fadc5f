//! The story of a simulation: settings are made, clients come, things go wrong, faults stop, everything ends, and is checked.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use wakepost_crash::chance::Chance;
use wakepost_crash::exchange::Said;

use crate::check;
use crate::clients::sender::{Sender, Source};
use crate::clients::{Desk, latecomer, maker, operator, publisher, replayer, scheduler, worker};
use crate::faults::Season;
use crate::receiver::Receiver;

const SENDERS: u64 = 2;
const WORKERS: u64 = 3;
const MAKERS: u64 = 2;
const PUBLISHERS: u64 = 1;
const WEBHOOKS: [&str; 2] = ["/one", "/two"];
/// How often a setting is asked for, a second apart: after a first start that broke the server may be away for 40 s.
const TRIES_MAX: u32 = 60;
/// How long things go wrong, in milliseconds.
const LOAD_MS: (u64, u64) = (30_000, 300_000);

/// What the story needs besides the desk.
pub struct Cast {
    /// The seed.
    pub seed: u64,
    /// Those whom published events go to.
    pub receiver: Arc<Receiver>,
    /// Where the database is.
    pub directory: PathBuf,
    /// A promise that is broken on purpose.
    pub control: Option<&'static str>,
}

/// Tells it.
pub async fn tell(desk: Desk, cast: Cast) {
    desk.world.faults.turn(Season::Calm);
    let Some(Settings { sources, mut hooks, schedule }) = settings(&desk).await else {
        return desk.told.violation("start", "the settings could not be made".to_owned());
    };
    if let Some(sql) = cast.control
        && let Err(error) = break_promise(&cast, sql)
    {
        return desk.told.violation("start", format!("a promise could not be broken: {error}"));
    }
    let mut chance = Chance::new(cast.seed, 3);
    start_clients(&desk, &mut chance, &sources);
    cast.receiver.switch(false);
    desk.world.faults.turn(Season::Load);
    desk.world.note(format_args!("faults begin"));
    desk.nap(&mut chance, LOAD_MS.0, LOAD_MS.1).await;
    desk.calm_down();
    cast.receiver.switch(true);
    while desk.is_busy() {
        desk.sleep(Duration::from_secs(1)).await;
    }
    maker::in_time(&desk, &mut chance).await;
    scheduler::in_time(&desk, &schedule).await;
    hooks.extend(desk.repeats.late().map(|id| (latecomer::PATH, id)));
    check::drain(&desk, &hooks).await;
    check::everything(&desk, &hooks, &cast.receiver).await;
}

fn start_clients(desk: &Desk, chance: &mut Chance, sources: &[Source]) {
    for number in 0..SENDERS {
        let sender = Sender::new(desk.clone(), chance.split(), number, sources.to_vec());
        desk.spawn(sender.run());
    }
    for number in 0..MAKERS {
        desk.spawn(maker::run(desk.clone(), chance.split(), number));
    }
    for number in 0..PUBLISHERS {
        desk.spawn(publisher::run(desk.clone(), chance.split(), number));
    }
    desk.spawn(replayer::run(desk.clone(), chance.split()));
    desk.spawn(latecomer::run(desk.clone(), chance.split(), webhook(latecomer::PATH)));
    for number in 0..WORKERS {
        let name = format!("worker-{number}");
        desk.world.spawn(worker::run(desk.clone(), chance.split(), name));
    }
    desk.world.spawn(operator::run(desk.clone(), chance.split()));
}

/// A webhook: where its receiver is, and its id.
pub type Hook = (&'static str, String);

/// What is made before anything goes wrong.
struct Settings {
    sources: Vec<Source>,
    hooks: Vec<Hook>,
    /// A schedule's id.
    schedule: String,
}

fn webhook(path: &str) -> Value {
    let url = format!("https://93.184.216.34{path}");
    json!({"url": url, "events": ["*"], "retry_s": [0, 2, 10, 60, 600, 1800]})
}

async fn settings(desk: &Desk) -> Option<Settings> {
    let mut sources = Vec::new();
    for fields in [json!({}), json!({"concurrency": 1, "backoff_s": [1, 5]})] {
        let mut body = json!({"provider": "standard-webhooks"});
        body.as_object_mut()?.extend(fields.as_object()?.clone());
        sources.push(Source::made(&make(desk, "/sources", &body).await?));
    }
    let mut hooks = Vec::new();
    for path in WEBHOOKS {
        let made = make(desk, "/webhooks", &webhook(path)).await?;
        hooks.push((path, made["id"].as_str()?.to_owned()));
    }
    let made = make(desk, scheduler::PATH, &scheduler::schedule()).await?;
    Some(Settings { sources, hooks, schedule: made["id"].as_str()?.to_owned() })
}

async fn make(desk: &Desk, path: &str, body: &Value) -> Option<Value> {
    for _ in 0..TRIES_MAX {
        match desk.post(path, body).await.said {
            Said::Yes(_, made) => return Some(made),
            Said::No(status, code) => {
                let refused = format!("{path}: a setting was refused: {status} {code}");
                desk.told.violation("start", refused);
                return None;
            }
            Said::Nothing => desk.sleep(Duration::from_secs(1)).await,
        }
    }
    None
}

/// Behind the server's back.
fn break_promise(cast: &Cast, sql: &str) -> rusqlite::Result<()> {
    let file = cast.directory.join(wakepost_store::sqlite::FILE);
    rusqlite::Connection::open(file)?.execute_batch(sql)
}
