//! Seeds, findings, and random changes of them: the short form of fuzzing.

use std::path::Path;

use wakepost_fuzz::{TARGETS, Target};

/// How many changes of each input are tried.
const CHANGES: u64 = 200;
/// What changes are made of, besides chance: what parsers trip over.
const PIECES: [&[u8]; 14] = [
    b"\n",
    b"\0",
    b":",
    b"\"",
    b"\\u0000",
    b"\xff\xfe",
    b"-1",
    b"1e400",
    b"99999999999999999999",
    b"%00",
    b"*",
    b"[[[[",
    b"{\"\":",
    "\u{202e}é".as_bytes(),
];

/// What fuzzing found. Each target has a folder of it: without one nothing would be replayed, and nobody would notice.
fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let files = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{} cannot be read: {error}", folder.display()));
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("an input")).collect()
}

fn replay(name: &str) {
    let target = wakepost_fuzz::find(name).expect("a target");
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty(), "{name} has seeds");
    let inputs = [seeds, corpus(&target)].concat();
    for (number, input) in inputs.iter().enumerate() {
        (target.run)(input);
        let mut chance = Chance(0x9e37_79b9_7f4a_7c15 ^ (number as u64 + 1));
        for _ in 0..CHANGES {
            (target.run)(&chance.changed(input));
        }
    }
}

/// A small generator: the same changes in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }

    fn changed(&mut self, input: &[u8]) -> Vec<u8> {
        let mut bytes = input.to_vec();
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len() + 1);
            let end = (at + self.below(9)).min(bytes.len());
            let piece: Vec<u8> = match self.below(4) {
                0 => vec![self.below(256) as u8],
                1 => PIECES[self.below(PIECES.len())].to_vec(),
                2 => bytes[at..end].repeat(1 + self.below(3)),
                _ => Vec::new(),
            };
            bytes.splice(at..end, piece);
        }
        bytes
    }
}

/// Stamps out a test for each target.
macro_rules! replays {
    ($($name:ident),+ $(,)?) => {
        const NAMES: &[&str] = &[$(stringify!($name)),+];
        $(
            #[test]
            fn $name() {
                replay(stringify!($name));
            }
        )+
    };
}

replays!(
    framing,
    requests,
    signatures,
    tokens,
    answers,
    mcp,
    streams,
    peers,
    retry_after,
    addresses,
    cursors,
    names,
    records,
    templates,
    patterns,
    schemas,
    redaction,
    cron,
    config,
);

#[test]
fn every_target_is_replayed() {
    assert_eq!(TARGETS.map(|target| target.name), NAMES);
}
