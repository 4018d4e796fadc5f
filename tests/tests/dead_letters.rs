//! Dead letters: found, shown whole, exported, and replayed or purged by the hundred, each once.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use wakepost_tests::{Act, Api, Database, Gateway, on_both, until, within};

on_both!(
    dead_letters_are_found_and_shown_whole,
    many_are_replayed_once_and_leave_the_list,
    those_that_are_chosen_are_dealt_with_and_no_others,
    an_export_has_them_all_and_no_secret,
    what_is_purged_is_gone,
    a_kill_in_the_middle_of_a_replay_makes_exactly_as_many,
    a_kill_in_the_middle_of_a_purge_counts_each_once,
);

/// Jobs of this kind that were given up, newest first.
async fn dead(gateway: &Gateway, kind: &str, count: usize) -> Vec<String> {
    let (api, worker) = (gateway.admin(), gateway.worker("w"));
    let jobs: Vec<Value> = (0..count)
        .map(|n| json!({"kind": kind, "input": {"n": n}, "subject": format!("zd:{kind}:{n}")}))
        .collect();
    api.post("/jobs", json!(jobs)).await.is(201);
    let mut left = count;
    while left > 0 {
        let ask = json!({"max": 500, "kinds": [kind], "wait_s": 5});
        let leased = worker.lease_many(ask).await;
        left -= leased.len();
        let ends = leased.iter().map(|lease| {
            json!({"id": lease.id(), "lease_token": lease.token(), "outcome": "fail",
                "error": format!("{kind} cannot be done"), "retryable": false})
        });
        api.post("/jobs/finish", json!({"jobs": ends.collect::<Vec<_>>()})).await.is(200);
    }
    let listed = api.list("/dead-letters").await.into_iter();
    let of_kind = listed.filter(|row| row["kind"] == kind);
    let ids: Vec<String> =
        of_kind.map(|row| row["id"].as_str().expect("an id").to_owned()).collect();
    assert_eq!(ids.len(), count);
    ids
}

async fn over(api: &Api, operation: &str) -> Value {
    within(Duration::from_secs(120), "the operation is over", async || {
        let shown = api.get(&format!("/operations/{operation}")).await.is(200).json();
        (shown["status"] == "succeeded").then_some(shown)
    })
    .await
}

fn counts(shown: &Value) -> (u64, u64, u64) {
    let count = |name: &str| shown[name].as_u64().expect("a count");
    (count("matched"), count("done"), count("failed"))
}

async fn dead_letters_are_found_and_shown_whole(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let reports = dead(&gateway, "report", 2).await;
    let before = wakepost_tests::now();
    until("a millisecond has passed", async || (wakepost_tests::now() > before).then_some(()))
        .await;
    let mails = dead(&gateway, "mail", 1).await;
    let source = api.source("github").await;
    let sent = gateway.send(&source, &source.event("e-1")).await.is(202);
    let lease = gateway.worker("w").wait().await;
    lease.begin("call").await.is(200);
    lease.commit("call", json!({"id": 7})).await.is(200);
    lease.post("fail", json!({"error": "hung up", "retryable": false})).await.is(200);
    let hook = sent.text("job_id");

    for (query, found) in [
        ("kind=job".to_owned(), 4),
        ("kind=callback".to_owned(), 0),
        (format!("source={}", source.id), 1),
        ("q=report".to_owned(), 2),
        ("q=zd:mail:".to_owned(), 1),
        ("q=cannot+be+done".to_owned(), 3),
        (format!("q={}", reports[0]), 1),
        (format!("q={}", &reports[0][..18]), 4),
        (format!("q={}", sent.text("event_id")), 1),
        ("q=nothing".to_owned(), 0),
        (format!("since={before}"), 2),
        (format!("until={before}"), 2),
        ("until=2020-01-01T00:00:00Z".to_owned(), 0),
    ] {
        // Ids of one moment begin alike, but maybe not for so long.
        let rows = api.list(&format!("/dead-letters?{query}")).await;
        match query.starts_with("q=job_") && query.len() == 20 {
            true => assert!((1..=found).contains(&rows.len()), "{query}"),
            false => assert_eq!(rows.len(), found, "{query}"),
        }
    }
    let first = api.get("/dead-letters?limit=1").await.is(200).json();
    assert_eq!(first["data"][0]["id"], hook, "newest first");
    api.get("/dead-letters?q=x&odd=1").await.refuses_field("odd");

    let whole = api.get(&format!("/dead-letters/{hook}")).await.is(200).json();
    assert_eq!(
        (&whole["last_error"], &whole["status"]),
        (&json!("hung up"), &json!("dead_letter"))
    );
    assert_eq!(whole["runs"].as_array().expect("runs").len(), 1);
    assert_eq!(whole["effects"][0]["key"], "call");
    assert_eq!(whole["envelope"]["event_id"], sent.text("event_id"));
    assert!(whole["envelope"]["data"].is_object(), "what came in: {whole}");
    assert!(whole["next_action"].as_str().expect("advice").contains("1 effect committed"));
    assert!(whole["trace_id"].is_string());
    let mail = api.get(&format!("/dead-letters/{}", mails[0])).await.is(200).json();
    assert_eq!((&mail["input"], &mail["envelope"]), (&json!({"n": 0}), &Value::Null));
    let alive = api.job().await;
    api.get(&format!("/dead-letters/{alive}")).await.refuses(404, "not_found");
}

async fn many_are_replayed_once_and_leave_the_list(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let reports = dead(&gateway, "report", 5).await;
    let mails = dead(&gateway, "mail", 2).await;
    let asked = |filter: Value| json!({"filter": filter, "note": "ann: fixed"});
    let mut dry = asked(json!({"q": "report"}));
    dry["dry_run"] = true.into();
    dry["note"] = "how many?".into();
    let begun = api.post("/dead-letters/replay", dry).await.is(202);
    assert_eq!(counts(&over(&api, &begun.text("operation_id")).await), (5, 0, 0));
    assert_eq!(api.list("/dead-letters").await.len(), 7, "a dry run changes nothing");
    // One of them was dealt with by hand.
    let note = json!({"note": "by hand"});
    api.post(&format!("/dead-letters/{}/replay", reports[2]), note).await.is(202);
    let begun = api.post("/dead-letters/replay", asked(json!({"q": "report"}))).await.is(202);
    let shown = over(&api, &begun.text("operation_id")).await;
    assert_eq!((counts(&shown), &shown["kind"]), ((4, 4, 0), &json!("dead_letter_replay")));
    let left: Vec<Value> = api.list("/dead-letters").await;
    assert_eq!(left.len(), 2);
    assert!(left.iter().all(|row| mails.iter().any(|id| row["id"] == id.as_str())));
    for id in &reports {
        let old = api.show_job(id).await;
        let new = api.show_job(old["replayed_as"].as_str().expect("replayed")).await;
        assert_eq!((&new["parent_id"], &new["input"]), (&old["id"], &old["input"]));
        assert_eq!((&new["status"], &new["scope"]), (&json!("pending"), &old["scope"]));
    }
    let trail = api.list("/audit").await;
    let with = |action: &str| {
        let entries = trail.iter().filter(|entry| entry["note"] == "ann: fixed");
        entries.filter(|entry| entry["action"] == action).count()
    };
    assert_eq!((with("work.replay"), with("dead_letters.replay")), (4, 1));
    for (path, body) in [
        ("/dead-letters/replay", json!({"filter": {}, "note": " "})),
        ("/dead-letters/purge", json!({"filter": {}})),
    ] {
        api.post(path, body).await.refuses_field("note");
    }
    let wrong = json!({"filter": {"status": "dead_letter"}, "note": "n"});
    assert_eq!(api.post("/dead-letters/purge", wrong).await.status, 422);
}

async fn those_that_are_chosen_are_dealt_with_and_no_others(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let reports = dead(&gateway, "report", 5).await;
    let mails = dead(&gateway, "mail", 2).await;
    let [one, two, mail] = [&reports[1], &reports[3], &mails[0]].map(String::as_str);
    let (chosen, alive) = ([one, two, mail], api.job().await);
    let listed = async |query: String| {
        let rows = api.list(&format!("/dead-letters?{query}")).await.into_iter();
        rows.map(|row| row["id"].as_str().expect("an id").to_owned()).collect::<Vec<_>>()
    };
    let ids = format!("ids={},{alive}", chosen.join(","));
    assert_eq!(listed(ids.clone()).await, [mail, one, two]);
    assert_eq!(listed(format!("{ids}&q=report")).await, [one, two], "and like this");
    assert_eq!(listed(format!("ids={}", mail.replace("job_", "rpl_"))).await, [""; 0]);
    let export = api.get(&format!("/dead-letters/export?{ids}")).await.is(200);
    assert_eq!(export.body.iter().filter(|byte| **byte == b'\n').count(), 3);
    api.tenant("acme").await;
    let theirs = api.of_tenant("acme").get(&format!("/dead-letters?{ids}")).await.is(200).json();
    assert_eq!(theirs["data"], json!([]));

    let asked = |filter: Value| json!({"filter": filter, "note": "ann: these"});
    let begin = async |what: &str, filter: Value| {
        let begun = api.post(&format!("/dead-letters/{what}"), asked(filter)).await.is(202);
        counts(&over(&api, &begun.text("operation_id")).await)
    };
    // One of them was dealt with by hand.
    let note = json!({"note": "by hand"});
    api.post(&format!("/dead-letters/{}/replay", chosen[1]), note).await.is(202);
    assert_eq!(begin("replay", json!({"ids": chosen, "kind": "reply"})).await, (0, 0, 0));
    assert_eq!(begin("replay", json!({"ids": chosen})).await, (2, 2, 0));
    assert_eq!(begin("purge", json!({"ids": [reports[0], mails[1], mails[0]]})).await, (2, 2, 0));
    assert_eq!(listed("kind=job".to_owned()).await, [reports[2].as_str(), reports[4].as_str()]);

    // None is never all.
    let many = vec![&reports[2]; 501];
    for (ids, field) in [
        (json!([]), "filter.ids"),
        (json!(many), "filter.ids"),
        (json!(reports[2]), "filter.ids"),
        (json!([reports[2], "evt_1"]), "filter.ids.1"),
    ] {
        for what in ["replay", "purge"] {
            let body = asked(json!({"ids": ids}));
            api.post(&format!("/dead-letters/{what}"), body).await.refuses_field(field);
        }
    }
    assert_eq!(listed("kind=job".to_owned()).await.len(), 2);
}

async fn an_export_has_them_all_and_no_secret(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let reports = dead(&gateway, "report", 130).await;
    let mails = dead(&gateway, "mail", 3).await;
    let source = api.source_with("github", json!({"secret": "not-for-export"})).await;
    gateway.send(&source, &source.event("e-1")).await.is(202);
    let lease = gateway.worker("w").wait().await;
    lease.post("fail", json!({"error": "no", "retryable": false})).await.is(200);
    let lines = async |query: &str| {
        let answer = api.get(&format!("/dead-letters/export{query}")).await.is(200);
        assert_eq!(answer.header("content-type"), "application/jsonl");
        let text = String::from_utf8(answer.body.to_vec()).expect("text");
        assert!(text.is_empty() || text.ends_with('\n'));
        let read = |line: &str| serde_json::from_str::<Value>(line).expect("a JSON object a line");
        text.lines().map(read).collect::<Vec<_>>()
    };
    let all = lines("").await;
    assert_eq!(all.len(), 134);
    let ids: BTreeSet<&str> = all.iter().map(|line| line["id"].as_str().expect("an id")).collect();
    assert!(reports.iter().chain(&mails).all(|id| ids.contains(id.as_str())));
    let first = api.get(&format!("/dead-letters/{}", reports[7])).await.is(200).json();
    assert!(all.contains(&first), "each is whole");
    assert!(!json!(all).to_string().contains("not-for-export"));
    assert_eq!(lines("?q=mail").await.len(), 3);
    assert_eq!(lines("?kind=reply").await.len(), 0);
    api.get("/dead-letters/export?limit=3").await.refuses_field("limit");
}

async fn what_is_purged_is_gone(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    dead(&gateway, "report", 3).await;
    let mails = dead(&gateway, "mail", 1).await;
    let source = api.source("github").await;
    let event = gateway.send(&source, &source.event("e-1")).await.is(202).text("event_id");
    let lease = gateway.worker("w").wait().await;
    lease.post("fail", json!({"error": "private words", "retryable": false})).await.is(200);
    let job = lease.id().to_owned();
    let filter = json!({"source": source.id});
    let body = json!({"filter": filter, "note": "the customer asked"});
    let begun = api.post("/dead-letters/purge", body).await.is(202).text("operation_id");
    let shown = over(&api, &begun).await;
    assert_eq!((counts(&shown), &shown["kind"]), ((1, 1, 0), &json!("dead_letter_purge")));
    assert_eq!(api.list("/dead-letters").await.len(), 4);
    api.get(&format!("/dead-letters/{job}")).await.refuses(404, "not_found");
    let note = json!({"note": "again"});
    api.post(&format!("/dead-letters/{job}/replay"), note.clone()).await.refuses(404, "not_found");
    api.post(&format!("/jobs/{job}/replay"), note).await.refuses(409, "invalid_state");
    let left = api.show_job(&job).await;
    assert_eq!((&left["last_error"], &left["runs"]), (&Value::Null, &json!([])));
    assert_eq!(api.show_event(&event).await["status"], "dead_letter", "it did not go well");
    let trail = api.list("/audit").await;
    let purge = trail.iter().find(|entry| entry["action"] == "dead_letters.purge");
    assert_eq!(purge.expect("an entry")["note"], "the customer asked");
    // All that are left.
    let body = json!({"filter": {}, "note": "spring cleaning"});
    let begun = api.post("/dead-letters/purge", body).await.is(202).text("operation_id");
    assert_eq!(counts(&over(&api, &begun).await), (4, 4, 0));
    assert!(api.list("/dead-letters").await.is_empty());
    assert_eq!(api.show_job(&mails[0]).await["input"], Value::Null);
}

async fn a_kill_in_the_middle_of_a_replay_makes_exactly_as_many(database: Database) {
    // In the middle of the second page.
    let setup = Gateway::setup(database).failpoints("replay.mid_batch=kill@130");
    let mut gateway = setup.start().await;
    let ids = dead(&gateway, "report", 230).await;
    let asked = json!({"filter": {"kind": "job"}, "note": "all of them"});
    let begun =
        gateway.admin().post("/dead-letters/replay", asked).await.is(202).text("operation_id");
    gateway.ended().await;
    // What it made so far is given up again meanwhile: that is not among what was asked for.
    gateway.restart_with("replay.mid_batch=delay:50@1x3").await;
    let api = gateway.admin();
    let worker = gateway.worker("w");
    for lease in worker.lease_many(json!({"max": 20})).await {
        lease.post("fail", json!({"error": "no again", "retryable": false})).await.is(200);
    }
    let shown = over(&api, &begun).await;
    assert_eq!(counts(&shown), (230, 230, 0), "each counts once, whoever did it");
    let mut made = BTreeSet::new();
    for row in api.list("/jobs").await {
        if let Some(new) = row["replayed_as"].as_str() {
            assert!(ids.iter().any(|id| row["id"] == id.as_str()), "{row}");
            assert!(made.insert(new.to_owned()));
        }
    }
    assert_eq!(made.len(), 230);
    assert_eq!(api.list("/jobs").await.len(), 460, "exactly as many as there were");
}

async fn a_kill_in_the_middle_of_a_purge_counts_each_once(database: Database) {
    const PLACE: &str = "operation.before_position";
    for act in Act::tried(Act::Kill) {
        let mut gateway = Gateway::setup(database).failpoints(&act.at(PLACE, 1)).start().await;
        dead(&gateway, "report", 130).await;
        let asked = json!({"filter": {}, "note": "all of them"});
        let begun =
            gateway.admin().post("/dead-letters/purge", asked).await.is(202).text("operation_id");
        act.done(&mut gateway, PLACE).await;
        let api = gateway.admin();
        assert_eq!(counts(&over(&api, &begun).await), (130, 130, 0), "{act:?}");
        assert!(api.list("/dead-letters").await.is_empty());
    }
}
