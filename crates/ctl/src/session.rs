//! One run of the program: the client, and how answers are shown.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use wakepost_client::{Call, Client, Page};

use crate::cli::{DEFAULT_URL, Global};
use crate::exit::Usage;
use crate::output::{self, Paint, Row, Table};

const NO_KEY: &str = "no API key: pass --key, or set WAKEPOST_KEY; \
                      `wakepost serve` prints one at its first start";

/// What commands need.
pub struct Session {
    /// The server.
    pub client: Client,
    /// The tenant that was named.
    pub tenant: Option<String>,
    /// Whether colour is wanted.
    pub paint: Paint,
    /// What relative times are relative to.
    pub now: Timestamp,
    json: bool,
}

impl Session {
    /// Prepares the calls; nothing is sent yet.
    pub fn open(global: Global) -> anyhow::Result<Session> {
        let key = global.key.as_deref().map(str::trim).unwrap_or_default();
        if key.is_empty() {
            return Err(Usage(NO_KEY.to_owned()).into());
        }
        // An empty variable is as good as none.
        let url = match global.url.trim() {
            "" => DEFAULT_URL,
            url => url,
        };
        let mut client = Client::new(url, key)?;
        if let Some(tenant) = &global.tenant {
            client = client.with_tenant(tenant);
        }
        Ok(Session {
            client,
            tenant: global.tenant,
            paint: Paint::for_stdout(),
            now: Timestamp::now(),
            json: global.json,
        })
    }

    /// Whether answers are wanted as JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Makes a call. With `--json` the answer is printed as the server wrote it, and `None` returned.
    pub async fn answer<T: DeserializeOwned>(&self, call: Call<T>) -> anyhow::Result<Option<T>> {
        let text = call.text().await?;
        if self.json {
            output::print(&output::json::pretty(&text)?)?;
            return Ok(None);
        }
        Ok(Some(Call::<T>::read(&text)?))
    }

    /// Makes a list call and shows the page as a table, with the way to the next page.
    pub async fn list<T: DeserializeOwned + Row>(&self, call: Call<Page<T>>) -> anyhow::Result<()> {
        self.list_as::<T, T>(call).await
    }

    /// As [`Session::list`], of things that are shown in more than one way.
    pub async fn list_as<T: DeserializeOwned, R: Row + From<T>>(
        &self,
        call: Call<Page<T>>,
    ) -> anyhow::Result<()> {
        let Some(page) = self.answer(call).await? else {
            return Ok(());
        };
        let rows: Vec<R> = page.data.into_iter().map(R::from).collect();
        if rows.is_empty() {
            output::hint(&format!("no {} here", R::THINGS));
        } else {
            output::print(&Table::of(&rows, self.now).render(self.paint))?;
        }
        if let Some(cursor) = page.next_cursor {
            let next = output::next_page::command(std::env::args(), &cursor);
            output::hint(&format!("more: {next}"));
        }
        Ok(())
    }
}
