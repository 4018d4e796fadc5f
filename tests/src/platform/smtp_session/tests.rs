//! The mail server takes what a mail server takes, and refuses the rest.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::BufStream;
use tokio_rustls::TlsConnector;

use super::*;
use crate::platform::Smtp;

const MAIL: &str = "From: a@corp.example\r\nTo: ada@acme.example\r\nSubject: Re: x\r\n\
                    Message-ID: <1@corp.example>\r\nDate: Tue, 14 Nov 2023 22:13:20 +0000\r\n\
                    MIME-Version: 1.0\r\n\r\nHi\r\n..dots\r\n.\r\n";

/// Says each line, and sees each answer begin as it should.
async fn talk(stream: &mut BufStream<impl AsyncRead + AsyncWrite + Unpin>, lines: &[(&str, &str)]) {
    for (said, expected) in lines {
        stream.write_all(said.as_bytes()).await.expect("a connection");
        stream.flush().await.expect("a connection");
        loop {
            let mut answer = String::new();
            stream.read_line(&mut answer).await.expect("a connection");
            if answer.as_bytes().get(3) == Some(&b'-') {
                continue;
            }
            assert!(answer.starts_with(expected), "{said}: {answer}");
            break;
        }
    }
}

async fn connected(smtp: &Smtp) -> BufStream<TcpStream> {
    BufStream::new(TcpStream::connect(("127.0.0.1", smtp.port())).await.expect("a connection"))
}

fn trusting(smtp: &Smtp) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(smtp.certificate().clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

const FROM: &str = "MAIL FROM:<a@corp.example>\r\n";

const ENVELOPE: [(&str, &str); 3] =
    [(FROM, "250"), ("RCPT TO:<ada@acme.example>\r\n", "250"), ("DATA\r\n", "354")];

#[tokio::test]
async fn a_mail_is_taken_whole_with_its_dots() {
    let smtp = Smtp::start(SmtpTls::Off, None).await;
    let mut stream = connected(&smtp).await;
    talk(&mut stream, &[("", "220"), ("EHLO client\r\n", "250")]).await;
    talk(&mut stream, &ENVELOPE).await;
    talk(&mut stream, &[(MAIL, "250"), ("QUIT\r\n", "221")]).await;
    let mail = &smtp.wait_for(1).await[0];
    assert_eq!(
        (mail.from.as_str(), &mail.to[..]),
        ("a@corp.example", &["ada@acme.example".to_owned()][..])
    );
    assert_eq!(mail.parsed().body_text(0).as_deref(), Some("Hi\r\n.dots\r\n"));
    assert_eq!(smtp.sessions(), 1);
}

#[tokio::test]
async fn a_login_is_needed_and_plain_and_login_show_it() {
    let smtp = Smtp::start(SmtpTls::Off, Some(("ada", "secret"))).await;
    let plain = format!("AUTH PLAIN {}\r\n", STANDARD.encode("\0ada\0secret"));
    let [user, password] = ["ada", "secret"].map(|text| format!("{}\r\n", STANDARD.encode(text)));
    let wrong = format!("AUTH PLAIN {}\r\n", STANDARD.encode("\0ada\0guess"));
    let mut stream = connected(&smtp).await;
    let lines = [("", "220"), ("EHLO client\r\n", "250"), (&*wrong, "535"), (FROM, "530")];
    talk(&mut stream, &lines).await;
    smtp.expect_violations(&["wrong login", "did not authenticate"]);
    talk(&mut stream, &[(&plain, "235"), ENVELOPE[0]]).await;
    let mut stream = connected(&smtp).await;
    let by_steps = [
        ("", "220"),
        ("EHLO client\r\n", "250"),
        ("AUTH LOGIN\r\n", "334"),
        (&*user, "334"),
        (&*password, "235"),
    ];
    talk(&mut stream, &by_steps).await;
}

#[tokio::test]
async fn a_password_waits_for_the_protection_of_tls() {
    let smtp = Smtp::start(SmtpTls::StartTls, Some(("ada", "secret"))).await;
    let plain = format!("AUTH PLAIN {}\r\n", STANDARD.encode("\0ada\0secret"));
    let mut stream = connected(&smtp).await;
    talk(
        &mut stream,
        &[("", "220"), ("EHLO client\r\n", "250"), (&plain, "538"), ("STARTTLS\r\n", "220")],
    )
    .await;
    smtp.expect_violations(&["before STARTTLS"]);
    let name = ServerName::try_from("localhost").expect("a name");
    let secure = trusting(&smtp).connect(name, stream.into_inner()).await.expect("a handshake");
    let mut stream = BufStream::new(secure);
    talk(&mut stream, &[("EHLO client\r\n", "250"), (&plain, "235")]).await;
    talk(&mut stream, &ENVELOPE).await;
    talk(&mut stream, &[(MAIL, "250")]).await;
    assert_eq!(smtp.mails().len(), 1);
}

#[tokio::test]
async fn tls_can_be_there_from_the_first_byte() {
    let smtp = Smtp::start(SmtpTls::Implicit, None).await;
    let name = ServerName::try_from("localhost").expect("a name");
    let stream = connected(&smtp).await.into_inner();
    let secure = trusting(&smtp).connect(name, stream).await.expect("a handshake");
    talk(&mut BufStream::new(secure), &[("", "220"), ("EHLO client\r\n", "250")]).await;
}

#[tokio::test]
async fn what_a_mail_server_refuses_is_refused() {
    let smtp = Smtp::start(SmtpTls::Off, None).await;
    smtp.refuses("nobody@acme.example");
    let mut stream = connected(&smtp).await;
    talk(&mut stream, &[("", "220"), (FROM, "503")]).await;
    let lines = [
        ("EHLO client\r\n", "250"),
        ("MAIL FROM:a@corp.example\r\n", "501"),
        ENVELOPE[0],
        ("RCPT TO:<nobody@acme.example>\r\n", "550"),
        ("DATA\r\n", "503"),
        ("HELP ME\r\n", "502"),
        ENVELOPE[1],
        ENVELOPE[2],
        ("From: a@corp.example\r\n\r\nd\u{e9}j\u{e0}\r\n.\r\n", "250"),
    ];
    talk(&mut stream, &lines).await;
    smtp.expect_violations(&[
        "MAIL at the wrong time",
        "said MAIL FROM:a@",
        "DATA at the wrong time",
        "\"HELP\"",
        "over 127",
        "headers To",
        "headers Date",
        "headers Message-ID",
        "headers Subject",
        "headers MIME-Version",
    ]);
    stream.write_all(b"NOOP\n").await.expect("a connection");
    stream.flush().await.expect("a connection");
    let mut rest = String::new();
    let _ = stream.read_to_string(&mut rest).await;
    assert_eq!(rest, "");
    smtp.expect_violations(&["without CR and LF"]);
}

#[tokio::test]
async fn it_can_die_before_and_after_it_has_taken_a_mail() {
    let smtp = Smtp::start(SmtpTls::Off, None).await;
    for (fault, taken) in [(Fault::ClosesBefore, 0), (Fault::ClosesAfter, 1)] {
        smtp.next(fault);
        let mut stream = connected(&smtp).await;
        talk(&mut stream, &[("", "220"), ("EHLO client\r\n", "250")]).await;
        talk(&mut stream, &ENVELOPE).await;
        stream.write_all(MAIL.as_bytes()).await.expect("a connection");
        stream.flush().await.expect("a connection");
        let mut rest = String::new();
        let _ = stream.read_to_string(&mut rest).await;
        assert_eq!((rest.as_str(), smtp.mails().len()), ("", taken));
    }
    smtp.next(Fault::Fails);
    let mut stream = connected(&smtp).await;
    talk(&mut stream, &[("", "220"), ("EHLO client\r\n", "250")]).await;
    talk(&mut stream, &ENVELOPE).await;
    talk(&mut stream, &[(MAIL, "451")]).await;
    assert!(smtp.script_is_over());
}
