//! What a sequence is made of: wishes, which know no ids.

use wakepost_domain::thread::ThreadPolicy;

/// Which lease a worker speaks of.
#[derive(Debug, Clone, Copy)]
pub struct Hand {
    pub nth: u8,
    /// One that is no longer the item's own.
    pub stale: bool,
    /// As if it were the other tenant's.
    pub foreign: bool,
}

/// Which thing an operator speaks of.
#[derive(Debug, Clone, Copy)]
pub struct Pick {
    pub nth: u8,
    /// Any there is, not only one that suits the move.
    pub any: bool,
    /// As if it were the other tenant's.
    pub foreign: bool,
}

/// What conversation an event belongs to.
#[derive(Debug, Clone, Copy)]
pub struct ThreadWish {
    pub policy: ThreadPolicy,
    pub only_if_known: bool,
    pub quiet_s: u8,
    pub cap_s: u8,
}

#[derive(Debug, Clone)]
pub struct NewEventWish {
    /// What has a thread is in no other order.
    pub thread: Option<ThreadWish>,
    pub key: u8,
    pub second_key: Option<u8>,
    pub window_s: u16,
    pub order: Option<u8>,
    pub coalesce: Option<u8>,
    pub subject: Option<u8>,
    pub is_reply: bool,
    pub calls_back: bool,
    pub makes_job: bool,
}

#[derive(Debug, Clone)]
pub struct NewJobWish {
    pub of_source: bool,
    pub delay_s: Option<u16>,
    pub key: Option<u8>,
    pub order: Option<u8>,
    pub subject: Option<u8>,
    pub cancel_on: Option<u8>,
    pub calls_back: bool,
    pub max_attempts: i32,
    pub over_hops: bool,
    pub with_input: bool,
}

/// An event that is published.
#[derive(Debug, Clone)]
pub struct PublicationWish {
    pub key: Option<u8>,
    /// It says something else than most do under its key.
    pub differs: bool,
    pub window_s: u16,
    /// Which webhooks want it.
    pub hooks: [bool; 2],
    pub order: Option<u8>,
    pub subject: Option<u8>,
    pub delay_s: Option<u16>,
}

/// Which of all webhooks.
#[derive(Debug, Clone, Copy)]
pub struct HookPick {
    pub second_tenant: bool,
    pub second: bool,
}

/// How a worker ends a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndWish {
    Succeed,
    SucceedWithReply,
    Retry,
    RetryAfter(u16),
    GiveUp,
    FailProbe,
    HandBack,
    Hold,
    Stop,
}

#[derive(Debug, Clone, Copy)]
pub struct BeginWish {
    /// What an earlier run of the scope had to do with, if there is such a thing.
    pub again: bool,
    pub key: u8,
    pub text: u8,
    pub executes_on_doubt: bool,
    pub draft_s: Option<u16>,
}

#[derive(Debug, Clone)]
pub enum Wish {
    Accept(bool, NewEventWish),
    /// The same event at both nodes at once.
    AcceptCopies(bool, NewEventWish),
    Create(bool, Vec<NewJobWish>),
    Publish(bool, Vec<PublicationWish>),
    Shut {
        hook: HookPick,
        for_s: Option<u16>,
        stale: bool,
        foreign: bool,
    },
    EndWaiting {
        hook: HookPick,
        gives_up: bool,
        limit: u8,
    },
    /// What was published lately goes to a webhook that did not get it.
    Backfill(HookPick, bool),
    Claim {
        lanes: u16,
        count: u8,
        lease_s: u16,
        run_s: u16,
    },
    ClaimOne(Pick),
    Heartbeat(Hand, u16, Option<u8>),
    /// Work that a run asks for before its end.
    FollowUp(Hand),
    Checkpoint(Hand, u8),
    Progress(Hand, u8),
    Begin(Hand, BeginWish),
    Commit(Hand, u8),
    Abort(Hand, u8),
    Resolve(Pick, u8, bool),
    Ask(Hand, u8),
    Decide {
        pick: Pick,
        approved: bool,
        as_seen: bool,
    },
    /// If need be, time passes until there is something to expire.
    ExpireApprovals {
        waits: bool,
    },
    Settle {
        hand: Hand,
        end: EndWish,
        cost: Option<u8>,
        twice: bool,
    },
    /// If need be, time passes until there is something to rescue.
    Rescue {
        waits: bool,
    },
    /// A rescuer does what it saw to be done a while ago.
    RescueLate(u8),
    Cancel(Pick),
    CancelSubject(bool, u8),
    Release(Pick),
    ReleaseInto(Pick),
    HoldOverBudget(bool),
    Replay(Pick, bool),
    ReplayEvent(Pick),
    ReplayDead(bool),
    Purge(bool),
    /// The bodies of one tenant go that nothing needs.
    ForgetBodies(bool),
    Schedule(bool, bool),
    /// Fires what is due, at both nodes at once. If need be, time passes until something is.
    Fire {
        waits: bool,
    },
    ChangeSchedule {
        pick: Pick,
        enabled: bool,
        stale: bool,
    },
    DeleteSchedule(Pick),
    StepClock(i32),
    Crash,
    /// The caller and its node are gone before the answer comes.
    Cut(Box<Wish>),
}

/// The bounds that hold throughout a sequence.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub tenant_running: Option<u32>,
    pub source_running: Option<u32>,
    pub source_rate: Option<u32>,
    pub source_runs_per_day: Option<u32>,
    pub source_cost_per_day: Option<u32>,
}

impl Bounds {
    pub fn are_any(&self) -> bool {
        let all = [
            self.tenant_running,
            self.source_running,
            self.source_rate,
            self.source_runs_per_day,
            self.source_cost_per_day,
        ];
        all.iter().any(Option::is_some)
    }
}
