//! On a terminal: colour, progress, and a live view that gives the screen back.
#![cfg(unix)]

mod program;
#[path = "../../client/tests/stand_in/mod.rs"]
mod stand_in;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};
use serde_json::json;
use stand_in::{Answer, Seen, StandIn, bytes_answer, json_answer, problem};

const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";
const PATIENCE: Duration = Duration::from_secs(30);

/// The program on a terminal of its own.
struct Terminal {
    child: Child,
    ours: File,
    theirs: OwnedFd,
    seen: String,
}

impl Terminal {
    fn start(url: &str, args: &[&str]) -> Terminal {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&ours).expect("granted");
        unlockpt(&ours).expect("unlocked");
        let name = ptsname(&ours, Vec::new()).expect("its name");
        let theirs =
            rustix::fs::open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty())
                .expect("its other end");
        let size = Winsize { ws_row: 12, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&ours, size).expect("a size");
        let end = || Stdio::from(theirs.try_clone().expect("a copy"));
        let child = Command::new(env!("CARGO_BIN_EXE_webhookctl"))
            .args(args)
            .env("WAKEPOST_URL", url)
            .env("WAKEPOST_KEY", "k")
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("it starts");
        rustix::io::ioctl_fionbio(&ours, true).expect("non-blocking");
        Terminal { child, ours: File::from(ours), theirs, seen: String::new() }
    }

    /// Reads until this is on the screen, after what was awaited before.
    fn until(&mut self, text: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            self.read();
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return;
            }
            assert!(Instant::now() < until, "{text:?} is not in {:?}", self.seen);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn read(&mut self) {
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = self.ours.read(&mut bytes) {
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    }

    fn press(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).expect("pressed");
    }

    /// Waits for its end.
    fn ends_with(&mut self, code: i32) {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            self.read();
            if let Some(status) = self.child.try_wait().expect("a status") {
                assert_eq!(status.code(), Some(code), "{}", self.seen);
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("it does not end: {:?}", self.seen);
    }

    /// Whether the terminal echoes and waits for whole lines, as it did.
    fn is_as_before(&self) -> bool {
        use rustix::termios::LocalModes;
        let modes = tcgetattr(&self.theirs).expect("its modes").local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn answer(seen: &Seen) -> Answer {
    let lanes: Vec<_> = (0..30)
        .map(|n| json!({"source": "src_1", "work": "job", "kind": format!("kind-{n}\u{1b}[5m"), "ready": 1}))
        .collect();
    match seen.line.split('?').next().unwrap_or_default() {
        "GET /api/v1/stats" => json_answer(
            200,
            json!({"tenant": "default", "at": "2026-11-15T09:14:22.000Z", "lanes": lanes,
                "states": {"pending": {"count": 30}}}),
        ),
        "GET /metrics" => bytes_answer(200, b"wakepost_claimed_total 5\n# EOF\n"),
        "GET /api/v1/alerts" => problem(404, "not_found", "no such route"),
        _ => json_answer(200, json!({"data": [], "next_cursor": null})),
    }
}

#[test]
fn top_takes_the_screen_scrolls_and_gives_it_back() {
    let server = StandIn::start(answer);
    let mut terminal = Terminal::start(&server.url, &["top"]);
    terminal.until(ENTER);
    terminal.until("kind-0\\u{1b}[5m");
    terminal.until("more below");
    terminal.until("started ");
    terminal.press("\u{1b}[F");
    terminal.until("kind-29\\u{1b}[5m");
    terminal.until(" 0 more below");
    terminal.press("q");
    terminal.until(LEAVE);
    terminal.ends_with(0);
    assert!(terminal.is_as_before());
}

#[test]
fn ctrl_c_and_the_systems_word_leave_top_too() {
    let server = StandIn::start(answer);
    for is_key in [true, false] {
        let mut terminal = Terminal::start(&server.url, &["top"]);
        terminal.until("q leaves");
        if is_key {
            terminal.press("\u{3}");
        } else {
            let pid = rustix::process::Pid::from_child(&terminal.child);
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("told");
        }
        terminal.until(LEAVE);
        terminal.ends_with(0);
        assert!(terminal.is_as_before());
    }
}

#[test]
fn top_ends_with_the_code_of_what_went_wrong_and_the_screen_is_given_back() {
    let looks = AtomicU32::new(0);
    let server = StandIn::start(move |seen| match seen.line.as_str() {
        "GET /api/v1/stats" => match looks.fetch_add(1, Ordering::Relaxed) {
            0 => answer(seen),
            1 => problem(503, "unavailable", "a moment"),
            _ => problem(401, "unauthorized", "revoked"),
        },
        _ => answer(seen),
    });
    let mut terminal = Terminal::start(&server.url, &["top"]);
    terminal.until(ENTER);
    terminal.until("a moment (503 unavailable); trying again");
    terminal.until(LEAVE);
    terminal.until("error: revoked");
    terminal.ends_with(4);
    assert!(terminal.is_as_before());
}

#[test]
fn a_terminal_gets_colour_and_a_progress_bar() {
    let looks = AtomicU32::new(0);
    let server = StandIn::start(move |_| {
        let is_over = looks.fetch_add(1, Ordering::Relaxed) > 2;
        let status = if is_over { "succeeded" } else { "running" };
        json_answer(
            200,
            json!({"id": "op_1", "kind": "dead_letter_purge", "status": status, "matched": 40, "done": 39,
                "failed": 1}),
        )
    });
    let mut terminal = Terminal::start(&server.url, &["operations", "wait", "op_1"]);
    terminal.until("39 done, 1 failed (");
    terminal.until("\u{1b}[32msucceeded\u{1b}[0m");
    terminal.until("1 of 40 failed");
    terminal.ends_with(1);
}
