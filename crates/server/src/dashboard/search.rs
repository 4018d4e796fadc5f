//! One field that finds anything: an id leads to its page, other text to the inbox.

use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use serde::Deserialize;
use url::form_urlencoded;
use wakepost_domain::lease::fence_of;
use wakepost_domain::work::WorkKind;
use wakepost_domain::{RunId, Ulid, WorkId};

use super::answer::go;
use super::desk::Desk;
use super::places::page_of;
use crate::within::{List, Refused, part};

/// How many pages of jobs a run is looked for in, and how long each is.
const PAGES_MAX: usize = 8;
const PAGE: &str = "500";
/// How often one job is claimed at most that its runs are known by.
const CLAIMS_MAX: i32 = 10_000;

/// Leads to what is looked for.
pub async fn find(desk: Desk) -> Result<Response, Refused> {
    let q = desk.parameter("q");
    let id = part(q);
    let page = match q.split_once('_').map(|(prefix, _)| prefix) {
        Some("evt") if is_published(&desk, &id).await => format!("/events/{id}"),
        Some("evt") => format!("/inbox/{id}"),
        Some("run") => job_of(&desk, q).await?,
        _ if q.is_empty() => "/inbox".to_owned(),
        _ => page_of(q).unwrap_or_else(|| {
            let q = form_urlencoded::Serializer::new(String::new()).append_pair("q", q).finish();
            format!("/inbox?{q}")
        }),
    };
    Ok(go(&desk.to(&page)))
}

async fn is_published(desk: &Desk, id: &str) -> bool {
    desk.api.open(&format!("/events/{id}"), &[]).await.is_ok()
}

#[derive(Deserialize)]
struct Listed {
    id: String,
}

/// The job of a run. A run's id follows from its job's and the claim, and nothing stores the way back: it is one of the
/// jobs that were made before it began, and usually one of the latest.
async fn job_of(desk: &Desk, run: &str) -> Result<String, Refused> {
    let gone = || Refused::new(StatusCode::NOT_FOUND, "no recent job has a run of this id");
    let run: RunId = run.parse().map_err(|_| gone())?;
    let before = Ulid::from_parts(run.0.time(), u128::MAX);
    let mut cursor = Some(URL_SAFE_NO_PAD.encode(before.to_bytes()));
    for _ in 0..PAGES_MAX {
        let Some(from) = cursor else { break };
        let asked = [("limit", PAGE), ("cursor", from.as_str())];
        let jobs: List<Listed> = desk.api.get("/jobs", asked).await?;
        let is_its = |job: &&Listed| {
            WorkId::parse(&job.id, WorkKind::Job)
                .is_ok_and(|id| (1..=CLAIMS_MAX).contains(&fence_of(id, run)))
        };
        if let Some(job) = jobs.data.iter().find(is_its) {
            return Ok(format!("/jobs/{}", job.id));
        }
        cursor = jobs.next_cursor;
    }
    Err(gone())
}
