//! Where things are: the root of the workspace and the programs built in it.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// The directory of the workspace's `Cargo.toml`.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a directory of the workspace")
}

/// Where `cargo build` puts the programs of one profile (`debug`, `release`).
///
/// Taken from where Cargo put this program, so a target directory set anywhere is respected.
pub fn bin_dir(profile: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("finding this program's own path")?;
    let target = own.ancestors().nth(2).context("this program was not started by cargo")?;
    Ok(target.join(profile))
}
