//! The world of the proof: a network in which every address is this machine, and one name server.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use tempfile::TempDir;

/// Where the name server listens.
pub const NAME_SERVER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 53);

/// The domain of the machine: whatever is asked for below it was not written in any URL.
pub const SEARCH_DOMAIN: &str = "search.example";

/// What the hosts file says.
const HOSTS: &[(&str, &str)] = &[
    ("127.0.0.1", "localhost"),
    ("10.9.8.7", "private.hosts.example"),
    ("9.9.9.9", "public.hosts.example"),
    ("9.9.9.9", "mixed.hosts.example"),
    ("fd00::7", "mixed.hosts.example"),
];

/// With so many dots asked for, every name is first tried below the search domain, unless it is absolute.
const RESOLVER_OPTIONS: &str = "ndots:15 timeout:1 attempts:1";

/// Sets the world up. The files are in place until the process ends; the directory keeps what they show.
pub fn settle() -> anyhow::Result<TempDir> {
    for kind in ["net", "mnt"] {
        ensure!(
            is_own(kind)?,
            "only in namespaces of its own, which `cargo xtask addresses` makes"
        );
    }
    ip(&["link", "set", "lo", "up"])?;
    // The edges of 127.0.0.0/8, which would else be the only addresses of it that nobody can dial.
    ip(&["-4", "route", "flush", "table", "local", "type", "broadcast"])?;
    ip(&["-4", "route", "add", "local", "0.0.0.0/0", "dev", "lo"])?;
    ip(&["-6", "route", "add", "local", "::/0", "dev", "lo"])?;
    let directory = tempfile::tempdir().context("making a directory")?;
    let hosts: String = HOSTS.iter().map(|(ip, name)| format!("{ip} {name}\n")).collect();
    let resolver =
        format!("nameserver {NAME_SERVER}\nsearch {SEARCH_DOMAIN}\noptions {RESOLVER_OPTIONS}\n");
    for (path, text) in [
        ("/etc/hosts", hosts.as_str()),
        ("/etc/resolv.conf", &resolver),
        ("/etc/nsswitch.conf", "hosts: files dns\n"),
    ] {
        // Not every system has the last; what it says is then the rule.
        if Path::new(path).exists() {
            show_instead(Path::new(path), text, directory.path())?;
        }
    }
    // A cache of names would answer from outside.
    if Path::new("/run/nscd").exists() {
        run(Command::new("mount").args(["-t", "tmpfs", "none", "/run/nscd"]))?;
    }
    Ok(directory)
}

/// Whether this process has another namespace than the one that started it: what is done here must not be done to
/// the machine.
fn is_own(kind: &str) -> anyhow::Result<bool> {
    let of = |process: &str| fs::read_link(format!("/proc/{process}/ns/{kind}"));
    let own = of("self").context("reading our own namespaces")?;
    match of(&parent_id().to_string()) {
        Ok(outside) => Ok(own != outside),
        // Those of another user's namespace cannot be read from inside.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(true),
        Err(error) => Err(error).context("reading the namespaces outside"),
    }
}

fn show_instead(path: &Path, text: &str, directory: &Path) -> anyhow::Result<()> {
    let name = path.file_name().context("a path of a file")?;
    let file: PathBuf = directory.join(name);
    fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    run(Command::new("mount").arg("--bind").args([file.as_path(), path]))
}

fn ip(args: &[&str]) -> anyhow::Result<()> {
    run(Command::new("ip").args(args))
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let shown = format!("{command:?}");
    let status = command.status().with_context(|| format!("running {shown}"))?;
    ensure!(status.success(), "{shown} failed ({status})");
    Ok(())
}
