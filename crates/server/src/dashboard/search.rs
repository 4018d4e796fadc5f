//! One field that finds anything: an id leads to its page, other text to the inbox.

use axum::response::Response;
use url::form_urlencoded;

use super::answer::go;
use super::desk::Desk;
use crate::within::part;

/// Leads to what is looked for.
pub async fn find(desk: Desk) -> Response {
    let q = desk.parameter("q");
    let id = part(q);
    let page = match q.split_once('_').map(|(prefix, _)| prefix) {
        Some("evt") if is_published(&desk, &id).await => format!("/events/{id}"),
        Some("evt") => format!("/inbox/{id}"),
        Some("job") => format!("/jobs/{id}"),
        Some("dlv") => format!("/deliveries/{id}"),
        Some("src") => format!("/sources/{id}"),
        Some("wh") => format!("/webhooks/{id}"),
        _ if q.is_empty() => "/inbox".to_owned(),
        _ => {
            let q = form_urlencoded::Serializer::new(String::new()).append_pair("q", q).finish();
            format!("/inbox?{q}")
        }
    };
    go(&desk.to(&page))
}

async fn is_published(desk: &Desk, id: &str) -> bool {
    desk.api.open(&format!("/events/{id}"), &[]).await.is_ok()
}
