//! A disk whose power can be cut: ext4 in a file on btrfs, which can be cloned at any moment. What was not
//! synced is not in the clone.
//!
//! Whoever starts this program gives it a mount namespace of its own (`cargo xtask powercut` does), so that
//! the mounts end with it even if it is killed; the loop devices end with the mounts.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};

/// Sparse: only what is written takes room.
const OUTER_SIZE: &str = "8G";
const DISK_SIZE: &str = "1G";
/// A process that was killed may hold a mount for a moment.
const UNMOUNT_TRIES: u32 = 100;
const UNMOUNT_PAUSE: Duration = Duration::from_millis(50);

/// The disk, mounted.
pub struct Disk {
    directory: PathBuf,
}

impl Disk {
    /// Makes a disk and mounts it.
    pub fn new(directory: &Path) -> anyhow::Result<Disk> {
        let disk = Disk { directory: directory.to_owned() };
        let path = |name: &str| directory.join(name);
        std::fs::create_dir(path("outer"))?;
        std::fs::create_dir(path("disk"))?;
        run(Command::new("truncate").args(["-s", OUTER_SIZE]).arg(path("outer.img")))?;
        run(Command::new("mkfs.btrfs").args(["-q", "-f"]).arg(path("outer.img")))?;
        mount(&path("outer.img"), &path("outer"))?;
        run(Command::new("truncate").args(["-s", DISK_SIZE]).arg(path("outer/disk.img")))?;
        run(Command::new("mkfs.ext4").arg("-q").arg(path("outer/disk.img")))?;
        mount(&path("outer/disk.img"), &path("disk"))?;
        Ok(disk)
    }

    /// Where it is mounted.
    pub fn path(&self) -> PathBuf {
        self.directory.join("disk")
    }

    /// Writes out all that was written so far.
    pub fn sync(&self) -> anyhow::Result<()> {
        run(Command::new("sync").arg("-f").arg(self.path()))
    }

    /// Takes what is on the disk at this moment.
    pub fn cut(&self) -> anyhow::Result<()> {
        let outer = self.directory.join("outer");
        let clone = ["--reflink=always", "disk.img", "cut.img"];
        run(Command::new("cp").current_dir(outer).args(clone))
    }

    /// Power is back: what was taken is now the disk. Nobody may use it.
    pub fn recover(&self) -> anyhow::Result<()> {
        let outer = self.directory.join("outer");
        unmount(&self.path())?;
        std::fs::rename(outer.join("cut.img"), outer.join("disk.img"))?;
        mount(&outer.join("disk.img"), &self.path())
    }

    /// Copies what is on the disk to a directory that stays.
    pub fn keep(&self, to: &Path) -> anyhow::Result<()> {
        run(Command::new("cp").args(["-a", "-T"]).arg(self.path()).arg(to))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for name in ["disk", "outer"] {
            let path = self.directory.join(name);
            if is_mounted(&path) && unmount(&path).is_err() {
                // Gone for everybody, and really gone when the last process lets go of it.
                let _ = run(Command::new("umount").arg("-l").arg(&path));
            }
        }
    }
}

fn mount(image: &Path, at: &Path) -> anyhow::Result<()> {
    run(Command::new("mount").args(["-o", "loop"]).arg(image).arg(at))
}

fn unmount(path: &Path) -> anyhow::Result<()> {
    for _ in 1..UNMOUNT_TRIES {
        if run(Command::new("umount").arg(path)).is_ok() {
            return Ok(());
        }
        std::thread::sleep(UNMOUNT_PAUSE);
    }
    run(Command::new("umount").arg(path))
}

fn is_mounted(path: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(1) == path.to_str())
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("running {name}"))?;
    if !output.status.success() {
        bail!("{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
