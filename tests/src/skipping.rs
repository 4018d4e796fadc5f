//! Tests that need what a machine may not have.

/// Set to 1 where nothing may be left out, as in CI.
const MUST_RUN: &str = "WAKEPOST_TESTS_MUST_RUN";

/// Says that this test cannot run here, and why. Where all must run that is a failure.
#[track_caller]
pub fn skipped(why: impl std::fmt::Display) {
    let must_run = std::env::var_os(MUST_RUN).is_some_and(|set| set == "1");
    assert!(!must_run, "{MUST_RUN} is set, and this cannot run: {why}");
    println!("skipped: {why}");
}
