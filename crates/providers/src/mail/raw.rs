//! A mail in its own format, where a provider hands it over as it came.

use mail_parser::{MessageParser, MimeHeaders};
use wakepost_domain::envelope::File;

use super::headers::Headers;

/// The parts of a mail that an event needs.
#[derive(Default)]
pub(crate) struct Raw {
    pub(crate) headers: Headers,
    pub(crate) text: Option<String>,
    pub(crate) html: Option<String>,
    pub(crate) files: Vec<File>,
}

impl Raw {
    /// Reads a mail; one that cannot be read has headers at most.
    pub(crate) fn read(mail: &str) -> Raw {
        let headers = Headers::read(mail);
        let Some(message) = MessageParser::default().parse(mail.as_bytes()) else {
            return Raw { headers, ..Raw::default() };
        };
        // Asked for a part that is not there, the parser would make one of the other.
        let text = message.text_bodies().find(|part| part.is_text() && !part.is_text_html());
        let html = message.html_bodies().find(|part| part.is_text_html());
        let files = message.attachments().map(|part| File {
            id: part.content_id().map(str::to_owned),
            name: part.attachment_name().map(str::to_owned),
            media_type: part.content_type().map(|kind| match kind.subtype() {
                Some(subtype) => format!("{}/{subtype}", kind.ctype()),
                None => kind.ctype().to_owned(),
            }),
            bytes: Some(part.len() as u64),
            url: None,
        });
        Raw {
            headers,
            text: text.and_then(|part| part.text_contents()).map(str::to_owned),
            html: html.and_then(|part| part.text_contents()).map(str::to_owned),
            files: files.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAIL: &str = "From: Ada <ada@acme.example>\r\nMessage-ID: <m1@x>\r\nMIME-Version: 1.0\r\n\
        Content-Type: multipart/mixed; boundary=b1\r\n\r\n\
        --b1\r\nContent-Type: multipart/alternative; boundary=b2\r\n\r\n\
        --b2\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n\
        Caf=C3=A9\r\n--b2\r\nContent-Type: text/html\r\n\r\n<p>Cafe</p>\r\n--b2--\r\n\
        --b1\r\nContent-Type: application/pdf; name=\"a.pdf\"\r\n\
        Content-Disposition: attachment; filename=\"a.pdf\"\r\nContent-Transfer-Encoding: base64\r\n\r\n\
        MTIzNDU=\r\n--b1--\r\n";

    #[test]
    fn a_mail_is_taken_apart() {
        let raw = Raw::read(MAIL);
        assert_eq!(raw.headers.message_id(), Some("m1@x"));
        assert_eq!(raw.text.as_deref(), Some("Café"));
        assert_eq!(raw.html.as_deref(), Some("<p>Cafe</p>"));
        let file = &raw.files[0];
        assert_eq!((file.name.as_deref(), file.bytes), (Some("a.pdf"), Some(5)));
        assert_eq!(file.media_type.as_deref(), Some("application/pdf"));
    }

    #[test]
    fn a_part_that_is_not_there_is_not_made_up() {
        let html = Raw::read("From: a@b.example\r\nContent-Type: text/html\r\n\r\n<b>x</b>");
        assert_eq!((html.text, html.html.as_deref()), (None, Some("<b>x</b>")));
        let plain = Raw::read("From: a@b.example\r\n\r\nx");
        assert_eq!((plain.text.as_deref(), plain.html), (Some("x"), None));
    }

    #[test]
    fn mails_in_mails_without_end_are_read_to_an_end() {
        let nested = "Content-Type: message/rfc822\r\n\r\n".repeat(10_000);
        assert!(Raw::read(&nested).text.is_none());
        let boundaries = "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n".repeat(10_000);
        let _ = Raw::read(&boundaries);
    }

    proptest! {
        #[test]
        fn no_mail_makes_it_panic(mail in "[\\PC\\r\\n]*") {
            let _ = Raw::read(&mail);
        }

        #[test]
        fn no_cut_makes_it_panic(cut in 0..MAIL.len()) {
            if let Some(part) = MAIL.get(..cut) {
                let _ = Raw::read(part);
            }
        }
    }
}
