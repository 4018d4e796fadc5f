//! What comes back from those it was given to: tokens. None that this server did not make is believed.

use std::sync::LazyLock;

use wakepost_domain::lease::Ticket;
use wakepost_domain::{TenantId, Timestamp, WorkId};
use wakepost_server::chains::Link;
use wakepost_server::tokens::Tokens;
use wakepost_store::moves::Item;
use wakepost_store::vault::Root;

use crate::input::Input;

const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);
const LATER: Timestamp = Timestamp::from_secs(1_700_000_600);

static TOKENS: LazyLock<Tokens> = LazyLock::new(|| Tokens::new(&Root::new([3; 32], [4; 32])));

/// A line that is taken for a token of each kind, and bytes that tokens are made of.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    if let Some(text) = input.text() {
        // A letter more is another token, whatever this one is.
        for text in [text.to_owned(), format!("{text}A")] {
            let kinds = read(&text);
            assert!(kinds.len() <= 1, "{text} is good for {kinds:?}");
            assert!(kinds.iter().all(|(_, again)| *again == text), "{kinds:?} is not {text}");
        }
    }
    made(input.rest());
}

/// Every kind of token that this text is, each with what its contents are written as.
fn read(text: &str) -> Vec<(&'static str, String)> {
    let tokens = &*TOKENS;
    let found = [
        ("lease", tokens.read_lease(text).map(|ticket| tokens.lease(&ticket))),
        ("delivery", tokens.read_delivery_lease(text).map(|ticket| tokens.delivery_lease(&ticket))),
        ("job key", tokens.read_job_key(text).map(|ticket| tokens.job_key(&ticket))),
        ("task", tokens.read_task(text, NOW).map(|item| tokens.task(item, LATER))),
        ("chain", tokens.read_chain(text).map(|link| tokens.chain(&link))),
        ("portal", tokens.read_portal(text, NOW).map(|(whose, until)| tokens.portal(whose, until))),
        ("session", tokens.read_session(text, NOW).map(|key| tokens.session(key, LATER))),
        (
            "link",
            tokens.read_event_link(text).map(|item| tokens.event_link(item.tenant, item.work)),
        ),
    ];
    found.into_iter().filter_map(|(kind, again)| Some((kind, again?))).collect()
}

/// Whatever a token says, it is read as one of its kind and says the same.
fn made(bytes: &[u8]) {
    let Some(first) = bytes.first_chunk::<{ Ticket::BYTES }>() else { return };
    let ticket = Ticket::from_bytes(first);
    let tokens = &*TOKENS;
    assert_eq!(tokens.read_lease(&tokens.lease(&ticket)), Some(ticket));
    let link = Link { tenant: ticket.tenant, work: ticket.work, hops: u32::from(first[44]) };
    assert_eq!(tokens.read_chain(&tokens.chain(&link)), Some(link));
    let until = ticket.started_at;
    let portal = tokens.read_portal(&tokens.portal(ticket.tenant, until), NOW);
    assert_eq!(portal, (NOW < until).then_some((ticket.tenant, until)));
    let key: [u8; 32] = first[..32].try_into().expect("thirty-two bytes");
    assert_eq!(tokens.read_session(&tokens.session(key, until), NOW), (NOW < until).then_some(key));
}

pub fn seeds() -> Vec<Vec<u8>> {
    let tokens = &*TOKENS;
    let ticket = Ticket {
        work: WorkId::from_bytes([1; 16]),
        tenant: TenantId(3),
        fence: 2,
        attempt: 1,
        max_attempts: 3,
        lease_s: 30,
        started_at: LATER,
        ordered: true,
    };
    let item = Item { tenant: ticket.tenant, work: ticket.work };
    let link = Link { tenant: ticket.tenant, work: ticket.work, hops: 2 };
    let texts = [
        tokens.lease(&ticket),
        tokens.delivery_lease(&ticket),
        tokens.job_key(&ticket),
        tokens.task(item, LATER),
        tokens.chain(&link),
        tokens.portal(ticket.tenant, LATER),
        tokens.session([7; 32], LATER),
        tokens.event_link(ticket.tenant, ticket.work),
    ];
    let seed = |text: String| [text.as_bytes(), b"\n", &ticket.to_bytes()].concat();
    texts.into_iter().map(seed).collect()
}
