//! Everything that reaches a terminal.
//!
//! Commands put text from the server into a [`Cell`], which escapes it; tables and field lists are made of
//! cells. So no event type or error message can steer the terminal of whoever reads it.

mod cell;
mod escape;
mod fields;
pub mod json;
pub mod next_page;
mod paint;
mod progress;
mod row;
mod table;
pub mod when;

use std::io::{self, ErrorKind, Write};

pub use cell::Cell;
pub use escape::escape;
pub use fields::Fields;
pub use paint::{Paint, Tone};
pub use progress::Progress;
pub use row::Row;
pub use table::Table;

/// Prints to standard output, with a line break at the end. A reader that has seen enough (`| head`) is no error.
pub fn print(text: &str) -> io::Result<()> {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    print_exact(format!("{text}{end}").as_bytes())
}

/// Prints a line, and says whether anybody still reads: what goes on for ever ends when its reader does.
pub fn print_while_read(line: &str) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        other => other.map(|()| true),
    }
}

/// Prints bytes for a file, with nothing added.
pub fn print_exact(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Prints a line for people to standard error, so that pipes get data only.
pub fn hint(line: &str) {
    // There is nowhere left to say that standard error is gone.
    let _ = writeln!(io::stderr(), "{line}");
}
