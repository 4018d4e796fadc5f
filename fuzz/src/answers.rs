//! What is answered to us: by agents over HTTP, by commands on their standard output, and by the APIs of platforms.

use std::sync::LazyLock;

use http::StatusCode;
use serde_json::{Value, json};
use wakepost_domain::ports::Entropy;
use wakepost_domain::{Timestamp, budget};
use wakepost_providers::{
    Answered, Exchange, Expanding, Mailed, Need, Outgoing, Provider, Registering, Registration,
    ReplyExchange, ReplyStep, Settings, SignedRequest, Step, To, examples, registry,
};
use wakepost_server::executors::Said;

use crate::input::{Input, lines};

const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);
const URL: &str = "https://hooks.example.com/in/src_1";
/// What stands for every token and password.
const SECRET: &str = "s3cret-of-fuzzing-s3cret";
/// More answers than any conversation has that fuzzing finds.
const ANSWERS_MAX: usize = 40;
/// A key that signs nothing but this.
const GOOGLE_KEY: &str = include_str!("google.pem");

/// A provider with all that it can be given, and requests that it could be answered for.
struct Known {
    provider: &'static dyn Provider,
    settings: Settings,
    requests: Vec<SignedRequest>,
}

static KNOWN: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let known = registry::all().iter().map(|provider| {
        let settings = whole(*provider);
        let keys = provider.sample_keys(&settings, &Sevens);
        let samples = provider.samples().iter().map(|sample| {
            let mut request = sample.request(URL, "17", NOW);
            provider.sign(&mut request, &keys.signs, &settings, "17", NOW).expect("it is signed");
            request
        });
        Known { provider: *provider, requests: samples.collect(), settings }
    });
    known.collect()
});

struct Sevens;

impl Entropy for Sevens {
    fn fill(&self, buffer: &mut [u8]) {
        buffer.fill(7);
    }
}

/// The settings with which it does all it can; those of the samples where these do not fit together.
fn whole(provider: &dyn Provider) -> Settings {
    let account =
        json!({"client_email": "agent@acme.iam.gserviceaccount.com", "private_key": GOOGLE_KEY});
    let needed = examples(provider.settings());
    let mut settings = needed.clone();
    for setting in provider.settings() {
        let value = match setting.name {
            "service_account" => account.to_string(),
            _ if setting.secret => SECRET.to_owned(),
            _ if setting.need != Need::Nothing && !setting.example.is_empty() => {
                setting.example.to_owned()
            }
            _ => continue,
        };
        settings.insert(setting.name.to_owned(), value.into());
    }
    match provider.check_config(None, &settings) {
        Ok(_) => settings,
        Err(_) => needed,
    }
}

/// Who answers, or `agent`; which sample and what is done with it; then answers: a status, headers up to an empty line,
/// and a body of one line.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let name = input.text().unwrap_or_default();
    if name == "agent" {
        return agent(input.rest());
    }
    let Some(known) = KNOWN.iter().find(|known| known.provider.name() == name) else { return };
    let mut words = input.text().unwrap_or_default().split(' ');
    let number: usize = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let Some(request) = known.requests.get(number) else { return };
    // What a platform repeats of our secret is hidden by it; here only what is ours counts.
    let repeats = bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
    let mut dialogue = Dialogue { input, repeats };
    match words.next().unwrap_or_default() {
        "post" => dialogue.reply(known, request, false),
        "look-up" => dialogue.reply(known, request, true),
        "expand" => dialogue.expand(known, request),
        "register" => dialogue.register(known),
        "standing" => {
            if let Some(mut exchange) = known.provider.standing(&known.settings) {
                dialogue.lead(exchange.as_mut());
            }
        }
        _ => {}
    }
}

/// What an agent or a command said. What it says as its reply is written in the formats of all platforms.
fn agent(bytes: &[u8]) {
    for text_is_reply in [false, true] {
        let said = Said::read(bytes, text_is_reply);
        said.fits();
        assert!(said.cost.is_none_or(budget::is_cost), "{said:?}");
        if let Some(result) = &said.result {
            // Kept as it is, and read as JSON by whoever asks for it.
            assert!(serde_json::from_str::<Box<serde_json::value::RawValue>>(result).is_ok());
        }
        let Some(reply) = said.reply else { continue };
        for known in KNOWN.iter() {
            let parts = known.provider.replies().map(|replies| replies.parts(&reply));
            let blank = parts.iter().flatten().find(|part| part.is_empty());
            assert_eq!(blank, None, "{} would post nothing", known.provider.name());
        }
    }
}

/// Answers, one after another.
struct Dialogue<'a> {
    input: Input<'a>,
    /// Whether the answers themselves hold what stands for secrets.
    repeats: bool,
}

/// One answer.
struct Given<'a> {
    status: StatusCode,
    headers: http::HeaderMap,
    body: &'a [u8],
}

impl Given<'_> {
    fn answered(&self) -> Answered<'_> {
        Answered { status: self.status, headers: &self.headers, body: self.body }
    }
}

impl<'a> Dialogue<'a> {
    /// The next answer; none when there are no more.
    fn given(&mut self) -> Option<Given<'a>> {
        let status = self.input.text()?.parse::<u16>().ok()?;
        let status = StatusCode::from_u16(status).ok()?;
        let headers = self.input.headers();
        Some(Given { status, headers, body: self.input.line() })
    }

    fn tells_no_secret(&self, text: &str) {
        assert!(self.repeats || !text.contains(SECRET), "a secret in {text:?}");
    }

    fn reply(&mut self, known: &Known, request: &SignedRequest, looks_up: bool) {
        let Some(replies) = known.provider.replies() else { return };
        let request = request.as_request();
        let part = Outgoing {
            to: To::Event { request: &request, part: 0 },
            text: "It is *done*.",
            index: 0,
            is_first: true,
            replaces: None,
            key: "job_1-0",
            settings: &known.settings,
            begun_at: looks_up.then_some(NOW),
            now: NOW,
        };
        let exchange = match looks_up {
            true => replies.look_up(&part),
            false => Some(replies.post(&part)),
        };
        match exchange {
            Some(Ok(mut exchange)) => self.post(exchange.as_mut()),
            Some(Err(error)) => self.tells_no_secret(&error.to_string()),
            None => {}
        }
    }

    fn post(&mut self, exchange: &mut (dyn ReplyExchange + Send)) {
        let mut step = exchange.next(None);
        let mut last = None;
        for _ in 0..ANSWERS_MAX {
            step = match step {
                ReplyStep::Call { .. } => {
                    let Some(given) = self.given() else { return };
                    last = Some(given.status);
                    exchange.next(Some(given.answered()))
                }
                ReplyStep::Mail(_) => {
                    let (code, text) = (self.input.text(), self.input.text().unwrap_or_default());
                    let code = code.and_then(|code| code.parse().ok()).unwrap_or(0);
                    exchange.mailed(match code {
                        0 => Mailed::Lost { error: text, handed_over: true },
                        250 => Mailed::Accepted,
                        code => Mailed::Refused { code, text },
                    })
                }
                ReplyStep::Posted(_) | ReplyStep::Absent => {
                    let failed = last.is_some_and(|status| status.is_server_error());
                    return assert!(!failed, "{last:?} was taken for an answer");
                }
                ReplyStep::Failed(failure) => return self.tells_no_secret(&failure.error),
            };
        }
    }

    fn expand(&mut self, known: &Known, request: &SignedRequest) {
        let position = json!({"page_token": "7", "since": NOW});
        let what = Expanding {
            request: request.as_request(),
            settings: &known.settings,
            position: Some(&position),
            now: NOW,
        };
        if let Ok(Some(mut exchange)) = known.provider.expand(what) {
            self.lead(exchange.as_mut());
        }
    }

    fn register(&mut self, known: &Known) {
        let at = Registration { webhook_url: URL, secret: SECRET, settings: &known.settings };
        let before = Value::Null;
        let registering = Registering {
            at,
            before: Some(&before),
            position: None,
            fresh_id: "fresh".to_owned(),
            now: NOW,
        };
        if let Some(mut exchange) = known.provider.registering(registering) {
            self.lead(exchange.as_mut());
        }
    }

    fn lead<T>(&mut self, exchange: &mut dyn Exchange<T>) {
        let mut given: Option<Given<'_>> = None;
        for _ in 0..ANSWERS_MAX {
            let step = exchange.next(given.as_ref().map(Given::answered).as_ref());
            given = match step {
                Step::Call(_) => match self.given() {
                    None => return,
                    given => given,
                },
                Step::Keep(_) => None,
                Step::Done(_) => {
                    let status = given.map(|given| given.status);
                    let failed = status.is_some_and(|status| status.is_server_error());
                    return assert!(!failed, "{status:?} was taken for an answer");
                }
                Step::Failed(failure) => return self.tells_no_secret(&failure.error),
            };
        }
    }
}

/// For each provider and each of its samples, everything that can be done, with answers that may be good ones; and what
/// agents say.
pub fn seeds() -> Vec<Vec<u8>> {
    let ok = r#"{"ok":true,"ts":"1.2","access_token":"t","startPageToken":"7","result":{"message_id":1},"id":"9","messages":[{"id":"m"}],"message_id":"9","comments":[],"changes":[{"fileId":"f","file":{"id":"f","name":"n","modifiedTime":"2023-11-14T22:13:20Z"}}],"newStartPageToken":"8","expiration":"1700000000000","resourceId":"r"}"#;
    let refused = r#"{"ok":false,"error":"ratelimited","error_code":429,"description":"slow","parameters":{"retry_after":3},"message":"no","retry_after":0.5,"errors":[{"message":"x"}]}"#;
    let mut seeds = vec![
        lines(["agent", r#"{"reply":"*hi*","result":{"a":1},"cost":0.5}"#]),
        lines(["agent", "# Plain\n\n- words `of`\n```\na [mark](https://x.example/)"]),
        lines(["agent", "[1e400]"]),
    ];
    for known in KNOWN.iter() {
        for number in 0..known.requests.len() {
            for what in ["post", "look-up", "expand", "register", "standing"] {
                let does = match what {
                    "post" | "look-up" => known.provider.replies().is_some(),
                    _ => number == 0,
                };
                let head = format!("{number} {what}");
                let name = known.provider.name();
                if does {
                    let good = ["200", "", ok].join("\n");
                    seeds.push(lines([name, &head, &good, &good, &good, &good]));
                    seeds.push(lines([name, &head, "429", "retry-after:7", "", refused]));
                }
            }
        }
    }
    seeds
}
