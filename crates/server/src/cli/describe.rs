//! `wakepost completions` and `wakepost man`: told from the one definition of the commands.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::Command;
use clap_complete::Shell;

/// Prints the script that completes command lines.
pub fn completions(mut command: Command, shell: Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(shell, &mut command, name, &mut script);
    print(&script)
}

/// Writes a man page for each command to a directory, or prints that of the whole.
pub fn man(command: Command, out: Option<&Path>) -> anyhow::Result<ExitCode> {
    let Some(directory) = out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        return print(&page);
    };
    fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(command, directory))
        .with_context(|| format!("{} cannot be written to", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// A reader that has seen enough is no error.
fn print(bytes: &[u8]) -> anyhow::Result<ExitCode> {
    match io::stdout().lock().write_all(bytes) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}
