//! What happened, in order: as a hash, and in words if somebody wants to read it.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};

/// The trace of one simulation.
pub struct Trace {
    hash: RefCell<Context>,
    lines: Cell<u64>,
    is_shown: bool,
}

impl Trace {
    /// A trace, shown on standard output or only hashed.
    pub fn new(is_shown: bool) -> Trace {
        Trace { hash: RefCell::new(Context::new(&SHA256)), lines: Cell::new(0), is_shown }
    }

    /// Something happened.
    pub fn note(&self, at: Duration, what: fmt::Arguments<'_>) {
        let line = format!("{:>12.3} {what}\n", at.as_secs_f64());
        self.hash.borrow_mut().update(line.as_bytes());
        self.lines.set(self.lines.get() + 1);
        if self.is_shown {
            print!("{line}");
        }
    }

    /// Something that is only hashed, since it would be too long to read.
    pub fn weigh(&self, bytes: &[u8]) {
        self.hash.borrow_mut().update(bytes);
    }

    /// What all of it comes to.
    pub fn hash(&self) -> String {
        let digest = self.hash.borrow().clone().finish();
        digest.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
