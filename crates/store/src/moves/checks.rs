//! Checks: what must hold of the rows at every committed state, as questions to the database.
//!
//! Each check is one statement, and so sees one state, that lists what is wrong. It is written once for both databases:
//! `ID[x]` is an id as text, `w.BEHIND` a flag, `RECENT[table]` the rows of a table that are looked at, and `WHOLE[tenant]`
//! the id from which on a tenant's events and work are there.

use async_trait::async_trait;
use wakepost_domain::{TenantId, Timestamp};

use crate::error::Result;

/// How many examples of what is wrong are named.
pub const EXAMPLES_MAX: usize = 10;

/// What must hold.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// The invariants it is about, as the specification calls them.
    pub invariants: &'static str,
    /// What must hold.
    pub says: &'static str,
    pub(crate) sql: &'static str,
}

/// How much of the history is looked at. What is live always is, up to `rows_max`.
#[derive(Debug, Clone, Copy)]
pub struct CheckScope {
    /// From when on.
    pub since: Timestamp,
    /// Finished work and events that are older may be gone: nothing is said of what they left. Of a tenant that keeps
    /// less, the store knows.
    pub runs_since: Timestamp,
    /// How many rows of a table at most.
    pub rows_max: i64,
}

/// What a check found.
#[derive(Debug, Clone)]
pub struct Checked {
    /// Which check.
    pub check: Check,
    /// What is wrong: none, or the first few.
    pub wrong: Vec<String>,
}

/// Asks whether the invariants hold. Changes nothing.
#[async_trait]
pub trait Checks {
    /// Every check, in the order of [`CHECKS`].
    async fn check(&self, scope: CheckScope) -> Result<Vec<Checked>>;
}

const fn check(invariants: &'static str, says: &'static str, sql: &'static str) -> Check {
    Check { invariants, says, sql }
}

/// The checks.
pub const CHECKS: [Check; 19] = [
    check(
        "D1",
        "what live work has to do is there: its event, and the event's body",
        "SELECT ID[w.id] FROM RECENT[work] w WHERE w.event_id IS NOT NULL AND NOT EXISTS (
           SELECT 1 FROM events e JOIN bodies b ON b.id = coalesce(e.body_id, e.id)
           WHERE e.tenant = w.tenant AND e.id = w.event_id)",
    ),
    check(
        "D2",
        "an event that makes a job has one",
        "SELECT ID[e.id] FROM RECENT[events] e WHERE e.route = 0 AND e.id >= WHOLE[e.tenant]
           AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant = e.tenant AND w.id = e.id)
           AND NOT EXISTS (SELECT 1 FROM work_done d WHERE d.tenant = e.tenant AND d.id = e.id)",
    ),
    check(
        "D2",
        "an event that joined a job is one of its events",
        "SELECT ID[e.id] FROM RECENT[events] e WHERE e.route = 3 AND e.id >= WHOLE[e.tenant]
           AND NOT EXISTS (SELECT 1 FROM joined j WHERE j.event_id = e.id)",
    ),
    check(
        "D2",
        "the outcome of an event is a known one",
        "SELECT ID[e.id] FROM RECENT[events] e WHERE e.route NOT BETWEEN 0 AND 4",
    ),
    check(
        "U1",
        "a live dedup key names an event or a job that is there",
        "SELECT ID[k.key] FROM (SELECT * FROM dedup_keys ORDER BY key LIMIT ROWS) k
         WHERE k.expires_at > NOW AND k.event_id >= WHOLE[k.tenant]
           AND NOT EXISTS (SELECT 1 FROM events e WHERE e.tenant = k.tenant AND e.id = k.event_id)
           AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant = k.tenant AND w.id = k.event_id)
           AND NOT EXISTS (SELECT 1 FROM work_done d WHERE d.tenant = k.tenant AND d.id = k.event_id)",
    ),
    check(
        "U1, O1",
        "no item is both live and done",
        "SELECT ID[w.id] FROM RECENT[work] w
         JOIN work_done d ON d.tenant = w.tenant AND d.id = w.id",
    ),
    check(
        "L1",
        "what runs has a lease, a worker and a fence; nothing else has a lease",
        "SELECT ID[w.id] FROM RECENT[work] w
         WHERE (w.state = 5) <> (w.lease_expires_at IS NOT NULL)
            OR w.state = 5 AND (w.fence < 1 OR w.worker IS NULL OR w.started_at IS NULL)",
    ),
    check(
        "L5",
        "live work stands in a live state, and done work in a final one",
        "SELECT ID[w.id] FROM RECENT[work] w WHERE w.state NOT BETWEEN 0 AND 5
         UNION ALL
         SELECT ID[d.id] FROM RECENT[work_done] d WHERE d.state NOT BETWEEN 6 AND 8",
    ),
    check(
        "L6",
        "nothing was tried more often than it may be",
        "SELECT ID[w.id] FROM RECENT[work] w WHERE w.attempts > w.max_attempts
         UNION ALL
         SELECT ID[d.id] FROM RECENT[work_done] d WHERE d.attempts > d.max_attempts",
    ),
    check(
        "L6",
        "a dead letter has its reason",
        "SELECT ID[d.id] FROM RECENT[work_done] d
         WHERE d.state = 8 AND d.last_error IS NULL AND d.purged_by IS NULL",
    ),
    check(
        "L9",
        "a bound's counter is how many run",
        "SELECT c.scope FROM lane_caps c WHERE c.running <> (
           SELECT count(*) FROM work w WHERE w.state = 5 AND w.caps IS NOT NULL
             AND INSTR(' ' || w.caps || ' ', ' ' || c.scope || ' ') > 0)",
    ),
    check(
        "L9",
        "of an order key's items one is the first, and only that one runs",
        "SELECT ID[w.id] FROM RECENT[work] w WHERE w.order_key IS NOT NULL AND w.BEHIND AND (
           w.state = 5 OR NOT EXISTS (
             SELECT 1 FROM work h WHERE h.order_key = w.order_key AND NOT h.BEHIND))",
    ),
    check(
        "L7",
        "live work is in a lane that is there",
        "SELECT ID[w.id] FROM RECENT[work] w
         WHERE NOT EXISTS (SELECT 1 FROM lanes l WHERE l.id = w.lane AND l.tenant = w.tenant)",
    ),
    check(
        "E1",
        "an effect that was committed says when, and one in doubt does not",
        "SELECT ID[e.scope] || ' ' || e.key FROM (SELECT * FROM effects WHERE scope >= SINCE LIMIT ROWS) e
         WHERE e.state = 1 AND e.resolved_at IS NULL OR e.state = 0 AND e.resolved_at IS NOT NULL
            OR e.state NOT BETWEEN 0 AND 5",
    ),
    check(
        "E2",
        "only what is proposed waits for a decision",
        "SELECT ID[e.scope] || ' ' || e.key FROM effects e
         WHERE e.undecided_until IS NOT NULL AND e.state <> 3",
    ),
    check(
        "O1",
        "a delivery is of an event that was published",
        "SELECT ID[w.id] FROM RECENT[work] w WHERE w.kind = 1 AND NOT EXISTS (
           SELECT 1 FROM events e WHERE e.tenant = w.tenant AND e.id = w.event_id)",
    ),
    check(
        "O1",
        "a webhook's lane is there",
        "SELECT ID[h.id] FROM webhooks h
         WHERE NOT EXISTS (SELECT 1 FROM lanes l WHERE l.id = h.lane AND l.tenant = h.tenant)",
    ),
    check(
        "S1",
        "everything belongs to a tenant that is there",
        "SELECT ID[w.id] FROM (SELECT * FROM work LIMIT ROWS) w
           WHERE NOT EXISTS (SELECT 1 FROM tenants t WHERE t.id = w.tenant)
         UNION ALL
         SELECT ID[s.id] FROM sources s WHERE NOT EXISTS (SELECT 1 FROM tenants t WHERE t.id = s.tenant)
         UNION ALL
         SELECT ID[h.id] FROM webhooks h WHERE NOT EXISTS (SELECT 1 FROM tenants t WHERE t.id = h.tenant)",
    ),
    check(
        "S1",
        "an event's job is its tenant's",
        "SELECT ID[w.id] FROM RECENT[work] w JOIN events e ON e.id = w.event_id AND e.tenant <> w.tenant",
    ),
];

/// How a database writes what differs.
pub(crate) struct Dialect {
    pub id: [&'static str; 2],
    pub behind: &'static str,
    pub instr: &'static str,
    pub floor: fn(Timestamp) -> String,
}

/// A check as a statement of a database. `own` has the tenants whose events and work go sooner than others'.
pub(crate) fn statement(
    check: &Check,
    scope: &CheckScope,
    now: Timestamp,
    own: &[(TenantId, Timestamp)],
    dialect: &Dialect,
) -> String {
    let mut sql = check.sql.to_owned();
    while let Some((before, rest)) = sql.split_once("RECENT[") {
        let (table, after) = rest.split_once(']').unwrap_or((rest, ""));
        // By tenant, as the rows lie; of live work, however old it is.
        let since = if table == "work" { "" } else { "AND r.id >= SINCE" };
        sql = format!(
            "{before}(SELECT r.* FROM tenants rt CROSS JOIN {table} r
               WHERE r.tenant = rt.id {since} LIMIT ROWS){after}"
        );
    }
    while let Some((before, rest)) = sql.split_once("ID[") {
        let (column, after) = rest.split_once(']').unwrap_or((rest, ""));
        let [open, close] = dialect.id;
        sql = format!("{before}{open}{column}{close}{after}");
    }
    while let Some((before, rest)) = sql.split_once("WHOLE[") {
        let (tenant, after) = rest.split_once(']').unwrap_or((rest, ""));
        let from = |at: Timestamp| (dialect.floor)(at.max(scope.runs_since));
        let all = from(scope.runs_since);
        let own =
            own.iter().map(|(tenant, since)| format!("WHEN {} THEN {} ", tenant.0, from(*since)));
        let own: String = own.collect();
        let from =
            if own.is_empty() { all } else { format!("(CASE {tenant} {own} ELSE {all} END)") };
        sql = format!("{before}{from}{after}");
    }
    let sql = sql
        .replace(".BEHIND", dialect.behind)
        .replace("INSTR(", dialect.instr)
        .replace("SINCE", &(dialect.floor)(scope.since))
        .replace("ROWS", &scope.rows_max.to_string())
        .replace("NOW", &now.as_millis().to_string());
    format!("SELECT * FROM ({sql}) AS wrong LIMIT {EXAMPLES_MAX}")
}
