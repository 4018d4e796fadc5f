//! A sender of a storm: sends what is next, freshly signed, until it is answered with 2xx.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::plan::{Plan, Planned};
use super::tenant::Tenant;
use crate::caller::{Caller, Said};
use crate::chance::Chance;

/// How often one request is sent before it counts as refused: a vendor gives up, too.
const TRIES_MAX: u32 = 200;
const PAUSE: Duration = Duration::from_millis(50);

/// Sends until nothing is left.
pub async fn run(caller: Caller, tenants: Arc<Vec<Tenant>>, plan: Arc<Plan>, mut chance: Chance) {
    while let Some(event) = plan.next() {
        send(&caller, &tenants, event, &mut chance).await;
    }
}

async fn send(caller: &Caller, tenants: &[Tenant], event: &Planned, chance: &mut Chance) {
    let told = &tenants[event.tenant].desk.told;
    let (id, happened) = event.what();
    for _ in 0..TRIES_MAX {
        let request = event.source(tenants).delivery(id, happened);
        let body = Bytes::from(request.body);
        let exchange = caller.send(chance, &request.url, request.headers, body).await;
        told.sent(&event.key, &exchange);
        match exchange.said {
            Said::Yes(..) | Said::No(..) => return,
            Said::Nothing => tokio::time::sleep(PAUSE).await,
        }
    }
    told.violation("contract", format!("{} was not answered {TRIES_MAX} times", event.key));
}
