//! Every exchange ends by its one deadline, with bounded bytes kept.

use std::time::Duration;

use http::{HeaderValue, StatusCode, header};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::sleep;

use super::receiver::*;
use crate::outbound::*;

fn client() -> GuardedClient {
    open_client(StubResolver::new(&[]))
}

/// Sends `text` until the peer has had enough.
async fn pour<S: AsyncWrite + Unpin>(stream: &mut S, text: &[u8]) {
    while stream.write_all(text).await.is_ok() {}
}

#[tokio::test]
async fn an_answer_comes_with_its_status_headers_body_and_timings() {
    let receiver = Receiver::answering(
        "HTTP/1.1 503 Busy\r\nRetry-After: 120\r\nX-A: 1\r\nX-A: 2\r\nContent-Length: 5\r\n\r\nlater",
    )
    .await;
    let answer = client().send(receiver.request()).await.unwrap();
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.headers[header::RETRY_AFTER], "120");
    assert_eq!(answer.headers.get_all("x-a").iter().count(), 2);
    assert_eq!(answer.body, "later");
    assert!(!answer.truncated);
    assert_eq!(answer.remote, Some(receiver.address));
    let timings = answer.timings;
    assert_eq!((timings.dns, timings.tls), (None, None));
    assert!(timings.connect.unwrap() <= timings.first_byte.unwrap());
    assert!(timings.first_byte.unwrap() <= timings.total);
}

#[tokio::test]
async fn the_client_alone_writes_host_and_framing() {
    let (seen, mut heads) = tokio::sync::mpsc::unbounded_channel();
    let receiver = Receiver::start(move |mut stream| {
        let seen = seen.clone();
        async move {
            seen.send(read_request(&mut stream).await.unwrap()).unwrap();
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await;
        }
    })
    .await;
    let mut request = receiver.request();
    for (name, value) in [
        ("host", "evil.example"),
        ("content-length", "999"),
        ("transfer-encoding", "chunked"),
        ("connection", "upgrade"),
        ("x-kept", "yes"),
    ] {
        request.headers.insert(name, HeaderValue::from_static(value));
    }
    client().send(request).await.unwrap();
    let head = heads.recv().await.unwrap();
    assert!(head.starts_with("POST /hook HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("host: {}\r\n", receiver.address)), "{head}");
    assert!(head.contains("content-length: 2\r\n"), "{head}");
    assert!(head.contains("x-kept: yes\r\n"), "{head}");
    assert!(!head.contains("evil") && !head.contains("chunked") && !head.contains("upgrade"));
}

#[tokio::test]
async fn a_receiver_that_never_answers_is_a_timeout() {
    let receiver =
        Receiver::start(|mut stream| async move { until_closed(&mut stream).await }).await;
    let error = failure(&client(), receiver.request()).await;
    assert_eq!(error.class, SendErrorClass::Timeout);
    assert_eq!(error.text, "timed out while waiting for the answer");
    assert!(error.timings.connect.is_some() && error.timings.first_byte.is_none());
    assert!(error.partial.is_none());
    assert!(receiver.one_ended().await, "the connection is dropped with the attempt");
}

#[tokio::test]
async fn a_receiver_that_never_reads_is_a_timeout() {
    let receiver = Receiver::start(|stream| async move {
        sleep(Duration::from_secs(30)).await;
        drop(stream);
    })
    .await;
    let mut request = receiver.request();
    request.body = vec![b'x'; 64 * 1024 * 1024].into();
    assert_eq!(failure(&client(), request).await.class, SendErrorClass::Timeout);
}

#[tokio::test]
async fn a_dripping_head_is_a_timeout() {
    let receiver = Receiver::start(|mut stream| async move {
        let _ = read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX: ").await;
        while stream.write_all(b"x").await.is_ok() {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_eq!(failure(&client(), receiver.request()).await.class, SendErrorClass::Timeout);
    assert!(receiver.one_ended().await);
}

#[tokio::test]
async fn a_dripping_body_is_a_timeout_that_shows_what_came() {
    let receiver = Receiver::start(|mut stream| async move {
        let _ = read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n").await;
        while stream.write_all(b"x").await.is_ok() {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let error = failure(&client(), receiver.request()).await;
    assert_eq!(error.class, SendErrorClass::Timeout);
    assert_eq!(error.text, "timed out while reading the answer");
    let partial = error.partial.unwrap();
    assert_eq!(partial.status, StatusCode::OK);
    assert!(partial.truncated && (1..100).contains(&partial.body.len()));
    assert!(receiver.one_ended().await);
}

#[tokio::test]
async fn an_endless_body_is_cut_and_its_connection_dropped() {
    for head in ["", "Transfer-Encoding: chunked\r\n", "Content-Length: 99999999999\r\n"] {
        let receiver = Receiver::start(move |mut stream| async move {
            let _ = read_request(&mut stream).await;
            let head = format!("HTTP/1.1 200 OK\r\n{head}\r\n");
            let _ = stream.write_all(head.as_bytes()).await;
            pour(&mut stream, b"5\r\nabcde\r\n".repeat(100).as_slice()).await;
        })
        .await;
        let answer = client().send(receiver.request()).await.unwrap();
        assert!(answer.truncated, "{head}");
        assert_eq!(answer.body.len(), 4096);
        assert!(receiver.one_ended().await);

        let whole = OutboundRequest { keep: KeepBody::Whole, ..receiver.request() };
        let error = failure(&client(), whole).await;
        assert_eq!(error.class, SendErrorClass::TooLarge);
        assert_eq!(error.text, "the answer is larger than 4096 bytes");
        assert!(error.partial.unwrap().body.len() <= 4096);
    }
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_is_whole_and_one_more_is_not() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n";
    let sized = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd";
    for text in [chunked, sized] {
        let receiver = Receiver::answering(text).await;
        for (bytes_max, truncated) in [(5, false), (4, false), (3, true), (0, true)] {
            let prefix = OutboundRequest { body_bytes_max: bytes_max, ..receiver.request() };
            let whole = OutboundRequest { keep: KeepBody::Whole, ..prefix.clone() };
            let answer = client().send(prefix).await.unwrap();
            assert_eq!(answer.truncated, truncated);
            assert_eq!(answer.body, "abcd"[..bytes_max.min(4)]);
            assert_eq!(client().send(whole).await.is_err(), truncated);
        }
    }
}

#[tokio::test]
async fn endless_headers_end_early() {
    for noise in ["X-Noise: n\r\n", "xxxxxxxxxxxxxxxx"] {
        let receiver = Receiver::start(move |mut stream| async move {
            let _ = read_request(&mut stream).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
            pour(&mut stream, noise.as_bytes()).await;
        })
        .await;
        let error = failure(&client(), receiver.request()).await;
        assert_eq!(error.class, SendErrorClass::Protocol, "{error:?}");
        assert_eq!(error.text, "the headers of the answer are too large");
        assert!(receiver.one_ended().await);
    }
}

#[tokio::test]
async fn a_flood_of_informational_answers_ends_early() {
    let receiver = Receiver::start(|mut stream| async move {
        let _ = read_request(&mut stream).await;
        pour(&mut stream, b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n").await;
    })
    .await;
    let error = failure(&client(), receiver.request()).await;
    assert_eq!(error.class, SendErrorClass::Protocol, "{error:?}");
    assert_eq!(error.text, "too many informational answers");
    assert!(receiver.one_ended().await);
}

#[tokio::test]
async fn a_few_informational_answers_are_passed_over() {
    let receiver = Receiver::answering(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n\
         HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    )
    .await;
    assert_eq!(client().send(receiver.request()).await.unwrap().status, StatusCode::OK);
}

#[tokio::test]
async fn an_upgrade_that_nobody_asked_for_leads_nowhere() {
    let receiver = Receiver::start(|mut stream| async move {
        let _ = read_request(&mut stream).await;
        let head = "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n";
        let _ = stream.write_all(head.as_bytes()).await;
        until_closed(&mut stream).await;
    })
    .await;
    let outcome = client().send(receiver.request()).await;
    assert!(!outcome.is_ok_and(|answer| answer.status.is_success()));
    assert!(receiver.one_ended().await);
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_not_followed() {
    let elsewhere = Receiver::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let url = format!("http://{}/", elsewhere.address);
    for status in [301, 302, 303, 307, 308] {
        let location = url.clone();
        let receiver = Receiver::start(move |mut stream| {
            let url = location.clone();
            async move {
                let _ = read_request(&mut stream).await;
                let head = format!("HTTP/1.1 {status} Moved\r\nLocation: {url}\r\n\r\n");
                let _ = stream.write_all(head.as_bytes()).await;
            }
        })
        .await;
        let answer = client().send(receiver.request()).await.unwrap();
        assert_eq!(answer.status.as_u16(), status);
        assert_eq!(answer.headers[header::LOCATION], *url);
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn a_connection_closed_in_the_middle_is_a_protocol_error() {
    for (text, head_came) in [
        ("", false),
        ("HTTP/1.1 200 OK\r\nContent-Le", false),
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", true),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", true),
    ] {
        let receiver = Receiver::start(move |mut stream| async move {
            let _ = read_request(&mut stream).await;
            let _ = stream.write_all(text.as_bytes()).await;
        })
        .await;
        let error = failure(&client(), receiver.request()).await;
        assert_eq!(error.class, SendErrorClass::Protocol, "{text:?}: {error:?}");
        let partial = error.partial.map(|answer| answer.body);
        assert_eq!(partial.as_deref(), head_came.then_some(b"abc".as_slice()), "{text:?}");
        assert_eq!(receiver.connections(), 1, "a request that may have arrived is not repeated");
    }
}

#[tokio::test]
async fn what_is_not_http_is_a_protocol_error() {
    for text in [
        "SSH-2.0-OpenSSH_9.9\r\n",
        "hello\r\n\r\n",
        "HTTP/1.1 99999 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX\0: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ] {
        let receiver = Receiver::answering(text).await;
        let error = failure(&client(), receiver.request()).await;
        assert_eq!(error.class, SendErrorClass::Protocol, "{text:?}: {error:?}");
    }
}

#[tokio::test]
async fn a_compressed_body_is_kept_as_it_came() {
    let receiver = Receiver::answering(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x08\x08\x00",
    )
    .await;
    let answer = client().send(receiver.request()).await.unwrap();
    assert_eq!(answer.body, "\x1f\x08\x08\x00");
}

#[tokio::test]
async fn nobody_listening_is_a_connect_error() {
    let receiver = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", receiver.local_addr().unwrap());
    drop(receiver);
    let error = failure(&client(), request(&url)).await;
    assert_eq!(error.class, SendErrorClass::Connect, "{error:?}");
}

#[tokio::test]
async fn a_handshake_that_never_comes_is_bounded() {
    let receiver =
        Receiver::start(|mut stream| async move { until_closed(&mut stream).await }).await;
    let url = format!("https://{}/", receiver.address);
    let error = failure(&client(), request(&url)).await;
    assert_eq!(error.class, SendErrorClass::Timeout);
    assert_eq!(error.text, "timed out during the TLS handshake");

    let settings = ClientSettings {
        policy: AddressPolicy::trusted(),
        connect_timeout: DEADLINE / 4,
        ..Default::default()
    };
    let hasty = client_with(StubResolver::new(&[]), settings);
    let error = failure(&hasty, request(&url)).await;
    assert_eq!(
        (error.class, error.text.as_str()),
        (SendErrorClass::Tls, "the handshake timed out")
    );
}
