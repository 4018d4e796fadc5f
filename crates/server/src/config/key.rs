//! The master key: from the environment, a command, or a file that is made at the first start; and those before it.

mod command;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use wakepost_domain::ports::Entropy;
use wakepost_store::vault::{KeyRing, MasterKey, MasterKeys};

use super::Config;

const FILE: &str = "master.key";
/// What a rotation calls the file's key before it makes a new one.
const PREVIOUS_FILE: &str = "master.key.previous";
/// The data directory's own keys: the one in use, and until a rotation is over the one before.
pub const KEY_FILES: [&str; 2] = [FILE, PREVIOUS_FILE];
/// How many keys there may be before the one in use.
const PREVIOUS_MAX: usize = 8;
/// Files of keys are small.
const FILE_BYTES_MAX: u64 = 4096;

/// Where a master key is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPlace {
    /// In a setting: a key, or several separated by commas.
    Setting(String),
    /// In a file: one key a line.
    File(PathBuf),
    /// What a program prints, as in a file.
    Command(Vec<String>),
}

/// Where the master key came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MasterKeySource {
    /// `WAKEPOST_MASTER_KEY`.
    Setting,
    /// A command.
    Command,
    /// Its file.
    File(PathBuf),
    /// Its file, which was just made.
    NewFile(PathBuf),
}

/// The master keys, as the settings say. What is in files is read again whenever it is asked for.
#[derive(Debug)]
pub struct Keys {
    current: Source,
    previous: Vec<Source>,
    last: Mutex<MasterKeys>,
}

/// Where keys are, or the keys themselves where they cannot change.
#[derive(Debug, Clone)]
enum Source {
    Fixed(Vec<MasterKey>),
    File { path: PathBuf, must_exist: bool },
}

impl Keys {
    /// All keys as they are now, or what is wrong with a file.
    pub fn read(&self) -> anyhow::Result<MasterKeys> {
        let mut current = self.current.read()?;
        anyhow::ensure!(current.len() == 1, "there must be one master key, not {}", current.len());
        let mut previous = Vec::new();
        for source in &self.previous {
            previous.extend(source.read()?);
        }
        anyhow::ensure!(
            previous.len() <= PREVIOUS_MAX,
            "at most {PREVIOUS_MAX} previous master keys"
        );
        Ok(MasterKeys::new(current.remove(0), previous))
    }
}

impl KeyRing for Keys {
    fn keys(&self) -> MasterKeys {
        match self.read() {
            Ok(keys) => {
                *self.last.lock() = keys.clone();
                keys
            }
            Err(error) => {
                tracing::warn!(%error, "the master keys cannot be read again; the last ones are used");
                self.last.lock().clone()
            }
        }
    }
}

impl Source {
    fn read(&self) -> anyhow::Result<Vec<MasterKey>> {
        match self {
            Source::Fixed(keys) => Ok(keys.clone()),
            Source::File { path, must_exist } if !must_exist && !path.exists() => Ok(Vec::new()),
            Source::File { path, .. } => read_file(path),
        }
    }

    async fn of(place: &KeyPlace, setting: &str) -> anyhow::Result<Source> {
        Ok(match place {
            KeyPlace::Setting(text) => Source::Fixed(parse(&text.replace(',', "\n"), setting)?),
            KeyPlace::File(path) => Source::File { path: path.clone(), must_exist: true },
            KeyPlace::Command(command) => {
                Source::Fixed(parse(&command::output(command, setting).await?, setting)?)
            }
        })
    }
}

/// Reads the master keys, or makes one. On PostgreSQL every node needs the same one, so there it must be
/// given or its file be there.
pub async fn master_keys(
    config: &Config,
    entropy: &dyn Entropy,
) -> anyhow::Result<(Keys, MasterKeySource)> {
    let (current, source) = match &config.master_key {
        Some(place) => {
            let source = match place {
                KeyPlace::Setting(_) => MasterKeySource::Setting,
                KeyPlace::Command(_) => MasterKeySource::Command,
                KeyPlace::File(path) => MasterKeySource::File(path.clone()),
            };
            (Source::of(place, "master_key").await?, source)
        }
        None => {
            let path = config.data_dir.join(FILE);
            let current = Source::File { path: path.clone(), must_exist: true };
            if path.exists() {
                (current, MasterKeySource::File(path))
            } else {
                make(&path, entropy)?;
                (current, MasterKeySource::NewFile(path))
            }
        }
    };
    let mut previous = Vec::new();
    for place in &config.master_key_previous {
        previous.push(Source::of(place, "master_key_previous").await?);
    }
    if config.master_key.is_none() {
        let path = config.data_dir.join(PREVIOUS_FILE);
        previous.push(Source::File { path, must_exist: false });
    }
    let mut current = current.read().map(|keys| (current, keys))?;
    anyhow::ensure!(current.1.len() == 1, "there must be one master key, not {}", current.1.len());
    let last = Mutex::new(MasterKeys::new(current.1.remove(0), Vec::new()));
    let keys = Keys { current: current.0, previous, last };
    *keys.last.lock() = keys.read()?;
    Ok((keys, source))
}

/// The key of one place, for a rotation to it.
pub async fn one_key(place: &KeyPlace) -> anyhow::Result<MasterKey> {
    let mut keys = Source::of(place, "the new master key").await?.read()?;
    anyhow::ensure!(keys.len() == 1, "there must be one new master key, not {}", keys.len());
    Ok(keys.remove(0))
}

/// Puts a new key into the data directory's file, and the one that was there beside it. If a rotation began before and
/// did not end, its key stays. Answers whether a key was made.
pub fn turn_file(config: &Config, entropy: &dyn Entropy) -> anyhow::Result<bool> {
    let (path, previous) = (config.data_dir.join(FILE), config.data_dir.join(PREVIOUS_FILE));
    let old = fs::read_to_string(&path)
        .map_err(|error| anyhow::anyhow!("cannot read {}: {error}", path.display()))?;
    if !previous.exists() {
        // Under another name first: a half-written file must not be taken for the key.
        place(&previous, old.trim())?;
    } else if read_file(&previous)?.first().map(MasterKey::id)
        != read_file(&path)?.first().map(MasterKey::id)
    {
        return Ok(false);
    }
    place(&path, &fresh(entropy))?;
    Ok(true)
}

/// The file of the key before, if the key is the data directory's file.
pub fn previous_file(config: &Config) -> Option<PathBuf> {
    config.master_key.is_none().then(|| config.data_dir.join(PREVIOUS_FILE))
}

/// What the keys of a file are called.
pub fn key_names(path: &Path) -> anyhow::Result<Vec<String>> {
    Ok(read_file(path)?.iter().map(|key| key.id().to_string()).collect())
}

/// Makes a key in a file that is not there yet.
fn make(path: &Path, entropy: &dyn Entropy) -> anyhow::Result<()> {
    write(path, &fresh(entropy), OpenOptions::new().create_new(true)).map_err(cannot_write(path))
}

fn fresh(entropy: &dyn Entropy) -> String {
    let mut bytes = [0u8; 32];
    entropy.fill(&mut bytes);
    STANDARD.encode(bytes)
}

fn read_file(path: &Path) -> anyhow::Result<Vec<MasterKey>> {
    let cannot = |error| anyhow::anyhow!("cannot read {}: {error}", path.display());
    let size = fs::metadata(path).map_err(cannot)?.len();
    anyhow::ensure!(size <= FILE_BYTES_MAX, "{} is too long for a key", path.display());
    parse(&fs::read_to_string(path).map_err(cannot)?, &path.display().to_string())
}

/// One key a line. No error repeats any of it.
fn parse(text: &str, place: &str) -> anyhow::Result<Vec<MasterKey>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let keys = lines.map(|line| -> Option<MasterKey> {
        let bytes: [u8; 32] = STANDARD.decode(line).ok()?.try_into().ok()?;
        Some(MasterKey::new(bytes))
    });
    let keys: Option<Vec<MasterKey>> = keys.collect();
    keys.filter(|keys| !keys.is_empty()).ok_or_else(|| {
        anyhow::anyhow!("{place} must be 32 bytes in base64 (try: openssl rand -base64 32)")
    })
}

/// Puts a file in the place of another, whole or not at all.
fn place(path: &Path, text: &str) -> anyhow::Result<()> {
    let draft = path.with_extension("draft");
    write(&draft, text, OpenOptions::new().create(true).truncate(true))
        .and_then(|()| fs::rename(&draft, path))
        .and_then(|()| sync_directory(path))
        .map_err(cannot_write(path))
}

fn cannot_write(path: &Path) -> impl Fn(std::io::Error) -> anyhow::Error {
    move |error| anyhow::anyhow!("cannot write {}: {error}", path.display())
}

/// Writes the file so that only its owner can read it, and so that it is on the disk before anything is
/// encrypted with it.
fn write(path: &Path, text: &str, options: &mut OpenOptions) -> std::io::Result<()> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    let mut file = options.write(true).open(path)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    sync_directory(path)
}

fn sync_directory(path: &Path) -> std::io::Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    fs::File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::SystemEntropy;

    fn config(directory: &Path) -> Config {
        let flags = super::super::Flags {
            values: [("data_dir", directory.display().to_string())].into(),
            ..Default::default()
        };
        super::super::load(&flags, &|_| None).unwrap()
    }

    #[tokio::test]
    async fn a_key_in_a_file_is_turned_under_those_who_read_it() {
        let directory = tempfile::tempdir().unwrap();
        let config = config(directory.path());
        let (keys, source) = master_keys(&config, &SystemEntropy).await.unwrap();
        assert!(matches!(source, MasterKeySource::NewFile(_)));
        let old = keys.keys().current().id();
        assert!(turn_file(&config, &SystemEntropy).unwrap());
        let [new, before] = keys.keys().ids()[..] else { panic!("two keys") };
        assert!(new != old && before == old);
        // Interrupted or not, the same key is gone on with.
        assert!(!turn_file(&config, &SystemEntropy).unwrap());
        assert_eq!(keys.keys().ids(), [new, before]);
        fs::remove_file(previous_file(&config).unwrap()).unwrap();
        assert_eq!(keys.keys().ids(), [new]);
        // A file that went away does not take the keys away from a running server.
        fs::remove_file(directory.path().join(FILE)).unwrap();
        assert_eq!(keys.keys().ids(), [new]);
    }

    #[tokio::test]
    async fn a_turn_that_ended_before_its_new_key_is_gone_on_with() {
        let directory = tempfile::tempdir().unwrap();
        let config = config(directory.path());
        let (keys, _) = master_keys(&config, &SystemEntropy).await.unwrap();
        let path = directory.path().join(FILE);
        fs::copy(&path, previous_file(&config).unwrap()).unwrap();
        assert!(turn_file(&config, &SystemEntropy).unwrap());
        assert_eq!(keys.keys().ids().len(), 2);
        assert_ne!(keys.keys().ids()[0], keys.keys().ids()[1]);
    }

    #[test]
    fn what_is_no_key_is_not_repeated() {
        for text in ["", "rubbish", "aGVsbG8=", "\n\n"] {
            let problem = parse(text, "the file").unwrap_err().to_string();
            assert!(problem.starts_with("the file must be 32 bytes"), "{problem}");
        }
    }
}
