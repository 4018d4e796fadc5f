//! What an adapter says about a payload of which something is hidden.

use serde_json::Value;
use wakepost_domain::envelope::Mapped;
use wakepost_domain::redaction::{Hidden, REDACTED};
use wakepost_providers::Request;

use crate::directory::LiveSource;

/// What the request says, nothing hidden.
pub fn map_whole(source: &LiveSource, request: &Request<'_>, part: usize) -> Option<Mapped> {
    source.provider.map(request, &source.settings).ok()?.into_iter().nth(part)
}

/// What the request says without what is hidden in `data`, its payload. The adapter reads JSON again as it is shown, so
/// that it cannot tell more; of other bodies, the texts that show what is hidden go, and what was said goes in any case.
pub fn map(
    source: &LiveSource,
    request: &Request<'_>,
    part: usize,
    data: &Value,
    hidden: &Hidden,
) -> Option<Mapped> {
    let body = serde_json::from_slice::<Value>(request.body).ok();
    let mut mapped = match body.filter(|_| request.fetched.is_none()) {
        Some(body) => {
            let (body, part) = shown(body, data, part);
            let body = body.to_string();
            map_whole(source, &Request { body: body.as_bytes(), ..*request }, part)?
        }
        None => {
            let mut mapped = map_whole(source, request, part)?;
            if let Some(message) = &mut mapped.message {
                message.text = REDACTED.to_owned();
            }
            mapped
        }
    };
    hide(&mut mapped, hidden);
    Some(mapped)
}

/// The body as it is shown, and the event's place in it: of a list only the event's own element is known.
fn shown(body: Value, data: &Value, part: usize) -> (Value, usize) {
    match body {
        Value::Array(mut elements) if !data.is_array() && part < elements.len() => {
            elements[part] = data.clone();
            (elements.into(), part)
        }
        _ => (data.clone(), 0),
    }
}

/// Hides every free text that shows something hidden.
fn hide(mapped: &mut Mapped, hidden: &Hidden) {
    let actor = mapped.actor.iter_mut();
    let actor = actor.flat_map(|actor| [&mut actor.id, &mut actor.name, &mut actor.email]);
    let message = mapped.message.iter_mut();
    let (said, files): (Vec<_>, Vec<_>) = message
        .map(|message| ([&mut message.thread_id, &mut message.text], &mut message.files))
        .unzip();
    let files = files.into_iter().flatten();
    let files =
        files.flat_map(|file| [&mut file.id, &mut file.name, &mut file.media_type, &mut file.url]);
    let subject = mapped.subject.iter_mut();
    let (named, links): (Vec<_>, Vec<_>) =
        subject.map(|subject| (&mut subject.id, &mut subject.url)).unzip();
    let asked = std::iter::once(&mut mapped.provider_request_id);
    let optional = actor.chain(files).chain(links).chain(asked).flatten();
    for text in optional.chain(said.into_iter().flatten()).chain(named) {
        hidden.hide(text);
    }
}
