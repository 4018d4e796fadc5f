//! Alerting: an alert fires once over all nodes, is over once, and is told of until somebody noted it.

use std::time::Duration;

use wakepost_domain::alert::{AlertKind, Severity};
use wakepost_domain::receipt::Verdict;
use wakepost_domain::{AlertId, ReceiptId, SourceId, TenantId, Timestamp};

use super::Harness;
use super::drafts::rejection;
use super::pruning::all_before;
use super::world::{ALL, World, given_up};
use crate::moves::{Alert, Page, PruneBefore, Streak, Untold};

const TENANT: TenantId = TenantId::DEFAULT;
const FIRED: Untold = Untold { fired: true, escalated: false, resolved: false };
const RESOLVED: Untold = Untold { fired: false, escalated: false, resolved: true };

impl<H: Harness> World<'_, H> {
    fn alert(&self, tenant: TenantId, subject: &str) -> Alert {
        Alert {
            id: AlertId(self.id()),
            tenant,
            kind: AlertKind::DeadLetters,
            subject: subject.to_owned(),
            severity: Severity::Warning,
            title: "Dead letters pile up".to_owned(),
            detail: "ünïcode \u{1F980}".to_owned(),
            value: 101.0,
            threshold: 100.0,
            good_since: None,
            resolved_at: None,
            untold: FIRED,
            version: 0,
        }
    }

    async fn fires_now(&self) -> Vec<Alert> {
        self.other.firing_alerts(Some(TENANT), 10).await.unwrap()
    }
}

pub async fn an_alert_fires_once_over_all_nodes(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (ours, theirs) = (world.alert(TENANT, ""), world.alert(TENANT, ""));
    let (first, second) =
        tokio::join!(world.store.fire_alert(ours.clone()), world.other.fire_alert(theirs.clone()));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert!(first != second, "one of them fired");
    let fired = if first { ours } else { theirs };
    assert_eq!(world.fires_now().await, std::slice::from_ref(&fired));
    assert!(!world.store.fire_alert(world.alert(TENANT, "")).await.unwrap());
    assert!(world.store.fire_alert(world.alert(TENANT, "wh_1")).await.unwrap(), "another subject");
    let other_kind = Alert { kind: AlertKind::RetryQueue, ..world.alert(TENANT, "") };
    assert!(world.store.fire_alert(other_kind).await.unwrap());
    let theirs = world.tenant("theirs").await;
    assert!(world.store.fire_alert(world.alert(theirs, "")).await.unwrap(), "another tenant");
    assert_eq!(world.fires_now().await.len(), 3);
    assert_eq!(world.store.firing_alerts(None, 10).await.unwrap().len(), 4);
    assert_eq!(world.store.firing_alerts(None, 2).await.unwrap().len(), 2);
}

pub async fn an_alert_changes_only_from_what_was_seen(harness: &impl Harness) {
    let world = World::new(harness).await;
    let seen = world.alert(TENANT, "");
    world.store.fire_alert(seen.clone()).await.unwrap();
    let now = world.now().await;
    let worse = Alert {
        severity: Severity::Critical,
        detail: "worse".to_owned(),
        value: 1001.0,
        threshold: 1000.0,
        good_since: Some(now),
        untold: Untold { escalated: true, ..Untold::default() },
        ..seen.clone()
    };
    let (ours, theirs) = tokio::join!(
        world.store.change_alert(worse.clone()),
        world.other.change_alert(worse.clone())
    );
    assert_ne!(ours.unwrap(), theirs.unwrap(), "one of them changed it");
    let both = Untold { fired: true, escalated: true, resolved: false };
    assert_eq!(world.fires_now().await, [Alert { untold: both, version: 1, ..worse }]);
}

pub async fn an_alert_is_over_once_and_may_fire_again(harness: &impl Harness) {
    let world = World::new(harness).await;
    let fired = world.alert(TENANT, "");
    world.store.fire_alert(fired.clone()).await.unwrap();
    let over = Alert { resolved_at: Some(world.now().await), untold: RESOLVED, ..fired.clone() };
    assert!(world.store.change_alert(over.clone()).await.unwrap());
    let again = Alert { version: 1, ..over };
    assert!(!world.other.change_alert(again).await.unwrap(), "it is over");
    assert!(world.fires_now().await.is_empty());
    assert!(world.store.fire_alert(world.alert(TENANT, "")).await.unwrap());
    assert_eq!(world.fires_now().await.len(), 1);
}

pub async fn what_is_to_be_told_waits_until_it_was(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (first, second) = (world.alert(TENANT, "a"), world.alert(TENANT, "b"));
    world.store.fire_alert(first.clone()).await.unwrap();
    world.store.fire_alert(second.clone()).await.unwrap();
    let untold = |alerts: Vec<Alert>| alerts.into_iter().map(|alert| alert.id).collect::<Vec<_>>();
    let ids = untold(world.other.untold_alerts(None, 10).await.unwrap());
    assert_eq!(ids, [first.id, second.id], "oldest first");
    let ids = untold(world.store.untold_alerts(None, 1).await.unwrap());
    assert_eq!(ids, [first.id]);
    let ids = untold(world.store.untold_alerts(Some(first.id), 1).await.unwrap());
    assert_eq!(ids, [second.id], "a page further");
    let over = Alert { resolved_at: Some(world.now().await), untold: RESOLVED, ..first.clone() };
    world.store.change_alert(over).await.unwrap();
    world.store.alert_told(first.id, FIRED).await.unwrap();
    let left = world.store.untold_alerts(None, 10).await.unwrap();
    assert_eq!((left[0].id, left[0].untold), (first.id, RESOLVED));
    world.store.alert_told(first.id, RESOLVED).await.unwrap();
    world.store.alert_told(second.id, FIRED).await.unwrap();
    assert!(world.store.untold_alerts(None, 10).await.unwrap().is_empty());
}

pub async fn alerts_are_listed_newest_first_by_whether_they_fire(harness: &impl Harness) {
    let world = World::new(harness).await;
    let alerts = ["a", "b", "c"].map(|subject| world.alert(TENANT, subject));
    for alert in &alerts {
        world.store.fire_alert(alert.clone()).await.unwrap();
    }
    let theirs = world.tenant("theirs").await;
    world.store.fire_alert(world.alert(theirs, "d")).await.unwrap();
    let over = Alert { resolved_at: Some(world.now().await), ..alerts[1].clone() };
    world.store.change_alert(over).await.unwrap();
    let subjects = async |firing, page| {
        let alerts = world.other.alerts(TENANT, firing, page).await.unwrap();
        alerts.into_iter().map(|alert| alert.subject).collect::<Vec<_>>()
    };
    assert_eq!(subjects(None, ALL).await, ["c", "b", "a"]);
    assert_eq!(subjects(Some(true), ALL).await, ["c", "a"]);
    assert_eq!(subjects(Some(false), ALL).await, ["b"]);
    let next = Page { before: Some(alerts[2].id.0), limit: 1 };
    assert_eq!(subjects(None, next).await, ["b"]);
}

pub async fn failures_in_a_row_are_counted_over_nodes_until_a_success(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (one, other) = (SourceId(world.id()), SourceId(world.id()));
    let told = |source, broken, failures| Streak { tenant: TENANT, source, broken, failures };
    let note = async |node, streaks| world.node(node).note_streaks(streaks).await.unwrap();
    note(0, vec![told(one, false, 3), told(other, true, 0)]).await;
    note(1, vec![told(one, false, 2)]).await;
    assert_eq!(world.store.streaks(TENANT, 1).await.unwrap(), [(one, 5)]);
    assert_eq!(world.store.streaks(TENANT, 6).await.unwrap(), []);
    note(0, vec![told(one, true, 2), told(other, true, 1)]).await;
    assert_eq!(world.other.streaks(TENANT, 1).await.unwrap(), [(one, 2), (other, 1)]);
    note(1, vec![told(one, true, 0), told(other, true, 0)]).await;
    assert_eq!(world.store.streaks(TENANT, 1).await.unwrap(), []);
    assert_eq!(world.store.streaks(world.tenant("theirs").await, 0).await.unwrap(), []);
}

pub async fn errors_of_dead_letters_are_counted_the_most_frequent_first(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    for error in ["timeout", "answered 400", "timeout", "none"] {
        let claimed = world.running(&inbox).await;
        let mut end = super::drafts::end(&claimed.ticket, given_up());
        end.error = Some(error.to_owned());
        world.settle(end).await.unwrap();
    }
    let errors = world.other.dead_letter_errors(TENANT, 100, 2).await.unwrap();
    assert_eq!(errors, [("timeout".to_owned(), 2), ("answered 400".to_owned(), 1)]);
    let latest = world.store.dead_letter_errors(TENANT, 1, 10).await.unwrap();
    assert_eq!(latest, [("none".to_owned(), 1)]);
}

pub async fn duplicates_are_found_since_a_moment(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let theirs = world.inbox_of(world.tenant("theirs").await).await;
    for inbox in [&inbox, &theirs] {
        for _ in 0..2 {
            world.accept(world.event(inbox).with_key("k")).await;
        }
    }
    world.advance_s(600).await;
    let since = world.now().await.before(Duration::from_secs(60));
    world.accept(world.event(&inbox).with_key("k")).await;
    let refused = rejection(&inbox, ReceiptId(world.id()), Verdict::Stale);
    world.store.keep_rejections(vec![refused]).await.unwrap();
    let found = world.store.duplicates_since(TENANT, since, 10).await.unwrap();
    let verdicts: Vec<_> = found.iter().map(|row| (row.verdict, row.event.is_some())).collect();
    assert_eq!(verdicts, [(Verdict::Duplicate, true)]);
    let all = world.store.duplicates_since(TENANT, Timestamp::default(), 10).await.unwrap();
    assert_eq!(all.len(), 2);
    assert_eq!(all[0], found[0], "newest first");
}

pub async fn an_alert_that_is_over_goes_with_the_events(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (over, fires) = (world.alert(TENANT, "over"), world.alert(TENANT, "fires"));
    world.store.fire_alert(over.clone()).await.unwrap();
    world.store.fire_alert(fires.clone()).await.unwrap();
    let over = Alert { resolved_at: Some(world.now().await), ..over };
    world.store.change_alert(over).await.unwrap();
    let never = Timestamp::default();
    let later = world.now().await.after(Duration::from_secs(3600));
    world.prune(PruneBefore { events: later, ..all_before(never) }).await;
    let left = world.store.alerts(TENANT, None, ALL).await.unwrap();
    assert_eq!(left.into_iter().map(|alert| alert.id).collect::<Vec<_>>(), [fires.id]);
}
