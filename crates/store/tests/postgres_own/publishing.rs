//! Publishing on many nodes, and what it costs when much is there already.

use wakepost_domain::publication::{NO_SOURCE, about_job};
use wakepost_domain::webhook::Webhook;
use wakepost_domain::work::State;
use wakepost_domain::{OperationId, WebhookId};
use wakepost_store::moves::{
    Cursor, DeadFilter, DeadLetters, EventFilter, NewDelivery, Page, WebhookRecord, Webhooks,
    delivery_of,
};

use super::*;

const ALL: Cursor = Page { before: None, limit: 100 };

/// A webhook without a row of its own.
#[derive(Clone, Copy)]
struct Hook {
    id: WebhookId,
    lane: LaneId,
}

async fn hook(store: &Postgres) -> Hook {
    let id = WebhookId(Ulid::from_bytes(random()));
    Hook { id, lane: store.lane(Webhook::lane_key(TenantId::DEFAULT, id)).await.unwrap().id }
}

/// An event that says `text` under `key`, for these webhooks.
fn publication(at: Timestamp, key: &str, text: &str, hooks: &[Hook]) -> NewEvent {
    let new = event(LaneId(0), at, &[]);
    let id = new.event.id;
    let mut hash = [0; 32];
    hash[..text.len()].copy_from_slice(text.as_bytes());
    let event = Event {
        source: NO_SOURCE,
        route: Route::Published,
        dedup_key: key.to_owned(),
        payload_hash: hash,
        ..new.event
    };
    let delivery = |hook: &Hook| NewDelivery {
        id: delivery_of(id, hook.id),
        lane: hook.lane,
        run_at: None,
        max_attempts: 2,
        order: None,
        parent_id: None,
    };
    NewEvent {
        event,
        dedup: vec![DedupKey::of_publication(TenantId::DEFAULT, b"key", key.as_bytes())],
        job: None,
        deliveries: hooks.iter().map(delivery).collect(),
        ..new
    }
}

fn in_order(mut new: NewEvent, hook: Hook, key: &str) -> NewEvent {
    let order = OrderKey::of_webhook(TenantId::DEFAULT, hook.id, key.as_bytes());
    new.deliveries.iter_mut().for_each(|one| one.order = Some((order, key.to_owned())));
    new
}

async fn rows(raw: &Client) -> [i64; 4] {
    let mut rows = [0; 4];
    for (rows, table) in rows.iter_mut().zip(["events", "bodies", "work", "dedup_keys"]) {
        *rows = count(raw, &format!("SELECT count(*) FROM {table}")).await;
    }
    rows
}

#[tokio::test]
async fn nodes_that_publish_the_same_keys_in_different_orders_never_deadlock() {
    const KEYS: usize = 40;
    let database = Database::new().await;
    let store = database.store().await;
    let raw = database.raw().await;
    let now = store.now().await.unwrap();
    let hooks = [hook(&store).await, hook(&store).await];
    let mut tasks = Vec::new();
    for node in 0..4 {
        let store = database.node().await;
        tasks.push(tokio::spawn(async move {
            let mut new = 0;
            for round in 0..15 {
                let one = |n: usize| publication(now, &format!("{round} {n}"), "same", &hooks);
                let mut events: Vec<NewEvent> = (0..KEYS).map(one).collect();
                if node % 2 == 1 {
                    events.reverse();
                }
                if node == 3 {
                    // In a transaction, with order keys that others have too.
                    let key = |n: usize| format!("o{}", n % 3);
                    let ordered = |(n, new)| in_order(new, hooks[0], &key(n));
                    events = events.into_iter().enumerate().map(ordered).collect();
                }
                let answers = store.publish(events, None).await.unwrap();
                new += answers.into_iter().filter(|answer| *answer == Accepted::New).count();
            }
            new
        }));
    }
    let mut new = 0;
    for task in tasks {
        new += task.await.unwrap();
    }
    assert_eq!(new, 15 * KEYS);
    let new = new as i64;
    assert_eq!(rows(&raw).await, [new, new, 2 * new, new]);
    assert_eq!(count(&raw, "SELECT sum(duplicates) FROM events").await, 3 * new);
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(count(&raw, deadlocks).await, 0);
    database.close().await;
}

/// Another node has published under one of the keys, and has not committed yet.
#[tokio::test]
async fn a_call_that_meets_anothers_key_half_way_stores_all_or_nothing() {
    let database = Database::new().await;
    let store = database.store().await;
    let (raw, other) = (database.raw().await, database.raw().await);
    let now = store.now().await.unwrap();
    let hooks = [hook(&store).await];
    for (round, text, commits) in [("a", "same", true), ("b", "else", true), ("c", "same", false)] {
        let before = rows(&raw).await;
        let events: Vec<NewEvent> =
            (0..9).map(|n| publication(now, &format!("{round}{n}"), text, &hooks)).collect();
        let first = publication(now, &format!("{round}4"), "same", &[]);
        let uuid = |bytes: [u8; 16]| uuid::Uuid::from_bytes(bytes);
        other.batch_execute("BEGIN").await.unwrap();
        let key =
            "INSERT INTO dedup_keys (key, tenant, event_id, expires_at) VALUES ($1, 1, $2, $3)";
        let first_id = uuid(first.event.id.to_bytes());
        let until = now.after(DAY).as_millis();
        other.execute(key, &[&uuid(first.dedup[0].0), &first_id, &until]).await.unwrap();
        let row = "INSERT INTO events (tenant, id, source, type, dedup_key, route, verified, payload_hash,
                                       duplicates, latency_us)
                   VALUES (1, $1, $1, 't', 'k', 4, true, $2, 0, 1)";
        let hash = &first.event.payload_hash[..];
        other.execute(row, &[&first_id, &hash]).await.unwrap();
        let publishing = tokio::spawn({
            let store = store.clone();
            async move { store.publish(events, None).await }
        });
        while count(&raw, "SELECT count(*) FROM pg_locks WHERE NOT granted").await == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        other.batch_execute(if commits { "COMMIT" } else { "ROLLBACK" }).await.unwrap();
        let answers = publishing.await.unwrap();
        let stored = rows(&raw).await;
        let grown: Vec<i64> = stored.iter().zip(before).map(|(now, then)| now - then).collect();
        match (text, commits) {
            ("same", true) => {
                let of = Accepted::Duplicate { of: first.event.id, job: None };
                let answers = answers.unwrap();
                assert_eq!(answers[4], of);
                assert_eq!(answers.iter().filter(|answer| answer.is_new()).count(), 8);
                assert_eq!(grown, [9, 8, 8, 9]);
            }
            ("same", false) => {
                assert!(answers.unwrap().into_iter().all(Accepted::is_new));
                assert_eq!(grown, [9, 9, 9, 9]);
            }
            _ => {
                assert!(matches!(answers, Err(StoreError::Mismatch(4))), "{answers:?}");
                assert_eq!(grown, [1, 0, 0, 1], "the other's alone");
            }
        }
    }
    database.close().await;
}

#[tokio::test]
async fn a_mismatch_leaves_nothing_of_its_call_not_even_what_has_no_key() {
    let database = Database::new().await;
    let store = database.store().await;
    let raw = database.raw().await;
    let now = store.now().await.unwrap();
    let hooks = [hook(&store).await];
    store.publish(vec![publication(now, "taken", "first", &hooks)], None).await.unwrap();
    let keyless = || NewEvent { dedup: Vec::new(), ..publication(now, "", "x", &hooks) };
    for (last, ordered) in [("else", false), ("else", true), ("first", false), ("first", true)] {
        let before = rows(&raw).await;
        let mut call = vec![keyless(), publication(now, &format!("{last} {ordered}"), "x", &hooks)];
        call.push(publication(now, "taken", last, &hooks));
        if ordered {
            call = call.into_iter().map(|new| in_order(new, hooks[0], "k")).collect();
        }
        let answer = store.publish(call, None).await;
        let stored = rows(&raw).await;
        let grown: Vec<i64> = stored.iter().zip(before).map(|(now, then)| now - then).collect();
        if last == "else" {
            assert!(matches!(answer, Err(StoreError::Mismatch(2))), "{answer:?}");
            assert_eq!(grown, [0; 4]);
        } else {
            let news = answer.unwrap().into_iter().map(Accepted::is_new);
            assert_eq!(news.collect::<Vec<_>>(), [true, true, false]);
            assert_eq!(grown, [2, 2, 2, 1]);
        }
    }
    database.close().await;
}

#[tokio::test]
async fn a_mismatch_fails_its_own_caller_only() {
    let database = Database::new().await;
    let store = database.store().await;
    let raw = database.raw().await;
    let now = store.now().await.unwrap();
    let hooks = [hook(&store).await];
    store.publish(vec![publication(now, "taken", "first", &hooks)], None).await.unwrap();
    let mut tasks = Vec::new();
    for n in 0..200 {
        let store = store.clone();
        let new = match n % 4 {
            0 => publication(now, "taken", "else", &hooks),
            1 => publication(now, "taken", "first", &hooks),
            _ => publication(now, &n.to_string(), "own", &hooks),
        };
        tasks.push(tokio::spawn(async move { (n, store.publish(vec![new], None).await) }));
    }
    for task in tasks {
        match task.await.unwrap() {
            (n, Err(StoreError::Mismatch(0))) if n % 4 == 0 => {}
            (n, Ok(answer)) if n % 4 == 1 => assert!(!answer[0].is_new()),
            (n, Ok(answer)) if n % 4 > 1 => assert_eq!(answer, [Accepted::New]),
            (n, other) => panic!("{n}: {other:?}"),
        }
    }
    assert_eq!(rows(&raw).await, [101; 4]);
    assert_eq!(count(&raw, "SELECT sum(duplicates) FROM events").await, 50);
    database.close().await;
}

#[tokio::test]
async fn two_nodes_that_add_the_same_deliveries_make_each_once() {
    let database = Database::new().await;
    let store = database.store().await;
    let raw = database.raw().await;
    let now = store.now().await.unwrap();
    let target = hook(&store).await;
    let events: Vec<NewEvent> =
        (0..50).map(|n| publication(now, &n.to_string(), "x", &[])).collect();
    let items: Vec<(EventId, NewDelivery)> = events
        .iter()
        .map(|new| {
            let wanted = NewEvent { deliveries: Vec::new(), ..new.clone() };
            let id = wanted.event.id;
            let mut like = publication(now, "x", "x", &[target]).deliveries.remove(0);
            like.id = delivery_of(id, target.id);
            (id, like)
        })
        .collect();
    store.publish(events, None).await.unwrap();
    let mut tasks = Vec::new();
    for node in 0..4 {
        let (store, mut items) = (database.node().await, items.clone());
        if node % 2 == 1 {
            items.reverse();
        }
        tasks.push(tokio::spawn(async move {
            let mut made = 0;
            for part in items.chunks(10) {
                made += store.add_deliveries(TenantId::DEFAULT, part.to_vec()).await.unwrap().len();
                // What ends meanwhile was made all the same.
                let claimed = store.claim(claim_of(target.lane, 5, vec![])).await.unwrap();
                let ends =
                    claimed.iter().map(|one| end_of(one.ticket, Ending::Succeeded)).collect();
                assert!(store.settle(ends).await.iter().all(Result::is_ok));
            }
            made
        }));
    }
    let mut made = 0;
    for task in tasks {
        made += task.await.unwrap();
    }
    assert_eq!(made, 50);
    let all = "SELECT (SELECT count(*) FROM work) + (SELECT count(*) FROM work_done)";
    assert_eq!(count(&raw, all).await, 50);
    database.close().await;
}

#[tokio::test]
async fn dropping_a_week_spares_what_unfinished_and_dead_deliveries_need() {
    let database = Database::new().await;
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let long_ago = now.before(40 * DAY);
    store.ensure_partitions(long_ago).await.unwrap();
    store.ensure_partitions(now).await.unwrap();
    let target = hook(&store).await;
    let events = ["done", "dead", "live", "alone"].map(|key| {
        let hooks: &[Hook] = if key == "alone" { &[] } else { &[target] };
        publication(long_ago, key, key, hooks)
    });
    let ids: Vec<EventId> = events.iter().map(|new| new.event.id).collect();
    store.publish(events.to_vec(), None).await.unwrap();
    for claimed in store.claim(claim_of(target.lane, 3, vec![])).await.unwrap() {
        let ending = match ids.iter().position(|id| Some(*id) == claimed.event) {
            Some(0) => Ending::Succeeded,
            Some(1) => Ending::Failed { retryable: false, retry_after: None },
            _ => continue,
        };
        store.settle(vec![end_of(claimed.ticket, ending)]).await.remove(0).unwrap();
    }
    let cut = now.before(20 * DAY);
    let before = PruneBefore {
        bodies: cut,
        events: cut,
        runs: cut,
        dead_letters: cut,
        receipts: cut,
        figures: cut,
    };
    while store.prune(before).await.unwrap().more {}
    let kept = store.contents(ids.clone()).await.unwrap();
    assert_eq!(kept.into_iter().map(|(id, _)| id).collect::<Vec<_>>(), ids[1..3]);
    let rows = store.deliveries(TenantId::DEFAULT, target.lane, None, ALL).await.unwrap();
    let mut states: Vec<State> = rows.iter().map(|row| row.state).collect();
    states.sort_by_key(|state| *state as i16);
    // They ended now: history goes by its end.
    assert_eq!(states, [State::Running, State::Succeeded, State::DeadLetter]);
    database.close().await;
}

/// Deliveries from their events to their ends, with what is asked of them on the way and beside it.
async fn some_deliveries(store: &Postgres, hooks: &[Hook; 2], name: &str) {
    const COUNT: u32 = 20;
    let now = store.now().await.unwrap();
    let new: Vec<NewEvent> =
        (0..COUNT).map(|n| publication(now, &format!("{name} {n}"), "x", hooks)).collect();
    let events: Vec<EventId> = new.iter().map(|new| new.event.id).collect();
    let again = |new: &NewEvent| NewEvent {
        event: Event { id: EventId(id(now)), ..new.event.clone() },
        deliveries: Vec::new(),
        ..new.clone()
    };
    assert!(store.publish(new.clone(), None).await.unwrap().into_iter().all(Accepted::is_new));
    let repeats = store.publish(new.iter().map(again).collect(), None).await.unwrap();
    assert!(!repeats.into_iter().any(Accepted::is_new));
    let single = publication(now, &format!("{name} single"), "x", hooks);
    assert_eq!(store.publish(vec![single.clone()], None).await.unwrap(), [Accepted::New]);
    assert!(!store.publish(vec![again(&single)], None).await.unwrap()[0].is_new());
    let ordered = in_order(publication(now, &format!("{name} o"), "x", &hooks[..1]), hooks[0], "k");
    store.publish(vec![ordered], None).await.unwrap();
    for hook in hooks {
        let claimed = store.claim(claim_of(hook.lane, COUNT, vec![])).await.unwrap();
        assert_eq!(claimed.len(), COUNT as usize);
        let ends = claimed.iter().map(|one| end_of(one.ticket, Ending::Succeeded)).collect();
        assert!(store.settle(ends).await.iter().all(Result::is_ok));
    }
    let added = events.iter().map(|event| {
        let like = single.deliveries[0].clone();
        (*event, NewDelivery { id: delivery_of(*event, hooks[0].id), ..like })
    });
    assert_eq!(store.add_deliveries(TenantId::DEFAULT, added.collect()).await.unwrap(), []);
    let lane = hooks[1].lane;
    let page = Page { before: None, limit: 5 };
    for state in [None, Some(State::Succeeded), Some(State::Pending)] {
        let listed = store.deliveries(TenantId::DEFAULT, lane, state, page).await.unwrap();
        assert!(!listed.is_empty() && listed.iter().all(|row| row.lane == lane));
    }
    store.delivery_counts(lane, 50).await.unwrap();
    store.end_waiting(lane, State::DeadLetter, "gone".to_owned(), 10).await.unwrap();
    let dead = DeadFilter { lane: Some(lane), ..DeadFilter::default() };
    let dead = store.dead_letters(TenantId::DEFAULT, dead, page).await.unwrap();
    let dead = dead.iter().map(|row| row.id).collect();
    assert!(store.purge(TenantId::DEFAULT, dead, OperationId(id(now))).await.unwrap() > 0);
    let published = EventFilter { published: true, ..EventFilter::default() };
    assert_eq!(store.events(TenantId::DEFAULT, published, page).await.unwrap().len(), 5);
    store.due_webhooks(10).await.unwrap();
    looks(store).await;
}

#[tokio::test]
async fn the_cost_of_a_delivery_does_not_grow_with_the_backlog_even_if_plans_were_made_before_it() {
    const BACKLOG: i64 = 20_000;
    let database = Database::new().await;
    let options = PostgresOptions { max_connections: 2, ..PostgresOptions::default() };
    let store = Postgres::connect(&database.url, options).await.unwrap();
    store.migrate().await.unwrap();
    let raw = database.raw().await;
    store.ensure_partitions(store.now().await.unwrap()).await.unwrap();
    let hooks = [hook(&store).await, hook(&store).await];
    let (busy, shut) = (hook(&store).await, hook(&store).await);
    for n in 0..10 {
        some_deliveries(&store, &hooks, &format!("first {n}")).await;
    }
    raw.batch_execute("VACUUM (ANALYZE, TRUNCATE false) work").await.unwrap();
    // Others' deliveries, received events, and what waits in a lane that is shut.
    raw.batch_execute(&format!(
        "CREATE TEMP TABLE rows AS
         SELECT n, (lpad(to_hex(wakepost_now() - n), 12, '0')
                    || substr(replace(gen_random_uuid()::text, '-', ''), 13))::uuid AS id
         FROM generate_series(1, {BACKLOG}) n;
         INSERT INTO work (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, event_id, scope)
         SELECT 1, id, 1, {busy}, 0, wakepost_now(), 0, 1, 0, gen_random_uuid(), id FROM rows;
         INSERT INTO work (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, event_id, scope)
         SELECT 2, id, 1, {shut}, 0, wakepost_now(), 0, 1, 0, gen_random_uuid(), id FROM rows;
         INSERT INTO work_done (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, event_id,
                                scope, finished_at)
         SELECT 1, (left(id::text, 24) || right(gen_random_uuid()::text, 12))::uuid, 1, {busy}, 6, n, 1, 1, 1, id,
                id, n FROM rows;
         INSERT INTO dedup_keys (key, tenant, event_id, expires_at)
         SELECT gen_random_uuid(), 1, id, wakepost_now() + 1000000 FROM rows;
         INSERT INTO bodies (id, tenant, content) SELECT id, 1, '' FROM rows;
         INSERT INTO events (tenant, id, source, type, dedup_key, route, verified, payload_hash, duplicates, latency_us)
         SELECT 1, id, id, 't', 'k', 0, true, '', 0, 1 FROM rows;
         INSERT INTO webhooks (id, tenant, lane, config, secrets, circuit, notices, due_at, version,
                               signs_publicly)
         SELECT id, 2, 1, '{{}}', '', '{{}}', '[]', wakepost_now() + 1000000, 0, false FROM rows;
         UPDATE lanes SET shut_until = 9223372036854775807 WHERE id = {shut}",
        busy = busy.lane.0,
        shut = shut.lane.0
    ))
    .await
    .unwrap();
    let before = read_so_far(&store, &raw).await;
    for n in 0..10 {
        some_deliveries(&store, &hooks, &format!("then {n}")).await;
        let claimed = store.claim(claim_of(shut.lane, 10, vec![])).await.unwrap();
        assert!(claimed.is_empty() && store.ready(shut.lane, 10).await.unwrap().is_empty());
    }
    let much = read_since(&before, store, &raw, BACKLOG).await;
    assert!(much.is_empty(), "rows that were read for 400 deliveries: {much:?}");
    database.close().await;
}

#[tokio::test]
async fn what_a_job_published_is_found_without_a_look_at_other_events() {
    const OTHERS: i64 = 20_000;
    let database = Database::new().await;
    let (store, raw) = (database.store().await, database.raw().await);
    let now = store.now().await.unwrap();
    let thread = Some(about_job("job_7"));
    let new = |key: &str| {
        let new = publication(now, key, "x", &[]);
        NewEvent { event: Event { thread: thread.clone(), ..new.event }, ..new }
    };
    let stored = store.publish(vec![new("a"), new("b")], None).await.unwrap();
    assert!(stored.into_iter().all(Accepted::is_new));
    let filter = EventFilter { published: true, thread: thread.clone(), ..EventFilter::default() };
    // A statement's plan may be made before there is much, or after.
    let look = async |times: usize| {
        for _ in 0..times {
            let found = store.events(TenantId::DEFAULT, filter.clone(), ALL).await.unwrap();
            assert_eq!(found.len(), 2);
        }
    };
    look(10).await;
    // Later ones by nobody and by other jobs, and conversations.
    raw.batch_execute(&format!(
        "INSERT INTO events (tenant, id, source, type, dedup_key, route, verified, payload_hash, duplicates, latency_us,
                             thread)
         SELECT 1, (lpad(to_hex(wakepost_now() + n), 12, '0')
                    || substr(replace(gen_random_uuid()::text, '-', ''), 13))::uuid,
                '00000000-0000-0000-0000-000000000000', 't', 'k', CASE n % 3 WHEN 0 THEN 0 ELSE 4 END, true, '', 0, 1,
                CASE n % 3 WHEN 0 THEN 'C1:' || n WHEN 1 THEN 'wakepost:job:job_' || n END
         FROM generate_series(100, 100 + 3 * {OTHERS}) n"
    ))
    .await
    .unwrap();
    let before = read_so_far(&store, &raw).await;
    look(10).await;
    raw.batch_execute("ANALYZE events").await.unwrap();
    look(10).await;
    let much = read_since(&before, store, &raw, OTHERS).await;
    assert!(much.is_empty(), "rows that were read for two events: {much:?}");
    database.close().await;
}

#[tokio::test]
async fn a_lane_is_shut_with_the_webhooks_row() {
    let database = Database::new().await;
    let store = database.store().await;
    let (other, raw) = (database.node().await, database.raw().await);
    let now = store.now().await.unwrap();
    let target = hook(&store).await;
    store.publish(vec![publication(now, "a", "x", &[target])], None).await.unwrap();
    let record = WebhookRecord {
        id: target.id,
        tenant: TenantId::DEFAULT,
        lane: target.lane,
        config: wakepost_domain::webhook::WebhookConfig::default(),
        secrets: Sealed::from_stored(b"s".to_vec()),
        circuit: wakepost_domain::circuit::Circuit::default(),
        notices: Vec::new(),
        shut_until: None,
        due_at: None,
        version: 0,
    };
    let entry = |action: &str| wakepost_store::moves::AuditEntry {
        id: wakepost_domain::AuditId(id(now)),
        tenant: Some(TenantId::DEFAULT),
        actor: "t".to_owned(),
        action: action.to_owned(),
        target: "t".to_owned(),
        note: None,
    };
    store.create_webhook(record.clone(), 1, entry("webhook.create"), None).await.unwrap();
    let shut = WebhookRecord { shut_until: Some(Timestamp::from_millis(i64::MAX)), ..record };
    // A claim that began before sees the lane as it was: the change waits for nobody, and nobody for it.
    raw.batch_execute("BEGIN; SELECT 1 FROM lanes FOR KEY SHARE").await.unwrap();
    store.update_webhook(shut.clone(), None).await.unwrap();
    raw.batch_execute("COMMIT").await.unwrap();
    assert!(other.claim(claim_of(target.lane, 1, vec![])).await.unwrap().is_empty());
    let stale = store.update_webhook(WebhookRecord { shut_until: None, ..shut }, None).await;
    assert!(matches!(stale, Err(StoreError::InvalidState(_))), "{stale:?}");
    assert!(other.claim(claim_of(target.lane, 1, vec![])).await.unwrap().is_empty());
    store.delete_webhook(TenantId::DEFAULT, target.id, entry("webhook.delete")).await.unwrap();
    assert_eq!(other.claim(claim_of(target.lane, 1, vec![])).await.unwrap().len(), 1);
    database.close().await;
}
