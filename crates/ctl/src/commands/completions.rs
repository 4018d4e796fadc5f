//! `webhookctl completions`

use clap::Args;
use clap_complete::Shell;

use crate::describe;
use crate::output;

#[derive(Args)]
pub struct Completions {
    /// For which shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub fn run(&self) -> anyhow::Result<()> {
        Ok(output::print_exact(&describe::completions(self.shell))?)
    }
}
