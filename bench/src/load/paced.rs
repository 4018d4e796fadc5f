//! An open loop: requests go out on a timetable, whatever the answers do.

use std::time::{Duration, Instant};

use super::threads::run;
use super::{Load, Seen};

/// Loads at this many requests a second in all, the connections taking turns.
///
/// The clock of a request starts when it is sent, or, if its connection was still waiting for the answer
/// before, when it should have been sent: a stall then counts for every request it held up.
pub async fn paced(load: Load, rate: f64) -> anyhow::Result<Seen> {
    let step = Duration::from_secs_f64(load.connections as f64 / rate);
    let offset = Duration::from_secs_f64(1.0 / rate);
    run(load, move |index, mut client| async move {
        let mut due = client.times.begin + offset * u32::try_from(index)?;
        while due < client.times.end {
            let late = Instant::now() > due;
            if !late {
                tokio::time::sleep_until(due.into()).await;
            }
            let began = if late { due } else { Instant::now() };
            client.exchange(began).await?;
            due += step;
        }
        Ok(client)
    })
    .await
}
