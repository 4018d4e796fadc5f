//! The mail that is answered: whom the answer goes to, and which conversation it belongs to.

use mail_parser::HeaderValue;
use mail_parser::parsers::MessageStream;
use serde_json::Value;

use crate::form::{Form, says_form};
use crate::mail::{Address, Headers, RECEIVED, Raw, addresses};
use crate::payload::{self, list_at, text_at};
use crate::request::Request;

/// How a provider hands mail over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Resend,
    SendGrid,
    Mailgun,
    Postmark,
}

/// What an answer needs of a mail.
#[derive(Debug, Default)]
pub(super) struct Received {
    pub(super) from: Vec<Address>,
    pub(super) reply_to: Vec<Address>,
    pub(super) to: Vec<Address>,
    pub(super) cc: Vec<Address>,
    pub(super) subject: String,
    /// Without its brackets, as are the references.
    pub(super) message_id: Option<String>,
    pub(super) references: Vec<String>,
}

impl Received {
    /// `None` for what is no mail, such as news of a mail that went out.
    pub(super) fn read(format: Format, request: &Request<'_>) -> Option<Received> {
        match format {
            Format::Resend => {
                let body = payload::whole(request.body).ok()?;
                let is_mail = text_at(&body, "/type") == Some(RECEIVED);
                is_mail.then(|| Received::of_resend(&body["data"]))
            }
            Format::Postmark => {
                let body = payload::whole(request.body).ok()?;
                let is_mail = matches!(text_at(&body, "/RecordType"), None | Some("Inbound"));
                is_mail.then(|| Received::of_postmark(&body))
            }
            Format::SendGrid | Format::Mailgun if !says_form(request.headers) => None,
            Format::SendGrid => {
                let form = Form::read(request).ok()?;
                let headers = form.get("headers").map(Headers::read);
                let raw = || form.get("email").map(|mail| Raw::read(mail).headers);
                Some(Received::of_form(&form, headers.or_else(raw)))
            }
            Format::Mailgun => {
                let form = Form::read(request).ok()?;
                let pairs = form.get("message-headers");
                let pairs =
                    pairs.and_then(|json| serde_json::from_str::<Vec<(String, String)>>(json).ok());
                let headers = pairs.map(|pairs| pairs.into_iter().collect());
                let raw = || form.get("body-mime").map(|mail| Raw::read(mail).headers);
                Some(Received::of_form(&form, headers.or_else(raw)))
            }
        }
    }

    /// From Resend's account of a mail, whether announced or fetched.
    fn of_resend(mail: &Value) -> Received {
        let list = |at: &str| {
            let one = text_at(mail, at).into_iter();
            let many = list_at(mail, at).iter().filter_map(Value::as_str);
            one.chain(many).flat_map(addresses).collect::<Vec<_>>()
        };
        let headers = mail.get("headers").and_then(Value::as_object).into_iter().flatten();
        let headers: Headers =
            headers.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))).collect();
        let read = Received::of_headers(&headers);
        let id = text_at(mail, "/message_id").and_then(|id| Headers::ids(id).next());
        let or = |given: Vec<Address>, read| if given.is_empty() { read } else { given };
        Received {
            from: or(list("/from"), read.from),
            reply_to: or(list("/reply_to"), read.reply_to),
            to: or(list("/to"), read.to),
            cc: or(list("/cc"), read.cc),
            subject: text_at(mail, "/subject").map_or(read.subject, str::to_owned),
            message_id: id.map(str::to_owned).or(read.message_id),
            references: read.references,
        }
    }

    /// Postmark tells the usual headers apart from the others.
    fn of_postmark(mail: &Value) -> Received {
        let list = |at: &str| text_at(mail, at).map(addresses).unwrap_or_default();
        let pairs = list_at(mail, "/Headers").iter();
        let pairs = pairs.filter_map(|one| Some((text_at(one, "/Name")?, text_at(one, "/Value")?)));
        let read = Received::of_headers(&pairs.collect());
        Received {
            from: list("/From"),
            reply_to: list("/ReplyTo"),
            to: list("/To"),
            cc: list("/Cc"),
            subject: text_at(mail, "/Subject").unwrap_or_default().to_owned(),
            ..read
        }
    }

    /// Forms have the headers in one field, and some of them once more in fields of their own.
    fn of_form(form: &Form<'_>, headers: Option<Headers>) -> Received {
        let headers = headers.unwrap_or_else(|| form.fields().collect());
        let read = Received::of_headers(&headers);
        let list = |read: Vec<Address>, name: &str| match read.is_empty() {
            true => form.get(name).map(addresses).unwrap_or_default(),
            false => read,
        };
        Received {
            from: list(read.from, "from"),
            to: list(read.to, "to"),
            cc: list(read.cc, "cc"),
            subject: form.get("subject").map_or(read.subject, str::to_owned),
            ..read
        }
    }

    fn of_headers(headers: &Headers) -> Received {
        let list = |name: &str| headers.all(name).flat_map(addresses).collect::<Vec<_>>();
        let ids = |name: &str| {
            headers.all(name).flat_map(Headers::ids).map(str::to_owned).collect::<Vec<_>>()
        };
        let references = ids("References");
        Received {
            from: list("From"),
            reply_to: list("Reply-To"),
            to: list("To"),
            cc: list("Cc"),
            subject: headers.all("Subject").next().map(decoded).unwrap_or_default(),
            message_id: headers.message_id().map(str::to_owned),
            references: if references.is_empty() { ids("In-Reply-To") } else { references },
        }
    }
}

/// A header in plain words, where it was encoded for its way.
fn decoded(text: &str) -> String {
    let line = format!("{}\n", text.replace(['\r', '\n'], " "));
    match MessageStream::new(line.as_bytes()).parse_unstructured() {
        HeaderValue::Text(text) => text.into_owned(),
        _ => String::new(),
    }
}
