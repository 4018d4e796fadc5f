//! Flags of sources that have a form of their own.

use std::str::FromStr;

use serde_json::Value;
use wakepost_client::{Budget, Executor};

/// `pull`, `exec:NAME` or `http:URL`, and one of the last two behind `self:`. A URL may also stand alone.
pub fn executor(text: &str) -> Result<Executor, String> {
    let url = |url: &str| Executor::Http { url: url.to_owned() };
    match text.split_once(':') {
        None if text == "pull" => Ok(Executor::Pull),
        Some(("exec", name)) if !name.is_empty() => Ok(Executor::Exec { name: name.to_owned() }),
        Some(("http" | "https", rest)) if rest.starts_with("//") => Ok(url(text)),
        Some(("http", rest)) if rest.starts_with("http://") || rest.starts_with("https://") => {
            Ok(url(rest))
        }
        Some(("self", rest)) if rest != "pull" && !rest.starts_with("self:") => {
            Ok(Executor::SelfWebhook { run: Box::new(executor(rest)?), budget_s: None })
        }
        _ => Err("write pull, exec:NAME or http:URL, or self:exec:NAME or self:URL".to_owned()),
    }
}

/// `runs=N,cost=N,over=wait|refuse`, of which at least one of the first two.
pub fn budget(text: &str) -> Result<Budget, String> {
    let usage =
        || "write runs=N, cost=N or both, and over=refuse to hold what is beyond".to_owned();
    let mut budget = Budget::default();
    for part in text.split(',') {
        let (name, value) = part.split_once('=').ok_or_else(usage)?;
        match name {
            "runs" => budget.runs_per_day = Some(value.parse().map_err(|_| usage())?),
            "cost" => budget.cost_per_day = Some(value.parse().map_err(|_| usage())?),
            "over" if ["wait", "refuse"].contains(&value) => budget.over = Some(value.to_owned()),
            _ => return Err(usage()),
        }
    }
    match budget.runs_per_day.is_some() || budget.cost_per_day.is_some() {
        true => Ok(budget),
        false => Err(usage()),
    }
}

/// A budget as its flag has it.
pub fn budget_words(budget: &Budget) -> String {
    let runs = budget.runs_per_day.map(|most| format!("runs={most}"));
    let cost = budget.cost_per_day.map(|most| format!("cost={most}"));
    let over = budget.over.as_ref().map(|over| format!("over={over}"));
    [runs, cost, over].into_iter().flatten().collect::<Vec<_>>().join(",")
}

/// `NAME=TEXT`, or `NAME:=JSON` for what is not text.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    pub name: String,
    pub value: Value,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Setting, String> {
        let (name, value) =
            text.split_once('=').ok_or("write NAME=TEXT, or NAME:=JSON for what is not text")?;
        let (name, value) = match name.strip_suffix(':') {
            Some(name) => {
                let value = serde_json::from_str(value);
                (name, value.map_err(|error| format!("not JSON: {error}"))?)
            }
            None => (name, Value::String(value.to_owned())),
        };
        if name.is_empty() {
            return Err("the setting has no name".to_owned());
        }
        Ok(Setting { name: name.to_owned(), value })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn budgets_are_read_and_written() {
        for text in ["runs=100", "cost=2.5", "runs=1,cost=0.5,over=refuse"] {
            assert_eq!(budget_words(&budget(text).unwrap()), text);
        }
        for wrong in ["", "100", "runs=", "runs=-1", "over=wait", "runs=1,over=stop", "days=3"] {
            assert!(budget(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn executors_are_read() {
        let http = |url: &str| Executor::Http { url: url.to_owned() };
        assert_eq!(executor("pull"), Ok(Executor::Pull));
        assert_eq!(executor("http:https://a/b"), Ok(http("https://a/b")));
        assert_eq!(executor("http:http://a"), Ok(http("http://a")));
        assert_eq!(executor("https://a/b"), Ok(http("https://a/b")));
        let exec = Executor::Exec { name: "agent".to_owned() };
        assert_eq!(executor("exec:agent"), Ok(exec.clone()));
        let own = |run| Executor::SelfWebhook { run: Box::new(run), budget_s: None };
        assert_eq!(executor("self:exec:agent"), Ok(own(exec)));
        assert_eq!(executor("self:https://a/b"), Ok(own(http("https://a/b"))));
        let more = ["self:", "self:pull", "self:self:https://a"];
        for wrong in ["", "exec", "exec:", "http:", "http:a", "shell:x"].into_iter().chain(more) {
            assert!(executor(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn settings_are_text_unless_said_otherwise() {
        let value = |text: &str| text.parse::<Setting>().map(|setting| setting.value);
        assert_eq!(value("id=123"), Ok(json!("123")));
        assert_eq!(value("token=a=b"), Ok(json!("a=b")));
        assert_eq!(value("teams:=[\"T1\"]"), Ok(json!(["T1"])));
        for wrong in ["", "id", "=x", "n:={"] {
            assert!(value(wrong).is_err(), "{wrong}");
        }
    }
}
