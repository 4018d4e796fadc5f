//! The page: operations by tag, each with what it takes, what it answers and a call to copy.

use askama::Template;
use serde_json::Value;

use super::example;
use super::shape::{self, Row, kind, resolved};
use super::text::{Line, line, paragraphs};

/// All of it.
#[derive(Template)]
#[template(path = "reference.html")]
pub struct Page {
    /// What the description says of itself.
    intro: Vec<Line>,
    /// The server's version, by which browsers know its files.
    version: &'static str,
    /// Where the examples lead.
    base_url: String,
    /// Operations by tag.
    groups: Vec<Group>,
    /// How many operations there are.
    count: usize,
    /// What every refusal looks like.
    problem: Vec<Row>,
    /// The refusals that many calls share.
    refusals: Vec<Refusal>,
}

struct Group {
    name: String,
    anchor: String,
    about: Line,
    operations: Vec<Operation>,
}

struct Operation {
    id: String,
    method: String,
    path: Vec<Part>,
    /// The path below `/api/v1`, for the index.
    short: Vec<Part>,
    summary: Line,
    about: Vec<Line>,
    is_open: bool,
    parameters: Vec<Parameter>,
    body: Option<Body>,
    answers: Vec<Answer>,
    refusals: Vec<Refusal>,
    call: String,
    answer: Option<String>,
    /// What a reader may look for.
    words: String,
}

/// A piece of a path: plain, or a name in it.
struct Part {
    is_name: bool,
    text: String,
}

struct Parameter {
    name: String,
    place: String,
    kind: String,
    required: bool,
    about: Line,
    bounds: Vec<String>,
}

struct Body {
    media: String,
    about: Line,
    rows: Vec<Row>,
}

struct Answer {
    status: String,
    about: Line,
    media: String,
    headers: Vec<(String, Line)>,
    rows: Vec<Row>,
}

struct Refusal {
    status: String,
    about: Line,
}

impl Page {
    /// The page of a description.
    pub fn of(api: &Value, base_url: &str) -> Page {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let groups: Vec<Group> = list(&api["tags"])
            .iter()
            .map(|tag| {
                let name = text(&tag["name"]);
                let operations = operations(api, &name, base_url);
                let anchor = format!("tag-{}", name.replace(' ', "-"));
                Group { anchor, about: line(&text(&tag["description"])), operations, name }
            })
            .filter(|group| !group.operations.is_empty())
            .collect();
        let shared = api["components"]["responses"].as_object().into_iter().flatten();
        let mut refusals: Vec<_> =
            shared.filter_map(|(name, told)| shared_refusal(api, name, told)).collect();
        refusals.sort_by(|a, b| a.status.cmp(&b.status));
        Page {
            intro: paragraphs(&text(&api["info"]["description"])),
            version: env!("CARGO_PKG_VERSION"),
            base_url: base_url.to_owned(),
            count: groups.iter().map(|group| group.operations.len()).sum(),
            groups,
            problem: shape::rows(api, &api["components"]["schemas"]["Problem"]),
            refusals,
        }
    }
}

/// Which status a shared refusal has is told by whoever refers to it.
fn shared_refusal(api: &Value, name: &str, told: &Value) -> Option<Refusal> {
    let place = format!("#/components/responses/{name}");
    let paths = api["paths"].as_object()?.values().filter_map(Value::as_object);
    let mut answers =
        paths.flatten().filter_map(|(_, about)| about["responses"].as_object()).flatten();
    let (status, _) = answers.find(|(_, answer)| answer["$ref"] == place.as_str())?;
    Some(Refusal { status: status.clone(), about: line(&text(&told["description"])) })
}

fn operations(api: &Value, tag: &str, base_url: &str) -> Vec<Operation> {
    const ORDER: [&str; 6] = ["get", "post", "put", "patch", "delete", "options"];
    let paths = api["paths"].as_object().into_iter().flatten();
    let mut found = Vec::new();
    for (path, methods) in paths {
        for method in ORDER {
            let about = &methods[method];
            if about["tags"].as_array().is_some_and(|tags| tags.iter().any(|one| one == tag)) {
                found.push(operation(api, method, path, about, base_url));
            }
        }
    }
    found
}

fn operation(api: &Value, method: &str, path: &str, about: &Value, base_url: &str) -> Operation {
    let parameters: Vec<Value> = about["parameters"].as_array().cloned().unwrap_or_default();
    let content = about["requestBody"]["content"].as_object().and_then(|all| all.iter().next());
    let (mut answers, mut refusals) = (Vec::new(), Vec::new());
    let mut example = None;
    for (status, told) in about["responses"].as_object().into_iter().flatten() {
        let told = resolved(api, told);
        if status.starts_with('2') {
            let made = answer(api, status, told);
            let schema = &told["content"]["application/json"]["schema"];
            if example.is_none() && !schema.is_null() {
                example = Some(pretty(&example::answered(api, schema)));
            }
            answers.push(made);
        } else {
            let about = line(&text(&told["description"]));
            refusals.push(Refusal { status: status.clone(), about });
        }
    }
    let id = text(&about["operationId"]);
    let summary = text(&about["summary"]);
    let is_open = about["security"]
        .as_array()
        .is_some_and(|all| all.iter().any(|one| one == &Value::Object(Default::default())));
    let method = method.to_ascii_uppercase();
    Operation {
        words: format!("{method} {path} {id} {summary}").to_lowercase().replace('`', ""),
        call: call(api, &method, path, about, &parameters, base_url, is_open),
        id,
        method,
        path: parts(path),
        short: parts(path.strip_prefix("/api/v1").unwrap_or(path)),
        about: paragraphs(&text(&about["description"])),
        summary: line(&summary),
        is_open,
        parameters: parameters.iter().map(|one| parameter(api, one)).collect(),
        body: content.map(|(media, content)| Body {
            media: media.clone(),
            about: line(&text(&about["requestBody"]["description"])),
            rows: shape::rows(api, &content["schema"]),
        }),
        answers,
        refusals,
        answer: example,
    }
}

fn parameter(api: &Value, told: &Value) -> Parameter {
    let schema = &told["schema"];
    let about = match told["description"].as_str() {
        Some(about) => about.to_owned(),
        None => text(&resolved(api, schema)["description"]),
    };
    Parameter {
        name: text(&told["name"]),
        place: text(&told["in"]),
        kind: kind(api, schema),
        required: told["required"] == true,
        about: line(&about),
        bounds: shape::bounds(api, schema),
    }
}

fn answer(api: &Value, status: &str, told: &Value) -> Answer {
    let content = told["content"].as_object().and_then(|all| all.iter().next());
    let headers = told["headers"].as_object().into_iter().flatten();
    let headers = headers.map(|(name, header)| (name.clone(), line(&text(&header["description"]))));
    Answer {
        status: status.to_owned(),
        about: line(&text(&told["description"])),
        media: content.map(|(media, _)| media.clone()).unwrap_or_default(),
        headers: headers.collect(),
        rows: content.map(|(_, content)| shape::rows(api, &content["schema"])).unwrap_or_default(),
    }
}

fn call(
    api: &Value,
    method: &str,
    path: &str,
    about: &Value,
    parameters: &[Value],
    base_url: &str,
    is_open: bool,
) -> String {
    let mut url = format!("{base_url}{path}");
    let mut query = Vec::new();
    for parameter in parameters {
        let name = text(&parameter["name"]);
        let value = example::of_field(api, &parameter["schema"], &name);
        match parameter["in"].as_str() {
            Some("path") => url = url.replace(&format!("{{{name}}}"), &value),
            Some("query") if parameter["required"] == true => query.push(format!("{name}={value}")),
            _ => {}
        }
    }
    if !query.is_empty() {
        url = format!("{url}?{}", query.join("&"));
    }
    let verb = if method == "GET" { String::new() } else { format!("-X {method} ") };
    let mut lines = vec![format!("curl {verb}'{url}'")];
    if !is_open {
        lines.push("-H \"Authorization: Bearer $WAKEPOST_KEY\"".to_owned());
    }
    let takes = parameters.iter().any(|one| one["name"] == "Idempotency-Key");
    if takes {
        lines.push("-H \"Idempotency-Key: $(uuidgen)\"".to_owned());
    }
    let schema = &about["requestBody"]["content"]["application/json"]["schema"];
    if !schema.is_null() {
        lines.push("-H 'content-type: application/json'".to_owned());
        let body = pretty(&example::asked(api, schema)).replace('\'', "'\\''");
        lines.push(format!("-d '{body}'"));
    }
    lines.join(" \\\n  ")
}

fn parts(path: &str) -> Vec<Part> {
    let pieces = path.split_inclusive('}').flat_map(|piece| match piece.split_once('{') {
        Some((plain, name)) => vec![(false, plain.to_owned()), (true, format!("{{{name}"))],
        None => vec![(false, piece.to_owned())],
    });
    pieces
        .filter(|(_, text)| !text.is_empty())
        .map(|(is_name, text)| Part { is_name, text })
        .collect()
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
