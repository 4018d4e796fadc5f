//! Writes the seeds of all targets into a folder, one file each, and prints the targets' names.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    for target in wakepost_fuzz::TARGETS {
        println!("{}", target.name);
        let Some(folder) = folder.as_ref().map(|folder| folder.join(target.name)) else { continue };
        std::fs::create_dir_all(&folder)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), seed)?;
        }
    }
    Ok(())
}
