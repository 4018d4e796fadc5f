//! The migration of a release to come, which a test makes up: the way there is tried before there is one.
//!
//! `WAKEPOST_NEXT_MIGRATION` names a file with its statements. Debug builds alone look, and append it to their own.

/// Its name.
pub const NAME: &str = "next";

/// Its statements, if a test asked for it. Never in a release build.
pub fn statements() -> Option<&'static str> {
    #[cfg(debug_assertions)]
    return asked_for::STATEMENTS.as_deref();
    #[cfg(not(debug_assertions))]
    None
}

#[cfg(debug_assertions)]
mod asked_for {
    use std::sync::LazyLock;

    pub static STATEMENTS: LazyLock<Option<String>> = LazyLock::new(|| {
        let path = std::env::var_os("WAKEPOST_NEXT_MIGRATION")?;
        Some(std::fs::read_to_string(path).expect("a test has written it"))
    });
}
