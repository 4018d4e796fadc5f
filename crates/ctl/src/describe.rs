//! What the commands are, told from their one definition: completions, man pages, the reference.

use std::fs;
use std::io;
use std::path::Path;

use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;

const PROGRAM: &str = "webhookctl";
const FOREWORD: &str = "\
# webhookctl

The operator's tool. Except for `verify`, which works offline, it speaks only the HTTP API.

This page is made from the program: `webhookctl man --markdown > docs/reference/webhookctl.md`. How to set it up, with
profiles, completions and man pages: [the guide](../guides/webhookctl.md).
";

/// The script that completes command lines.
pub fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), PROGRAM, &mut script);
    script
}

/// The man page of the whole.
pub fn man_page() -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    Ok(page)
}

/// Writes a man page for each command, and says how many.
pub fn man_pages(directory: &Path) -> io::Result<usize> {
    fs::create_dir_all(directory)?;
    clap_mangen::generate_to(Cli::command(), directory)?;
    Ok(commands(&built()).len())
}

/// The reference, as a page of the documentation.
pub fn markdown() -> String {
    let root = built();
    let mut text = FOREWORD.to_owned();
    text.push_str("\n## Everywhere\n\n");
    push_arguments(&mut text, &root, |arg| arg.is_global_set());
    text.push_str(
        "\nExit codes: 0, 1 failed, 2 usage, 3 not found, 4 not allowed, 5 server unreachable.\n",
    );
    for (path, command) in commands(&root).into_iter().skip(1) {
        let level = if path.matches(' ').count() == 1 { "##" } else { "###" };
        text.push_str(&format!("\n{level} {path}\n\n"));
        if let Some(about) = command.get_about() {
            text.push_str(&format!("{about}\n"));
        }
        if !command.has_subcommands() {
            text.push_str(&format!("\n    {}\n\n", usage(&path, command)));
            push_arguments(&mut text, command, |arg| !arg.is_global_set());
        }
        if let Some(after) = command.get_after_help() {
            text.push_str(&format!("\n{after}\n"));
        }
    }
    // A command without arguments leaves an empty line too many.
    while text.contains("\n\n\n") {
        text = text.replace("\n\n\n", "\n\n");
    }
    text.trim_end().to_owned() + "\n"
}

fn built() -> Command {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    root
}

/// All commands that people are told of, each with its whole name.
fn commands(root: &Command) -> Vec<(String, &Command)> {
    fn collect<'c>(path: String, command: &'c Command, all: &mut Vec<(String, &'c Command)>) {
        all.push((path.clone(), command));
        let told = |sub: &&Command| !sub.is_hide_set() && sub.get_name() != "help";
        for sub in command.get_subcommands().filter(told) {
            collect(format!("{path} {}", sub.get_name()), sub, all);
        }
    }
    let mut all = Vec::new();
    collect(PROGRAM.to_owned(), root, &mut all);
    all
}

/// `webhookctl jobs cancel [OPTIONS] [JOB]`
fn usage(path: &str, command: &Command) -> String {
    let mut words = vec![path.to_owned()];
    if command.get_opts().any(|arg| !arg.is_global_set()) {
        words.push("[OPTIONS]".to_owned());
    }
    for arg in command.get_positionals() {
        let name = value_name(arg).unwrap_or_else(|| arg.get_id().as_str().to_uppercase());
        words.push(if arg.is_required_set() { format!("<{name}>") } else { format!("[{name}]") });
    }
    words.join(" ")
}

fn push_arguments(text: &mut String, command: &Command, wanted: impl Fn(&Arg) -> bool) {
    let told = |arg: &&Arg| !arg.is_hide_set() && !is_help(arg) && wanted(arg);
    for arg in command.get_arguments().filter(told) {
        text.push_str(&format!("- `{}`: {}\n", spelling(arg), said(arg)));
    }
}

fn is_help(arg: &Arg) -> bool {
    matches!(arg.get_id().as_str(), "help" | "version")
}

/// `-f, --follow`, `--limit <LIMIT>`, `<EVENT>`
fn spelling(arg: &Arg) -> String {
    let value = value_name(arg);
    if arg.is_positional() {
        let name = value.unwrap_or_else(|| arg.get_id().as_str().to_uppercase());
        return if arg.is_required_set() { format!("<{name}>") } else { format!("[{name}]") };
    }
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let names: Vec<String> = short.into_iter().chain(long).collect();
    let takes_value = arg.get_action().takes_values();
    match value.filter(|_| takes_value) {
        Some(value) => format!("{} <{value}>", names.join(", ")),
        None => names.join(", "),
    }
}

fn value_name(arg: &Arg) -> Option<String> {
    let names = arg.get_value_names()?;
    Some(names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" "))
}

/// What it means, and which values there are.
fn said(arg: &Arg) -> String {
    let mut said = arg.get_help().map(ToString::to_string).unwrap_or_default();
    if !arg.get_action().takes_values() {
        return said;
    }
    let values = arg.get_possible_values();
    let values: Vec<String> = values
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !values.is_empty() {
        said.push_str(&format!(" ({})", values.join(", ")));
    }
    let default: Vec<_> = arg.get_default_values().iter().map(|v| v.to_string_lossy()).collect();
    if !default.is_empty() {
        said.push_str(&format!(" [default: {}]", default.join(", ")));
    }
    said
}
