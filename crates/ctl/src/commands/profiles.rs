//! `webhookctl profiles`

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::cli::{DEFAULT_URL, Global};
use crate::commands::input::read_secret;
use crate::exit::Usage;
use crate::output::{self, Cell, Fields, Paint, Table, Tone, escape};
use crate::profiles::{Profile, Profiles as Book, check_name};

#[derive(Subcommand)]
pub enum Profiles {
    /// List profiles
    List,
    /// Add a profile, or change what is said of one, with --url, --key and --tenant
    Add(Add),
    /// Take this profile when none is named
    Use(Named),
    /// Forget a profile
    Remove(Named),
    /// Show a profile; its key is not shown
    Show(Show),
}

#[derive(Args)]
#[command(
    after_help = "--key - reads the key from standard input, so that it is not in the shell's history."
)]
pub struct Add {
    /// Its name: letters, digits, - _ .
    name: String,
    /// What prints the key, in place of --key; a shell runs it each time
    #[arg(long, value_name = "COMMAND", conflicts_with = "key")]
    key_command: Option<String>,
}

#[derive(Args)]
pub struct Named {
    /// Its name
    name: String,
}

#[derive(Args)]
pub struct Show {
    /// Its name; left out: the current one
    name: Option<String>,
}

impl Profiles {
    pub fn run(&self, global: &Global) -> anyhow::Result<()> {
        match self {
            Profiles::List => list(global.json),
            Profiles::Add(add) => add.run(global),
            Profiles::Use(named) => choose(&named.name),
            Profiles::Remove(named) => remove(&named.name),
            Profiles::Show(show) => show.run(global.json),
        }
    }
}

impl Add {
    fn run(&self, global: &Global) -> anyhow::Result<()> {
        check_name(&self.name)?;
        let mut book = Book::load()?;
        let mut profile = book.profiles.remove(&self.name).unwrap_or_default();
        if let Some(url) = &global.url {
            // Whatever would refuse it later refuses it now.
            wakepost_client::Client::without_key(url)?;
            // A key belongs to one server.
            if profile.url.as_ref().is_some_and(|known| known != url) {
                profile = Profile { tenant: profile.tenant, ..Profile::default() };
            }
            profile.url = Some(url.clone());
        }
        if let Some(key) = &global.key {
            let key = read_secret(key.clone())?.trim().to_owned();
            if key.is_empty() {
                return Err(Usage("the key is empty".to_owned()).into());
            }
            (profile.key, profile.key_command) = (Some(key), None);
        }
        if let Some(command) = &self.key_command {
            (profile.key, profile.key_command) = (None, Some(command.clone()));
        }
        if let Some(tenant) = &global.tenant {
            profile.tenant = Some(tenant.clone());
        }
        let has_key = profile.key.is_some() || profile.key_command.is_some();
        book.profiles.insert(self.name.clone(), profile);
        let is_first = book.current.is_none();
        book.current.get_or_insert_with(|| self.name.clone());
        let path = book.save()?.display().to_string();
        output::hint(&format!("kept in {}", escape(&path)));
        if is_first {
            output::hint("it counts from now on where no other is named");
        } else if book.current.as_deref() != Some(&self.name) {
            output::hint(&format!("next: webhookctl profiles use {}", self.name));
        }
        if !has_key {
            output::hint("it has no key yet: --key -, --key-command, or WAKEPOST_KEY each time");
        }
        Ok(())
    }
}

fn choose(name: &str) -> anyhow::Result<()> {
    let mut book = Book::load()?;
    book.get(name)?;
    book.current = Some(name.to_owned());
    book.save()?;
    output::hint(&format!("{} counts from now on", escape(name)));
    Ok(())
}

fn remove(name: &str) -> anyhow::Result<()> {
    let mut book = Book::load()?;
    book.get(name)?;
    book.profiles.remove(name);
    if book.current.as_deref() == Some(name) {
        book.current = None;
    }
    book.save()?;
    output::hint(&format!("{} is gone", escape(name)));
    Ok(())
}

fn list(as_json: bool) -> anyhow::Result<()> {
    let book = Book::load()?;
    if as_json {
        let all: Vec<Value> = book.profiles.iter().map(|(n, p)| told(&book, n, p)).collect();
        return Ok(output::print(&output::json::pretty(&json!({"data": all}).to_string())?)?);
    }
    if book.profiles.is_empty() {
        output::hint("no profiles here; make one: webhookctl profiles add NAME --url URL --key -");
        return Ok(());
    }
    let mut table = Table::new(&["PROFILE", "URL", "KEY", "TENANT", "CURRENT"]);
    for (name, profile) in &book.profiles {
        let is_current = book.current.as_ref() == Some(name);
        table.row([
            Cell::new(name),
            Cell::new(profile.url.as_deref().unwrap_or(DEFAULT_URL)),
            Cell::new(key(profile)),
            Cell::maybe(profile.tenant.as_deref()),
            if is_current { Cell::toned(Tone::Good, "yes") } else { Cell::new("") },
        ]);
    }
    Ok(output::print(&table.render(Paint::for_stdout()))?)
}

impl Show {
    fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let book = Book::load()?;
        let none = || Usage("no profile is current; name one".to_owned());
        let name = self.name.as_ref().or(book.current.as_ref()).ok_or_else(none)?;
        let profile = book.get(name)?;
        if as_json {
            let text = told(&book, name, profile).to_string();
            return Ok(output::print(&output::json::pretty(&text)?)?);
        }
        let is_current = book.current.as_ref() == Some(name);
        let fields = Fields::default()
            .line("profile", Cell::toned(Tone::Bold, name))
            .line("url", Cell::new(profile.url.as_deref().unwrap_or(DEFAULT_URL)))
            .line("key", Cell::new(key(profile)))
            .line_if("key command", profile.key_command.as_deref().map(Cell::new))
            .line("tenant", Cell::maybe(profile.tenant.as_deref()))
            .line("current", Cell::new(if is_current { "yes" } else { "no" }));
        Ok(output::print(&fields.render(Paint::for_stdout()))?)
    }
}

/// Where its key is; never the key itself.
fn key(profile: &Profile) -> &'static str {
    match (&profile.key, &profile.key_command) {
        (Some(_), _) => "in the file",
        (None, Some(_)) => "by a command",
        (None, None) => "none",
    }
}

fn told(book: &Book, name: &str, profile: &Profile) -> Value {
    json!({"name": name, "url": profile.url.as_deref().unwrap_or(DEFAULT_URL), "key": key(profile),
        "key_command": profile.key_command, "tenant": profile.tenant,
        "current": book.current.as_deref() == Some(name)})
}
