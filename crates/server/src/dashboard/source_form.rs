//! The form of a source: to make one, and to change it.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::act;
use super::desk::{Desk, Form};
use super::frame::Frame;
use super::pieces::Outcome;
use super::shapes::{Provider, Source};
use super::sources::show;
use crate::within::{List, Refused, part};

#[derive(Template)]
#[template(path = "source_form.html")]
struct Page {
    frame: Frame,
    title: String,
    providers: Vec<Provider>,
    form: Option<Fields>,
}

struct Fields {
    to: String,
    provider: String,
    name: String,
    about_secret: &'static str,
    fields: Vec<Field>,
    /// What the other fields show at first, by their names: what is sent is held against that.
    shown: Vec<(String, String)>,
    filter: String,
    is_draft: bool,
    may_be_unsigned: bool,
    button: &'static str,
}

/// A setting of the provider.
struct Field {
    name: String,
    label: String,
    help: String,
    example: Option<String>,
    required: bool,
    secret: bool,
    value: String,
    /// Whether it has a value that is not shown.
    is_set: bool,
}

/// The form for a new one: first the provider, then what it needs.
pub async fn new(desk: Desk) -> Result<Response, Refused> {
    let (providers, frame) = tokio::try_join!(
        desk.api.get::<List<Provider>>("/providers", []),
        Frame::new(&desk, "New source", "sources")
    )?;
    let (mut chosen, providers): (Vec<Provider>, Vec<Provider>) =
        providers.data.into_iter().partition(|known| known.name == desk.parameter("provider"));
    let chosen = chosen.pop();
    let page = Page {
        title: match &chosen {
            Some(provider) => format!("New source: {}", provider.label),
            None => "New source".to_owned(),
        },
        form: chosen.map(|provider| Fields {
            to: frame.to("/sources"),
            name: String::new(),
            about_secret: match provider.makes_secret {
                true => "Leave it empty and one is made, and shown once.",
                false => {
                    "The provider shows it where the webhook is set up. It can be added later."
                }
            },
            shown: Vec::new(),
            filter: String::new(),
            is_draft: false,
            may_be_unsigned: provider.name == "generic",
            button: "Make the source",
            provider: provider.name.clone(),
            fields: fields(provider, &Map::new()),
        }),
        providers,
        frame,
    };
    Ok(page.frame.answer(&page))
}

/// The form to change one.
pub async fn edit(desk: Desk, Path(id): Path<String>) -> Result<Response, Refused> {
    let path = format!("/sources/{}", part(&id));
    let (source, providers, frame) = tokio::try_join!(
        desk.api.get::<Source>(&path, []),
        desk.api.get::<List<Provider>>("/providers", []),
        Frame::new(&desk, "Change a source", "sources")
    )?;
    let provider = the_provider(providers, &source)?;
    let page = Page {
        title: format!("Change {}", source.label()),
        providers: Vec::new(),
        form: Some(Fields {
            to: frame.to(&format!("{path}/save")),
            name: source.name.clone().unwrap_or_default(),
            about_secret: match source.has_secret {
                true => {
                    "It is set: leave it empty to keep it. To change it at the provider too, rotate it instead."
                }
                false => "The provider shows it where the webhook is set up.",
            },
            shown: shown(&source, &provider),
            filter: patterns(&source),
            is_draft: source.mode == "draft",
            may_be_unsigned: false,
            button: "Save",
            provider: provider.name.clone(),
            fields: fields(provider, &source.settings),
        }),
        frame,
    };
    Ok(page.frame.answer(&page))
}

fn the_provider(providers: List<Provider>, source: &Source) -> Result<Provider, Refused> {
    let mut providers = providers.data.into_iter();
    providers
        .find(|known| known.name == source.provider)
        .ok_or_else(|| Refused::new(StatusCode::NOT_FOUND, "this program lacks its provider"))
}

fn fields(provider: Provider, settings: &Map<String, Value>) -> Vec<Field> {
    let field = |setting: super::shapes::ProviderSetting| Field {
        value: if setting.secret { String::new() } else { text(settings.get(&setting.name)) },
        is_set: setting.secret && settings.contains_key(&setting.name),
        name: setting.name,
        label: setting.label,
        help: setting.help,
        example: setting.example,
        required: setting.required,
        secret: setting.secret,
    };
    provider.settings.into_iter().map(field).collect()
}

/// What the form of a source shows that may be shown, by the names of its fields.
fn shown(source: &Source, provider: &Provider) -> Vec<(String, String)> {
    let name = source.name.clone().unwrap_or_default();
    let of_all = [("name", name), ("filter", patterns(source)), ("mode", source.mode.clone())];
    let of_all = of_all.map(|(name, value)| (name.to_owned(), value));
    let open = provider.settings.iter().filter(|setting| !setting.secret);
    let settings = open.map(|setting| {
        (format!("setting.{}", setting.name), text(source.settings.get(&setting.name)))
    });
    of_all.into_iter().chain(settings).collect()
}

fn patterns(source: &Source) -> String {
    let filled = source.filter.iter().map(String::as_str).filter(|each| !each.is_empty());
    filled.collect::<Vec<_>>().join(", ")
}

/// A setting as it stands in its field.
fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Makes one, and shows its address and its secret, once.
pub async fn create(desk: Desk, form: Form) -> Result<Response, Refused> {
    let mut body = act::fields(&form, &["provider", "name", "secret", "mode"]);
    // As they were typed: a prefix may end with a blank that counts.
    let settings: Map<String, Value> = form
        .starting_with("setting.")
        .filter(|(_, value)| !value.trim().is_empty())
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .collect();
    act::put(&mut body, "settings", Value::Object(settings));
    act::put(&mut body, "filter", json!(act::names(form.get("filter"))));
    if !form.get("unsigned").is_empty() {
        act::put(&mut body, "unsigned", json!(true));
    }
    let made = desk.api.create("/sources", &body, form.get("once")).await?;
    let id = made["id"].as_str().unwrap_or_default().to_owned();
    let told = "Made. Paste its address, and its secret if it has one, at the provider.";
    show(desk, &id, Outcome::made(told, &made)).await
}

/// Changes one: only what is different from what the form showed, so that nothing is undone that others changed since.
pub async fn save(desk: Desk, id: &str, form: Form) -> Result<Response, Refused> {
    let path = format!("/sources/{}", part(id));
    let (source, providers) = tokio::try_join!(
        desk.api.get::<Source>(&path, []),
        desk.api.get::<List<Provider>>("/providers", [])
    )?;
    let provider = the_provider(providers, &source)?;
    let mut body = act::fields(&form, &["secret"]);
    let mut settings = Map::new();
    for (field, stands) in shown(&source, &provider) {
        let Some(given) = changed(&form, &field, &stands)? else { continue };
        match field.strip_prefix("setting.") {
            Some(name) => {
                let was = source.settings.get(name);
                settings.insert(name.to_owned(), value(name, given, was)?);
            }
            None if field == "filter" => act::put(&mut body, "filter", json!(act::names(given))),
            None => act::put(&mut body, &field, json!(given.trim())),
        }
    }
    for secret in provider.settings.iter().filter(|setting| setting.secret) {
        let given = form.get(&format!("setting.{}", secret.name));
        if !given.trim().is_empty() {
            settings.insert(secret.name.clone(), json!(given));
        }
    }
    if !settings.is_empty() {
        act::put(&mut body, "settings", Value::Object(settings));
    }
    if body == act::nothing() {
        return Ok(desk.done(&path, "Nothing was different."));
    }
    desk.api.send(Method::PATCH, &path, &body, None).await?;
    Ok(desk.done(&path, "Changed."))
}

/// What was filled in to a field anew. `stands`: what it would show now, which others may have changed while the form
/// was open.
fn changed<'f>(form: &'f Form, field: &str, stands: &str) -> Result<Option<&'f str>, Refused> {
    // A field has one line, whatever it was given.
    let same = |one: &str, other: &str| {
        let line = |text: &str| text.replace(['\r', '\n'], "");
        line(one) == line(other)
    };
    let Some(given) = form.find(field) else { return Ok(None) };
    let showed = form.find(&format!("shown.{field}")).unwrap_or(stands);
    if same(given, showed) || same(given, stands) {
        return Ok(None);
    }
    if !same(showed, stands) {
        let name = field.trim_start_matches("setting.");
        let why = format!(
            "{name} was changed by somebody else while the form was open: nothing was saved. Load the form again"
        );
        return Err(Refused::new(StatusCode::CONFLICT, why));
    }
    Ok(Some(given))
}

/// What is not text was shown as JSON, and is read as such.
fn value(name: &str, given: &str, was: Option<&Value>) -> Result<Value, Refused> {
    match was {
        _ if given.trim().is_empty() => Ok(Value::Null),
        None | Some(Value::Null | Value::String(_)) => Ok(json!(given)),
        Some(_) => serde_json::from_str(given).map_err(|_| {
            let why = format!("{name} was JSON, and {given:?} is not");
            Refused::new(StatusCode::UNPROCESSABLE_ENTITY, &why)
        }),
    }
}
