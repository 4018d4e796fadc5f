//! `webhookctl keys list`

use clap::Args;
use wakepost_client::{Key, KeyQuery};

use super::reach;
use crate::commands::paging::Paging;
use crate::output::when::relative;
use crate::output::{Cell, Table};
use crate::session::Session;

#[derive(Args)]
pub struct List {
    #[command(flatten)]
    paging: Paging,
}

impl List {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let query = KeyQuery { limit: self.paging.limit, cursor: self.paging.cursor };
        let call = session.client.list_keys(&query);
        session.list(call, "keys", |keys| table(session, keys)).await
    }
}

fn table(session: &Session, keys: &[Key]) -> Table {
    let columns = ["KEY", "NAME", "ROLE", "TENANT", "LAST USED", "EXPIRES"];
    let mut table = Table::new(&columns);
    for key in keys {
        let time = |at: &Option<String>| at.as_deref().map(|at| relative(session.now, at));
        let expires = match &key.revoked_at {
            Some(_) => Some("revoked".to_owned()),
            None => time(&key.expires_at),
        };
        table.row([
            Cell::new(&key.id),
            Cell::maybe(Some(&key.name)),
            Cell::new(&key.role),
            Cell::new(reach(key.tenant.as_deref())),
            Cell::maybe(time(&key.last_used_at).as_deref()),
            Cell::maybe(expires.as_deref()),
        ]);
    }
    table
}
