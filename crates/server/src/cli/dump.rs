//! pg_dump and pg_restore: PostgreSQL's own programs, told what to do.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

/// How much of what a program complained of is shown.
const COMPLAINT_CHARS_MAX: usize = 4000;

/// Writes one snapshot of a database into a file, in PostgreSQL's custom format.
pub async fn dump(
    url: &str,
    programs: Option<&Path>,
    snapshot: &str,
    file: &Path,
) -> anyhow::Result<()> {
    let args: [&OsStr; 6] = [
        "--format=custom".as_ref(),
        "--no-owner".as_ref(),
        "--no-privileges".as_ref(),
        "--snapshot".as_ref(),
        snapshot.as_ref(),
        "--file".as_ref(),
    ];
    let mut all = args.to_vec();
    all.push(file.as_os_str());
    run("pg_dump", programs, url, &all).await
}

/// Puts a dump into a database, all or nothing.
pub async fn restore(url: &str, programs: Option<&Path>, file: &Path) -> anyhow::Result<()> {
    let mut args: Vec<&OsStr> =
        ["--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error"]
            .iter()
            .map(OsStr::new)
            .collect();
    args.push(file.as_os_str());
    run("pg_restore", programs, url, &args).await
}

async fn run(
    program: &str,
    programs: Option<&Path>,
    url: &str,
    args: &[&OsStr],
) -> anyhow::Result<()> {
    let path = programs.map_or_else(|| PathBuf::from(program), |directory| directory.join(program));
    let (url, password) = split_password(url);
    let mut command = Command::new(&path);
    command.arg("--dbname").arg(url).args(args);
    // Never on the command line, which everybody on the machine can read.
    if let Some(password) = password {
        command.env("PGPASSWORD", password);
    }
    let ended = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| {
            anyhow::anyhow!(
                "{program} cannot be started ({error}): install PostgreSQL's client programs, of the server's \
                 version or newer, or name their directory with --pg-bin"
            )
        })?;
    let complaint = String::from_utf8_lossy(&ended.stderr);
    let complaint: String = complaint.trim().chars().take(COMPLAINT_CHARS_MAX).collect();
    anyhow::ensure!(ended.status.success(), "{program} failed: {complaint}");
    Ok(())
}

/// The address without its password, and the password.
fn split_password(url: &str) -> (String, Option<String>) {
    let Ok(mut parsed) = url::Url::parse(url) else { return (url.to_owned(), None) };
    let password = parsed.password().map(decoded);
    if password.is_none() || parsed.set_password(None).is_err() {
        return (url.to_owned(), None);
    }
    (parsed.to_string(), password)
}

fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut plain, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let code = (bytes[at] == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                plain.push(byte);
                at += 3;
            }
            None => {
                plain.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_does_not_come_on_the_command_line() {
        let (url, password) = split_password("postgres://u:p%40s%25%@h:5/d?sslmode=require");
        assert_eq!(url, "postgres://u@h:5/d?sslmode=require");
        assert_eq!(password.as_deref(), Some("p@s%%"));
        let plain = "postgres://u@h/d";
        assert_eq!(split_password(plain), (plain.to_owned(), None));
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_said_to_be_missing() {
        let nowhere = Path::new("/no/such/place");
        let missing = dump("postgres://u@h/d", Some(nowhere), "s", Path::new("x")).await;
        assert!(missing.unwrap_err().to_string().contains("--pg-bin"));
    }
}
