//! Fixtures: kept under their names until somebody deletes them, each tenant's apart.

use futures_util::future::join_all;
use wakepost_domain::{EventId, TenantId, limits};

use super::Harness;
use super::drafts::once;
use super::world::{ALL, World, assert_not_found, sealed};
use crate::error::{Result, StoreError};
use crate::moves::{Fixture, Once, Page};

impl<H: Harness> World<'_, H> {
    fn fixture(&self, tenant: TenantId, name: &str) -> Fixture {
        Fixture {
            id: self.id(),
            tenant,
            name: name.to_owned(),
            provider: "github".to_owned(),
            event_type: "issues.opened".to_owned(),
            event: EventId(self.id()),
            body_bytes: 7,
        }
    }

    async fn keep_fixture(&self, fixture: &Fixture) -> Result<Once<()>> {
        let audit = self.audit(fixture.tenant, "fixture.create");
        self.store.keep_fixture(fixture.clone(), sealed(&fixture.name), audit, None).await
    }
}

pub async fn a_fixture_is_found_by_its_name_as_it_was_kept(harness: &impl Harness) {
    let world = World::new(harness).await;
    let fixture = world.fixture(TenantId::DEFAULT, "first-issue");
    assert_eq!(world.keep_fixture(&fixture).await.unwrap(), Once::Now(()));
    let found = world.other.fixture(TenantId::DEFAULT, "first-issue".to_owned()).await.unwrap();
    assert_eq!(found, Some((fixture, sealed("first-issue"))));
    let other = world.store.fixture(TenantId::DEFAULT, "other".to_owned()).await.unwrap();
    assert_eq!(other, None);
    assert_eq!(world.actions(TenantId::DEFAULT).await, ["fixture.create"]);
}

pub async fn of_many_of_one_name_at_once_one_is_kept(harness: &impl Harness) {
    let world = World::new(harness).await;
    let many: Vec<Fixture> = (0..8).map(|_| world.fixture(TenantId::DEFAULT, "same")).collect();
    let answers = join_all(many.iter().map(|fixture| world.keep_fixture(fixture))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert!(answers.iter().all(|answer| matches!(answer, Ok(_) | Err(StoreError::Exists(_)))));
    assert_eq!(world.actions(TenantId::DEFAULT).await.len(), 1);
}

pub async fn a_fixture_is_kept_once_under_an_idempotency_key(harness: &impl Harness) {
    let world = World::new(harness).await;
    let until = world.now().await.after(std::time::Duration::from_secs(3600));
    let fixture = world.fixture(TenantId::DEFAULT, "same");
    let keep = async || {
        let audit = world.audit(TenantId::DEFAULT, "fixture.create");
        let key = Some(once(1, "first", until));
        world.store.keep_fixture(fixture.clone(), sealed("x"), audit, key).await.unwrap()
    };
    assert_eq!(keep().await, Once::Now(()));
    assert!(matches!(keep().await, Once::Before(_)));
}

pub async fn fixtures_come_in_pages_bound_to_a_tenant(harness: &impl Harness) {
    let world = World::new(harness).await;
    let theirs = world.tenant("theirs").await;
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        world.keep_fixture(&world.fixture(TenantId::DEFAULT, name)).await.unwrap();
    }
    world.keep_fixture(&world.fixture(theirs, "a")).await.unwrap();
    let (mut seen, mut page) = (Vec::new(), Page { before: None, limit: 2 });
    loop {
        let rows = world.store.fixtures(TenantId::DEFAULT, page).await.unwrap();
        let Some(last) = rows.last() else { break };
        page.before = Some(last.id);
        seen.extend(rows.into_iter().map(|fixture| fixture.name));
    }
    assert_eq!(seen, ["e", "d", "c", "b", "a"]);
    assert_eq!(world.store.fixtures(theirs, ALL).await.unwrap().len(), 1);
}

pub async fn a_deleted_fixture_is_gone_and_its_name_free(harness: &impl Harness) {
    let world = World::new(harness).await;
    let theirs = world.tenant("theirs").await;
    world.keep_fixture(&world.fixture(TenantId::DEFAULT, "same")).await.unwrap();
    let delete = async |tenant| {
        let audit = world.audit(tenant, "fixture.delete");
        world.store.delete_fixture(tenant, "same".to_owned(), audit).await
    };
    assert_not_found(delete(theirs).await);
    delete(TenantId::DEFAULT).await.unwrap();
    assert_not_found(delete(TenantId::DEFAULT).await);
    assert!(world.store.fixtures(TenantId::DEFAULT, ALL).await.unwrap().is_empty());
    world.keep_fixture(&world.fixture(TenantId::DEFAULT, "same")).await.unwrap();
}

pub async fn a_tenant_keeps_no_more_fixtures_than_it_may(harness: &impl Harness) {
    let world = World::new(harness).await;
    let theirs = world.tenant("theirs").await;
    for number in 1..limits::FIXTURES_PER_TENANT_MAX {
        let fixture = world.fixture(TenantId::DEFAULT, &format!("f-{number}"));
        world.keep_fixture(&fixture).await.unwrap();
    }
    let last: Vec<Fixture> =
        ["x", "y", "z"].map(|name| world.fixture(TenantId::DEFAULT, name)).to_vec();
    let answers = join_all(last.iter().map(|fixture| world.keep_fixture(fixture))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert!(answers.iter().all(|answer| matches!(answer, Ok(_) | Err(StoreError::Limit(_)))));
    world.keep_fixture(&world.fixture(theirs, "x")).await.unwrap();
}
