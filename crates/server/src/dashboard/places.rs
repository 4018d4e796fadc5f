//! Where the page of a thing is, by its id.

use crate::within::part;

/// The page of what an id names, if such things have one.
pub fn page_of(id: &str) -> Option<String> {
    let (prefix, rest) = id.split_once('_')?;
    let is_id = !rest.is_empty() && rest.chars().all(|c| c.is_ascii_alphanumeric());
    let list = match prefix {
        // Replies and callbacks are shown where jobs are.
        "job" | "rpl" | "clb" => "jobs",
        "dlv" => "deliveries",
        "src" => "sources",
        "wh" => "webhooks",
        "op" => "operations",
        // The search looks whether it was received or published, or whose run it is.
        "evt" | "run" => return is_id.then(|| format!("/search?q={}", part(id))),
        _ => return None,
    };
    is_id.then(|| format!("/{list}/{}", part(id)))
}

#[cfg(test)]
mod tests {
    use super::page_of;

    #[test]
    fn what_has_a_page_is_found_by_its_id_and_nothing_else_is() {
        assert_eq!(page_of("rpl_01J").as_deref(), Some("/jobs/rpl_01J"));
        assert_eq!(page_of("clb_01J").as_deref(), Some("/jobs/clb_01J"));
        assert_eq!(page_of("op_01J").as_deref(), Some("/operations/op_01J"));
        assert_eq!(page_of("evt_01J").as_deref(), Some("/search?q=evt_01J"));
        for other in ["key_01J", "job_", "job_../keys", "job_1 2", "order.created", "acme", ""] {
            assert_eq!(page_of(other), None, "{other}");
        }
    }
}
