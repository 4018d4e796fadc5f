//! What a machine cannot run: a failure where nothing may be left out.

use anyhow::ensure;
use rustix::process::geteuid;

/// Set to 1 where nothing may be left out. The tests go by it too.
pub const MUST_RUN: &str = "WAKEPOST_TESTS_MUST_RUN";

/// Whether nothing may be left out here: only for a developer who is not root something may (`docs/faults.md`).
pub fn must_all_run() -> bool {
    let is = |name, value| std::env::var_os(name).is_some_and(|set| set == value);
    is(MUST_RUN, "1") || is("CI", "true") || geteuid().is_root()
}

/// Says that something cannot run here, and why. Where all must run that is a failure.
pub fn skip(why: &str) -> anyhow::Result<()> {
    skip_unless(must_all_run(), why)
}

fn skip_unless(must_all_run: bool, why: &str) -> anyhow::Result<()> {
    ensure!(!must_all_run, "nothing may be left out here, and this cannot run: {why}");
    println!("skipped: {why}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_run_is_a_failure_where_nothing_may_be_left_out() {
        assert!(skip_unless(false, "no loop devices").is_ok());
        let error = skip_unless(true, "no loop devices").unwrap_err().to_string();
        assert!(error.contains("no loop devices"), "{error}");
    }
}
