//! The master key: from the environment, or from a file that is made at the first start.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use wakepost_domain::ports::Entropy;
use wakepost_store::vault::MasterKey;

use super::Config;

const FILE: &str = "master.key";

/// Where the master key came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MasterKeySource {
    /// `WAKEPOST_MASTER_KEY`.
    Setting,
    /// Its file.
    File(PathBuf),
    /// Its file, which was just made.
    NewFile(PathBuf),
}

/// Reads the master key, or makes one. On PostgreSQL every node needs the same one, so there it must be
/// given or its file be there.
pub fn master_key(
    config: &Config,
    entropy: &dyn Entropy,
) -> anyhow::Result<(MasterKey, MasterKeySource)> {
    if let Some(text) = &config.master_key {
        return Ok((parse(text, "WAKEPOST_MASTER_KEY")?, MasterKeySource::Setting));
    }
    let path = config.data_dir.join(FILE);
    if path.exists() {
        let text = fs::read_to_string(&path)
            .map_err(|error| anyhow::anyhow!("cannot read {}: {error}", path.display()))?;
        let name = path.display().to_string();
        return Ok((parse(&text, &name)?, MasterKeySource::File(path)));
    }
    let mut bytes = [0u8; 32];
    entropy.fill(&mut bytes);
    write(&path, &STANDARD.encode(bytes))?;
    Ok((MasterKey::new(bytes), MasterKeySource::NewFile(path)))
}

fn parse(text: &str, place: &str) -> anyhow::Result<MasterKey> {
    let bytes: Option<[u8; 32]> =
        STANDARD.decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.map(MasterKey::new).ok_or_else(|| {
        anyhow::anyhow!("{place} must be 32 bytes in base64 (try: openssl rand -base64 32)")
    })
}

/// Writes the file so that only its owner can read it, and so that it is on the disk before anything is
/// encrypted with it.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let problem =
        |error: std::io::Error| anyhow::anyhow!("cannot write {}: {error}", path.display());
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(problem)?;
    writeln!(file, "{text}").map_err(problem)?;
    file.sync_all().map_err(problem)?;
    if let Some(directory) = path.parent() {
        fs::File::open(directory).and_then(|directory| directory.sync_all()).map_err(problem)?;
    }
    Ok(())
}
