//! Profiles: servers and keys by name, for their owner's eyes only.

mod program;
#[path = "../../client/tests/stand_in/mod.rs"]
mod stand_in;

use std::path::PathBuf;

use program::{Ran, bare};
use serde_json::{Value, json};
use stand_in::{StandIn, json_answer};

/// Somebody's configuration.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Home {
        Home(tempfile::tempdir().expect("a directory"))
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("wakepost/ctl.toml")
    }

    fn env(&self) -> &str {
        self.0.path().to_str().expect("a path")
    }

    fn run<const N: usize>(&self, args: [&str; N]) -> Ran {
        bare().env("XDG_CONFIG_HOME", self.env()).args(args).run()
    }
}

fn server() -> StandIn {
    StandIn::start(|_| json_answer(200, json!({"data": [], "next_cursor": null})))
}

fn authorizations(server: &StandIn) -> Vec<String> {
    server.seen().into_iter().map(|seen| seen.authorization).collect()
}

#[test]
fn a_profile_is_added_used_shown_and_removed_and_its_key_is_never_shown() {
    let (home, server) = (Home::new(), server());
    let add = ["profiles", "add", "prod", "--url", &server.url, "--key", "-", "--tenant", "acme"];
    let added = bare().env("XDG_CONFIG_HOME", home.env()).args(add).stdin("secret-1\n").run();
    added.ends_with(0);
    home.run(["profiles", "add", "dev", "--url", "http://127.0.0.1:1", "--key", "secret-2"])
        .ends_with(0);

    home.run(["inbox", "list"]).ends_with(0);
    assert_eq!(server.lines(), ["GET /api/v1/inbox?tenant=acme"]);
    assert_eq!(authorizations(&server), ["Bearer secret-1"], "the first one counts");
    home.run(["inbox", "list", "--profile", "dev"]).ends_with(5);
    home.run(["profiles", "use", "dev"]).ends_with(0);
    home.run(["inbox", "list"]).ends_with(5);
    home.run(["inbox", "list", "--profile", "prod"]).ends_with(0);

    let list = home.run(["profiles", "list"]);
    let shown = home.run(["profiles", "show"]);
    let told = home.run(["profiles", "list", "--json"]);
    let told_one = home.run(["profiles", "show", "prod", "--json"]);
    for ran in [&added, &list, &shown, &told, &told_one] {
        ran.ends_with(0);
        assert!(!ran.stdout.contains("secret-") && !ran.stderr.contains("secret-"));
    }
    assert!(list.stdout.contains("in the file") && list.stdout.contains(&server.url));
    assert!(shown.stdout.contains("http://127.0.0.1:1"), "{}", shown.stdout);
    let told: Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!(told["data"][0]["name"], "dev");
    assert_eq!(told["data"][0]["current"], true);

    home.run(["profiles", "remove", "dev"]).ends_with(0);
    home.run(["profiles", "show", "dev"]).ends_with(3);
    home.run(["inbox", "list", "--profile", "dev"]).ends_with(3);
    home.run(["inbox", "list"]).ends_with(2);
}

#[test]
fn flags_stand_before_the_environment_before_the_profile() {
    let (home, server, other) = (Home::new(), server(), server());
    home.run(["profiles", "add", "p", "--url", &server.url, "--key", "of-profile"]).ends_with(0);
    let run = || bare().env("XDG_CONFIG_HOME", home.env()).args(["inbox", "list"]);
    run().env("WAKEPOST_KEY", "of-env").run().ends_with(0);
    run().env("WAKEPOST_KEY", "of-env").args(["--key", "of-flag"]).run().ends_with(0);
    run().env("WAKEPOST_PROFILE", "p").run().ends_with(0);
    assert_eq!(authorizations(&server), ["Bearer of-env", "Bearer of-flag", "Bearer of-profile"]);
    // The profile's key is for the profile's server.
    let astray = run().env("WAKEPOST_URL", &other.url).run();
    astray.ends_with(2);
    assert!(astray.stderr.contains("no API key"), "{}", astray.stderr);
    let named = run().env("WAKEPOST_URL", &other.url).env("WAKEPOST_KEY", "k");
    let named = named.args(["--profile", "p"]).run();
    named.ends_with(0);
    assert!(named.stderr.contains("WAKEPOST_URL stands before"), "{}", named.stderr);
    assert_eq!(authorizations(&other), ["Bearer k"]);
}

#[test]
fn a_profile_for_another_server_forgets_the_key_of_the_first() {
    let home = Home::new();
    home.run(["profiles", "add", "p", "--url", "http://127.0.0.1:1", "--key", "k1"]).ends_with(0);
    home.run(["profiles", "add", "p", "--url", "http://127.0.0.1:2"]).ends_with(0);
    let text = std::fs::read_to_string(home.file()).expect("a file");
    assert!(!text.contains("k1"), "{text}");
}

#[cfg(unix)]
#[test]
fn a_key_can_come_from_a_command() {
    let (home, server) = (Home::new(), server());
    let command = "printf 'from-%s\\nmore' command";
    home.run(["profiles", "add", "p", "--url", &server.url, "--key-command", command]).ends_with(0);
    home.run(["inbox", "list"]).ends_with(0);
    assert_eq!(authorizations(&server), ["Bearer from-command"]);
    home.run(["profiles", "add", "p", "--key-command", "exit 7"]).ends_with(0);
    let failed = home.run(["inbox", "list"]);
    failed.ends_with(1);
    assert!(failed.stderr.contains("the key command of the profile p"), "{}", failed.stderr);
}

#[cfg(unix)]
#[test]
fn the_file_is_for_its_owner_alone() {
    use std::fs::{Permissions, metadata, set_permissions};
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    home.run(["profiles", "add", "p", "--key", "k"]).ends_with(0);
    let mode = metadata(home.file()).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    set_permissions(home.file(), Permissions::from_mode(0o644)).expect("changed");
    let refused = home.run(["inbox", "list"]);
    refused.ends_with(1);
    assert!(refused.stderr.contains("chmod 600"), "{}", refused.stderr);
    // Whoever says everything needs no profile.
    let all = ["inbox", "list", "--url", "http://127.0.0.1:1", "--key", "k"];
    home.run(all).ends_with(5);
}

#[test]
fn wrong_names_urls_and_files_are_refused() {
    let home = Home::new();
    home.run(["profiles", "add", "a b"]).ends_with(2);
    home.run(["profiles", "add", "p", "--url", "nonsense"]).ends_with(2);
    home.run(["profiles", "add", "p", "--key", ""]).ends_with(2);
    home.run(["profiles", "use", "nobody"]).ends_with(3);
    home.run(["profiles", "add", "p", "--key", "k", "--key-command", "x"]).ends_with(2);
    assert!(!home.file().exists());
}
