//! The dashboard's doors: sessions, forms, tenants. What its pages look like and do is driven in a browser
//! (`cargo xtask browser`).

use std::time::{Duration, SystemTime};

use http::{HeaderMap, Method};
use serde_json::json;
use wakepost_domain::TenantId;
use wakepost_tests::{
    Answer, Api, Database, Gateway, Http, Lease, Receiver, Reply, on_both, until,
};

on_both!(
    pages_need_a_session_and_a_session_ends_with_its_key,
    a_form_needs_the_token_of_its_session_and_comes_from_our_own_pages,
    a_page_shows_nothing_of_other_tenants,
    what_is_foreign_is_text,
    many_wrong_keys_are_slowed_down,
    a_page_that_refuses_names_its_request,
    a_path_that_leads_nowhere_is_a_page_for_those_who_signed_in,
    a_form_changes_no_setting_that_was_left_as_it_is,
    a_tenant_can_be_changed_though_the_server_keeps_less_than_it_was_given,
    a_form_undoes_nothing_that_others_changed_while_it_was_open,
    a_command_to_copy_is_about_the_tenant_that_is_looked_at,
    approvals_go_on_on_further_pages,
    all_work_has_a_page_that_lists_and_the_search_lead_to,
    what_ends_deliveries_says_how_many,
    an_event_that_waits_for_a_person_offers_what_that_person_can_decide,
    chosen_dead_letters_are_dealt_with_after_it_said_how_many,
    a_button_that_is_pressed_after_the_session_ended_leads_back_to_its_page,
    the_tenant_can_be_switched_on_every_page,
    an_alert_that_fires_stays_in_sight_and_leads_to_what_it_is_about,
    what_a_job_published_is_on_its_time_line_and_leads_back,
    work_that_goes_on_is_listened_to_until_it_ends,
    where_nothing_was_delivered_a_command_says_what_would,
);

const PAGES: [&str; 16] = [
    "/",
    "/inbox",
    "/jobs",
    "/approvals",
    "/dead-letters",
    "/sources",
    "/sources/new",
    "/webhooks",
    "/webhooks/new",
    "/event-types",
    "/events",
    "/tenants",
    "/keys",
    "/audit",
    "/live/inbox",
    "/live/jobs/job_01ARZ3NDEKTSV4RRFFQ69G5FAV",
];

/// Somebody with a browser.
struct Reader<'a> {
    gateway: &'a Gateway,
    cookie: String,
}

impl<'a> Reader<'a> {
    async fn sign_in(gateway: &'a Gateway, key: &str) -> Reader<'a> {
        let form = format!("to=/jobs&key={key}");
        let answer = post(gateway, "/sign-in", HeaderMap::new(), &form).await.is(303);
        assert_eq!(answer.header("location"), "/jobs");
        let cookie = answer.header("set-cookie").to_owned();
        for flag in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
            assert!(cookie.contains(flag), "{cookie}");
        }
        assert!(!cookie.contains(key), "the key itself is not in it");
        let cookie = cookie.split(';').next().expect("a cookie").to_owned();
        Reader { gateway, cookie }
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("cookie", self.cookie.parse().expect("a value"));
        headers
    }

    async fn open(&self, path: &str) -> Answer {
        self.gateway.ask(Method::GET, path, self.headers()).await
    }

    async fn page(&self, path: &str) -> String {
        String::from_utf8(self.open(path).await.is(200).body.to_vec()).expect("text")
    }

    /// What its forms carry.
    async fn token(&self) -> String {
        let page = self.page("/jobs").await;
        let rest = page.split("name=\"csrf\" value=\"").nth(1).expect("a token");
        rest.split('"').next().expect("its end").to_owned()
    }

    async fn send(&self, path: &str, form: &str) -> Answer {
        post(self.gateway, path, self.headers(), form).await
    }

    /// Sends the form of a page as a browser would, with some of its fields filled in anew.
    async fn fill(&self, page: &str, changed: &[(&str, &str)]) -> Answer {
        self.submit(page, "name=\"name\"", changed).await
    }

    /// Sends the form of a page that has this in it.
    async fn submit(&self, page: &str, mark: &str, changed: &[(&str, &str)]) -> Answer {
        let (to, mut fields) = form_on(page, mark);
        for (name, value) in changed {
            let field = fields.iter_mut().find(|(known, _)| known == name).expect("a field of it");
            (*value).clone_into(&mut field.1);
        }
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        self.send(&to, &form).await
    }
}

/// Where the first form of a page goes that has this in it, and what its fields hold.
fn form_on(page: &str, mark: &str) -> (String, Vec<(String, String)>) {
    let form = page.split("<form ").find(|form| form.contains(mark)).expect("a form");
    let form = form.split("</form>").next().expect("its end");
    let attribute = |tag: &str, name: &str| {
        let rest = tag.split(&format!("{name}=\"")).nth(1)?;
        Some(rest.split('"').next()?.to_owned())
    };
    let tags = form.split("<input ").skip(1).map(|tag| tag.split('>').next().expect("its end"));
    let mut fields: Vec<_> = tags
        .filter(|tag| !tag.contains("type=\"checkbox\""))
        .map(|tag| {
            let name = attribute(&format!(" {tag}"), " name").expect("a name");
            (name, attribute(tag, " value").unwrap_or_default())
        })
        .collect();
    for select in form.split("<select ").skip(1) {
        let options = select.split("<option ").skip(1);
        let chosen = options.clone().find(|option| option.contains(" selected"));
        let chosen = chosen.or_else(|| options.clone().next()).expect("an option");
        let name = attribute(&format!(" {select}"), " name").expect("a name");
        // Without a value of its own it stands for its text.
        let (tag, text) = chosen.split_once('>').expect("its text");
        let text = text.split('<').next().expect("its end").to_owned();
        fields.push((name, attribute(&format!(" {tag}"), " value").unwrap_or(text)));
    }
    (attribute(form, "action").expect("where it goes"), fields)
}

async fn post(gateway: &Gateway, path: &str, mut headers: HeaderMap, form: &str) -> Answer {
    let kind = "application/x-www-form-urlencoded".parse().expect("a value");
    headers.insert("content-type", kind);
    let url = format!("{}{path}", gateway.url());
    Http::default().send(Method::POST, &url, headers, form.to_owned()).await
}

async fn pages_need_a_session_and_a_session_ends_with_its_key(database: Database) {
    let gateway = Gateway::start(database).await;
    for path in PAGES {
        let answer = gateway.ask(Method::GET, path, HeaderMap::new()).await.is(401);
        assert!(String::from_utf8_lossy(&answer.body).contains("Sign in"), "{path}");
    }
    let mut forged = HeaderMap::new();
    forged.insert("cookie", "wakepost_session=wps_AAAA".parse().expect("a value"));
    gateway.ask(Method::GET, "/inbox", forged).await.is(401);

    let made = gateway.admin().post("/keys", json!({"name": "me", "role": "admin"})).await.is(201);
    let reader = Reader::sign_in(&gateway, &made.text("key")).await;
    for path in PAGES.iter().filter(|path| !path.starts_with("/live/")) {
        let answer = reader.open(path).await.is(200);
        let policy = answer.header("content-security-policy");
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("cache-control"), "no-store");
    }
    reader.open("/live/inbox?for_s=0").await.is(200);
    gateway.admin().delete(&format!("/keys/{}", made.text("id"))).await.is(204);
    reader.open("/inbox").await.is(401);

    for role in ["publisher", "worker"] {
        let key = gateway.admin().role(role, "default").await;
        let form = format!("key={}", key.key());
        post(&gateway, "/sign-in", HeaderMap::new(), &form).await.is(401);
    }
}

async fn a_form_needs_the_token_of_its_session_and_comes_from_our_own_pages(database: Database) {
    let gateway = Gateway::start(database).await;
    let reader = Reader::sign_in(&gateway, gateway.admin_key()).await;
    let other = Reader::sign_in(&gateway, gateway.admin().role("operator", "*").await.key()).await;
    let job = gateway.admin().post("/jobs", json!({"kind": "k", "input": {}})).await.is(201);
    let path = format!("/jobs/{}/cancel", job.text("id"));
    let token = reader.token().await;

    reader.send(&path, "").await.is(403);
    reader.send(&path, &format!("csrf={}", other.token().await)).await.is(403);
    post(&gateway, &path, HeaderMap::new(), &format!("csrf={token}")).await.is(401);
    let mut elsewhere = reader.headers();
    elsewhere.insert("sec-fetch-site", "cross-site".parse().expect("a value"));
    post(&gateway, &path, elsewhere, &format!("csrf={token}")).await.is(403);
    let status = || async {
        gateway.admin().get(&format!("/jobs/{}", job.text("id"))).await.is(200).text("status")
    };
    assert_eq!(status().await, "pending", "nothing of that did anything");

    reader.send(&path, &format!("csrf={token}&note=enough")).await.is(303);
    assert_eq!(status().await, "cancelled");
    let viewer = Reader::sign_in(&gateway, gateway.admin().role("viewer", "*").await.key()).await;
    let form = format!("csrf={}&note=x", viewer.token().await);
    viewer.send(&format!("/jobs/{}/replay", job.text("id")), &form).await.is(403);
}

async fn a_page_shows_nothing_of_other_tenants(database: Database) {
    let gateway = Gateway::start(database).await;
    let source = gateway.with_source("github").await;
    let event = gateway.send(&source, &source.event("e-1")).await.is(202);
    let (event, job) = (event.text("event_id"), event.text("job_id"));
    let acme = gateway.admin().tenant("acme").await;
    let key =
        acme.post("/keys", json!({"name": "them", "role": "admin"})).await.is(201).text("key");
    let reader = Reader::sign_in(&gateway, &key).await;
    for path in
        [format!("/inbox/{event}"), format!("/jobs/{job}"), format!("/sources/{}", source.id)]
    {
        reader.open(&path).await.is(404);
        reader.open(&format!("{path}?tenant=default")).await.is(404);
    }
    reader.open("/tenants").await.is(403);
    for path in ["/inbox", "/jobs", "/inbox?tenant=default"] {
        let page = reader.page(path).await;
        assert!(!page.contains(&event) && !page.contains(&job), "{path}");
    }
    let all = Reader::sign_in(&gateway, gateway.admin_key()).await;
    assert!(all.page("/inbox").await.contains(&event));
    assert!(!all.page("/inbox?tenant=acme").await.contains(&event));
    all.open("/inbox?tenant=nobody").await.is(404);
}

async fn what_is_foreign_is_text(database: Database) {
    let gateway = Gateway::start(database).await;
    let source = gateway.with_source("github").await;
    let body =
        r#"{"action":"opened","issue":{"number":1,"title":"</pre><script>alert(1)</script>"}}"#;
    let event = gateway.send(&source, &source.event("e-1").with_body(body)).await.is(202);
    let reader = Reader::sign_in(&gateway, gateway.admin_key()).await;
    for show in ["pretty", "raw", "headers", "envelope"] {
        let path = format!("/inbox/{}?show={show}", event.text("event_id"));
        let page = reader.page(&path).await;
        assert!(!page.contains("<script>alert"), "{show}");
        assert_eq!(page.contains("&#60;script&#62;alert(1)"), show != "headers", "{show}");
    }
    let raw = reader.open(&format!("/inbox/{}/raw", event.text("event_id"))).await.is(200);
    assert_eq!(raw.body, body);
    assert_eq!(raw.header("content-type"), "application/octet-stream");
    assert!(raw.header("content-disposition").starts_with("attachment"));
}

async fn many_wrong_keys_are_slowed_down(database: Database) {
    let gateway = Gateway::start(database).await;
    let mut last = String::new();
    for number in 0..25 {
        let form = format!("key=wpk_wrong_{number}");
        let answer = post(&gateway, "/sign-in", HeaderMap::new(), &form).await.is(401);
        last = String::from_utf8_lossy(&answer.body).into_owned();
    }
    assert!(last.contains("Too many wrong keys"), "{last}");
    Reader::sign_in(&gateway, gateway.admin_key()).await;
}

async fn a_form_changes_no_setting_that_was_left_as_it_is(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let settings = json!({"header": "Authorization", "algorithm": "token", "prefix": "Bearer "});
    let source = api.source_with("generic", json!({"settings": settings})).await;
    let path = format!("/sources/{}", source.id);
    let reader = Reader::sign_in(&gateway, gateway.admin_key()).await;
    let page = reader.page(&format!("{path}/edit")).await;
    reader.fill(&page, &[("name", "Billing")]).await.is(303);
    let kept = api.get(&path).await.is(200).json();
    assert_eq!((&kept["name"], &kept["settings"]), (&json!("Billing"), &settings));
    // One that is filled in counts as it was typed, and one of blanks alone as left empty.
    let page = reader.page(&format!("{path}/edit")).await;
    reader.fill(&page, &[("setting.prefix", "Token "), ("setting.header", " ")]).await.is(303);
    let changed = json!({"algorithm": "token", "prefix": "Token "});
    assert_eq!(api.get(&path).await.is(200).json()["settings"], changed);

    let page = reader.page("/sources/new?provider=generic").await;
    let given = [("name", "New"), ("setting.prefix", "Bearer "), ("setting.separator", " ")];
    reader.fill(&page, &given).await.is(200);
    let made = api.get("/sources").await.is(200).json();
    let made = made["data"].as_array().expect("a list").iter().find(|each| each["name"] == "New");
    assert_eq!(made.expect("the new one")["settings"], json!({"prefix": "Bearer "}));
}

async fn a_form_undoes_nothing_that_others_changed_while_it_was_open(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let settings = json!({"header": "X-Signature", "prefix": "v1="});
    let source = api.source_with("generic", json!({"name": "One", "settings": settings})).await;
    let path = format!("/sources/{}", source.id);
    let reader = Reader::sign_in(&gateway, gateway.admin_key()).await;
    let edit = format!("{path}/edit");
    let page = reader.page(&edit).await;
    let theirs =
        json!({"filter": ["a.*"], "mode": "draft", "name": "Two", "settings": {"prefix": "v2="}});
    api.patch(&path, theirs).await.is(200);
    // What they changed and this form did not, stays.
    reader.fill(&page, &[("setting.header", "X-Sign")]).await.is(303);
    let now = api.get(&path).await.is(200).json();
    assert_eq!(now["settings"], json!({"header": "X-Sign", "prefix": "v2="}));
    assert_eq!((&now["filter"], &now["mode"]), (&json!(["a.*"]), &json!("draft")));
    // What both changed is not overwritten, and nothing else is saved beside it.
    for (name, value) in [("name", "Three"), ("setting.prefix", "v3="), ("filter", "b.*")] {
        let both = [(name, value), ("setting.header", "X-Other")];
        let refused = reader.fill(&page, &both).await.is(409);
        let said = String::from_utf8_lossy(&refused.body).into_owned();
        assert!(said.contains("while the form was open"), "{said}");
    }
    assert_eq!(api.get(&path).await.is(200).json(), now);
    let page = reader.page(&edit).await;
    let last = [("name", "Three"), ("setting.prefix", ""), ("filter", ""), ("mode", "auto")];
    reader.fill(&page, &last).await.is(303);
    let now = api.get(&path).await.is(200).json();
    assert_eq!((&now["name"], &now["mode"]), (&json!("Three"), &json!("auto")));
    assert_eq!((&now["settings"], &now["filter"]), (&json!({"header": "X-Sign"}), &json!([])));
}

async fn a_tenant_can_be_changed_though_the_server_keeps_less_than_it_was_given(
    database: Database,
) {
    let setup = Gateway::setup(database).file("[retention]\nreceipts_days = 30\n");
    let mut gateway = setup.start().await;
    let ages = json!({"receipts_days": 20, "bodies_days": 5});
    let acme = json!({"slug": "acme", "name": "Acme", "retention": ages});
    gateway.admin().post("/tenants", acme).await.is(201);
    let lowered = "[retention]\nreceipts_days = 10\n";
    std::fs::write(gateway.directory().join("wakepost.toml"), lowered).expect("a file");
    gateway.restart().await;
    let api = gateway.admin();
    let reader = Reader::sign_in(&gateway, gateway.admin_key()).await;
    let token = reader.token().await;
    let form = |receipts: u32| {
        format!("csrf={token}&name=Acme+Inc&weight=2&bodies_days=5&receipts_days={receipts}")
    };
    reader.send("/tenants/acme", &form(20)).await.is(303);
    let acme = api.get("/tenants/acme").await.is(200).json();
    assert_eq!((&acme["name"], &acme["weight"]), (&json!("Acme Inc"), &json!(2)));
    assert_eq!(acme["retention"], json!({"receipts_days": 20, "bodies_days": 5}));
    reader.send("/tenants/acme", &form(21)).await.is(422);
    reader.send("/tenants/acme", &form(9)).await.is(303);
    reader.send("/tenants/acme", &form(20)).await.is(422);
}

async fn a_page_that_refuses_names_its_request(database: Database) {
    let gateway = Gateway::start(database).await;
    let reader = Reader::sign_in(&gateway, gateway.admin_key()).await;
    let token = reader.token().await;
    let refused = [
        reader.send("/tenants", "csrf=wrong&slug=acme").await.is(403),
        reader.send("/tenants/default", &format!("csrf={token}&weight=many")).await.is(422),
        reader.open("/jobs/job_none").await.is(404),
        reader.open("/p/no-link").await.is(404),
    ];
    for answer in refused {
        let id = answer.header("x-request-id").to_owned();
        let page = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(id.starts_with("req_") && page.contains(&format!("<code>{id}</code>")), "{page}");
    }
}

async fn a_path_that_leads_nowhere_is_a_page_for_those_who_signed_in(database: Database) {
    let gateway = Gateway::start(database).await;
    let reader = Reader::sign_in(&gateway, gateway.admin_key()).await;
    let browser = |mut headers: HeaderMap| {
        let accepted = "text/html,application/xhtml+xml,*/*;q=0.8";
        headers.insert("accept", accepted.parse().expect("a value"));
        headers
    };
    let ask = async |path: &str, headers| gateway.ask(Method::GET, path, headers).await;
    let answer = ask("/nowhere", browser(reader.headers())).await.is(404);
    assert!(answer.header("content-type").starts_with("text/html"));
    let page = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(page.contains("/dead-letters") && page.contains("/sign-out"), "in the frame: {page}");
    assert!(page.contains(answer.header("x-request-id")), "{page}");
    // A program, the API's own paths, and strangers are answered as before.
    let answers = [
        ask("/nowhere", reader.headers()).await.is(404),
        ask("/api/v1/nowhere", browser(reader.headers())).await.is(401),
        ask("/nowhere", browser(HeaderMap::new())).await.is(404),
        gateway.admin().get("/nowhere").await.is(404),
    ];
    for answer in answers {
        assert_eq!(answer.text("request_id"), answer.header("x-request-id"));
    }
}

async fn a_command_to_copy_is_about_the_tenant_that_is_looked_at(database: Database) {
    let gateway = Gateway::start(database).await;
    gateway.admin().tenant("acme").await;
    let reader = Reader::sign_in(&gateway, gateway.admin_key()).await;
    for path in [
        "/",
        "/inbox",
        "/jobs",
        "/approvals",
        "/dead-letters",
        "/sources",
        "/webhooks",
        "/event-types",
        "/events",
    ] {
        for (path, named) in [(path.to_owned(), false), (format!("{path}?tenant=acme"), true)] {
            let page = reader.page(&path).await;
            let copied = page.split("data-copy=\"").skip(1);
            let copied: Vec<&str> =
                copied.map(|rest| rest.split('"').next().expect("its end")).collect();
            assert!(!copied.is_empty(), "{path} has a command to copy");
            for command in copied {
                let names = command.contains("--tenant acme") || command.contains("?tenant=acme");
                assert_eq!(names, named, "{path}: {command}");
            }
        }
    }
}

async fn approvals_go_on_on_further_pages(database: Database) {
    const ASKED: usize = 27;
    let gateway = Gateway::start(database).await;
    let worker = gateway.worker("w");
    for number in 0..ASKED {
        let job = json!({"kind": "ask", "input": {}, "mode": "draft"});
        gateway.admin().post("/jobs", job).await.is(201);
        let effect = json!({"key": format!("mail:{number}"), "description": "send it"});
        let asked = worker.wait().await.post("effects", effect).await.is(200);
        assert_eq!(asked.text("decision"), "needs_approval");
    }
    let reader = Reader::sign_in(&gateway, gateway.admin_key()).await;
    let first = reader.page("/approvals").await;
    let rest = first.split("href=\"/approvals?cursor=").nth(1).expect("a way on");
    let cursor = rest.split('"').next().expect("its end");
    let second = reader.page(&format!("/approvals?cursor={cursor}")).await;
    assert!(!second.contains("Load more"));
    let shown = |number: usize| format!("<code>mail:{number}</code>");
    for number in 0..ASKED {
        let times = [&first, &second].iter().filter(|page| page.contains(&shown(number))).count();
        assert_eq!(times, 1, "{number}");
    }
}

/// A job that failed for good, and the callback that told nobody of it.
async fn dead_job_and_callback(gateway: &Gateway, api: &Api) -> (String, String) {
    let receiver = Receiver::start(|_| Reply::new(410, "nobody is here")).await;
    let fields = json!({"callback_url": receiver.url("/gone"), "max_attempts": 1});
    let source = api.source_with("stripe", fields).await;
    let job = gateway.send(&source, &source.event("e-1")).await.is(202).text("job_id");
    let lease = gateway.worker("w").wait().await;
    lease.post("fail", json!({"error": "no", "retryable": false})).await.is(200);
    let callback = until("the dead callback", || async {
        let dead = api.get("/dead-letters?kind=callback").await.is(200).json();
        Some(dead["data"].as_array()?.first()?["id"].as_str()?.to_owned())
    });
    (job, callback.await)
}

async fn all_work_has_a_page_that_lists_and_the_search_lead_to(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let (job, callback) = dead_job_and_callback(&gateway, &api).await;
    let reader = Reader::sign_in(&gateway, gateway.admin_key()).await;
    let list = reader.page("/dead-letters").await;
    for id in [&job, &callback] {
        assert!(list.contains(&format!("href=\"/jobs/{id}\"")), "{id}");
        assert!(reader.page(&format!("/jobs/{id}")).await.contains("Given up."), "{id}");
    }
    let replay = json!({"filter": {"kind": "callback"}, "note": "again"});
    let begun = api.post("/dead-letters/replay", replay).await.is(202).text("operation_id");
    until("the operation", || async {
        let page = reader.page(&format!("/operations/{begun}")).await;
        page.contains("Through.").then_some(())
    })
    .await;
    let run = api.show_job(&job).await["runs"][0]["id"].as_str().expect("a run").to_owned();
    for (looked_for, page) in [
        (&job, format!("/jobs/{job}")),
        (&callback, format!("/jobs/{callback}")),
        (&run, format!("/jobs/{job}")),
        (&begun, format!("/operations/{begun}")),
    ] {
        let answer = reader.open(&format!("/search?q={looked_for}")).await.is(303);
        assert_eq!(answer.header("location"), page, "{looked_for}");
    }
    reader.open("/search?q=run_01ARZ3NDEKTSV4RRFFQ69G5FAV").await.is(404);
    let trail = reader.page("/audit").await;
    assert!(trail.contains(&format!("href=\"/operations/{begun}\"")), "what was done is a link");
}

async fn what_ends_deliveries_says_how_many(database: Database) {
    let gateway = with_hooks(database).await;
    let api = gateway.admin();
    let receiver = Receiver::start(|_| Reply::new(200, "")).await;
    let fields = json!({"url": receiver.url("/in"), "events": ["order.*"]});
    let webhook = api.post("/webhooks", fields).await.is(201).text("id");
    api.post(&format!("/webhooks/{webhook}/pause"), json!({})).await.is(200);
    for number in 0..2 {
        api.post("/events", json!({"type": "order.created", "data": {"n": number}})).await.is(202);
    }
    let reader = Reader::sign_in(&gateway, gateway.admin_key()).await;
    let page = format!("/webhooks/{webhook}");
    let shown = until("both deliveries", || async {
        let shown = reader.page(&page).await;
        shown.contains("Cancelled with it: 2 deliveries that wait.").then_some(shown)
    })
    .await;
    assert!(shown.contains("It has 0 dead letters in all."));
    api.post(&format!("/webhooks/{webhook}/resume"), json!({})).await.is(200);
    until("that none waits", || async {
        let shown = reader.page(&page).await;
        shown.contains("Given up, as dead letters: 0 deliveries that wait.").then_some(())
    })
    .await;
}

/// An event whose job is over its source's budget, and held for that.
async fn over_budget(gateway: &Gateway) -> (String, String) {
    let budget = json!({"budget": {"runs_per_day": 1, "over": "refuse"}});
    let source = gateway.admin().source_with("stripe", budget).await;
    let worker = gateway.worker("spender");
    // Usually the second; another one if a day begins meanwhile.
    for number in 0..20 {
        let sent = gateway.send(&source, &source.event(&format!("b-{number}"))).await.is(202);
        let ask = json!({"max": 9, "wait_s": 1, "sources": [source.id]});
        for lease in worker.lease_many(ask).await {
            lease.complete(json!(1)).await.is(200);
        }
        let event = sent.text("event_id");
        if gateway.admin().show_event(&event).await["status"] == "held" {
            return (event, sent.text("job_id"));
        }
    }
    panic!("nothing was over the budget");
}

async fn an_event_that_waits_for_a_person_offers_what_that_person_can_decide(database: Database) {
    let gateway = Gateway::start(database).await;
    let (api, worker) = (gateway.admin(), gateway.worker("w"));
    let reader = Reader::sign_in(&gateway, gateway.admin_key()).await;
    let viewer = Reader::sign_in(&gateway, api.role("viewer", "*").await.key()).await;
    let offers = async |event: &str, wanted: &[String]| {
        let path = format!("/inbox/{event}");
        let page = reader.page(&path).await;
        assert!(!page.contains(&format!("{path}/replay")), "what waits cannot be replayed: {page}");
        for action in wanted {
            assert!(page.contains(&format!("action=\"{action}\"")), "{action}: {page}");
        }
        let seen = viewer.page(&path).await;
        assert!(wanted.iter().all(|action| !seen.contains(action.as_str())), "{seen}");
        page
    };
    let back = |answer: Answer, event: &str| {
        assert_eq!(answer.is(303).header("location"), format!("/inbox/{event}"));
    };

    // Nobody knows what became of an effect.
    let source = gateway.with_source("github").await;
    let sent = gateway.send(&source, &source.event("e-1")).await.is(202);
    let (event, job) = (sent.text("event_id"), sent.text("job_id"));
    let first = worker.wait().await;
    first.begin("charge").await.is(200);
    first.post("fail", json!({"error": "cut off", "retry_after_s": 0})).await.is(200);
    assert_eq!(worker.wait().await.begin("charge").await.is(200).text("decision"), "in_doubt");
    let resolve = format!("/jobs/{job}/effects/charge/resolve");
    let page = offers(&event, &[resolve.clone(), format!("/jobs/{job}/cancel")]).await;
    assert!(
        page.contains(&format!("/sources/{}\">github</a>", source.id)),
        "by its provider: {page}"
    );
    back(reader.submit(&page, &resolve, &[("note", "it is on the bill")]).await, &event);
    assert_eq!(api.show_job(&job).await["effects"][0]["state"], "committed");
    worker.wait().await.complete(json!(1)).await.is(200);
    assert!(
        reader.page(&format!("/inbox/{event}")).await.contains(&format!("/inbox/{event}/replay"))
    );

    // It is held for another reason.
    let (event, job) = over_budget(&gateway).await;
    let release = format!("/jobs/{job}/release");
    let page = offers(&event, std::slice::from_ref(&release)).await;
    back(reader.submit(&page, &release, &[("note", "this one matters")]).await, &event);
    assert_ne!(api.show_job(&job).await["status"], "held");

    // The job is done, and what it said is to be approved.
    let draft = json!({"mode": "draft", "settings": {"bot_token": "7007:AAE"}});
    let source = api.source_with("telegram", draft).await;
    gateway.send_request(&source.sample("4711")).await;
    let lease = worker.wait_with(json!({"sources": [source.id]})).await;
    let event = lease.job["envelope"]["event_id"].as_str().expect("an event").to_owned();
    lease.post("complete", json!({"reply": "three are open"})).await.is(200);
    let reply = until("the reply waits", || async {
        let work = api.show_event(&event).await["work"].clone();
        let waits = |work: &&serde_json::Value| work["status"] == "awaiting_approval";
        Some(work.as_array()?.iter().find(waits)?["id"].as_str()?.to_owned())
    })
    .await;
    let [approve, reject] = ["approve", "reject"].map(|word| format!("/jobs/{reply}/{word}"));
    let page = offers(&event, &[approve, reject.clone()]).await;
    assert!(page.contains("three are open"), "what is decided on is shown: {page}");
    back(reader.submit(&page, &reject, &[("note", "there are four")]).await, &event);
    assert_eq!(api.show_job(&reply).await["status"], "cancelled");
}

async fn chosen_dead_letters_are_dealt_with_after_it_said_how_many(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let mut dead = Vec::new();
    for _ in 0..5 {
        dead.push(api.job().await);
        let failed = json!({"error": "no", "retryable": false});
        gateway.worker("w").wait().await.post("fail", failed).await.is(200);
    }
    let left = async || {
        let rows = api.list("/dead-letters").await.into_iter();
        rows.rev().map(|row| row["id"].as_str().expect("an id").to_owned()).collect::<Vec<_>>()
    };
    let reader = Reader::sign_in(&gateway, gateway.admin_key()).await;
    let token = reader.token().await;
    let choose = async |what: &str, ids: &[String]| {
        let ids: String = ids.iter().map(|id| format!("&id={id}")).collect();
        let form = format!("csrf={token}&what={what}&note=mended&scope=same{ids}");
        reader.send("/dead-letters?kind=job", &form).await
    };
    let text = |answer: Answer| String::from_utf8(answer.body.to_vec()).expect("text");
    let confirm = async |page: &str| {
        let begun = reader.submit(page, "name=\"sure\"", &[]).await.is(303);
        let path = begun.header("location").to_owned();
        assert!(path.starts_with("/operations/op_"), "{path}");
        until("it is through", async || {
            let shown = api.get(&path).await.is(200).json();
            let counts = (shown["done"].clone(), shown["failed"].clone());
            (shown["status"] == "succeeded").then_some(counts)
        })
        .await
    };

    let page = text(choose("replay", &dead[..3]).await.is(200));
    assert!(page.contains("Replay 3 dead letters?") && !page.contains("any more"), "{page}");
    assert_eq!(left().await, dead, "nothing is done before it is confirmed");
    // One of them is dealt with meanwhile: that stops no other.
    api.post(&format!("/dead-letters/{}/replay", dead[1]), json!({"note": "me"})).await.is(202);
    let again = text(choose("replay", &dead[..3]).await.is(200));
    assert!(again.contains("Replay 2 dead letters?"), "{again}");
    assert!(again.contains("1 of the 3 that were chosen is no dead letter any more"), "{again}");
    assert_eq!(confirm(&page).await, (json!(2), json!(0)));
    assert_eq!(left().await, dead[3..]);

    let export = choose("export", &dead[3..4]).await.is(200);
    assert!(export.header("content-disposition").starts_with("attachment"));
    let lines = text(export);
    assert!(lines.lines().count() == 1 && lines.contains(&dead[3]), "{lines}");
    assert_eq!(left().await, dead[3..]);

    let page = text(choose("purge", &dead[3..4]).await.is(200));
    assert!(
        page.contains("Purge 1 dead letter?") && page.contains("cannot be taken back"),
        "{page}"
    );
    assert_eq!(confirm(&page).await, (json!(1), json!(0)));
    assert_eq!(left().await, dead[4..]);
    let page = text(choose("purge", &dead[3..4]).await.is(200));
    assert!(page.contains("Nothing that was chosen is a dead letter any more"), "{page}");

    choose("replay", &[]).await.is(422);
    choose("shred", &dead).await.is(404);
    choose("purge", &vec![dead[4].clone(); 501]).await.is(422);
    assert_eq!(left().await, dead[4..]);
}

async fn a_button_that_is_pressed_after_the_session_ended_leads_back_to_its_page(
    database: Database,
) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let source = gateway.with_source("github").await;
    let sent = gateway.send(&source, &source.event("e-1")).await.is(202);
    let (event, job) = (sent.text("event_id"), sent.text("job_id"));
    let webhook = json!({"mode": "pull", "events": ["order.*"]});
    let webhook = api.post("/webhooks", webhook).await.is(201).text("id");
    let reader = Reader::sign_in(&gateway, gateway.admin_key()).await;
    for (action, page) in [
        (format!("/inbox/{event}/replay"), format!("/inbox/{event}")),
        (format!("/jobs/{job}/cancel"), format!("/jobs/{job}")),
        (format!("/jobs/{job}/effects/a%2Fb/resolve"), format!("/jobs/{job}")),
        (
            format!("/sources/{}/test?tenant=default", source.id),
            format!("/sources/{}?tenant=default", source.id),
        ),
        (format!("/webhooks/{webhook}/test"), format!("/webhooks/{webhook}")),
        ("/tenants/default".to_owned(), "/tenants".to_owned()),
        ("/keys/key_1/revoke".to_owned(), "/keys".to_owned()),
        ("/dead-letters?kind=job".to_owned(), "/dead-letters?kind=job".to_owned()),
        ("/sign-out".to_owned(), "/".to_owned()),
    ] {
        let refused = post(&gateway, &action, HeaderMap::new(), "what=replay").await.is(401);
        let shown = String::from_utf8_lossy(&refused.body).into_owned();
        assert!(shown.contains("nothing was done"), "{action}: {shown}");
        let key = [("key", gateway.admin_key())];
        let answer = reader.submit(&shown, "name=\"to\"", &key).await.is(303);
        assert_eq!(answer.header("location"), page, "{action}");
        reader.open(&page).await.is(200);
        // Opened like a page, as by a reload, it leads there too.
        if action != page {
            assert_eq!(reader.open(&action).await.is(303).header("location"), page, "{action}");
        }
    }
    let link = api.post("/portal-links", json!({})).await.is(201).text("url");
    let link = link[link.find("/p/").expect("a portal's address")..].to_owned();
    let opened = reader.open(&format!("{link}/webhooks/{webhook}/test")).await.is(303);
    assert_eq!(opened.header("location"), format!("{link}/webhooks/{webhook}"));
    let answer = gateway.ask(Method::PUT, "/inbox", reader.headers()).await.is(405);
    assert!(String::from_utf8_lossy(&answer.body).contains("Not possible here"));
}

async fn the_tenant_can_be_switched_on_every_page(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    api.tenant("acme").await;
    let source = gateway.with_source("github").await;
    let sent = gateway.send(&source, &source.event("e-1")).await.is(202);
    let webhook = json!({"mode": "pull", "events": ["order.*"]});
    let webhook = api.post("/webhooks", webhook).await.is(201).text("id");
    api.post("/event-types", json!({"name": "order.made"})).await.is(201);
    let event = api.post("/events", json!({"type": "order.made", "data": {}})).await.is(202);
    let delivery = api.list(&format!("/webhooks/{webhook}/deliveries")).await.remove(0);
    let all = json!({"filter": {}, "note": "how many?", "dry_run": true});
    let operation = api.post("/dead-letters/replay", all).await.is(202).text("operation_id");
    let things = [
        format!("/inbox/{}", sent.text("event_id")),
        format!("/jobs/{}", sent.text("job_id")),
        format!("/sources/{}", source.id),
        format!("/sources/{}/edit", source.id),
        format!("/webhooks/{webhook}"),
        format!("/deliveries/{}", delivery["id"].as_str().expect("an id")),
        format!("/operations/{operation}"),
        format!("/events/{}", event.text("id")),
        "/event-types/order.made".to_owned(),
        "/no-such-page".to_owned(),
    ];
    let reader = Reader::sign_in(&gateway, gateway.admin_key()).await;
    let lists =
        PAGES.iter().filter(|path| !path.starts_with("/live/")).map(|path| (*path).to_owned());
    for path in lists.chain(things) {
        let mut headers = reader.headers();
        headers.insert("accept", "text/html".parse().expect("a value"));
        let answer = gateway.ask(Method::GET, &path, headers).await;
        let page = String::from_utf8_lossy(&answer.body).into_owned();
        let switch = page.split("class=\"switch\"").nth(1).expect("the switch");
        let switch = switch.split("</details>").next().expect("its end");
        let to = switch.split("href=\"").find(|rest| rest.contains("tenant=acme")).expect("acme");
        let to = to.split('"').next().expect("its end");
        assert_eq!(reader.open(to).await.status, 200, "{path} leads to {to}");
    }
}

/// An alert about a webhook, `age_s` old: it fires, or is over.
fn alert(database: Database, age_s: u64, subject: &str, is_over: bool) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time");
    let id = (now - Duration::from_secs(age_s)).as_millis() << 80 | 7;
    let id = match database {
        Database::Sqlite => format!("x'{id:032x}'"),
        Database::Postgres => format!("'{id:032x}'::uuid"),
    };
    let tenant = TenantId::DEFAULT.0;
    let resolved_at = if is_over { "1" } else { "NULL" };
    format!(
        "INSERT INTO alerts (id, tenant, kind, subject, severity, title, detail, value, threshold, resolved_at, untold)
         VALUES ({id}, {tenant}, 5, '{subject}', 1, 'About {subject}', 'in words', 1, 0, {resolved_at}, 0)"
    )
}

async fn an_alert_that_fires_stays_in_sight_and_leads_to_what_it_is_about(database: Database) {
    let gateway = Gateway::start(database).await;
    gateway.execute(&alert(database, 3_600, "wh_01ARZ3NDEKTSV4RRFFQ69G5FAV", false)).await;
    for nth in 1..=21 {
        let subject = format!("wh_01ARZ3NDEKTSV4RRFFQ69G5F{nth:02}");
        gateway.execute(&alert(database, 60 + nth, &subject, true)).await;
    }
    let reader = Reader::sign_in(&gateway, gateway.admin_key()).await;
    let page = reader.page("/").await;
    let link = "<a href=\"/webhooks/wh_01ARZ3NDEKTSV4RRFFQ69G5FAV\">About wh_01ARZ3NDEKTSV4RRFFQ69G5FAV</a>";
    assert!(page.contains(link), "{page}");
    assert_eq!(page.matches("class=\"alert\"").count(), 20, "and the latest that are over");
    assert!(page.find("G5FAV").expect("it") < page.find("G5F01").expect("one"), "that first");
    let acme = gateway.admin().tenant("acme").await;
    let key = acme.post("/keys", json!({"name": "them", "role": "admin"})).await.is(201);
    let theirs = Reader::sign_in(&gateway, &key.text("key")).await;
    assert!(theirs.page("/").await.contains("All is well."));
}

async fn with_hooks(database: Database) -> Gateway {
    let setup = Gateway::setup(database).setting("WAKEPOST_ALLOW_HTTP", "true");
    setup.setting("WAKEPOST_ALLOW_PRIVATE", "true").start().await
}

/// Publishes something in the name of the agent that has this lease.
async fn publish(api: &Api, lease: &Lease, event_type: &str) -> String {
    let chain = lease.job["chain"].as_str().expect("a chain").parse().expect("a value");
    let headers = HeaderMap::from_iter([("wakepost-chain".parse().expect("a name"), chain)]);
    let body = json!({"type": event_type, "data": {"id": 1}});
    api.call_with(Method::POST, "/events", headers, Some(&body)).await.is(202).text("id")
}

async fn what_a_job_published_is_on_its_time_line_and_leads_back(database: Database) {
    let gateway = with_hooks(database).await;
    let api = gateway.admin();
    let receiver = Receiver::start(|_| Reply::new(410, "gone")).await;
    let fields = json!({"url": receiver.url("/in"), "events": ["order.*"]});
    api.post("/webhooks", fields).await.is(201);
    let source = gateway.with_source("github").await;
    let sent = gateway.send(&source, &source.event("e-1")).await.is(202);
    let (event, job) = (sent.text("event_id"), sent.text("job_id"));
    let lease = gateway.worker("w").wait().await;
    let out = publish(&api, &lease, "order.created").await;
    let unheard = publish(&api, &lease, "invoice.paid").await;
    lease.complete(json!(1)).await.is(200);
    let delivery = until("the delivery is given up", || async {
        let list = api.list(&format!("/events/{out}/deliveries")).await;
        (list[0]["status"] == "dead_letter").then(|| list[0]["id"].as_str().map(str::to_owned))?
    })
    .await;
    let reader = Reader::sign_in(&gateway, gateway.admin_key()).await;
    for path in [format!("/jobs/{job}"), format!("/inbox/{event}")] {
        let page = reader.page(&path).await;
        for said in [
            format!("<a href=\"/events/{out}\">Published order.created</a>"),
            format!("<a href=\"/events/{unheard}\">Published invoice.paid, to nobody</a>"),
            format!("<a href=\"/deliveries/{delivery}\">"),
            "Delivery, attempt 1: 410".to_owned(),
            "Delivery, given up".to_owned(),
        ] {
            assert_eq!(page.matches(&said).count(), 1, "{path}: {said}: {page}");
        }
    }
    let page = reader.page(&format!("/events/{out}")).await;
    assert!(page.contains(&format!("href=\"/jobs/{job}\"")), "{page}");
    let list = reader.page(&format!("/events?parent={job}")).await;
    assert!(list.contains(&out) && list.contains(&unheard) && list.contains(&job), "{list}");
    let alone = api.job().await;
    let list = reader.page(&format!("/events?parent={alone}")).await;
    assert!(!list.contains(&out) && !list.contains(&unheard), "{list}");
}

async fn work_that_goes_on_is_listened_to_until_it_ends(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let source = gateway.with_source("github").await;
    let sent = gateway.send(&source, &source.event("e-1")).await.is(202);
    let (event, job) = (sent.text("event_id"), sent.text("job_id"));
    let reader = Reader::sign_in(&gateway, gateway.admin_key()).await;
    let heard = |page: &str| {
        let rest = page.split("data-live=\"").nth(1).expect("a page that lives").to_owned();
        rest.split('"').next().expect("its end").to_owned()
    };
    let pages = [format!("/jobs/{job}"), format!("/inbox/{event}")];
    let stream = format!("/live/jobs/{job}");
    for path in &pages {
        assert_eq!(heard(&reader.page(path).await), stream, "{path}");
    }
    let inbox = heard(&reader.page("/inbox?status=held").await);
    assert_eq!(inbox, "/live/inbox?status=held");
    for path in ["/", "/jobs", "/events"] {
        assert_eq!(heard(&reader.page(path).await), "poll", "{path}");
    }
    let told = reader.open(&format!("{stream}?for_s=0")).await.is(200);
    assert_eq!(told.header("content-type"), "text/event-stream");
    assert!(String::from_utf8_lossy(&told.body).contains("event: state"));
    let acme = api.tenant("acme").await;
    let key = acme.post("/keys", json!({"name": "them", "role": "admin"})).await.is(201);
    let theirs = Reader::sign_in(&gateway, &key.text("key")).await;
    theirs.open(&format!("{stream}?for_s=0")).await.is(404);
    let lease = gateway.worker("w").wait().await;
    lease.complete(json!(1)).await.is(200);
    for path in &pages {
        assert_eq!(heard(&reader.page(path).await), "poll", "{path}");
    }
}

async fn where_nothing_was_delivered_a_command_says_what_would(database: Database) {
    let gateway = with_hooks(database).await;
    let api = gateway.admin();
    let receiver = Receiver::start(|_| Reply::new(200, "")).await;
    let reader = Reader::sign_in(&gateway, gateway.admin_key()).await;
    let link = api.post("/portal-links", json!({})).await.is(201).text("url");
    for (events, command) in [
        (json!(["invoice.paid"]), Some("webhookctl events publish invoice.paid --data")),
        (json!(["order.*"]), Some("webhookctl events publish order.created --data")),
        (json!(["webhook.disabled", "*"]), Some("webhookctl events publish order.created --data")),
        (json!(["webhook.disabled"]), None),
    ] {
        let fields = json!({"url": receiver.url("/in"), "events": events});
        let webhook = api.post("/webhooks", fields).await.is(201).text("id");
        let page = reader.page(&format!("/webhooks/{webhook}")).await;
        assert!(page.contains("No deliveries yet"), "{page}");
        match command {
            Some(command) => assert!(page.contains(command), "{page}"),
            None => assert!(!page.contains("events publish"), "{page}"),
        }
        let filtered = reader.page(&format!("/webhooks/{webhook}?status=running")).await;
        assert!(filtered.contains("No delivery is like that"), "{filtered}");
        let visitor = Http::default()
            .send(Method::GET, &format!("{link}/webhooks/{webhook}"), HeaderMap::new(), "")
            .await
            .is(200);
        assert!(!String::from_utf8_lossy(&visitor.body).contains("webhookctl"), "they have no key");
        api.delete(&format!("/webhooks/{webhook}")).await.is(204);
    }
    let body = json!({"type": "invoice.paid", "data": {}});
    let event = api.post("/events", body).await.is(202).text("id");
    let page = reader.page(&format!("/events/{event}")).await;
    let command =
        "webhookctl webhooks create https://hooks.customer.example/in --event invoice.paid";
    assert!(page.contains("Nobody subscribed to it") && page.contains(command), "{page}");
}
