//! Where pages are: that of a thing, by its id; the list that a page belongs to; the page that a button is on.

use http::Uri;

use super::frame::Frame;
use super::pieces::Id;
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

/// The list that a page belongs to: every tenant has one, where it may lack the thing itself.
pub fn list_of(path: &str) -> &'static str {
    match path.split('/').nth(1).unwrap_or_default() {
        "inbox" => "/inbox",
        "jobs" => "/jobs",
        "approvals" => "/approvals",
        "dead-letters" | "operations" => "/dead-letters",
        "sources" => "/sources",
        "webhooks" | "deliveries" => "/webhooks",
        "event-types" => "/event-types",
        "events" => "/events",
        "tenants" => "/tenants",
        "keys" => "/keys",
        "audit" => "/audit",
        _ => "/",
    }
}

/// The page with the button whose form goes to this address.
pub fn page_with(action: &Uri) -> String {
    let mut parts = action.path().split('/').skip(1);
    let list = parts.next().unwrap_or_default();
    let page = match parts.next() {
        // Only their lists are pages.
        Some(_) if matches!(list, "tenants" | "keys") => format!("/{list}"),
        Some(thing) => format!("/{list}/{thing}"),
        None => format!("/{list}"),
    };
    match action.query() {
        Some(query) => format!("{page}?{query}"),
        None => page,
    }
}

/// An id, as a link to the page of what it names, if such things have one.
pub fn linked(frame: &Frame, id: &str) -> Id {
    match page_of(id) {
        Some(page) => Id::link(id, frame.to(&page)),
        None => Id::of(id),
    }
}

#[cfg(test)]
mod tests {
    use http::Uri;

    use super::{list_of, page_of, page_with};

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

    #[test]
    fn every_page_belongs_to_a_list() {
        for (path, list) in [
            ("/", "/"),
            ("/inbox/evt_01J", "/inbox"),
            ("/sources/new", "/sources"),
            ("/deliveries/dlv_01J", "/webhooks"),
            ("/operations/op_01J", "/dead-letters"),
            ("/no-such-page", "/"),
        ] {
            assert_eq!(list_of(path), list, "{path}");
        }
    }

    #[test]
    fn a_button_leads_back_to_its_page() {
        for (action, page) in [
            ("/inbox/evt_01J/replay?tenant=acme", "/inbox/evt_01J?tenant=acme"),
            ("/jobs/job_01J/effects/mail%3A1/resolve", "/jobs/job_01J"),
            ("/event-types/order.made/delete", "/event-types/order.made"),
            ("/dead-letters?kind=job", "/dead-letters?kind=job"),
            ("/tenants/acme", "/tenants"),
            ("/keys/key_01J/revoke", "/keys"),
        ] {
            let action: Uri = action.parse().unwrap();
            assert_eq!(page_with(&action), page);
        }
    }
}
