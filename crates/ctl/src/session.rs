//! One run of the program: the client, and how answers are shown.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use wakepost_client::{Call, Client, Page};

use crate::cli::Global;
use crate::connection::Connection;
use crate::output::{self, Paint, Row, Table};

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
    pub async fn open(global: Global) -> anyhow::Result<Session> {
        let Connection { url, key, tenant } = Connection::resolve(&global).await?;
        let mut client = Client::new(&url, &key)?;
        if let Some(tenant) = &tenant {
            client = client.with_tenant(tenant);
        }
        Ok(Session {
            client,
            tenant,
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
