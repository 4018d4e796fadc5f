use super::*;
use crate::signature::Encoding;
use crate::testing::{Counting, NOW, map_with, settings, verify_with};

const SECRET: &str = "a shared secret";

fn signed(body: &str, settings: &Settings) -> SignedRequest {
    let mut request = SignedRequest::post("https://hooks.example/in/src_1", body);
    Generic.sign(&mut request, SECRET, settings, "id_1", NOW).unwrap();
    request
}

fn verdict(request: &SignedRequest, settings: &Settings) -> Result<Verified, Refusal> {
    verify_with(&Generic, request, &[SECRET], settings, NOW)
}

fn mapped(request: &SignedRequest, settings: &Settings) -> Result<Mapped, MapError> {
    map_with(&Generic, request, settings)
}

#[test]
fn slacks_published_vector_is_accepted_by_configuration_alone() {
    let body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V\
        &channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=\
        &response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN\
        &trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    let settings = settings(&[
        ("header", "X-Slack-Signature"),
        ("prefix", "v0="),
        ("content", "v0:{timestamp}:{body}"),
        ("timestamp_header", "X-Slack-Request-Timestamp"),
    ]);
    let mut request = SignedRequest::post("https://hooks.example/", body);
    request.set("X-Slack-Request-Timestamp", "1531420618").unwrap();
    let tag = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
    request.set("X-Slack-Signature", tag).unwrap();
    let (secret, at) = ("8f742231b10e8888abcd99yyyzzz85a5", Timestamp::from_secs(1_531_420_618));
    let verified = verify_with(&Generic, &request, &[secret], &settings, at);
    assert_eq!(verified, Ok(Verified { secret_index: 0, signed_at: Some(at) }));
}

#[test]
fn githubs_published_vector_is_accepted_by_configuration_alone() {
    let settings = settings(&[("header", "X-Hub-Signature-256"), ("prefix", "sha256=")]);
    let mut request = SignedRequest::post("https://hooks.example/", "Hello, World!");
    let tag = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    request.set("X-Hub-Signature-256", tag).unwrap();
    let secret = "It's a Secret to Everybody";
    assert!(verify_with(&Generic, &request, &[secret], &settings, NOW).is_ok());
}

#[test]
fn rfc_8032s_ed25519_vector_is_accepted_with_the_key_in_every_form() {
    let settings = settings(&[("header", "X-Sig"), ("algorithm", "ed25519"), ("encoding", "hex")]);
    let mut request = SignedRequest::post("https://hooks.example/", [0x72]);
    let tag = "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da\
        085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00";
    request.set("X-Sig", tag).unwrap();
    let hex_key = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";
    let bytes = hex::decode(hex_key).unwrap();
    let base64_key = Encoding::Base64.encode(&bytes);
    let url_key = Encoding::Base64Url.encode(&bytes);
    for key in [hex_key, &base64_key, &url_key, &format!("whpk_{base64_key}")] {
        assert_eq!(Generic.check_config(Some(key), &settings), Ok(vec![]));
        assert!(verify_with(&Generic, &request, &[key], &settings, NOW).is_ok(), "{key}");
    }
}

#[test]
fn one_good_signature_among_several_is_enough() {
    let settings = settings(&[("header", "X-Sig"), ("prefix", "v1="), ("separator", ",")]);
    let mut request = signed("{}", &settings);
    let good = request.headers["x-sig"].to_str().unwrap().to_owned();
    for (header, accepted) in [
        (format!("v1=00,{good}"), true),
        (format!("t=1, {good}, v1="), true),
        (format!("v2={}", &good[3..]), false),
        (good[3..].to_owned(), false),
        ("v1=,v1=".to_owned(), false),
        (format!("{}{good}", "v1=00,".repeat(16)), false),
    ] {
        request.set("X-Sig", &header).unwrap();
        assert_eq!(verdict(&request, &settings).is_ok(), accepted, "{header}");
    }
}

#[test]
fn a_time_in_the_body_is_checked_after_the_signature() {
    let settings = settings(&[("header", "X-Sig"), ("timestamp_pointer", "/sent/at")]);
    let at = |time: &str| signed(&format!(r#"{{"sent":{{"at":{time}}}}}"#), &settings);
    let verified = verdict(&at("1700000000"), &settings).unwrap();
    assert_eq!(verified.signed_at, Some(NOW));
    assert!(verdict(&at("\"1700000300\""), &settings).is_ok());
    assert!(matches!(verdict(&at("1700000301"), &settings), Err(Refusal::Stale { .. })));
    for bad in
        ["-1700000000", "1700000000000", "1700000000.5", "1e400", "null", "\"\"", "\"1x\"", "[]"]
    {
        let refused = verdict(&at(bad), &settings);
        assert!(matches!(refused, Err(Refusal::Signature(_))), "{bad}: {refused:?}");
    }
    let deep = signed(&"[".repeat(100_000), &settings);
    assert!(matches!(verdict(&deep, &settings), Err(Refusal::Signature(_))));
}

#[test]
fn a_time_outside_the_signature_is_checked_but_not_called_signed() {
    let settings = settings(&[("header", "X-Sig"), ("timestamp_header", "X-Time")]);
    let mut request = signed("{}", &settings);
    assert_eq!(verdict(&request, &settings).unwrap().signed_at, None);
    request.set("X-Time", "1600000000").unwrap();
    assert!(matches!(verdict(&request, &settings), Err(Refusal::Stale { .. })));
    request.set("X-Time", "1700000000 and more").unwrap();
    assert!(matches!(verdict(&request, &settings), Err(Refusal::Signature(_))));
}

#[test]
fn a_basic_password_is_read_in_its_canonical_form_only() {
    let settings = settings(&[("algorithm", "basic")]);
    let mut request = SignedRequest::post("https://hooks.example/", "{}");
    for (header, accepted) in [
        ("Basic dTpwdw==", true),
        ("basic dTpwdw==", true),
        ("Basic dTpwdw", false),
        ("Basic dTpwdx==", false),
        ("Basic  dTpwdw==", false),
        ("Bearer dTpwdw==", false),
        ("Basic", false),
        ("Basic ", false),
        ("u:pw", false),
    ] {
        request.set("Authorization", header).unwrap();
        let verdict = verify_with(&Generic, &request, &["u:pw"], &settings, NOW);
        assert_eq!(verdict.is_ok(), accepted, "{header}");
    }
}

#[test]
fn id_and_type_come_from_where_the_settings_say() {
    let body = r#"{"meta":{"id":77,"kind":"thing.done"}}"#;
    let by_pointer = settings(&[
        ("header", "X-Sig"),
        ("id_pointer", "/meta/id"),
        ("type_pointer", "/meta/kind"),
    ]);
    let event = mapped(&signed(body, &by_pointer), &by_pointer).unwrap();
    assert_eq!((event.dedup_key.as_deref(), &*event.event_type), (Some("77"), "thing.done"));

    let by_header =
        settings(&[("header", "X-Sig"), ("id_header", "X-Id"), ("type_header", "X-Type")]);
    let mut request = signed(body, &by_header);
    request.set("X-Type", "thing.gone").unwrap();
    let event = mapped(&request, &by_header).unwrap();
    assert_eq!((event.dedup_key.as_deref(), &*event.event_type), (Some("id_1"), "thing.gone"));
}

#[test]
fn without_id_and_type_the_body_hash_and_a_plain_name_stand_in() {
    let pointers = settings(&[("id_pointer", "/id"), ("type_pointer", "/type")]);
    for (body, settings) in
        [("{}", &pointers), (r#"{"id":""}"#, &pointers), ("{}", &Settings::new())]
    {
        let event = mapped(&SignedRequest::post("https://hooks.example/", body), settings).unwrap();
        assert_eq!((event.dedup_key, &*event.event_type), (None, "event"));
    }
}

#[test]
fn a_body_that_claims_no_json_is_opaque_and_one_that_does_must_be_sound() {
    let mut request = SignedRequest::post("https://hooks.example/", "a=b&c=\u{0}");
    assert!(matches!(mapped(&request, &Settings::new()), Err(MapError::NotJson(_))));
    request.set("content-type", "application/x-www-form-urlencoded").unwrap();
    assert!(mapped(&request, &Settings::new()).is_ok());
    let pointers = settings(&[("id_pointer", "/id")]);
    assert!(matches!(mapped(&request, &pointers), Err(MapError::NotJson(_))));
    let empty = SignedRequest::post("https://hooks.example/", "");
    assert!(mapped(&empty, &Settings::new()).is_ok());
}

#[test]
fn malformed_settings_are_named() {
    for (pairs, field) in [
        (&[("header", "not a header")][..], "header"),
        (&[("algorithm", "md5")], "algorithm"),
        (&[("encoding", "rot13")], "encoding"),
        (&[("timestamp_unit", "weeks")], "timestamp_unit"),
        (&[("content", "{nope}")], "content"),
        (&[("content", "{id}{body}")], "content"),
        (&[("content", "{timestamp}{body}")], "content"),
        (&[("id_pointer", "id")], "id_pointer"),
        (&[("id_pointer", "/id"), ("id_header", "X-Id")], "id_pointer"),
        (&[("type_header", "\n")], "type_header"),
        (&[("headr", "X-Sig")], "headr"),
    ] {
        let error = Generic.check_config(Some(SECRET), &settings(pairs)).unwrap_err();
        assert_eq!(error.field, field, "{error}");
    }
    let number = Settings::from_iter([("prefix".to_owned(), 5.into())]);
    assert_eq!(Generic.check_config(None, &number).unwrap_err().field, "prefix");
}

#[test]
fn a_malformed_secret_is_named_and_never_repeated() {
    for (algorithm, secret) in
        [("basic", "no-colon"), ("ed25519", "no-key"), ("ed25519", "whsk_AA")]
    {
        let settings = settings(&[("header", "X-Sig"), ("algorithm", algorithm)]);
        let error = Generic.check_config(Some(secret), &settings).unwrap_err();
        assert_eq!(error.field, "secret");
        assert!(!error.to_string().contains(secret));
    }
}

#[test]
fn what_is_missing_is_listed_and_until_then_the_source_is_not_ready() {
    let missing = Generic.check_config(None, &Settings::new());
    assert_eq!(missing, Ok(vec!["secret".to_owned(), "header".to_owned()]));
    let basic = settings(&[("algorithm", "basic")]);
    assert_eq!(Generic.check_config(Some("u:p"), &basic), Ok(vec![]));
    let request = SignedRequest::post("https://hooks.example/", "{}");
    assert!(matches!(verdict(&request, &Settings::new()), Err(Refusal::Unready(_))));
}

#[test]
fn a_made_secret_fits_the_algorithm_and_a_public_key_is_never_made() {
    for algorithm in ["hmac-sha256", "token", "basic"] {
        let settings = settings(&[("header", "X-Sig"), ("algorithm", algorithm)]);
        let secret = Generic.generate_secret(&settings, &Counting::default()).unwrap();
        assert_eq!(Generic.check_config(Some(&secret), &settings), Ok(vec![]));
    }
    let settings = settings(&[("header", "X-Sig"), ("algorithm", "ed25519")]);
    assert_eq!(Generic.generate_secret(&settings, &Counting::default()), None);
    assert_eq!(Generic.facts_for(&settings).secret, SecretNeed::Given);
}

#[test]
fn facts_follow_from_what_the_signature_covers() {
    let facts = |pairs: &[(&str, &str)]| {
        let facts = Generic.facts_for(&settings(pairs));
        (facts.signs_body, facts.id_is_signed)
    };
    assert_eq!(facts(&[("header", "X-Sig")]), (true, true));
    assert_eq!(facts(&[("header", "X-Sig"), ("id_pointer", "/id")]), (true, true));
    assert_eq!(facts(&[("header", "X-Sig"), ("id_header", "X-Id")]), (true, false));
    let covered = [("header", "X-Sig"), ("id_header", "X-Id"), ("content", "{id}{body}")];
    assert_eq!(facts(&covered), (true, true));
    assert_eq!(facts(&[("algorithm", "basic"), ("id_pointer", "/id")]), (false, false));
    assert_eq!(facts(&[("header", "X-T"), ("algorithm", "token")]), (false, false));
}
