//! Profiles: which servers there are, and how to get at their keys. One file, for its owner's eyes only.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::exit::{NotFound, Usage};

/// Far more than anybody's profiles need.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// As long as a name may be.
const NAME_CHARS_MAX: usize = 64;

/// All profiles, and which one counts when none is named.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profiles {
    /// The one that counts when none is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// By name.
    #[serde(default)]
    pub profiles: BTreeMap<String, Profile>,
}

/// One server, as one key sees it.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Profile {
    /// Where the server is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The key itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What prints the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_command: Option<String>,
    /// The tenant that is acted on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

impl std::fmt::Debug for Profile {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Profile").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Profiles {
    /// Where the file is: `$XDG_CONFIG_HOME/wakepost/ctl.toml`, or below `~/.config`.
    pub fn path() -> anyhow::Result<PathBuf> {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        // A relative one is to be ignored, by the standard.
        let config = set("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || set("HOME").or_else(|| set("USERPROFILE")).map(PathBuf::from);
        match config.or_else(|| home().map(|home| home.join(".config"))) {
            Some(config) => Ok(config.join("wakepost").join("ctl.toml")),
            None => bail!("there is no place for profiles: set HOME or XDG_CONFIG_HOME"),
        }
    }

    /// Reads them; none if there is no file.
    pub fn load() -> anyhow::Result<Profiles> {
        match Profiles::path() {
            Ok(path) => Profiles::read(&path),
            Err(_) => Ok(Profiles::default()),
        }
    }

    fn read(path: &Path) -> anyhow::Result<Profiles> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Profiles::default()),
            Err(error) => return Err(error).context(format!("{}", path.display())),
        };
        refuse_if_shared(path, &file)?;
        let mut text = String::new();
        let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
        let read = read.with_context(|| format!("{}", path.display()))? as u64;
        if read > FILE_BYTES_MAX {
            bail!("{} is longer than {FILE_BYTES_MAX} bytes", path.display());
        }
        // The message only: the lines around it may hold a key.
        toml::from_str(&text)
            .map_err(|error| anyhow::anyhow!("{}: {}", path.display(), error.message()))
    }

    /// Writes them, for their owner alone. Whoever reads meanwhile sees the old ones or the new ones.
    pub fn save(&self) -> anyhow::Result<PathBuf> {
        let path = Profiles::path()?;
        self.write(&path).with_context(|| format!("{} cannot be written", path.display()))?;
        Ok(path)
    }

    fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = toml::to_string(self)?;
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let draft = path.with_extension(format!("{}.new", std::process::id()));
        // What an earlier run left behind.
        let _ = fs::remove_file(&draft);
        let written = for_owner().open(&draft).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        let moved = written.and_then(|()| fs::rename(&draft, path));
        if moved.is_err() {
            let _ = fs::remove_file(&draft);
        }
        Ok(moved?)
    }

    /// The profile with this name.
    pub fn get(&self, name: &str) -> anyhow::Result<&Profile> {
        self.profiles.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.profiles.keys().map(String::as_str).collect();
            let known = match known.is_empty() {
                true => "there is none yet: webhookctl profiles add NAME --url URL".to_owned(),
                false => format!("there are {}", known.join(", ")),
            };
            NotFound(format!("no profile {name:?}; {known}")).into()
        })
    }
}

/// Whether a text can be the name of a profile.
pub fn check_name(name: &str) -> Result<(), Usage> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if !name.is_empty() && name.len() <= NAME_CHARS_MAX && name.chars().all(fits) {
        return Ok(());
    }
    Err(Usage(format!("a profile's name has letters, digits, - _ . and at most {NAME_CHARS_MAX}")))
}

fn for_owner() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options
}

/// Keys are in it, and commands that are run.
#[cfg(unix)]
fn refuse_if_shared(path: &Path, file: &File) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = file.metadata()?.permissions().mode();
    if mode & 0o077 != 0 {
        let path = path.display();
        bail!(
            "others can read or change {path}: run `chmod 600 {path}`, and replace the keys in it"
        );
    }
    Ok(())
}

#[cfg(not(unix))]
fn refuse_if_shared(_path: &Path, _file: &File) -> anyhow::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Profiles {
        let prod = Profile {
            url: Some("https://hooks.example.com".to_owned()),
            key: Some("the \"key\"".to_owned()),
            ..Profile::default()
        };
        let profiles = BTreeMap::from([
            ("prod".to_owned(), prod),
            ("a.b".to_owned(), Profile { tenant: Some("acme".to_owned()), ..Profile::default() }),
        ]);
        Profiles { current: Some("prod".to_owned()), profiles }
    }

    #[test]
    fn what_is_written_is_read_again_and_nobody_else_may() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("wakepost/ctl.toml");
        assert_eq!(Profiles::read(&path).expect("no file"), Profiles::default());
        two().write(&path).expect("written");
        two().write(&path).expect("written again");
        assert_eq!(Profiles::read(&path).expect("read"), two());
        assert_eq!(fs::read_dir(path.parent().expect("a directory")).expect("files").count(), 1);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(&path).expect("a file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("changed");
            let refused = Profiles::read(&path).expect_err("too open").to_string();
            assert!(refused.contains("chmod 600"), "{refused}");
        }
    }

    #[test]
    fn a_broken_file_is_refused_without_its_lines() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("ctl.toml");
        for text in ["key = \"very-secret", "[profiles.a]\nkeys = \"very-secret\""] {
            let _ = fs::remove_file(&path);
            for_owner().open(&path).and_then(|mut f| f.write_all(text.as_bytes())).expect("a file");
            let refused = format!("{:#}", Profiles::read(&path).expect_err(text));
            assert!(!refused.contains("very-secret"), "{refused}");
        }
    }

    #[test]
    fn names_are_plain() {
        assert!(["prod", "eu-1.prod_x"].iter().all(|name| check_name(name).is_ok()));
        assert!(["", "a b", "a\u{1b}", "ä"].iter().all(|name| check_name(name).is_err()));
    }
}
