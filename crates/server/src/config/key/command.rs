//! A program that prints a key: run once, without a shell, for a while.

use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use zeroize::Zeroizing;

/// How long it may take: people answer no questions here, but a vault may be far away.
const PATIENCE: Duration = Duration::from_secs(30);
/// How much it may print.
const OUTPUT_BYTES_MAX: u64 = 4096;
/// How much of what it complained of is shown.
const COMPLAINT_BYTES_MAX: u64 = 2048;

/// What the program prints. What it complains of is shown if it fails; what it prints never is.
pub async fn output(command: &[String], setting: &str) -> anyhow::Result<Zeroizing<String>> {
    output_within(command, setting, PATIENCE).await
}

async fn output_within(
    command: &[String],
    setting: &str,
    patience: Duration,
) -> anyhow::Result<Zeroizing<String>> {
    let Some((program, arguments)) = command.split_first() else {
        anyhow::bail!("{setting}_command must name a program");
    };
    let failed = || format!("{setting}_command ({program})");
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("{} cannot be started", failed()))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let ended = async {
        let (printed, complaint) =
            tokio::join!(read(stdout, OUTPUT_BYTES_MAX + 1), read(stderr, COMPLAINT_BYTES_MAX),);
        (Zeroizing::new(printed), complaint, child.wait().await)
    };
    let ended = tokio::time::timeout(patience, ended).await;
    let (printed, complaint, status) =
        ended.map_err(|_| anyhow::anyhow!("{} did not end within {patience:?}", failed()))?;
    let status = status.with_context(failed)?;
    let complaint = String::from_utf8_lossy(&complaint).trim().to_owned();
    anyhow::ensure!(status.success(), "{} failed ({status}): {complaint}", failed());
    anyhow::ensure!(printed.len() as u64 <= OUTPUT_BYTES_MAX, "{} printed too much", failed());
    let text = String::from_utf8(printed.to_vec());
    Ok(Zeroizing::new(text.map_err(|_| anyhow::anyhow!("{} printed no text", failed()))?))
}

/// Reads what is wanted, and lets the rest go by, so that nobody waits for us.
async fn read(stream: Option<impl AsyncRead + Unpin>, bytes_max: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        let _ = (&mut stream).take(bytes_max).read_to_end(&mut bytes).await;
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run(script: &str) -> Result<String, String> {
        let command = ["sh", "-c", script].map(str::to_owned);
        match output(&command, "master_key").await {
            Ok(text) => Ok(text.to_string()),
            Err(error) => Err(format!("{error:#}")),
        }
    }

    #[tokio::test]
    async fn what_it_prints_is_the_key_and_what_it_complains_of_is_shown() {
        assert_eq!(run("echo key; echo noise >&2").await.unwrap(), "key\n");
        let failed = run("echo hunter2; echo 'no token' >&2; exit 3").await.unwrap_err();
        assert!(failed.contains("no token") && !failed.contains("hunter2"), "{failed}");
        let long = run("yes | head -c 10000").await.unwrap_err();
        assert!(long.contains("printed too much"), "{long}");
        let missing = output(&["/no/such/program".to_owned()], "master_key").await;
        assert!(missing.unwrap_err().to_string().contains("cannot be started"));
    }

    #[tokio::test]
    async fn it_may_not_take_for_ever() {
        let command = ["sleep", "1000"].map(str::to_owned);
        let slow = output_within(&command, "master_key", Duration::from_millis(50)).await;
        assert!(slow.unwrap_err().to_string().contains("did not end"));
    }
}
