//! Reading forms: URL-encoded and multipart, bounded.

use std::borrow::Cow;

use futures_util::{FutureExt, stream};
use http::HeaderMap;
use serde_json::{Map, Value, json};
use wakepost_domain::limits::FORM_FIELDS_MAX;

use crate::header;
use crate::mapping::MapError;
use crate::request::Request;

/// The fields of a form, in their order.
pub(crate) struct Form<'r> {
    fields: Vec<(Cow<'r, str>, Cow<'r, str>)>,
    files: Vec<Attached>,
}

/// A file in a multipart form; its bytes stay in the stored request.
pub(crate) struct Attached {
    pub(crate) field: String,
    pub(crate) name: Option<String>,
    pub(crate) media_type: Option<String>,
    pub(crate) bytes: usize,
}

impl<'r> Form<'r> {
    /// The form in a request's body, by its content type; URL-encoded unless that says multipart.
    pub(crate) fn read(request: &Request<'r>) -> Result<Form<'r>, MapError> {
        let content_type = header::optional(request.headers, "content-type")?.unwrap_or_default();
        match multer::parse_boundary(content_type) {
            Ok(boundary) => read_multipart(request.body, boundary),
            Err(_) => read_urlencoded(request.body),
        }
    }

    /// The first field of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.fields().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// All fields, in their order.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
    }

    /// All files, in their order.
    pub(crate) fn files(&self) -> &[Attached] {
        &self.files
    }

    /// As an object: a field that is there more than once is a list, and of files only what they are called.
    pub(crate) fn to_json(&self) -> Value {
        let mut object = Map::new();
        let mut add = |name: &str, value: Value| match object.get_mut(name) {
            None => {
                object.insert(name.to_owned(), value);
            }
            Some(Value::Array(list)) => list.push(value),
            Some(first) => *first = json!([first.take(), value]),
        };
        for (name, value) in self.fields() {
            add(name, value.into());
        }
        for file in &self.files {
            add(
                &file.field,
                json!({"name": file.name, "media_type": file.media_type, "bytes": file.bytes}),
            );
        }
        object.into()
    }
}

/// Whether the content type says that the body is a form.
pub(crate) fn says_form(headers: &HeaderMap) -> bool {
    header::media_type(headers).is_some_and(|media_type| {
        matches!(media_type.as_str(), "application/x-www-form-urlencoded" | "multipart/form-data")
    })
}

fn read_urlencoded(body: &[u8]) -> Result<Form<'_>, MapError> {
    let fields: Vec<_> = form_urlencoded::parse(body).take(FORM_FIELDS_MAX + 1).collect();
    too_many(fields.len())?;
    Ok(Form { fields, files: Vec::new() })
}

/// The whole body is at hand, so the reader of streams never has to wait.
fn read_multipart(body: &[u8], boundary: String) -> Result<Form<'static>, MapError> {
    let whole = bytes::Bytes::copy_from_slice(body);
    let parts = multer::Multipart::new(
        stream::once(async { Ok::<_, std::convert::Infallible>(whole) }),
        boundary,
    );
    let read = read_parts(parts).now_or_never();
    read.unwrap_or_else(|| Err(MapError::NotAForm("it is cut off".to_owned())))
}

async fn read_parts(mut parts: multer::Multipart<'_>) -> Result<Form<'static>, MapError> {
    let broken = |error: multer::Error| MapError::NotAForm(error.to_string());
    let mut form = Form { fields: Vec::new(), files: Vec::new() };
    while let Some(part) = parts.next_field().await.map_err(broken)? {
        too_many(form.fields.len() + form.files.len() + 1)?;
        let field = part.name().unwrap_or_default().to_owned();
        let name = part.file_name().map(str::to_owned);
        let media_type = part.content_type().map(ToString::to_string);
        let is_file = name.is_some();
        let bytes = part.bytes().await.map_err(broken)?;
        if is_file {
            form.files.push(Attached { field, name, media_type, bytes: bytes.len() });
        } else {
            let value = String::from_utf8_lossy(&bytes).into_owned();
            form.fields.push((field.into(), value.into()));
        }
    }
    Ok(form)
}

fn too_many(count: usize) -> Result<(), MapError> {
    match count > FORM_FIELDS_MAX {
        true => Err(MapError::NotAForm(format!("it has more than {FORM_FIELDS_MAX} fields"))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::SignedRequest;

    fn form(content_type: &str, body: &str) -> SignedRequest {
        let mut request = SignedRequest::post("https://hooks.example/", body);
        request.set("content-type", content_type).unwrap();
        request
    }

    const URLENCODED: &str = "application/x-www-form-urlencoded";
    const MULTIPART: &str = "multipart/form-data; boundary=xyz";

    #[test]
    fn an_url_encoded_form_keeps_its_order_and_its_doubles() {
        let request = form(URLENCODED, "a=1&b=x%20y+z&a=2&%C3%A9=%E2%82%AC");
        let read = Form::read(&request.as_request()).unwrap();
        assert_eq!(read.get("a"), Some("1"));
        assert_eq!(read.get("b"), Some("x y z"));
        assert_eq!(read.get("none"), None);
        assert_eq!(read.to_json(), json!({"a": ["1", "2"], "b": "x y z", "é": "€"}));
    }

    #[test]
    fn a_multipart_form_has_fields_and_files() {
        let body = "--xyz\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\nHello\r\n\
            --xyz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\
            Content-Type: text/plain\r\n\r\n12345\r\n--xyz--\r\n";
        let request = form(MULTIPART, body);
        let read = Form::read(&request.as_request()).unwrap();
        assert_eq!(read.get("text"), Some("Hello"));
        let file = &read.files()[0];
        assert_eq!((file.name.as_deref(), file.bytes), (Some("a.txt"), 5));
        let file = json!({"name": "a.txt", "media_type": "text/plain", "bytes": 5});
        assert_eq!(read.to_json(), json!({"text": "Hello", "file": file}));
    }

    #[test]
    fn a_form_with_too_many_fields_is_refused() {
        let many = "a=1&".repeat(FORM_FIELDS_MAX + 1);
        assert!(Form::read(&form(URLENCODED, &many).as_request()).is_err());
        let part = "--xyz\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n";
        let many = format!("{}--xyz--\r\n", part.repeat(FORM_FIELDS_MAX + 1));
        assert!(Form::read(&form(MULTIPART, &many).as_request()).is_err());
    }

    #[test]
    fn a_multipart_form_that_is_cut_off_is_refused() {
        let body = "--xyz\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\nHel";
        assert!(Form::read(&form(MULTIPART, body).as_request()).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_form_panic(body: Vec<u8>) {
            for content_type in [URLENCODED, MULTIPART] {
                let mut request = form(content_type, "");
                request.body = body.clone();
                let _ = Form::read(&request.as_request());
            }
        }
    }
}
