//! `webhookctl man`

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use crate::output;
use crate::{describe, output::escape};

#[derive(Args)]
pub struct Man {
    /// Write a page for each command to this directory; left out: print that of the whole
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the reference of the documentation instead
    #[arg(long, hide = true, conflicts_with = "out")]
    markdown: bool,
}

impl Man {
    pub fn run(&self) -> anyhow::Result<()> {
        if self.markdown {
            return Ok(output::print_exact(describe::markdown().as_bytes())?);
        }
        let Some(directory) = &self.out else {
            return Ok(output::print_exact(&describe::man_page()?)?);
        };
        let count = describe::man_pages(directory)
            .with_context(|| format!("{} cannot be written to", directory.display()))?;
        let shown = directory.display().to_string();
        output::hint(&format!("{count} pages in {}", escape(&shown)));
        Ok(())
    }
}
