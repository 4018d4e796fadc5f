//! Failures in words.

/// What went wrong when somebody answered with a status that is a failure: the status, and what they said, if anything.
pub fn answered(who: &str, status: u16, said: &str) -> String {
    match said.trim() {
        "" => format!("{who} answered {status}"),
        said => format!("{who} answered {status}: {said}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_nothing_is_not_quoted() {
        assert_eq!(answered("the agent", 500, "no\n"), "the agent answered 500: no");
        for nothing in ["", " \r\n"] {
            assert_eq!(answered("the agent", 500, nothing), "the agent answered 500");
        }
    }
}
