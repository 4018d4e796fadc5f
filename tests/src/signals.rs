//! Signals to our own children.

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;

use crate::waiting::until;

/// Sends one.
pub(crate) fn signal(child: &Child, signal: Signal) {
    kill_process(pid(child), signal).expect("our own child takes signals");
}

/// Stops it where it stands, and waits until all of it has: the kernel hands the signal to one thread, and on a
/// busy machine the others run on until that one had its turn.
pub(crate) async fn freeze(child: &Child) {
    signal(child, Signal::STOP);
    let tasks = format!("/proc/{}/task", pid(child));
    until("every thread is stopped", || async {
        let tasks = std::fs::read_dir(&tasks).expect("the process lives");
        tasks
            .map(|task| std::fs::read_to_string(task.expect("a thread").path().join("stat")))
            // One that is gone meanwhile does nothing more either.
            .filter_map(Result::ok)
            .all(|stat| is_stopped(&stat))
            .then_some(())
    })
    .await;
}

/// The state is the word after the name, which is in brackets and may hold anything.
fn is_stopped(stat: &str) -> bool {
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

fn pid(child: &Child) -> Pid {
    let id = child.id().expect("the process lives");
    Pid::from_raw(i32::try_from(id).expect("an id")).expect("an id")
}
