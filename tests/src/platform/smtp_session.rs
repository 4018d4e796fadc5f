//! One SMTP session, from the greeting to the end (RFC 5321, 3207, 4954).

use std::future::pending;
use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::fault::Fault;
use super::smtp::{Shared, SmtpMail, SmtpTls};

/// The longest line: the text of a message has shorter ones.
const LINE_BYTES_MAX: u64 = 4096;

/// What a line of a message may have, without its end.
const TEXT_LINE_BYTES_MAX: usize = 998;

/// The longest message.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;

/// The most commands of one session.
const COMMANDS_MAX: usize = 100;

/// How a session goes on.
enum Next {
    /// With the next command.
    On,
    /// With TLS, from the start.
    Secure,
    /// Not at all.
    End,
}

pub(super) async fn run(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    if shared.tls == SmtpTls::Implicit {
        let stream = shared.acceptor.accept(stream).await?;
        return Session::new(stream, shared, true).greeted().await.map(|_| ());
    }
    match Session::new(stream, shared, false).greeted().await? {
        None => Ok(()),
        Some(stream) => {
            let stream = shared.acceptor.accept(stream).await?;
            // What was said before does not count any more, and there is no second greeting.
            Session::new(stream, shared, true).commands().await.map(|_| ())
        }
    }
}

struct Session<'s, S> {
    stream: BufReader<S>,
    shared: &'s Shared,
    is_secure: bool,
    greeted: bool,
    is_known: bool,
    /// What the client said the message needs.
    takes_8_bits: bool,
    from: Option<String>,
    to: Vec<String>,
}

impl<'s, S: AsyncRead + AsyncWrite + Unpin> Session<'s, S> {
    fn new(stream: S, shared: &'s Shared, is_secure: bool) -> Session<'s, S> {
        Session {
            stream: BufReader::new(stream),
            shared,
            is_secure,
            greeted: false,
            is_known: shared.login.is_none(),
            takes_8_bits: false,
            from: None,
            to: Vec::new(),
        }
    }

    async fn greeted(mut self) -> io::Result<Option<S>> {
        self.say("220 mail.stand-in.example ESMTP").await?;
        self.commands().await
    }

    /// Hears commands until the end, or until the connection is to be made secure.
    async fn commands(mut self) -> io::Result<Option<S>> {
        for _ in 0..COMMANDS_MAX {
            let Some(line) = self.line().await? else {
                return Ok(None);
            };
            let line = String::from_utf8_lossy(&line).into_owned();
            match self.command(&line).await? {
                Next::On => {}
                Next::Secure => return Ok(Some(self.stream.into_inner())),
                Next::End => return Ok(None),
            }
        }
        self.say("421 4.7.0 Too many commands").await?;
        Ok(None)
    }

    async fn command(&mut self, line: &str) -> io::Result<Next> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb.to_ascii_uppercase().as_str() {
            "EHLO" => self.hello(rest).await?,
            "STARTTLS" if self.shared.tls == SmtpTls::StartTls && !self.is_secure => {
                self.say("220 2.0.0 Ready to start TLS").await?;
                // Bytes that came before the handshake would be taken as said under its protection.
                if !self.stream.buffer().is_empty() {
                    self.note("spoke on before the handshake");
                    return Ok(Next::End);
                }
                return Ok(Next::Secure);
            }
            "AUTH" => self.authenticate(rest).await?,
            "MAIL" => self.mail(rest).await?,
            "RCPT" => self.recipient(rest).await?,
            "DATA" => return self.data().await,
            "RSET" => {
                self.reset();
                self.say("250 2.0.0 OK").await?;
            }
            "NOOP" => self.say("250 2.0.0 OK").await?,
            "QUIT" => {
                self.say("221 2.0.0 Bye").await?;
                return Ok(Next::End);
            }
            _ => {
                self.note(format!("said {verb:?}"));
                self.say("502 5.5.2 Command not recognized").await?;
            }
        }
        Ok(Next::On)
    }

    async fn hello(&mut self, name: &str) -> io::Result<()> {
        if name.trim().is_empty() {
            self.note("gave no name in EHLO");
            return self.say("501 5.5.4 Syntax: EHLO hostname").await;
        }
        self.greeted = true;
        self.reset();
        let mut answer = "250-mail.stand-in.example\r\n250-8BITMIME\r\n".to_owned();
        answer.push_str(&format!("250-SIZE {MESSAGE_BYTES_MAX}\r\n"));
        if self.shared.tls == SmtpTls::StartTls && !self.is_secure {
            answer.push_str("250-STARTTLS\r\n");
        } else if self.shared.login.is_some() {
            answer.push_str("250-AUTH PLAIN LOGIN\r\n");
        }
        answer.push_str("250 ENHANCEDSTATUSCODES");
        self.say(&answer).await
    }

    async fn authenticate(&mut self, rest: &str) -> io::Result<()> {
        let Some(login) = self.shared.login.clone() else {
            return self.say("503 5.5.1 Authentication is not available").await;
        };
        if self.shared.tls == SmtpTls::StartTls && !self.is_secure {
            self.note("showed a password before STARTTLS");
            return self.say("538 5.7.11 Encryption required").await;
        }
        let (mechanism, initial) = rest.split_once(' ').unwrap_or((rest, ""));
        let shown = match mechanism.to_ascii_uppercase().as_str() {
            "PLAIN" => {
                let answer = match initial {
                    "" => self.challenge("").await?,
                    initial => decoded(initial),
                };
                let mut parts = answer.split('\0').skip(1).map(str::to_owned);
                (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
            }
            "LOGIN" => {
                let user = match initial {
                    "" => self.challenge("Username:").await?,
                    initial => decoded(initial),
                };
                (user, self.challenge("Password:").await?)
            }
            _ => return self.say("504 5.5.4 Unrecognized authentication type").await,
        };
        if shown != login {
            self.note("showed a wrong login");
            return self.say("535 5.7.8 Authentication credentials invalid").await;
        }
        self.is_known = true;
        self.say("235 2.7.0 Authentication successful").await
    }

    async fn challenge(&mut self, question: &str) -> io::Result<String> {
        self.say(&format!("334 {}", STANDARD.encode(question))).await?;
        let line = self.line().await?.unwrap_or_default();
        Ok(decoded(&String::from_utf8_lossy(&line)))
    }

    async fn mail(&mut self, rest: &str) -> io::Result<()> {
        if !self.greeted || self.from.is_some() {
            self.note("said MAIL at the wrong time");
            return self.say("503 5.5.1 Bad sequence of commands").await;
        }
        if !self.is_known {
            self.note("did not authenticate");
            return self.say("530 5.7.0 Authentication required").await;
        }
        let Some((from, parameters)) = path(rest, "FROM:") else {
            self.note(format!("said MAIL {rest}"));
            return self.say("501 5.5.4 Syntax: MAIL FROM:<address>").await;
        };
        self.takes_8_bits = parameters.to_ascii_uppercase().contains("BODY=8BITMIME");
        self.from = Some(from);
        self.say("250 2.1.0 OK").await
    }

    async fn recipient(&mut self, rest: &str) -> io::Result<()> {
        if self.from.is_none() {
            self.note("said RCPT at the wrong time");
            return self.say("503 5.5.1 Bad sequence of commands").await;
        }
        let Some((to, _)) = path(rest, "TO:").filter(|(to, _)| to.contains('@')) else {
            self.note(format!("said RCPT {rest}"));
            return self.say("501 5.5.4 Syntax: RCPT TO:<address>").await;
        };
        if self.shared.lock().refused.contains(&to) {
            return self.say("550 5.1.1 No such user here").await;
        }
        self.to.push(to);
        self.say("250 2.1.5 OK").await
    }

    async fn data(&mut self) -> io::Result<Next> {
        let (Some(from), false) = (self.from.clone(), self.to.is_empty()) else {
            self.note("said DATA at the wrong time");
            self.say("503 5.5.1 Bad sequence of commands").await?;
            return Ok(Next::On);
        };
        self.say("354 End data with <CR><LF>.<CR><LF>").await?;
        let Some(message) = self.message().await? else {
            return Ok(Next::End);
        };
        let mail = SmtpMail { from, to: std::mem::take(&mut self.to), message };
        self.reset();
        let fault = self.shared.lock().script.take(|_| true);
        if matches!(fault, Fault::Nothing | Fault::HangsAfter | Fault::ClosesAfter) {
            self.shared.lock().mails.push(mail);
        }
        match fault {
            Fault::Nothing => self.say("250 2.0.0 OK: queued").await?,
            Fault::Fails => self.say("451 4.3.0 Local error in processing").await?,
            // Mail servers do not say how long to wait.
            Fault::RateLimits { .. } => self.say("450 4.7.1 Too many messages, slow down").await?,
            Fault::Hangs | Fault::HangsAfter => pending().await,
            Fault::ClosesBefore | Fault::ClosesAfter => return Ok(Next::End),
        }
        Ok(Next::On)
    }

    /// The message, its dots as they were; none if the client went away before its end.
    async fn message(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut message = Vec::new();
        while let Some(line) = self.line().await? {
            if line == b"." {
                self.check(&message);
                return Ok(Some(message));
            }
            if line.len() > TEXT_LINE_BYTES_MAX {
                self.note(format!("sent a line of {} bytes", line.len()));
            }
            message.extend_from_slice(line.strip_prefix(b".").unwrap_or(&line));
            message.extend_from_slice(b"\r\n");
            if message.len() > MESSAGE_BYTES_MAX {
                self.note("sent a message that is too long");
                return Ok(None);
            }
        }
        Ok(None)
    }

    fn check(&self, message: &[u8]) {
        if !self.takes_8_bits && !message.is_ascii() {
            self.note("sent bytes over 127 without saying so");
        }
        match mail_parser::MessageParser::default().parse(message) {
            None => self.note("sent what is no message"),
            Some(parsed) => {
                for name in ["From", "To", "Date", "Message-ID", "Subject", "MIME-Version"] {
                    let count = parsed
                        .headers()
                        .iter()
                        .filter(|header| header.name().eq_ignore_ascii_case(name));
                    match count.count() {
                        1 => {}
                        count => self.note(format!("sent a message with {count} headers {name}")),
                    }
                }
            }
        }
    }

    fn reset(&mut self) {
        self.from = None;
        self.to.clear();
        self.takes_8_bits = false;
    }

    /// One line without its end; none at the end of the connection.
    async fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let mut limited = (&mut self.stream).take(LINE_BYTES_MAX);
        limited.read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Ok(None);
        }
        let Some(text) = line.strip_suffix(b"\r\n") else {
            self.note("ended a line without CR and LF");
            return Err(io::ErrorKind::InvalidData.into());
        };
        if text.contains(&b'\r') {
            self.note("sent a CR alone");
        }
        Ok(Some(text.to_vec()))
    }

    async fn say(&mut self, answer: &str) -> io::Result<()> {
        self.stream.write_all(answer.as_bytes()).await?;
        self.stream.write_all(b"\r\n").await?;
        self.stream.flush().await
    }

    fn note(&self, violation: impl AsRef<str>) {
        self.shared.lock().violations.note(format!("the client {}", violation.as_ref()));
    }
}

fn decoded(text: &str) -> String {
    let bytes = STANDARD.decode(text.trim()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An address between angle brackets, and the parameters after it.
fn path(rest: &str, keyword: &str) -> Option<(String, String)> {
    let start = rest.get(..keyword.len())?;
    let inner = rest[keyword.len()..].trim_start().strip_prefix('<')?;
    let (address, parameters) = inner.split_once('>')?;
    let fits = start.eq_ignore_ascii_case(keyword) && !address.contains([' ', '<']);
    fits.then(|| (address.to_owned(), parameters.trim().to_owned()))
}

#[cfg(test)]
mod tests;
