//! What a failure means: the exit code, and what to do next.

use wakepost_client::{Error, Problem};

use crate::output::escape;

/// The command line asks for something that cannot be.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// What was named is not there, by this program's own word.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotFound(pub String);

/// 1 failed, 2 usage, 3 not found, 4 not allowed, 5 server unreachable.
pub fn code(error: &anyhow::Error) -> u8 {
    if error.is::<Usage>() {
        return 2;
    }
    if error.is::<NotFound>() {
        return 3;
    }
    match error.downcast_ref::<Error>() {
        Some(Error::Request(_)) => 2,
        Some(Error::Api(problem)) if problem.status == 404 => 3,
        Some(Error::Api(problem)) if matches!(problem.status, 401 | 403) => 4,
        Some(Error::Unreachable { .. }) => 5,
        _ => 1,
    }
}

/// The error and the next step, for people. Nothing in it can steer a terminal.
pub fn explain(error: &anyhow::Error) -> String {
    let message = match error.downcast_ref::<Error>() {
        Some(Error::Api(problem)) => sentence(problem),
        _ => format!("{error:#}"),
    };
    let mut text = format!("error: {}", escape(&message));
    if let Some(next) = next_step(error) {
        text.push_str("\nnext: ");
        text.push_str(&next);
    }
    text
}

fn sentence(problem: &Problem) -> String {
    let text = problem.to_string();
    match problem.code.as_str() {
        "" => format!("{text}; the answer is not one of Wakepost's"),
        _ => text,
    }
}

fn next_step(error: &anyhow::Error) -> Option<String> {
    let step = match error.downcast_ref::<Error>()? {
        Error::Unreachable { .. } => {
            "start the server with `wakepost serve`, or say where it is: --url, WAKEPOST_URL or --profile"
        }
        Error::Protocol(_) => "check --url: it must be the base URL of a Wakepost server",
        Error::Api(problem) => return next_after(problem),
        _ => return None,
    };
    Some(step.to_owned())
}

fn next_after(problem: &Problem) -> Option<String> {
    let step = match (problem.status, problem.code.as_str()) {
        (_, "") => "check --url: it must be the base URL of a Wakepost server",
        (401, _) => {
            "check the key (--key, WAKEPOST_KEY or the profile's): it is unknown, expired or revoked"
        }
        (403, _) => "use a key with a higher role: `webhookctl keys list` shows what there is",
        (404, _) => "check the id; with a key for all tenants, say which with --tenant",
        (409, "invalid_state") => {
            "look at where it stands: `webhookctl jobs inspect ID`, `webhookctl sources status ID` or \
             `webhookctl webhooks show ID`"
        }
        (409, "proposal_changed") => "run the command again: it shows what is proposed now",
        (422, _) => "correct what is named above; --help shows what the command takes",
        (429 | 503, _) => {
            let wait = problem.retry_after_s?;
            return Some(format!("try again in {wait} s"));
        }
        (500.., _) => "look at the server's log; the command can be repeated",
        _ => return None,
    };
    Some(step.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(status: u16, code: &str) -> anyhow::Error {
        let problem =
            Problem { status, code: code.to_owned(), title: "No".to_owned(), ..Problem::default() };
        Error::Api(Box::new(problem)).into()
    }

    #[test]
    fn each_kind_of_failure_has_its_code() {
        let unreachable =
            Error::Unreachable { url: "http://h".to_owned(), reason: "refused".to_owned() };
        assert_eq!(code(&anyhow::anyhow!("anything")), 1);
        assert_eq!(code(&api(409, "invalid_state")), 1);
        assert_eq!(code(&api(500, "internal")), 1);
        assert_eq!(code(&Error::Protocol("odd".to_owned()).into()), 1);
        assert_eq!(code(&Usage("wrong".to_owned()).into()), 2);
        assert_eq!(code(&Error::Request("bad URL".to_owned()).into()), 2);
        assert_eq!(code(&NotFound("no such profile".to_owned()).into()), 3);
        assert_eq!(code(&api(404, "not_found")), 3);
        assert_eq!(code(&api(401, "unauthorized")), 4);
        assert_eq!(code(&api(403, "forbidden")), 4);
        assert_eq!(code(&unreachable.into()), 5);
    }

    #[test]
    fn an_error_says_what_to_do_next_and_cannot_steer_the_terminal() {
        assert!(explain(&api(401, "unauthorized")).contains("next: check the key"));
        let nasty = Problem {
            status: 409,
            code: "x".to_owned(),
            detail: Some("\u{1b}[2J".to_owned()),
            ..Problem::default()
        };
        let text = explain(&Error::Api(Box::new(nasty)).into());
        assert!(text.contains("\\u{1b}[2J") && !text.contains('\u{1b}'));
    }
}
