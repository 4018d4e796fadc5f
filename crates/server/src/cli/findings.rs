//! What a look at an installation found: one line a check, for people or as JSON.

use std::io::IsTerminal;

use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Works, and may not be what is wanted.
    Warn,
    /// Wrong.
    Fail,
}

/// One check.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What was looked at.
    pub name: String,
    /// What was found.
    pub says: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// All of them, in the order they were made.
#[derive(Debug, Default)]
pub struct Findings(pub Vec<Finding>);

impl Findings {
    /// As it should be.
    pub fn ok(&mut self, name: &str, says: impl Into<String>) {
        self.add(Level::Ok, name, says.into(), None);
    }

    /// Works, and may not be what is wanted.
    pub fn warn(&mut self, name: &str, says: impl Into<String>, next: &str) {
        self.add(Level::Warn, name, says.into(), Some(next.to_owned()));
    }

    /// Wrong.
    pub fn fail(&mut self, name: &str, says: impl Into<String>, next: &str) {
        self.add(Level::Fail, name, says.into(), Some(next.to_owned()));
    }

    /// The worst of all.
    pub fn worst(&self) -> Level {
        self.0.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
    }

    /// Prints them.
    pub fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            let whole = serde_json::json!({"status": self.worst(), "checks": self.0});
            println!("{}", serde_json::to_string_pretty(&whole)?);
            return Ok(());
        }
        let colours = std::io::stdout().is_terminal();
        let width = self.0.iter().map(|finding| finding.name.len()).max().unwrap_or(0);
        for Finding { level, name, says, next } in &self.0 {
            let (word, colour) = match level {
                Level::Ok => ("ok  ", "\x1b[32m"),
                Level::Warn => ("warn", "\x1b[33m"),
                Level::Fail => ("FAIL", "\x1b[31m"),
            };
            let word = if colours { format!("{colour}{word}\x1b[0m") } else { word.to_owned() };
            println!("{word}  {name:width$}  {says}");
            if let Some(next) = next {
                println!("      {:width$}  → {next}", "");
            }
        }
        Ok(())
    }

    fn add(&mut self, level: Level, name: &str, says: String, next: Option<String>) {
        self.0.push(Finding { level, name: name.to_owned(), says, next });
    }
}
