//! What the program says of itself: completions, man pages, the reference.

mod program;

use std::path::Path;

use program::bare;

#[test]
fn the_reference_is_that_of_this_program() {
    let made = bare().args(["man", "--markdown"]).run();
    made.ends_with(0);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/webhookctl.md");
    let kept = std::fs::read_to_string(page).expect("the page").replace("\r\n", "\n");
    assert!(
        made.stdout == kept,
        "the commands changed: webhookctl man --markdown > docs/reference/webhookctl.md"
    );
    for command in ["inbox tail", "dlq purge", "events types", "top", "listen", "profiles use"] {
        assert!(kept.contains(&format!("# webhookctl {command}\n")), "{command}");
    }
}

#[test]
fn each_shell_gets_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let made = bare().args(["completions", shell]).run();
        made.ends_with(0);
        assert!(made.stdout.contains("webhookctl") && made.stdout.contains("listen"), "{shell}");
    }
    bare().args(["completions", "tcsh"]).run().ends_with(2);
}

#[test]
fn each_command_gets_a_man_page() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("new/man1");
    bare().args(["man", "--out", out.to_str().expect("a path")]).run().ends_with(0);
    for page in ["webhookctl.1", "webhookctl-inbox-inspect.1", "webhookctl-top.1"] {
        let text = std::fs::read_to_string(out.join(page)).expect(page);
        assert!(text.contains(".TH"), "{page}");
    }
    let whole = bare().args(["man"]).run();
    whole.ends_with(0);
    assert!(whole.stdout.contains("Exit codes"));
    let file = directory.path().join("file");
    std::fs::write(&file, "").expect("a file");
    bare().args(["man", "--out", file.to_str().expect("a path")]).run().ends_with(1);
}
