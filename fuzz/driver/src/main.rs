//! One program for all targets; `WAKEPOST_FUZZ_TARGET` says which.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static RUN: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("WAKEPOST_FUZZ_TARGET").expect("WAKEPOST_FUZZ_TARGET names a target");
    wakepost_fuzz::find(&name).expect("a target of that name").run
});

fuzz_target!(|bytes: &[u8]| RUN(bytes));
