//! `webhookctl schedules list`

use clap::Args;
use wakepost_client::{Schedule, ScheduleQuery};

use super::show::status;
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
        let query = ScheduleQuery { limit: self.paging.limit, cursor: self.paging.cursor };
        let call = session.client.list_schedules(&query);
        session.list(call, "schedules", |schedules| table(session, schedules)).await
    }
}

fn table(session: &Session, schedules: &[Schedule]) -> Table {
    let mut table =
        Table::new(&["SCHEDULE", "NAME", "STATUS", "CRON", "TIME ZONE", "NEXT", "LAST"]);
    let time = |at: &Option<String>| at.as_deref().map(|at| relative(session.now, at));
    for schedule in schedules {
        table.row([
            Cell::new(&schedule.id),
            Cell::new(&schedule.name),
            Cell::status(status(schedule)),
            Cell::new(&schedule.cron),
            Cell::new(&schedule.time_zone),
            Cell::maybe(time(&schedule.next_at).as_deref()),
            Cell::maybe(time(&schedule.last_at).as_deref()),
        ]);
    }
    table
}
