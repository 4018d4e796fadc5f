//! Limiting callers: a key has its rate, and an address that guesses keys has to wait.

use http::{HeaderMap, Method};
use serde_json::json;
use wakepost_tests::{Answer, Api, Database, Gateway, on_both};

on_both!(
    a_key_that_calls_too_often_is_told_when_to_come_again,
    a_key_without_a_rate_has_the_servers,
    wrong_keys_from_one_address_are_slowed_and_right_ones_never,
);

async fn a_key_that_calls_too_often_is_told_when_to_come_again(database: Database) {
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    let key = |rate: serde_json::Value| json!({"name": "k", "role": "viewer", "rate_per_s": rate});
    for wrong in [json!(0), json!(-1), json!(1_000_001), json!("5")] {
        admin.post("/keys", key(wrong)).await.refuses_field("rate_per_s");
    }
    let made = admin.post("/keys", key(json!(0.05))).await.is(201);
    assert_eq!(made.json()["rate_per_s"], 0.05);
    let listed = admin.list("/keys").await;
    let row = listed.iter().find(|row| row["id"] == made.text("id")).expect("the key");
    assert_eq!(row["rate_per_s"], 0.05);
    let slow = admin.with_key(&made.text("key"));
    slow.get("/inbox").await.is(200);
    for path in ["/inbox", "/nowhere", "/jobs/rubbish"] {
        let answer = slow.get(path).await.refuses(429, "rate_limited");
        let wait: u64 = answer.header("retry-after").parse().expect("seconds");
        assert!((1..=20).contains(&wait), "{wait}");
    }
    // An agent's tools are calls like any other.
    mcp(&slow, HeaderMap::new()).await.refuses(429, "rate_limited");
    // Others have theirs, or none.
    for _ in 0..30 {
        admin.get("/inbox").await.is(200);
    }
}

async fn a_key_without_a_rate_has_the_servers(database: Database) {
    let gateway = Gateway::setup(database).setting("WAKEPOST_KEY_RATE_PER_S", "1").start().await;
    let admin = gateway.admin();
    let fast = json!({"name": "k", "role": "viewer", "rate_per_s": 1000});
    let fast = admin.with_key(&admin.post("/keys", fast).await.is(201).text("key"));
    for _ in 0..20 {
        fast.get("/inbox").await.is(200);
    }
    let mut answers = Vec::new();
    for _ in 0..20 {
        answers.push(admin.get("/inbox").await.status);
    }
    assert!(answers.contains(&429), "{answers:?}");
}

async fn mcp(api: &Api, headers: HeaderMap) -> Answer {
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    api.anywhere(Method::POST, "/mcp", headers, Some(&ping)).await
}

async fn from(api: &Api, address: &str) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert("x-forwarded-for", address.parse().expect("a value"));
    api.call_with(Method::GET, "/inbox", headers, None).await
}

async fn wrong_keys_from_one_address_are_slowed_and_right_ones_never(database: Database) {
    let setup = Gateway::setup(database).setting("WAKEPOST_TRUSTED_PROXIES", "127.0.0.1");
    let gateway = setup.start().await;
    let admin = gateway.admin();
    let guess = async |n: usize| from(&admin.with_key(&format!("wpk_{n}")), "192.0.2.1").await;
    for n in 0..20 {
        guess(n).await.refuses(401, "unauthorized");
    }
    let refused = guess(20).await.refuses(429, "rate_limited");
    let wait: u64 = refused.header("retry-after").parse().expect("seconds");
    assert!((1..=3).contains(&wait), "{wait}");
    let mut there = HeaderMap::new();
    there.insert("x-forwarded-for", "192.0.2.1".parse().expect("a value"));
    mcp(&admin.with_key("wpk_mcp"), there).await.refuses(429, "rate_limited");
    from(&admin, "192.0.2.1").await.is(200);
    from(&admin.with_key("wpk_x"), "192.0.2.2").await.refuses(401, "unauthorized");
    // Who sends none guesses nothing.
    from(&admin.without_key(), "192.0.2.1").await.refuses(401, "unauthorized");
}
