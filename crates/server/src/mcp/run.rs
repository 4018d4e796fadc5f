//! What each tool does: calls of the API, and a sentence of our own about what came.

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::message::Fault;
use super::tools::{ROWS, TOOLS};
use super::{envelope, explain};
use crate::context::Context;
use crate::within::{Api, Refused};

/// Arguments that belong to the call and not to a list's filter.
const NOT_FILTERS: [&str; 2] = ["tenant", "limit"];

/// Runs a tool.
pub async fn call(context: &Context, mut api: Api, params: &Value) -> Result<Value, Fault> {
    let name =
        params["name"].as_str().ok_or_else(|| Fault::invalid_params("`name` is required"))?;
    let known = TOOLS.iter().find(|tool| tool.name == name && tool.is_for(&api.caller));
    let tool = known.ok_or_else(|| {
        Fault::invalid_params(format!("there is no tool {name:.100} that this key may use"))
    })?;
    let arguments = match &params["arguments"] {
        Value::Null => Map::new(),
        Value::Object(arguments) => arguments.clone(),
        _ => return Err(Fault::invalid_params("`arguments` must be an object")),
    };
    // A model that is told what is wrong can do better: so this is a result, not a fault.
    let given = Value::Object(arguments.clone());
    let checked = jsonschema::validator_for(&tool.schema())
        .map_err(|error| Fault::invalid_params(error.to_string()))?;
    if let Some(error) = checked.iter_errors(&given).next() {
        let place = error.instance_path().to_string();
        let place = place.trim_start_matches('/');
        let said: String = error.to_string().chars().take(300).collect();
        return Ok(envelope::failed(&format!("The arguments cannot be used: {place}: {said}")));
    }
    api.tenant = arguments.get("tenant").and_then(Value::as_str).map(str::to_owned);
    match run(&api, tool.name, &arguments).await {
        Ok((words, data)) => {
            let nonce = context.new_id().to_string();
            Ok(envelope::result(&words, &data, &nonce))
        }
        Err(refused) => Ok(envelope::failed(&explain::refusal(&refused))),
    }
}

type Told = Result<(String, Value), Refused>;

async fn run(api: &Api, tool: &str, arguments: &Map<String, Value>) -> Told {
    let id = || arguments.get("id").and_then(Value::as_str).unwrap_or_default();
    match tool {
        "list_events" => list(api, "/inbox", arguments, "received events").await,
        "list_jobs" => list(api, "/jobs", arguments, "jobs").await,
        "list_dead_letters" => list(api, "/dead-letters", arguments, "dead letters").await,
        "list_published_events" => list(api, "/events", arguments, "published events").await,
        "list_alerts" => list(api, "/alerts", arguments, "alerts").await,
        "list_webhooks" => list(api, "/webhooks", arguments, "webhooks").await,
        "inspect_event" => {
            let event = one(api, "/inbox", id(), &["evt_"], "").await?;
            Ok((explain::event(&event), event))
        }
        "inspect_job" => {
            let job = one(api, "/jobs", id(), &["job_"], "").await?;
            Ok((explain::work(&job), job))
        }
        "inspect_published_event" => {
            let event = one(api, "/events", id(), &["evt_"], "").await?;
            Ok((explain::published(&event), event))
        }
        "inspect_webhook" => {
            let mut webhook = one(api, "/webhooks", id(), &["wh_"], "").await?;
            webhook["stats"] = one(api, "/webhooks", id(), &["wh_"], "/stats").await?;
            Ok((explain::webhook(&webhook), webhook))
        }
        "explain" => explained(api, id()).await,
        "replay" => replay(api, id(), arguments).await,
        "publish_event" => publish(api, arguments).await,
        "stats" => {
            let stats = api.get::<Value>("/stats", []).await?;
            Ok((explain::stats(&stats), stats))
        }
        _ => Err(not_found(tool)),
    }
}

fn not_found(what: &str) -> Refused {
    let detail = format!("{what:.60} is not the id of anything that this tool knows");
    Refused::new(StatusCode::NOT_FOUND, detail)
}

/// Something by its id. What does not look like one never becomes part of a path.
async fn one(
    api: &Api,
    path: &str,
    id: &str,
    kinds: &[&str],
    more: &str,
) -> Result<Value, Refused> {
    let plain = id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match plain && kinds.iter().any(|kind| id.starts_with(kind)) {
        true => api.get(&format!("{path}/{id}{more}"), []).await,
        false => Err(not_found(id)),
    }
}

async fn list(api: &Api, path: &str, arguments: &Map<String, Value>, what: &str) -> Told {
    let limit = arguments.get("limit").and_then(Value::as_u64).unwrap_or(ROWS);
    let limit = limit.to_string();
    let mut query = vec![("limit", limit.as_str())];
    for (name, value) in arguments {
        if let (false, Some(value)) = (NOT_FILTERS.contains(&name.as_str()), value.as_str()) {
            query.push((name.as_str(), value));
        }
    }
    let page: Value = api.get(path, &query).await?;
    let count = page["data"].as_array().map_or(0, Vec::len);
    let more = match page["next_cursor"].is_null() {
        true => "",
        false => " There are more: call again with `cursor`.",
    };
    Ok((format!("{count} {what}, newest first.{more}"), page))
}

async fn explained(api: &Api, id: &str) -> Told {
    match id.split('_').next().unwrap_or_default() {
        "evt" => match one(api, "/inbox", id, &["evt_"], "").await {
            Err(refused) if refused.status == 404 => {
                let event = one(api, "/events", id, &["evt_"], "").await?;
                Ok((explain::published(&event), explain::brief(&event)))
            }
            found => {
                let event = found?;
                Ok((explain::event(&event), explain::brief(&event)))
            }
        },
        "job" | "rpl" | "clb" => {
            let work = one(api, "/jobs", id, &["job_", "rpl_", "clb_"], "").await?;
            Ok((explain::work(&work), explain::brief(&work)))
        }
        "dlv" => {
            let delivery = one(api, "/deliveries", id, &["dlv_"], "").await?;
            let webhook = match delivery["webhook_id"].as_str() {
                Some(webhook) => one(api, "/webhooks", webhook, &["wh_"], "").await.ok(),
                None => None,
            };
            let words = explain::delivery(&delivery, webhook.as_ref());
            Ok((words, explain::brief(&delivery)))
        }
        "wh" => {
            let mut webhook = one(api, "/webhooks", id, &["wh_"], "").await?;
            webhook["stats"] = one(api, "/webhooks", id, &["wh_"], "/stats").await?;
            Ok((explain::webhook(&webhook), explain::brief(&webhook)))
        }
        _ => Err(not_found(id)),
    }
}

async fn replay(api: &Api, id: &str, arguments: &Map<String, Value>) -> Told {
    let plain = id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let path = match id.split('_').next().unwrap_or_default() {
        _ if !plain => return Err(not_found(id)),
        "evt" => format!("/inbox/{id}/replay"),
        "job" => format!("/jobs/{id}/replay"),
        "dlv" => format!("/deliveries/{id}/replay"),
        "rpl" | "clb" => format!("/dead-letters/{id}/replay"),
        _ => return Err(not_found(id)),
    };
    let mut body = json!({"note": arguments.get("note")});
    if let Some(scope) = arguments.get("scope") {
        body["scope"] = scope.clone();
    }
    let made = api.post(&path, &body).await?;
    let new = ["job_id", "delivery_id", "id"].iter().find_map(|name| made[*name].as_str());
    let words = format!("{id} is run again, as {}.", new.unwrap_or("new work"));
    Ok((words, made))
}

async fn publish(api: &Api, arguments: &Map<String, Value>) -> Told {
    let fields = ["type", "data", "dedup_key", "order_key"];
    let given = arguments.iter().filter(|(name, _)| fields.contains(&name.as_str()));
    let body: Map<String, Value> =
        given.map(|(name, value)| (name.clone(), value.clone())).collect();
    let made = api.post("/events", &Value::Object(body)).await?;
    let id = made["id"].as_str().unwrap_or_default();
    let words = match made["status"].as_str() {
        Some("duplicate") => format!("{id} had been published before: nothing new happens."),
        _ => format!("{id} is published, to {} webhooks.", made["deliveries"]),
    };
    Ok((words, made))
}
