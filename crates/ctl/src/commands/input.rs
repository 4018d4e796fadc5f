//! What a flag says by itself, or what it points to: a file, or standard input.

use std::fs::File;
use std::io::Read;

use anyhow::Context;
use serde_json::Value;

use crate::exit::Usage;

/// A secret is short; what is longer is some other file.
const SECRET_BYTES_MAX: u64 = 64 * 1024;
/// Far more than the server takes.
const JSON_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The secret itself, or what standard input says: a command line is in the shell's history.
pub fn read_secret(flag: String) -> anyhow::Result<String> {
    if flag != "-" {
        return Ok(flag);
    }
    let text = bounded(std::io::stdin(), SECRET_BYTES_MAX)
        .context("the secret cannot be read from standard input")?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// JSON as it is written, in a file (`@FILE`), or on standard input (`-`).
pub fn read_json(flag: &str, given: &str) -> anyhow::Result<Value> {
    let text = match (given, given.strip_prefix('@')) {
        ("-", _) => bounded(std::io::stdin(), JSON_BYTES_MAX)
            .with_context(|| format!("{flag} cannot be read from standard input"))?,
        (_, Some(path)) => read_file(path).with_context(|| format!("{flag}: {path}"))?,
        _ => given.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| {
        Usage(format!("{flag} is not JSON: {error}; write JSON, @FILE or -")).into()
    })
}

/// A whole file, as text.
pub fn read_file(path: &str) -> anyhow::Result<String> {
    bounded(File::open(path)?, JSON_BYTES_MAX)
}

fn bounded(from: impl Read, bytes_max: u64) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = from.take(bytes_max + 1).read_to_string(&mut text)? as u64;
    anyhow::ensure!(read <= bytes_max, "it is longer than {bytes_max} bytes");
    Ok(text)
}
