//! What a received event's job has to do with others: its order, its conversation, and what it supersedes.

use wakepost_domain::envelope::{Mapped, Starts};
use wakepost_providers::Request;
use wakepost_store::moves::{CoalesceKey, NewOrder, NewSequence, NewThread, OrderKey};

use crate::directory::LiveSource;

/// Numbers beyond this are no sequence, and their neighbours could not be reckoned.
const NUMBER_MAX: u64 = 1 << 62;

/// What a job has to do with others.
#[derive(Default)]
pub struct Bonds {
    pub order: Option<NewOrder>,
    pub thread: Option<NewThread>,
    pub coalesce: Option<CoalesceKey>,
}

/// Reads the bonds of one event of a request. A value that the payload does not have makes none.
pub fn bonds(live: &LiveSource, request: &Request<'_>, mapped: &Mapped, part: usize) -> Bonds {
    let (tenant, source) = (live.source.tenant, live.source.id);
    let fill = |by: Option<&wakepost_providers::Template>| {
        by.and_then(|by| by.fill(live.provider, request, part))
    };
    let order = fill(live.order_by.as_ref()).map(|text| {
        let number = fill(live.sequence_by.as_ref()).and_then(|text| text.parse().ok());
        let number = number.filter(|number: &i64| number.unsigned_abs() <= NUMBER_MAX);
        let wait = live.source.config.order_wait();
        NewOrder {
            key: OrderKey::of_source(tenant, source, text.as_bytes()),
            text,
            sequence: number.map(|number| NewSequence { number, wait }),
        }
    });
    let coalesce = fill(live.coalesce_by.as_ref()).map(|value| {
        let order = order.as_ref().map(|order| order.key);
        CoalesceKey::new(tenant, source, value.as_bytes(), order)
    });
    let thread = mapped.message.as_ref().map(|message| NewThread {
        key: OrderKey::of_thread(tenant, source, message.thread_id.as_bytes()),
        only_if_known: mapped.starts == Starts::InKnownThread,
        policy: live.thread_policy(),
        quiet: live.source.config.quiet(),
    });
    Bonds { order, thread, coalesce }
}
