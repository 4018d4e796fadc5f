//! What changed since it was last looked: `changes.list` from a page token, then the comments of each changed file.

use std::collections::VecDeque;
use std::time::Duration;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wakepost_domain::Timestamp;

use super::agent::Agent;
use super::{SCOPE, api_url, comment};
use crate::exchange::{Exchange, Failure, Step};
use crate::expansion::{Expanding, Expansion};
use crate::google::token::{token_call, token_of};
use crate::payload::{list_at, text_at};
use crate::registration::{Answered, ApiCall};
use crate::settings::{self, ConfigError, Settings};

/// So few that one page, with all comments, is read well within a run: what was read counts page by page.
const CHANGES_PER_PAGE: &str = "20";
const COMMENTS_PER_PAGE: &str = "100";
/// Comments beyond these pages of one file are passed over. They would all have to be new since the last look.
const COMMENT_PAGES_MAX: usize = 10;
/// How much later than a comment its file's change may be told.
const SLACK: Duration = Duration::from_secs(3600);
/// How many of those that were found last are remembered, so that a look back finds no duplicates. Were they more,
/// their keys would still make them duplicates.
const SEEN_MAX: usize = 500;

/// How far was read.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Position {
    /// Where the list of changes goes on.
    pub(super) page_token: String,
    /// Comments before this are old.
    since: Timestamp,
    /// The keys of those that were found last.
    #[serde(default)]
    seen: VecDeque<String>,
}

impl Position {
    /// Where reading begins: with what changes from now on.
    pub(super) fn start(page_token: &str, now: Timestamp) -> Value {
        json!({"page_token": page_token, "since": now})
    }

    pub(super) fn read(value: &Value) -> Option<Position> {
        serde_json::from_value(value.clone()).ok()
    }
}

/// Reading one page of changes.
pub(super) struct Reading<'a> {
    settings: &'a Settings,
    agent: Agent,
    now: Timestamp,
    position: Position,
    token: String,
    stage: Stage,
    /// Changed files whose comments are still to be read.
    files: VecDeque<Value>,
    /// Where the next page is, and whether it is there already.
    next: Option<(String, bool)>,
    found: Vec<comment::Found>,
}

/// What the next answer is to.
enum Stage {
    Start,
    Token,
    Changes,
    Comments { file: Value, pages: usize },
}

impl<'a> Reading<'a> {
    pub(super) fn new(what: &Expanding<'a>) -> Result<Reading<'a>, ConfigError> {
        let position = what.position.and_then(Position::read).ok_or_else(|| {
            ConfigError::new("channel_id", "is of no channel that set-up opened: set the source up")
        })?;
        Ok(Reading {
            settings: what.settings,
            agent: Agent::of(what.settings),
            now: what.now,
            position,
            token: String::new(),
            stage: Stage::Start,
            files: VecDeque::new(),
            next: None,
            found: Vec::new(),
        })
    }

    fn step(&mut self, answered: Option<&Answered<'_>>) -> Result<Step<Expansion>, Failure> {
        let stage = std::mem::replace(&mut self.stage, Stage::Start);
        let Some(answered) = answered else {
            self.stage = Stage::Token;
            return Ok(Step::Call(token_call(self.settings, SCOPE, self.now)?));
        };
        match stage {
            Stage::Start | Stage::Token => {
                self.token = token_of(answered)
                    .map_err(|error| Failure { error, ..Failure::of("Google", answered) })?;
                self.stage = Stage::Changes;
                Ok(Step::Call(self.changes()?))
            }
            Stage::Changes => {
                self.take_changes(&sound(answered)?)?;
                self.next_file()
            }
            Stage::Comments { file, pages } => match skips(answered) {
                true => self.next_file(),
                false => {
                    let listed = sound(answered)?;
                    self.take_comments(&file, &listed);
                    match text_at(&listed, "/nextPageToken") {
                        Some(page) if pages < COMMENT_PAGES_MAX => {
                            let call = self.comments(&file, Some(page))?;
                            self.stage = Stage::Comments { file, pages: pages + 1 };
                            Ok(Step::Call(call))
                        }
                        _ => self.next_file(),
                    }
                }
            },
        }
    }

    fn changes(&self) -> Result<ApiCall, ConfigError> {
        let fields = "nextPageToken,newStartPageToken,changes(changeType,removed,fileId,\
                      file(id,name,mimeType,webViewLink,parents,trashed))";
        let query = [
            ("pageToken", self.position.page_token.as_str()),
            ("pageSize", CHANGES_PER_PAGE),
            ("includeRemoved", "false"),
            ("includeItemsFromAllDrives", "true"),
            ("supportsAllDrives", "true"),
            ("fields", fields),
        ];
        ApiCall::get(api_url(self.settings, "changes", &query)?, &self.token)
    }

    fn take_changes(&mut self, listed: &Value) -> Result<(), Failure> {
        let next = text_at(listed, "/nextPageToken").map(|token| (token.to_owned(), true));
        let last = text_at(listed, "/newStartPageToken").map(|token| (token.to_owned(), false));
        let odd = || Failure::passing("Google told of changes without saying where they go on");
        self.next = Some(next.or(last).ok_or_else(odd)?);
        let folder = settings::text(self.settings, "folder_id")?;
        for file in list_at(listed, "/changes").iter().filter_map(|change| change.get("file")) {
            let is_known = self.files.iter().any(|known| known["id"] == file["id"]);
            if !is_known && may_hold_comments(file, folder) {
                self.files.push_back(file.clone());
            }
        }
        Ok(())
    }

    /// Goes on with the next file, or is done.
    fn next_file(&mut self) -> Result<Step<Expansion>, Failure> {
        if let Some(file) = self.files.pop_front() {
            let call = self.comments(&file, None)?;
            self.stage = Stage::Comments { file, pages: 1 };
            return Ok(Step::Call(call));
        }
        let (page_token, more) =
            self.next.take().ok_or_else(|| Failure::passing("there was no list of changes"))?;
        let mut seen = std::mem::take(&mut self.position.seen);
        seen.extend(self.found.iter().map(|found| found.key.clone()));
        seen.drain(..seen.len().saturating_sub(SEEN_MAX));
        let since = match more {
            true => self.position.since,
            false => self.position.since.max(self.now.before(SLACK)),
        };
        let position = Position { page_token, since, seen };
        Ok(Step::Done(Expansion::Others {
            found: self.found.drain(..).map(|found| found.content).collect(),
            position: serde_json::to_value(position).expect("a position is plain data"),
            more,
        }))
    }

    fn comments(&self, file: &Value, page: Option<&str>) -> Result<ApiCall, ConfigError> {
        let since = self.position.since.to_string();
        let mut query = vec![
            // Without it the API answers nothing, and which fields there are is Google's to say.
            ("fields", "nextPageToken,comments"),
            ("pageSize", COMMENTS_PER_PAGE),
            ("includeDeleted", "false"),
            ("startModifiedTime", since.as_str()),
        ];
        query.extend(page.map(|page| ("pageToken", page)));
        let id = text_at(file, "/id").unwrap_or_default();
        let url = api_url(self.settings, &format!("files/{id}/comments"), &query)?;
        ApiCall::get(url, &self.token)
    }

    fn take_comments(&mut self, file: &Value, listed: &Value) {
        let file = json!({"id": file["id"], "name": file["name"], "mimeType": file["mimeType"],
            "webViewLink": file["webViewLink"]});
        for said in list_at(listed, "/comments") {
            let found = comment::said_to(&self.agent, &file, said, self.position.since);
            let new = found.into_iter().filter(|found| !self.position.seen.contains(&found.key));
            self.found.extend(new);
        }
    }
}

impl Exchange<Expansion> for Reading<'_> {
    fn next(&mut self, answered: Option<&Answered<'_>>) -> Step<Expansion> {
        self.step(answered).into()
    }
}

/// Whether it is a file that is there, in the folder if one is named, and whose id can stand in an address.
fn may_hold_comments(file: &Value, folder: Option<&str>) -> bool {
    let is_plain = |id: &str| {
        id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let is_within = |folder| list_at(file, "/parents").iter().any(|parent| parent == folder);
    text_at(file, "/id").is_some_and(is_plain)
        && file.get("trashed").and_then(Value::as_bool) != Some(true)
        && text_at(file, "/mimeType") != Some("application/vnd.google-apps.folder")
        && folder.is_none_or(is_within)
}

/// What a successful answer says.
pub(super) fn sound(answered: &Answered<'_>) -> Result<Value, Failure> {
    if !answered.status.is_success() {
        let failure = Failure::of("Google", answered);
        return Err(Failure { retryable: failure.retryable || is_over_rate(answered), ..failure });
    }
    serde_json::from_slice(answered.body)
        .map_err(|_| Failure::passing("Google answered with something else"))
}

/// Google also says with a 403 that there were too many calls.
fn is_over_rate(answered: &Answered<'_>) -> bool {
    let said: Value = serde_json::from_slice(answered.body).unwrap_or_default();
    let mut reasons = list_at(&said, "/error/errors").iter();
    answered.status == StatusCode::FORBIDDEN
        && reasons.any(|error| {
            text_at(error, "/reason").is_some_and(|reason| reason.ends_with("ateLimitExceeded"))
        })
}

/// Whether a file's comments are none of ours: it is gone, or may be read but not its comments. Other files must not
/// wait for it.
fn skips(answered: &Answered<'_>) -> bool {
    match answered.status {
        StatusCode::NOT_FOUND => true,
        StatusCode::FORBIDDEN => !is_over_rate(answered),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::google::token::tests::service_account;
    use crate::request::SignedRequest;
    use crate::testing::{NOW, settings};

    const COMMENTS: &str = "https://api.example/drive/v3/files/F1/comments?";

    fn account() -> Settings {
        let account = service_account("https://token.example/t");
        settings(&[
            ("service_account", &account),
            ("mention", "@agent"),
            ("api_url", "https://api.example/"),
        ])
    }

    /// Reads with these answers; what was called comes with it.
    fn read(
        settings: &Settings,
        position: &Value,
        answers: &[(u16, Value)],
    ) -> (Step<Expansion>, Vec<String>) {
        let request = SignedRequest::post("https://hooks.example/", "");
        let what = Expanding {
            request: request.as_request(),
            settings,
            position: Some(position),
            now: NOW,
        };
        let mut reading = Reading::new(&what).unwrap();
        let mut calls = Vec::new();
        let mut step = reading.next(None);
        let token = (200, json!({"access_token": "t1"}));
        for (status, body) in std::iter::once(&token).chain(answers) {
            let Step::Call(call) = step else { panic!("too many answers") };
            if !calls.is_empty() {
                assert_eq!(call.headers["authorization"], "Bearer t1");
            }
            calls.push(call.url);
            let (status, body) = (StatusCode::from_u16(*status).unwrap(), body.to_string());
            let headers = HeaderMap::new();
            step =
                reading.next(Some(&Answered { status, headers: &headers, body: body.as_bytes() }));
        }
        (step, calls)
    }

    fn others(step: Step<Expansion>) -> (Vec<Value>, Value, bool) {
        let Step::Done(Expansion::Others { found, position, more }) = step else {
            panic!("not done: {step:?}")
        };
        let found = found.iter().map(|found| serde_json::from_slice(found).unwrap());
        (found.collect(), position, more)
    }

    fn start() -> Value {
        Position::start("1", NOW.before(Duration::from_secs(60)))
    }

    fn changed(files: &[Value], next: (&str, &str)) -> (u16, Value) {
        let changes: Vec<Value> = files.iter().map(|file| json!({"file": file})).collect();
        (200, json!({"changes": changes, (next.0): next.1}))
    }

    fn comment(id: &str) -> Value {
        json!({"id": id, "content": "@agent look", "createdTime": NOW, "modifiedTime": NOW,
            "author": {"displayName": "Ada"}})
    }

    fn file() -> Value {
        json!({"id": "F1", "name": "Plan", "parents": ["folder1"]})
    }

    #[test]
    fn the_comments_of_each_changed_file_are_read_page_by_page() {
        let answers = [
            changed(&[file(), file()], ("newStartPageToken", "2")),
            (200, json!({"comments": [comment("C1")], "nextPageToken": "p&2"})),
            (200, json!({"comments": [comment("C2")]})),
        ];
        let (step, calls) = read(&account(), &start(), &answers);
        let (found, position, more) = others(step);
        let ids: Vec<_> = found.iter().map(|found| found["comment"]["id"].clone()).collect();
        assert_eq!(ids, ["C1", "C2"]);
        assert_eq!((&position["page_token"], more), (&json!("2"), false));
        assert_eq!(calls[0], "https://token.example/t");
        assert!(calls[1].starts_with("https://api.example/drive/v3/changes?pageToken=1&"));
        assert!(calls[2].starts_with(COMMENTS) && calls[3].ends_with("&pageToken=p%262"));
        // What was found is not found again, though it is looked back for a while.
        let (step, _) = read(&account(), &position, &answers);
        assert!(others(step).0.is_empty());
    }

    #[test]
    fn more_pages_are_told_of_and_time_goes_on_only_with_the_last() {
        let long_ago = Position::start("1", NOW.before(Duration::from_secs(7200)));
        let (step, _) = read(&account(), &long_ago, &[changed(&[], ("nextPageToken", "2"))]);
        let (_, position, more) = others(step);
        assert_eq!((&position["since"], more), (&long_ago["since"], true));
        let (step, _) = read(&account(), &position, &[changed(&[], ("newStartPageToken", "3"))]);
        let (_, position, more) = others(step);
        assert_eq!((&position["since"], more), (&json!(NOW.before(SLACK)), false));
    }

    #[test]
    fn files_that_are_gone_elsewhere_or_not_to_be_read_are_passed_over() {
        let mut account = account();
        account.insert("folder_id".into(), "folder1".into());
        let (mut trashed, mut elsewhere, mut odd, mut folder) = (file(), file(), file(), file());
        trashed["trashed"] = json!(true);
        elsewhere["parents"] = json!(["other"]);
        odd["id"] = json!("../F1");
        folder["mimeType"] = json!("application/vnd.google-apps.folder");
        let mut second = file();
        second["id"] = json!("F2");
        let files = [trashed, elsewhere, odd, folder, file(), second];
        let no_access = json!({"error": {"errors": [{"reason": "insufficientFilePermissions"}]}});
        let answers = [
            changed(&files, ("newStartPageToken", "2")),
            (403, no_access),
            (200, json!({"comments": [comment("C1")]})),
        ];
        let (found, ..) = others(read(&account, &start(), &answers).0);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0]["file"]["id"], "F2");
    }

    #[test]
    fn what_google_refuses_is_tried_again_only_if_that_may_help() {
        let over_rate = json!({"error": {"errors": [{"reason": "userRateLimitExceeded"}]}});
        for (status, body, retryable) in [
            (403, over_rate.clone(), true),
            (429, json!({}), true),
            (500, json!({}), true),
            (401, json!({}), false),
            (403, json!({}), false),
            (200, json!({"changes": []}), true),
        ] {
            let (step, _) = read(&account(), &start(), &[(status, body)]);
            let Step::Failed(failure) = step else { panic!("{status}: {step:?}") };
            assert_eq!(failure.retryable, retryable, "{failure:?}");
        }
        let answers = [changed(&[file()], ("newStartPageToken", "2")), (403, over_rate)];
        let (step, _) = read(&account(), &start(), &answers);
        assert!(matches!(step, Step::Failed(failure) if failure.retryable));
    }

    #[test]
    fn a_source_that_was_not_set_up_says_so() {
        let (request, settings) = (SignedRequest::post("https://hooks.example/", ""), account());
        let request = request.as_request();
        let what = Expanding { request, settings: &settings, position: None, now: NOW };
        assert!(Reading::new(&what).is_err_and(|problem| problem.message.contains("set-up")));
    }
}
