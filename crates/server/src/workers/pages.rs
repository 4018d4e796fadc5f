//! Tenants, page by page: whoever has to look at all of them leaves out none, however many there are.

use wakepost_domain::TenantId;
use wakepost_store::Result;

/// How many are asked for at a time.
pub const PAGE: u32 = 1000;

/// All tenants that these pages tell of. `next` answers up to `page` of those after one, by id.
pub async fn all<F: Future<Output = Result<Vec<TenantId>>>>(
    page: u32,
    next: impl Fn(Option<TenantId>) -> F,
) -> Result<Vec<TenantId>> {
    let mut all = Vec::new();
    loop {
        let some = next(all.last().copied()).await?;
        let is_last = some.len() < page as usize;
        all.extend(some);
        if is_last {
            return Ok(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_tenant_is_left_out_however_many_pages_there_are() {
        for count in 0..=7 {
            let tenants: Vec<TenantId> = (1..=count).map(TenantId).collect();
            let found = all(3, |after: Option<TenantId>| {
                let rest = tenants.iter().filter(move |tenant| Some(**tenant) > after);
                let some = rest.take(3).copied().collect();
                async move { Ok(some) }
            })
            .await;
            assert_eq!(found.ok(), Some(tenants.clone()));
        }
    }
}
