//! Every parser of foreign bytes, as targets for a fuzzer.
//!
//! A target reads any bytes, must not panic, and holds what it read against a rule that is said here once more, in other
//! words than the parser's. `tests/replay.rs` runs all seeds, what fuzzing found (`corpus/`), and some thousands of
//! random changes of both; `cargo xtask fuzz` lets libFuzzer look for more (`driver/`).

mod answers;
mod framing;
mod input;
mod messages;
mod records;
mod requests;
mod schemas;
mod settings;
mod tokens;
mod wire;

/// One parser, or a few that read the same.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, which is also its folder in `corpus/`.
    pub name: &'static str,
    /// Reads the bytes, and panics if a rule is broken.
    pub run: fn(&[u8]),
    /// Inputs to begin with: good ones, so that changes of them get far.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub const TARGETS: [Target; 19] = [
    Target { name: "framing", run: framing::run, seeds: framing::seeds },
    Target { name: "requests", run: requests::run, seeds: requests::seeds },
    Target { name: "signatures", run: wire::signatures, seeds: wire::signature_seeds },
    Target { name: "tokens", run: tokens::run, seeds: tokens::seeds },
    Target { name: "answers", run: answers::run, seeds: answers::seeds },
    Target { name: "mcp", run: messages::mcp, seeds: messages::mcp_seeds },
    Target { name: "streams", run: messages::streams, seeds: messages::stream_seeds },
    Target { name: "peers", run: wire::peers, seeds: wire::peer_seeds },
    Target { name: "retry_after", run: wire::retry_after, seeds: wire::retry_after_seeds },
    Target { name: "addresses", run: wire::addresses, seeds: wire::address_seeds },
    Target { name: "cursors", run: wire::cursors, seeds: wire::cursor_seeds },
    Target { name: "names", run: wire::names, seeds: wire::name_seeds },
    Target { name: "records", run: records::run, seeds: records::seeds },
    Target { name: "templates", run: settings::templates, seeds: settings::template_seeds },
    Target { name: "patterns", run: settings::patterns, seeds: settings::pattern_seeds },
    Target { name: "schemas", run: schemas::run, seeds: schemas::seeds },
    Target { name: "redaction", run: settings::redaction, seeds: settings::redaction_seeds },
    Target { name: "cron", run: settings::cron, seeds: settings::cron_seeds },
    Target { name: "config", run: settings::config, seeds: settings::config_seeds },
];

/// The target of a name.
pub fn find(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}
