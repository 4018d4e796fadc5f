//! Google's stand-in refuses what Google refuses.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::RSA_PKCS1_SHA256;

use super::super::testing;
use super::*;
use crate::http::Answer;

const DRIVE: &str = "https://www.googleapis.com/auth/drive";
const REPLIES: &str = "/drive/v3/files/f/comments/c/replies";

/// Signs with the key in a key file, as a client would.
fn assertion(service_account: &str, change: impl Fn(&mut Value)) -> String {
    let file: Value = serde_json::from_str(service_account).expect("a key file");
    let pem = file["private_key"].as_str().expect("a key");
    let base64: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let key = RsaKeyPair::from_pkcs8(&STANDARD.decode(base64).expect("base64")).expect("a key");
    let now = now().as_secs();
    let mut claims = json!({
        "iss": CLIENT_EMAIL, "scope": DRIVE, "aud": file["token_uri"], "iat": now, "exp": now + 3600,
    });
    change(&mut claims);
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", encode(&json!({"alg": "RS256", "typ": "JWT"})), encode(&claims));
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature)
        .expect("a signature");
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

async fn ask(google: &Platform<GoogleReplies>, assertion: &str) -> Answer {
    let body = format!("grant_type={}&assertion={assertion}", GRANT.replace(':', "%3A"));
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    testing::send(Method::POST, &google.url("/token"), &headers, body).await
}

async fn call(
    google: &Platform<GoogleReplies>,
    method: Method,
    path: &str,
    token: &str,
    body: Value,
) -> Answer {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    testing::send(method, &google.url(path), &headers, body.to_string()).await
}

#[tokio::test]
async fn a_comment_is_answered_and_its_replies_are_read_back() {
    let google = GoogleReplies::start().await;
    let account = google.with(|google| {
        google.hears("f", "c");
        google.hears_reply("f", "c", "Any news?");
        google.service_account()
    });
    let token = ask(&google, &assertion(&account, |_| {})).await.is(200).text("access_token");
    for content in ["one", "two"] {
        let path = format!("{REPLIES}?fields=id");
        let made = call(&google, Method::POST, &path, &token, json!({"content": content}))
            .await
            .is(200)
            .json();
        assert_eq!(made.as_object().map(serde_json::Map::len), Some(1));
    }
    let path = format!("{REPLIES}?fields=replies(content,author/me),nextPageToken");
    let first = call(&google, Method::GET, &path, &token, json!({})).await.is(200).json();
    assert_eq!(first["replies"][0], json!({"content": "Any news?", "author": {"me": false}}));
    let path = format!("{path}&pageToken={}", first["nextPageToken"].as_str().expect("a token"));
    let second = call(&google, Method::GET, &path, &token, json!({})).await.is(200).json();
    assert_eq!(second, json!({"replies": [{"content": "two", "author": {"me": true}}]}));
    assert_eq!(google.with(|google| google.said("f", "c").len()), 2);
}

#[tokio::test]
async fn only_a_good_assertion_gets_a_token() {
    let google = GoogleReplies::start().await;
    let account = google.with(|google| google.service_account());
    let stranger = GoogleReplies::at("http://a.example").service_account();
    let refused = [
        (assertion(&stranger, |claims| claims["aud"] = google.url("/token").into()), "Signature"),
        (assertion(&account, |claims| claims["aud"] = "https://a.example".into()), "audience"),
        (
            assertion(&account, |claims| claims["exp"] = (now().as_secs() + 7200).into()),
            "short-lived",
        ),
        (assertion(&account, |claims| claims["exp"] = (now().as_secs() - 1).into()), "short-lived"),
        (
            assertion(&account, |claims| {
                claims["scope"] = "https://www.googleapis.com/auth/drive.readonly".into()
            }),
            "scope",
        ),
        (
            assertion(&account, |claims| claims["iss"] = "other@acme.example".into()),
            "account not found",
        ),
        ("nonsense".to_owned(), "Bad Request"),
    ];
    for (assertion, why) in &refused {
        let said = ask(&google, assertion).await.is(400).text("error_description");
        assert!(said.contains(why), "{said}");
    }
    google.expect_violations(&refused.map(|(_, why)| why));
}

#[tokio::test]
async fn what_drive_refuses_is_refused() {
    let google = GoogleReplies::start().await;
    let account = google.with(|google| {
        google.hears("f", "c");
        google.service_account()
    });
    let token = ask(&google, &assertion(&account, |_| {})).await.is(200).text("access_token");
    let reply = |content: &str| json!({"content": content});
    let with_fields = format!("{REPLIES}?fields=id");
    call(&google, Method::POST, &with_fields, "ya29.other", reply("x")).await.is(401);
    call(&google, Method::POST, REPLIES, &token, reply("x")).await.is(400);
    call(&google, Method::POST, &with_fields, &token, reply("")).await.is(400);
    let elsewhere = "/drive/v3/files/f/comments/d/replies?fields=id";
    call(&google, Method::POST, elsewhere, &token, reply("x")).await.is(404);
    call(&google, Method::POST, &with_fields, &token, reply(&"x".repeat(4001))).await.is(200);
    google.expect_violations(&[
        "credentials",
        "'fields'",
        "content is required",
        "Comment not found",
        "4001",
    ]);
}
