//! A worker of a storm: leases jobs in batches, does two things outside for each, and ends it.

use futures_util::future::join_all;
use wakepost_tests::now;

use crate::chance::Chance;
use crate::clients::ending::{self, Finish};
use crate::clients::{Desk, Phase, acting};
use crate::told::{End, Next, Run};

/// What each job does. None may be done again when in doubt: then the operator is asked.
pub const EFFECTS: [&str; 2] = ["charge", "mail"];
const BATCH_MAX: u64 = 16;
/// Long enough for a batch on a busy machine, short enough that what a kill lost comes back soon.
const LEASE_S: u64 = 5;

/// Works until everybody goes home.
pub async fn run(desk: Desk, mut chance: Chance, name: String) {
    while desk.phase() != Phase::Over {
        let max = chance.within(1, BATCH_MAX);
        let runs = acting::lease(&desk, &mut chance, &name, max, LEASE_S).await;
        let working = runs.into_iter().map(|run| work(&desk, chance.split(), run));
        let working: Vec<_> = working.collect();
        let finishes = join_all(working).await.into_iter().flatten().collect();
        ending::all(&desk, &mut chance, finishes).await;
    }
}

/// Works on one job. `None`: the lease is lost, or it is for the operator to decide.
async fn work(desk: &Desk, mut chance: Chance, mut run: Run) -> Option<Finish> {
    for key in EFFECTS {
        match acting::begin(desk, &mut chance, &mut run, key, false).await {
            Next::Skip => continue,
            Next::Held | Next::Stop | Next::Unknown => return None,
            // An answer that took longer than the lease must not be acted on.
            Next::Execute if now().as_millis() >= run.live_until => return None,
            Next::Execute => {}
        }
        desk.told.executed(&run, key);
        acting::commit(desk, &mut chance, &run, key).await?;
    }
    let end = End::Complete(desk.told.new_result());
    Some(Finish { run, end })
}
