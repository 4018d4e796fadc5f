//! Chains: agents that call agents. What an agent was given comes back with what it asks for, and so a new job
//! knows which job led to it, how many did, and which trace it belongs to; and so does an event that it publishes.
//!
//! Nothing here refuses a request: a value that is broken, forged or another tenant's says nothing.

use http::{HeaderMap, HeaderName};
use wakepost_domain::lease::run_id;
use wakepost_domain::work::WorkKind;
use wakepost_domain::{EventId, TenantId, Ulid, WorkId};
use wakepost_store::Result;
use wakepost_store::moves::{Claimed, Lineage, WorkRow};

use crate::context::Context;

/// The header by which an agent says which job it works on.
pub const CHAIN: &str = "wakepost-chain";
/// W3C Trace Context.
pub const TRACEPARENT: &str = "traceparent";

/// A job as an agent passes it on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Whose it is.
    pub tenant: TenantId,
    /// Which it is.
    pub work: WorkId,
    /// How many agents led to it.
    pub hops: u32,
}

/// What led to the request with these headers, if they say so. Without them nothing is looked up.
pub async fn lineage(
    context: &Context,
    tenant: TenantId,
    headers: &HeaderMap,
) -> Result<Option<Lineage>> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let link = text(CHAIN).and_then(|token| context.tokens.read_chain(token.trim()));
    let link = link.filter(|link| link.tenant == tenant);
    let trace = text(TRACEPARENT).and_then(trace_of);
    let (parent, trace) = match (link, trace) {
        (None, None) => return Ok(None),
        (Some(link), trace) => (Some((link.work, link.hops)), trace),
        (None, Some(trace)) => match job_of(context, tenant, trace).await? {
            // It gets a trace of its own: by that one it is found as the parent of the next.
            Some(row) => (Some((row.id, row.meta.hops)), None),
            None => (None, Some(trace)),
        },
    };
    let hops = parent.map_or(0, |(_, hops)| hops.saturating_add(1));
    Ok(Some(Lineage {
        parent_id: parent.map(|(work, _)| work.text(WorkKind::Job)),
        hops,
        trace: trace.map(hex::encode),
        over: hops > context.config.max_hops,
    }))
}

/// Where an event that is published comes from.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// The job whose agent publishes it.
    pub job: Option<String>,
    /// The trace it goes on with; none: it begins one.
    pub trace: Option<String>,
    /// The span of that trace that it comes of.
    pub span: Option<[u8; 8]>,
}

/// Where what this request publishes comes from. It goes on with the trace that the request says, or else with that of
/// the job: unlike a new job it makes no next one, and so needs no trace of its own.
pub async fn origin(context: &Context, tenant: TenantId, headers: &HeaderMap) -> Result<Origin> {
    let lineage = lineage(context, tenant, headers).await?;
    let job = lineage.and_then(|lineage| lineage.parent_id);
    if let Some((trace, span)) = given(headers) {
        return Ok(Origin { job, trace: Some(hex::encode(trace)), span: Some(span) });
    }
    let id = job.as_deref().and_then(|text| WorkId::parse(text, WorkKind::Job).ok());
    let row = match id {
        Some(id) => context.store.work(tenant, id).await?,
        None => None,
    };
    let trace = row.as_ref().map(|row| trace_id(row.meta.trace.as_deref(), row.event, row.id));
    // Its latest run, which is the one that calls unless that comes late.
    let run = row.and_then(|row| Some(run_id(row.id, row.fence, row.started_at?)));
    Ok(Origin { job, trace, span: run.map(|run| span_of(&run.to_bytes())) })
}

/// The job whose trace this is: the latest of the event with these bits, or the job with them.
async fn job_of(context: &Context, tenant: TenantId, trace: [u8; 16]) -> Result<Option<WorkRow>> {
    let bits = Ulid::from_bytes(trace);
    let of_event = context.store.work_of_event(tenant, EventId(bits)).await?;
    if let Some(job) = of_event.into_iter().rfind(|row| row.kind == WorkKind::Job) {
        return Ok(Some(job));
    }
    let job = context.store.work(tenant, WorkId(bits)).await?;
    Ok(job.filter(|row| row.kind == WorkKind::Job))
}

/// Those of a request's headers that say what led to it.
pub fn of(headers: &HeaderMap) -> HeaderMap {
    let names = [CHAIN, TRACEPARENT].map(HeaderName::from_static);
    names.into_iter().filter_map(|name| Some((name.clone(), headers.get(name)?.clone()))).collect()
}

/// The trace and the span that these headers go on with, if they say so.
pub fn given(headers: &HeaderMap) -> Option<([u8; 16], [u8; 8])> {
    let text = headers.get(TRACEPARENT)?.to_str().ok()?;
    let trace = trace_of(text)?;
    let mut span = [0; 8];
    hex::decode_to_slice(text.trim().split('-').nth(2)?, &mut span).ok()?;
    Some((trace, span))
}

/// The trace in a `traceparent`. Later versions may say more behind what is known.
fn trace_of(text: &str) -> Option<[u8; 16]> {
    let mut parts = text.trim().split('-');
    let (version, trace) = (parts.next()?, parts.next()?);
    let (span, flags) = (parts.next()?, parts.next()?);
    let is_hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let well_formed = is_hex(version, 2)
        && version != "ff"
        && is_hex(span, 16)
        && span.bytes().any(|byte| byte != b'0')
        && is_hex(flags, 2)
        && (version != "00" || parts.next().is_none());
    let mut bytes = [0; 16];
    let read = is_hex(trace, 32) && hex::decode_to_slice(trace, &mut bytes).is_ok();
    (well_formed && read && bytes != [0; 16]).then_some(bytes)
}

/// The trace of an item: one from the event on, unless it goes on with somebody else's.
pub fn trace_id(given: Option<&str>, event: Option<EventId>, work: WorkId) -> String {
    match given {
        Some(trace) => trace.to_owned(),
        None => hex::encode(event.map_or(work.0, |event| event.0).to_bytes()),
    }
}

/// What a run goes on with: the span is the run's.
pub fn traceparent(item: &Claimed) -> String {
    let trace = trace_id(item.meta.trace.as_deref(), item.event, item.ticket.work);
    let span = span_of(&item.ticket.run_id().to_bytes());
    format!("00-{trace}-{}-01", hex::encode(span))
}

/// The id of the span of an event or a run: the half of its id that is chance.
pub fn span_of(id: &[u8; 16]) -> [u8; 8] {
    id[8..].try_into().expect("half of 16 bytes")
}

/// What its agent passes on.
pub fn passed_on(context: &Context, item: &Claimed) -> String {
    let link = Link { tenant: item.ticket.tenant, work: item.ticket.work, hops: item.meta.hops };
    context.tokens.chain(&link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_from_a_well_formed_header_and_no_other() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let read = |text: &str| trace_of(text).map(hex::encode);
        let good = format!("00-{trace}-00f067aa0ba902b7-01");
        assert_eq!(read(&good).as_deref(), Some(trace));
        assert_eq!(read(&format!("cc-{trace}-00f067aa0ba902b7-01-more")).as_deref(), Some(trace));
        let zeros = "0".repeat(32);
        for bad in [
            String::new(),
            good.to_uppercase(),
            format!("{good}-more"),
            format!("ff-{trace}-00f067aa0ba902b7-01"),
            format!("00-{zeros}-00f067aa0ba902b7-01"),
            format!("00-{trace}-0000000000000000-01"),
            format!("00-{trace}-00f067aa0ba902b7"),
            format!("00-{trace}0-00f067aa0ba902b7-01"),
            "00-zz-1-01".to_owned(),
        ] {
            assert_eq!(read(&bad), None, "{bad}");
        }
    }
}
