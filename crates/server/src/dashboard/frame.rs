//! What stands around every page: the rail, the tenant, the search, and what was done just before.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use askama::Template;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::Deserialize;
use wakepost_domain::Timestamp;
use wakepost_domain::access::Right;

use super::assets;
use super::desk::{self, Desk, FLASH};
use super::pieces::{Act, Command, Note};
use super::places::list_of;
use super::session::{self, Visit};
use super::{answer, icon};
use crate::within::{List, Refused, part};

/// What every page has.
pub struct Frame {
    /// The page's title.
    pub title: String,
    /// Which entry of the rail it belongs to.
    pub section: &'static str,
    pub rail: Vec<Vec<Entry>>,
    pub tenants: Vec<Tenant>,
    /// The tenant that is looked at.
    pub tenant: String,
    pub asked_tenant: Option<String>,
    pub path: String,
    /// What forms carry.
    pub csrf: String,
    pub flash: Option<String>,
    pub version: &'static str,
    pub role: String,
    pub query: String,
    /// Whether whoever signed in may operate.
    pub may_operate: bool,
    /// When the page was made.
    pub now: Timestamp,
    /// How it stays as new as the server: the address of a stream that tells when something changed, or `poll`.
    pub live: String,
    /// Where the server is, for commands.
    pub base_url: String,
    /// A fresh word for forms that make something.
    pub once: String,
    forget_flash: Option<http::HeaderValue>,
    /// Whether whoever is here may look after webhooks.
    pub may_subscribe: bool,
    /// The link that a subscriber came by.
    pub visit: Option<Visit>,
}

pub struct Entry {
    pub name: &'static str,
    pub label: &'static str,
    pub to: String,
    pub count: u64,
    pub strokes: &'static str,
}

#[derive(Deserialize)]
pub struct Tenant {
    pub slug: String,
    #[serde(default)]
    pub name: String,
}

#[derive(Deserialize)]
struct Standing {
    count: u64,
}

#[derive(Deserialize)]
struct Stats {
    tenant: String,
    states: BTreeMap<String, Standing>,
}

#[derive(Deserialize)]
struct Series {
    points: Vec<Point>,
}

#[derive(Deserialize)]
struct Point {
    dead_letters: Option<u64>,
}

/// How many tenants the switch lists; others are reached by their page.
const TENANTS_MAX: &str = "200";

impl Frame {
    /// The frame of a page. `section` is the rail's entry that it belongs to.
    pub async fn new(desk: &Desk, title: &str, section: &'static str) -> Result<Frame, Refused> {
        let (stats, tenants, dead) = tokio::try_join!(stats(desk), tenants(desk), dead(desk))?;
        let waiting = |state: &str| stats.states.get(state).map_or(0, |standing| standing.count);
        let context = &desk.dashboard.context;
        let may_administer = desk.may(Right::Administer);
        let entry = |name, label, path: &str, count| Entry {
            name,
            label,
            to: desk.to(path),
            count,
            strokes: icon::strokes(name),
        };
        let mut last = Vec::new();
        if may_administer {
            if desk.sees_all() {
                last.push(entry("tenants", "Tenants", "/tenants", 0));
            }
            last.push(entry("keys", "Keys", "/keys", 0));
            last.push(entry("audit", "Audit", "/audit", 0));
        }
        let visit = desk.session.visit.clone();
        let mut rail = vec![
            vec![
                entry("overview", "Overview", "/", 0),
                entry("inbox", "Inbox", "/inbox", 0),
                entry("jobs", "Jobs", "/jobs", waiting("held")),
                entry("approvals", "Approvals", "/approvals", waiting("awaiting_approval")),
                entry("dead", "Dead letters", "/dead-letters", dead),
            ],
            vec![
                entry("sources", "Sources", "/sources", 0),
                entry("webhooks", "Webhooks", "/webhooks", 0),
                entry("types", "Event types", "/event-types", 0),
            ],
            last,
        ];
        if visit.is_some() {
            rail = vec![vec![
                entry("webhooks", "Webhooks", "/webhooks", 0),
                entry("types", "Event types", "/event-types", 0),
            ]];
        }
        let forget_flash = desk
            .flash
            .as_ref()
            .map(|_| session::set_cookie(context, FLASH, "", std::time::Duration::ZERO));
        Ok(Frame {
            title: title.to_owned(),
            section,
            rail,
            tenants,
            tenant: stats.tenant,
            asked_tenant: desk.api.tenant.clone(),
            path: desk.path.clone(),
            csrf: desk.session.csrf.clone(),
            flash: desk.flash.clone(),
            version: assets_version(),
            role: format!("{:?}", desk.session.caller.role).to_lowercase(),
            query: desk.parameter("q").to_owned(),
            may_operate: desk.may(Right::Operate),
            now: context.now(),
            live: "poll".to_owned(),
            base_url: context.base_url.clone(),
            once: desk.once(),
            forget_flash,
            may_subscribe: desk.may(Right::Subscribe),
            visit,
        })
    }

    /// The address of a page about the same tenant.
    pub fn to(&self, path: &str) -> String {
        desk::to(path, self.asked_tenant.as_deref(), self.visit.as_ref())
    }

    /// Has the page listen to how a piece of work goes on, until that ends.
    pub fn listen_to(&mut self, work: &str) {
        self.live = self.to(&format!("/live/jobs/{}", part(work)));
    }

    /// The page again, about another tenant: a list stays a list, one thing leads to its list.
    pub fn switched(&self, slug: &str) -> String {
        desk::to(list_of(&self.path), Some(slug), None)
    }

    /// The form for a source of a provider.
    pub fn for_provider(&self, name: &str) -> String {
        self.to(&format!("/sources/new?provider={}", part(name)))
    }

    /// The address of something that can be done to one thing.
    pub fn under(&self, list: &str, id: &str, what: &str) -> String {
        self.to(&format!("/{list}/{}/{what}", part(id)))
    }

    /// A button that does something to what a page is about.
    pub fn act(&self, label: &'static str, path: &str, text: impl Into<String>) -> Act {
        Act {
            label,
            text: text.into(),
            to: self.to(path),
            csrf: self.csrf.clone(),
            note: Note::None,
            hidden: Vec::new(),
            fields: Vec::new(),
            style: "plain",
            key: "",
        }
    }

    /// A call of the API as `curl` makes it.
    pub fn curl(&self, method: &str, path: &str, body: &str) -> Command {
        let tenant =
            self.asked_tenant.as_ref().map_or(String::new(), |slug| format!("?tenant={slug}"));
        let method = if method == "GET" { String::new() } else { format!(" -X {method}") };
        let body = if body.is_empty() { String::new() } else { format!(" -d '{body}'") };
        let text = format!(
            "curl{method} \"{}/api/v1{path}{tenant}\" -H \"Authorization: Bearer $WAKEPOST_KEY\"{body}",
            self.base_url
        );
        Command::new("curl", text)
    }

    /// The same with `webhookctl`.
    pub fn ctl(&self, command: &str) -> Command {
        let tenant =
            self.asked_tenant.as_ref().map_or(String::new(), |slug| format!(" --tenant {slug}"));
        Command::new("webhookctl", format!("webhookctl {command}{tenant}"))
    }

    /// Commands for those who sign in with a key: whoever came by a link has none.
    pub fn for_operators(&self, commands: &[&str]) -> Vec<Command> {
        let commands = commands.iter().filter(|_| self.visit.is_none());
        commands.map(|command| self.ctl(command)).collect()
    }

    /// The page, as an answer.
    pub fn answer(&self, page: &impl Template) -> Response {
        let page = answer::html(StatusCode::OK, page);
        match &self.forget_flash {
            Some(cookie) => ([(header::SET_COOKIE, cookie.clone())], page).into_response(),
            None => page,
        }
    }
}

/// How the queue stands, which a subscriber has no part in.
async fn stats(desk: &Desk) -> Result<Stats, Refused> {
    match &desk.session.visit {
        Some(visit) => Ok(Stats { tenant: visit.tenant.clone(), states: BTreeMap::new() }),
        None => desk.api.get("/stats", &[]).await,
    }
}

/// How many dead letters nobody has dealt with, as it was counted last: within the last minute or two.
async fn dead(desk: &Desk) -> Result<u64, Refused> {
    if desk.session.visit.is_some() {
        return Ok(0);
    }
    let series: Series = desk.api.get("/series", [("minutes", "3")]).await?;
    Ok(series.points.iter().rev().find_map(|point| point.dead_letters).unwrap_or_default())
}

async fn tenants(desk: &Desk) -> Result<Vec<Tenant>, Refused> {
    if !desk.sees_all() || !desk.may(Right::Administer) {
        return Ok(Vec::new());
    }
    let list: List<Tenant> = desk.api.get("/tenants", &[("limit", TENANTS_MAX)]).await?;
    Ok(list.data)
}

/// Names the assets of this build, so that browsers keep them and never mix two builds.
pub fn assets_version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(assets::version);
    &VERSION
}
