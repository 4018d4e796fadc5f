//! The cases that the verifiers of all SDKs decide alike.

use http::{HeaderMap, HeaderName};
use serde_json::Value;
use wakepost_client::Verifier;

const SIGNATURES: &str = include_str!("../../../sdks/vectors/signatures.json");

#[test]
fn the_same_signatures_are_believed_as_by_the_other_sdks() {
    let cases: Vec<Value> = serde_json::from_str(SIGNATURES).expect("a list of cases");
    assert!(cases.len() > 70);
    for case in &cases {
        let list = |name: &str| case[name].as_array().expect(name).iter();
        let mut headers = HeaderMap::new();
        for pair in list("headers") {
            let name = HeaderName::try_from(pair[0].as_str().expect("a name")).expect("a name");
            headers.append(name, pair[1].as_str().expect("a value").parse().expect("a value"));
        }
        // A key of a key set is an object there.
        let text =
            |secret: &Value| secret.as_str().map_or_else(|| secret.to_string(), str::to_owned);
        let secrets: Vec<String> = list("secrets").map(text).collect();
        let verifier = Verifier::new(secrets.iter().map(String::as_str)).expect("secrets");
        let (body, now) = (case["body"].as_str().expect("a body"), case["now"].as_u64());
        let verdict = verifier.verify_at(&headers, body.as_bytes(), now.expect("a time"));
        assert_eq!(Some(verdict.is_ok()), case["accepted"].as_bool(), "{}", case["name"]);
    }
}
