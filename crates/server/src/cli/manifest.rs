//! What a backup says of itself: `manifest.json`, beside the data.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::Context as _;
use aws_lc_rs::digest;
use serde::{Deserialize, Serialize};
use wakepost_store::moves::Counted;

use super::progress::Progress;

/// The manifest's file.
pub const FILE: &str = "manifest.json";
/// The only format there is.
const FORMAT: u32 = 1;
/// A manifest is small.
const BYTES_MAX: u64 = 64 * 1024;

/// Which database a backup is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A file that is a database.
    Sqlite,
    /// What pg_dump wrote.
    Postgres,
}

/// A backup's manifest.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Manifest {
    format: u32,
    /// The program that made it.
    pub wakepost: String,
    /// Of which database.
    pub database: Kind,
    /// Its schema.
    pub schema: i64,
    /// When it was taken.
    pub taken_at: String,
    /// How many rows its tables have.
    pub rows: BTreeMap<String, i64>,
    /// The names of the master keys that open it.
    pub master_keys: Vec<String>,
    /// Whether the master key lies beside it.
    pub with_master_key: bool,
    /// The data.
    pub file: String,
    /// How long that is.
    pub bytes: u64,
    /// Its hash.
    pub sha256: String,
}

/// What is known before the data is written.
#[derive(Debug)]
pub struct About {
    /// Of which database.
    pub database: Kind,
    /// Its schema.
    pub schema: i64,
    /// When it was taken.
    pub taken_at: String,
    /// How many rows its tables have.
    pub rows: Vec<Counted>,
    /// The names of the master keys that open it.
    pub master_keys: Vec<String>,
    /// Whether the master key lies beside it.
    pub with_master_key: bool,
}

impl Manifest {
    /// Writes the manifest of a directory whose data is complete.
    pub fn write(directory: &Path, file: &str, about: About) -> anyhow::Result<Manifest> {
        let (bytes, sha256) = hash(&directory.join(file))?;
        let manifest = Manifest {
            format: FORMAT,
            wakepost: env!("CARGO_PKG_VERSION").to_owned(),
            database: about.database,
            schema: about.schema,
            taken_at: about.taken_at,
            rows: about.rows.iter().map(|one| (one.table.to_owned(), one.rows)).collect(),
            master_keys: about.master_keys,
            with_master_key: about.with_master_key,
            file: file.to_owned(),
            bytes,
            sha256,
        };
        let mut to = File::create(directory.join(FILE))?;
        to.write_all(serde_json::to_string_pretty(&manifest)?.as_bytes())?;
        to.sync_all()?;
        Ok(manifest)
    }

    /// Reads the manifest of a backup, and checks that its data is what was written.
    pub fn read(directory: &Path) -> anyhow::Result<Manifest> {
        let path = directory.join(FILE);
        let file = File::open(&path).with_context(|| {
            format!("{} is no backup: cannot open {}", directory.display(), path.display())
        })?;
        let mut text = String::new();
        file.take(BYTES_MAX).read_to_string(&mut text)?;
        let manifest: Manifest = serde_json::from_str(&text)
            .with_context(|| format!("{} cannot be read", path.display()))?;
        anyhow::ensure!(
            manifest.format == FORMAT,
            "the backup has format {}, this program knows {FORMAT}: use the wakepost that made it ({})",
            manifest.format,
            manifest.wakepost
        );
        let plain = Path::new(&manifest.file).components().count() == 1;
        anyhow::ensure!(plain && manifest.file != "..", "the manifest names a file elsewhere");
        let data = directory.join(&manifest.file);
        let (bytes, sha256) = hash(&data)?;
        anyhow::ensure!(
            (bytes, &sha256) == (manifest.bytes, &manifest.sha256),
            "{} is damaged: it is not what the manifest says. Take another backup",
            data.display()
        );
        Ok(manifest)
    }
}

fn hash(path: &Path) -> anyhow::Result<(u64, String)> {
    let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let all = file.metadata()?.len();
    let mut progress = Progress::new("checksum");
    let mut context = digest::Context::new(&digest::SHA256);
    let mut buffer = vec![0; 256 * 1024];
    let mut bytes = 0;
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((bytes, hex::encode(context.finish())));
        }
        bytes += read as u64;
        progress.show(bytes, all);
        context.update(&buffer[..read]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> About {
        About {
            database: Kind::Sqlite,
            schema: 1,
            taken_at: "2026-11-18T09:00:00Z".to_owned(),
            rows: vec![Counted { table: "events", rows: 3 }],
            master_keys: vec!["mk_1".to_owned()],
            with_master_key: false,
        }
    }

    #[test]
    fn what_was_changed_or_cut_short_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        std::fs::write(&data, b"a database").unwrap();
        let written = Manifest::write(directory.path(), "data", about()).unwrap();
        let read = Manifest::read(directory.path()).unwrap();
        assert_eq!((read.sha256, read.rows), (written.sha256, [("events".to_owned(), 3)].into()));
        for wrong in [&b"another database"[..], b"a databas", b""] {
            std::fs::write(&data, wrong).unwrap();
            let refused = Manifest::read(directory.path()).unwrap_err().to_string();
            assert!(refused.contains("damaged"), "{refused}");
        }
        std::fs::remove_file(&data).unwrap();
        assert!(Manifest::read(directory.path()).is_err());
    }

    #[test]
    fn a_manifest_that_names_another_place_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("data"), b"x").unwrap();
        let mut manifest = Manifest::write(directory.path(), "data", about()).unwrap();
        for file in ["../data", "/etc/passwd", ".."] {
            file.clone_into(&mut manifest.file);
            let text = serde_json::to_string(&manifest).unwrap();
            std::fs::write(directory.path().join(FILE), text).unwrap();
            assert!(Manifest::read(directory.path()).is_err(), "{file}");
        }
    }
}
