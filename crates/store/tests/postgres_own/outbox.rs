//! What is published through SQL, within transactions of its publisher's own.

use wakepost_domain::EventId;
use wakepost_store::moves::{Outbox, Outboxed};

use super::*;

/// A role that may call the function and do nothing else, as a user's application should be. It goes with the test.
struct Publisher {
    role: String,
    client: Client,
}

impl Publisher {
    async fn new(database: &Database) -> Publisher {
        let role = format!("app_{}", Ulid::from_bytes(random()).to_string().to_lowercase());
        let client = database.raw().await;
        client
            .batch_execute(&format!(
                "CREATE ROLE {role};
                 GRANT EXECUTE ON FUNCTION wakepost_publish(text, text, jsonb, text) TO {role};
                 SET ROLE {role}"
            ))
            .await
            .unwrap();
        Publisher { role, client }
    }

    async fn publish(&self, event_type: &str) -> EventId {
        let sql = "SELECT wakepost_publish('default', $1, '{\"n\": 1}')";
        let row = self.client.query_one(sql, &[&event_type]).await.unwrap();
        row.get::<_, String>(0).parse().unwrap()
    }

    /// What the server says to a call that cannot be right.
    async fn refused(&self, call: &str) -> String {
        let error = self.client.query_one(&format!("SELECT {call}"), &[]).await.unwrap_err();
        error.as_db_error().unwrap().message().to_owned()
    }

    async fn close(self, database: Database) {
        let role = &self.role;
        let drop = format!("RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}");
        self.client.batch_execute(&drop).await.unwrap();
        database.close().await;
    }
}

async fn waiting(store: &Postgres) -> Vec<Outboxed> {
    store.outbox(100).await.unwrap()
}

async fn events(store: &Postgres) -> Vec<EventId> {
    waiting(store).await.into_iter().map(|one| one.event).collect()
}

#[tokio::test]
async fn what_a_transaction_publishes_is_there_if_it_commits_and_only_then() {
    let database = Database::new().await;
    let store = database.store().await;
    let publisher = Publisher::new(&database).await;
    let before = store.now().await.unwrap();
    publisher.client.batch_execute("BEGIN").await.unwrap();
    publisher.publish("order.created").await;
    assert_eq!(waiting(&store).await, []);
    publisher.client.batch_execute("ROLLBACK; BEGIN").await.unwrap();
    let sql =
        "SELECT wakepost_publish('default', 'order.paid', '{\"b\": 1.50, \"a\": [null]}', 'k')";
    let id: String = publisher.client.query_one(sql, &[]).await.unwrap().get(0);
    publisher.client.batch_execute("COMMIT").await.unwrap();
    let found = waiting(&store).await;
    assert_eq!(
        found,
        [Outboxed {
            number: found[0].number,
            event: id.parse().unwrap(),
            tenant: "default".to_owned(),
            event_type: "order.paid".to_owned(),
            data: "{\"a\": [null], \"b\": 1.50}".to_owned(),
            dedup_key: Some("k".to_owned()),
        }]
    );
    let (made, after) = (found[0].event.0.time(), store.now().await.unwrap());
    assert!(before <= made && made <= after, "{before} {made} {after}");
    publisher.close(database).await;
}

#[tokio::test]
async fn what_commits_late_is_not_skipped() {
    let database = Database::new().await;
    let store = database.store().await;
    let (slow, fast) = (Publisher::new(&database).await, Publisher::new(&database).await);
    slow.client.batch_execute("BEGIN").await.unwrap();
    let late = slow.publish("order.created").await;
    let early = [fast.publish("order.created").await, fast.publish("order.created").await];
    assert_eq!(events(&store).await, early);
    let numbers: Vec<i64> = waiting(&store).await.into_iter().map(|one| one.number).collect();
    store.outbox_done(numbers.clone()).await.unwrap();
    // As on another node that picked up the same.
    store.outbox_done(numbers).await.unwrap();
    assert_eq!(waiting(&store).await, []);
    slow.client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(events(&store).await, [late]);
    let role = format!("DROP OWNED BY {0}; DROP ROLE {0}", slow.role);
    slow.client.batch_execute(&format!("RESET ROLE; {role}")).await.unwrap();
    fast.close(database).await;
}

#[tokio::test]
async fn what_cannot_be_published_stays_with_the_reason_until_its_time_is_over() {
    let database = Database::new().await;
    let store = database.store().await;
    let publisher = Publisher::new(&database).await;
    let (bad, good) =
        (publisher.publish("order.bad").await, publisher.publish("order.created").await);
    let number = waiting(&store).await[0].number;
    store.outbox_refused(number, "order.bad is not registered\0".to_owned()).await.unwrap();
    assert_eq!(events(&store).await, [good]);
    let raw = database.raw().await;
    let kept = "SELECT refused FROM outbox WHERE refused IS NOT NULL";
    let reason: String = raw.query_one(kept, &[]).await.unwrap().get(0);
    assert!(reason.starts_with("order.bad is not registered"), "{reason}");
    let made = bad.0.time();
    for (cut, left) in [(made, 2), (made.after(Duration::from_millis(1)), 1)] {
        let before = PruneBefore {
            bodies: cut,
            events: cut,
            runs: cut,
            dead_letters: cut,
            receipts: cut,
            figures: cut,
        };
        while store.prune(before).await.unwrap().more {}
        assert_eq!(count(&raw, "SELECT count(*) FROM outbox").await, left);
    }
    assert_eq!(events(&store).await, [good], "what waits is never pruned");
    publisher.close(database).await;
}

#[tokio::test]
async fn a_publisher_needs_the_right_to_call_and_has_no_other() {
    let database = Database::new().await;
    let store = database.store().await;
    let publisher = Publisher::new(&database).await;
    for table in ["outbox", "events", "tenants", "webhooks"] {
        let error =
            publisher.client.query(&format!("SELECT * FROM {table}"), &[]).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "42501", "{table}");
    }
    // Tables and functions of its own stand in for none of ours.
    publisher
        .client
        .batch_execute(
            "CREATE TEMP TABLE outbox (event uuid, tenant text, type text, data text, dedup_key text);
             CREATE TEMP TABLE tenants (slug text);
             CREATE FUNCTION pg_temp.wakepost_now() RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint';
             SET search_path = pg_temp, public",
        )
        .await
        .unwrap();
    let event = publisher.publish("order.created").await;
    assert_eq!(events(&store).await, [event]);
    assert!(event.0.time().as_millis() > 0);
    let role = &publisher.role;
    publisher
        .client
        .batch_execute(&format!(
            "RESET ROLE; REVOKE EXECUTE ON FUNCTION wakepost_publish(text, text, jsonb, text) FROM {role};
             SET ROLE {role}"
        ))
        .await
        .unwrap();
    let refused = publisher.refused("wakepost_publish('default', 'order.created', '{}')").await;
    assert!(refused.contains("permission denied"), "{refused}");
    publisher.close(database).await;
}

#[tokio::test]
async fn what_cannot_be_right_fails_its_publisher() {
    let database = Database::new().await;
    let store = database.store().await;
    let publisher = Publisher::new(&database).await;
    for (call, says) in [
        ("'default', 'Order', '{}'", "lower-case words"),
        ("'default', 'order', '{}'", "lower-case words"),
        ("'default', 'order.' || repeat('x', 128), '{}'", "lower-case words"),
        ("'default', 'webhook.disabled', '{}'", "by the gateway alone"),
        ("'nobody', 'order.created', '{}'", "no tenant nobody"),
        ("'default', 'order.created', NULL", "must not be null"),
        ("NULL, 'order.created', '{}'", "must not be null"),
        ("'default', 'order.created', '{}', ''", "1 to 500 characters"),
        ("'default', 'order.created', '{}', repeat('x', 501)", "1 to 500 characters"),
        ("'default', 'order.created', to_jsonb(repeat('x', 1048576))", "at most 1 MiB"),
    ] {
        let message = publisher.refused(&format!("wakepost_publish({call})")).await;
        assert!(message.contains(says), "{call}: {message}");
    }
    assert_eq!(waiting(&store).await, []);
    publisher.close(database).await;
}

#[tokio::test]
async fn ids_made_by_the_database_are_read_back_as_they_were_told() {
    let database = Database::new().await;
    let store = database.store().await;
    let publisher = Publisher::new(&database).await;
    let sql = "SELECT wakepost_publish('default', 'order.created', to_jsonb(n)) FROM generate_series(1, 2000) n";
    let told = publisher.client.query(sql, &[]).await.unwrap();
    let told: Vec<EventId> =
        told.iter().map(|row| row.get::<_, String>(0).parse().unwrap()).collect();
    let kept: Vec<EventId> =
        store.outbox(5000).await.unwrap().into_iter().map(|one| one.event).collect();
    assert_eq!(kept, told, "in the order they were published in");
    let chance: std::collections::BTreeSet<_> =
        told.iter().map(|id| id.0.as_u128() << 48).collect();
    assert_eq!(chance.len(), 2000);
    // No bit of chance is always the same.
    let (all, any) = told
        .iter()
        .fold((u128::MAX, 0), |(all, any), id| (all & id.0.as_u128(), any | id.0.as_u128()));
    let low = (1u128 << 80) - 1;
    assert_eq!((all & low, any & low), (0, low));
    publisher.close(database).await;
}
