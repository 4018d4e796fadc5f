//! `webhookctl inbox export`

use clap::Args;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wakepost_client::{Client, Error, InboxQuery, Page};

use super::filter::Filter;
use crate::commands::following::COUNT_MAX;
use crate::commands::listen::body::as_json;
use crate::output::{self, Progress};
use crate::session::Session;

/// As many as the server gives at once.
const PAGE: u32 = 500;
/// How many bodies are fetched at once.
const FETCHES: usize = 8;

#[derive(Args)]
pub struct Export {
    #[command(flatten)]
    filter: Filter,
    /// At most so many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=COUNT_MAX))]
    max: Option<u64>,
    /// With each event's headers and body (`body` as text, or `body_base64`)
    #[arg(long)]
    bodies: bool,
}

#[derive(Deserialize)]
struct Id {
    id: String,
}

impl Export {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let mut query = InboxQuery { limit: Some(PAGE), ..self.filter.resolve(session) };
        let progress = Progress::beside_output("events", self.max);
        let (mut written, max) = (0, self.max.unwrap_or(u64::MAX));
        loop {
            let page = session.client.list_inbox(&query).text().await?;
            let page: Page<Box<RawValue>> =
                serde_json::from_str(&page).map_err(|error| Error::Protocol(error.to_string()))?;
            let wanted = usize::try_from(max - written).unwrap_or(usize::MAX);
            let lines =
                page.data.into_iter().take(wanted).map(|row| line(session, row, self.bodies));
            let mut lines = stream::iter(lines).buffered(FETCHES);
            while let Some(line) = lines.try_next().await? {
                if !output::print_while_read(&line)? {
                    return Ok(());
                }
                written += 1;
                progress.at(written, 0);
            }
            query.cursor = page.next_cursor;
            if query.cursor.is_none() || written >= max {
                return Ok(());
            }
        }
    }
}

/// An event as the server wrote it, on a line, with its content if that is wanted.
async fn line(session: &Session, row: Box<RawValue>, bodies: bool) -> anyhow::Result<String> {
    let row = output::json::compact(row.get())?;
    if !bodies {
        return Ok(row);
    }
    let Id { id } = serde_json::from_str(&row)?;
    let more = output::json::line(&content(&session.client, &id).await?)?;
    // Its fields after the server's, which stay in their order.
    let (row, more) = (row.strip_suffix('}'), more.strip_prefix('{'));
    Ok(format!("{},{}", row.unwrap_or_default(), more.unwrap_or_default()))
}

/// The headers and the body; why there are none if they are no longer kept.
async fn content(client: &Client, id: &str) -> Result<Value, Error> {
    let fetched = async {
        let headers = client.get_event_headers(id).await?.headers;
        Ok((headers, client.get_event_raw(id).await?))
    };
    match fetched.await {
        Ok((headers, body)) => {
            let mut fields = as_json(&body);
            fields["headers"] = json!(headers);
            Ok(fields)
        }
        Err(Error::Api(problem)) if problem.status == 404 => Ok(json!({"body": null})),
        Err(error) => Err(error),
    }
}
