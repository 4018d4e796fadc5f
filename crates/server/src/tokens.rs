//! Tokens that prove themselves: lease tokens, the key that lives as long as one lease, and what a node shows
//! itself.

use aws_lc_rs::{digest, hmac};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use wakepost_domain::Ulid;
use wakepost_domain::lease::Ticket;
use wakepost_domain::{TenantId, Timestamp, WorkId};
use wakepost_store::moves::Item;
use wakepost_store::vault::Root;

use crate::chains::Link;

const MAC_BYTES: usize = 16;
const LEASE_PREFIX: &str = "lt_";
const JOB_KEY_PREFIX: &str = "wpj_";
const TASK_PREFIX: &str = "wpt_";
const CHAIN_PREFIX: &str = "wpc_";
const PORTAL_PREFIX: &str = "wpp_";
const SESSION_PREFIX: &str = "wps_";
/// A link to a whole event says whose delivery it is for, and which.
const LINK_BYTES: usize = 4 + 16;
/// A portal's key says whose it is, and until when.
const PORTAL_BYTES: usize = 4 + 8;
/// A session says whose key it is, and until when.
const SESSION_BYTES: usize = 32 + 8;
/// A task token says whose job it is for, which, and until when.
const TASK_BYTES: usize = 4 + 16 + 8;
/// A chain's link says whose job it is, which, and how many led to it.
const CHAIN_BYTES: usize = 4 + 16 + 4;

/// Signs and reads tokens. Every node of one database reads the others', whatever
/// becomes of the master key.
pub struct Tokens {
    lease: hmac::Key,
    delivery: hmac::Key,
    job: hmac::Key,
    executor: hmac::Key,
    callback: hmac::Key,
    task: hmac::Key,
    chain: hmac::Key,
    link: hmac::Key,
    portal: hmac::Key,
    session: hmac::Key,
    form: hmac::Key,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tokens(…)")
    }
}

impl Tokens {
    /// Tokens under keys derived from the server's own secret.
    pub fn new(root: &Root) -> Tokens {
        let key = |purpose| hmac::Key::new(hmac::HMAC_SHA256, &root.derive(purpose));
        let of_leases =
            |purpose| hmac::Key::new(hmac::HMAC_SHA256, &root.derive_for_leases(purpose));
        Tokens {
            lease: of_leases("wakepost lease tokens"),
            delivery: of_leases("wakepost delivery lease tokens"),
            job: of_leases("wakepost job keys"),
            executor: key("wakepost executor secrets"),
            callback: key("wakepost callback secrets"),
            task: of_leases("wakepost task tokens"),
            chain: key("wakepost chains"),
            link: key("wakepost event links"),
            portal: key("wakepost portals"),
            session: key("wakepost sessions"),
            form: key("wakepost forms"),
        }
    }

    /// The secret that requests to an http executor are signed with, where none is stored: the same for
    /// the same name, always.
    pub fn executor_secret(&self, name: &str) -> String {
        format!("whsec_{}", STANDARD.encode(hmac::sign(&self.executor, name.as_bytes())))
    }

    /// The secret that callbacks are signed with, where none is stored: the same for the same name, always.
    pub fn callback_secret(&self, name: &str) -> String {
        format!("whsec_{}", STANDARD.encode(hmac::sign(&self.callback, name.as_bytes())))
    }

    /// The lease token of a claim.
    pub fn lease(&self, ticket: &Ticket) -> String {
        seal(&self.lease, LEASE_PREFIX, &ticket.to_bytes())
    }

    /// What a lease token says, if it is one of ours.
    pub fn read_lease(&self, token: &str) -> Option<Ticket> {
        open(&self.lease, LEASE_PREFIX, token).as_ref().map(Ticket::from_bytes)
    }

    /// The lease token of a claimed delivery, which is worth nothing for what is done to jobs.
    pub fn delivery_lease(&self, ticket: &Ticket) -> String {
        seal(&self.delivery, LEASE_PREFIX, &ticket.to_bytes())
    }

    /// What a delivery's lease token says, if it is one of ours.
    pub fn read_delivery_lease(&self, token: &str) -> Option<Ticket> {
        open(&self.delivery, LEASE_PREFIX, token).as_ref().map(Ticket::from_bytes)
    }

    /// A worker key for one job, which is worth nothing once the lease is over.
    pub fn job_key(&self, ticket: &Ticket) -> String {
        seal(&self.job, JOB_KEY_PREFIX, &ticket.to_bytes())
    }

    /// Whose job a job key is for, if it is one of ours.
    pub fn read_job_key(&self, key: &str) -> Option<Ticket> {
        open(&self.job, JOB_KEY_PREFIX, key).as_ref().map(Ticket::from_bytes)
    }

    /// What a node shows when it asks itself, or another, to run a job.
    pub fn task(&self, item: Item, until: Timestamp) -> String {
        let mut bytes = [0u8; TASK_BYTES];
        bytes[..4].copy_from_slice(&item.tenant.0.to_be_bytes());
        bytes[4..20].copy_from_slice(&item.work.to_bytes());
        bytes[20..].copy_from_slice(&until.as_millis().to_be_bytes());
        seal(&self.task, TASK_PREFIX, &bytes)
    }

    /// Which job such a token is for, if it is one of ours and not over.
    pub fn read_task(&self, token: &str, now: Timestamp) -> Option<Item> {
        let bytes: [u8; TASK_BYTES] = open(&self.task, TASK_PREFIX, token)?;
        let until = i64::from_be_bytes(bytes[20..].try_into().expect("eight bytes"));
        let item = Item {
            tenant: TenantId(i32::from_be_bytes(bytes[..4].try_into().expect("four bytes"))),
            work: WorkId::from_bytes(bytes[4..20].try_into().expect("sixteen bytes")),
        };
        (now < Timestamp::from_millis(until)).then_some(item)
    }

    /// What a link to a delivery's whole event ends with: the same for the same delivery, always.
    pub fn event_link(&self, tenant: TenantId, delivery: WorkId) -> String {
        let mut bytes = [0u8; LINK_BYTES];
        bytes[..4].copy_from_slice(&tenant.0.to_be_bytes());
        bytes[4..].copy_from_slice(&delivery.to_bytes());
        seal(&self.link, "", &bytes)
    }

    /// Which delivery such a link is for, if it is one of ours.
    pub fn read_event_link(&self, token: &str) -> Option<Item> {
        let bytes: [u8; LINK_BYTES] = open(&self.link, "", token)?;
        Some(Item {
            tenant: TenantId(i32::from_be_bytes(bytes[..4].try_into().expect("four bytes"))),
            work: WorkId::from_bytes(bytes[4..].try_into().expect("sixteen bytes")),
        })
    }

    /// A key that opens a tenant's portal for a while.
    pub fn portal(&self, tenant: TenantId, until: Timestamp) -> String {
        let mut bytes = [0u8; PORTAL_BYTES];
        bytes[..4].copy_from_slice(&tenant.0.to_be_bytes());
        bytes[4..].copy_from_slice(&until.as_millis().to_be_bytes());
        seal(&self.portal, PORTAL_PREFIX, &bytes)
    }

    /// Whose portal a key opens, and until when, if it is one of ours and not over.
    pub fn read_portal(&self, token: &str, now: Timestamp) -> Option<(TenantId, Timestamp)> {
        let bytes: [u8; PORTAL_BYTES] = open(&self.portal, PORTAL_PREFIX, token)?;
        let until = i64::from_be_bytes(bytes[4..].try_into().expect("eight bytes"));
        let until = Timestamp::from_millis(until);
        let tenant = TenantId(i32::from_be_bytes(bytes[..4].try_into().expect("four bytes")));
        (now < until).then_some((tenant, until))
    }

    /// What a browser shows of a key that somebody signed in with: its hash, which opens nothing by itself.
    pub fn session(&self, key: [u8; 32], until: Timestamp) -> String {
        let mut bytes = [0u8; SESSION_BYTES];
        bytes[..32].copy_from_slice(&key);
        bytes[32..].copy_from_slice(&until.as_millis().to_be_bytes());
        seal(&self.session, SESSION_PREFIX, &bytes)
    }

    /// The hash of the key that a session is for, if it is one of ours and not over.
    pub fn read_session(&self, token: &str, now: Timestamp) -> Option<[u8; 32]> {
        let bytes: [u8; SESSION_BYTES] = open(&self.session, SESSION_PREFIX, token)?;
        let until = i64::from_be_bytes(bytes[32..].try_into().expect("eight bytes"));
        let key = bytes[..32].try_into().expect("thirty-two bytes");
        (now < Timestamp::from_millis(until)).then_some(key)
    }

    /// What the forms of a session, or of a portal link, must carry: only pages of ours can know it.
    pub fn form(&self, session: &str) -> String {
        hex::encode(&hmac::sign(&self.form, session.as_bytes()).as_ref()[..MAC_BYTES])
    }

    /// What an agent passes on, so that what it asks for knows which job led to it.
    pub fn chain(&self, link: &Link) -> String {
        let mut bytes = [0u8; CHAIN_BYTES];
        bytes[..4].copy_from_slice(&link.tenant.0.to_be_bytes());
        bytes[4..20].copy_from_slice(&link.work.to_bytes());
        bytes[20..].copy_from_slice(&link.hops.to_be_bytes());
        seal(&self.chain, CHAIN_PREFIX, &bytes)
    }

    /// Which job led to something, if the token is one of ours.
    pub fn read_chain(&self, token: &str) -> Option<Link> {
        let bytes: [u8; CHAIN_BYTES] = open(&self.chain, CHAIN_PREFIX, token)?;
        let number = |at: usize| bytes[at..at + 4].try_into().expect("four bytes");
        Some(Link {
            tenant: TenantId(i32::from_be_bytes(number(0))),
            work: WorkId::from_bytes(bytes[4..20].try_into().expect("sixteen bytes")),
            hops: u32::from_be_bytes(number(20)),
        })
    }
}

fn seal(key: &hmac::Key, prefix: &str, bytes: &[u8]) -> String {
    let tag = hmac::sign(key, bytes);
    let signed = [bytes, &tag.as_ref()[..MAC_BYTES]].concat();
    format!("{prefix}{}", URL_SAFE_NO_PAD.encode(signed))
}

fn open<const N: usize>(key: &hmac::Key, prefix: &str, token: &str) -> Option<[u8; N]> {
    let bytes = URL_SAFE_NO_PAD.decode(token.strip_prefix(prefix)?).ok()?;
    let (said, tag) = bytes.split_first_chunk::<N>()?;
    let expected = hmac::sign(key, said);
    let same = tag.len() == MAC_BYTES
        && aws_lc_rs::constant_time::verify_slices_are_equal(tag, &expected.as_ref()[..MAC_BYTES])
            .is_ok();
    same.then_some(*said)
}

/// What to pass downstream, so that the other side can tell a repeat. The same for the same effect, always.
pub fn idempotency_key(scope: Ulid, key: &str) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(b"wakepost effect");
    context.update(&scope.to_bytes());
    context.update(key.as_bytes());
    format!("wp_{}", hex::encode(&context.finish().as_ref()[..16]))
}

#[cfg(test)]
mod tests {
    use wakepost_domain::Ulid;

    use super::*;

    fn ticket() -> Ticket {
        Ticket {
            work: WorkId(Ulid::MAX),
            tenant: TenantId(3),
            fence: 2,
            attempt: 2,
            max_attempts: 3,
            lease_s: 120,
            started_at: Timestamp::from_millis(1),
            ordered: false,
        }
    }

    #[test]
    fn a_token_reads_back_and_a_changed_one_does_not() {
        let tokens = Tokens::new(&Root::new([1; 32], [1; 32]));
        let token = tokens.lease(&ticket());
        assert_eq!(tokens.read_lease(&token), Some(ticket()));
        for index in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[index] = if bytes[index] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(tokens.read_lease(&changed), None, "{changed}");
        }
        assert_eq!(tokens.read_lease(""), None);
    }

    #[test]
    fn a_job_key_is_not_a_lease_token_and_another_servers_secret_reads_neither() {
        let tokens = Tokens::new(&Root::new([1; 32], [1; 32]));
        let other = Tokens::new(&Root::new([2; 32], [2; 32]));
        let key = tokens.job_key(&ticket());
        assert_eq!(tokens.read_job_key(&key), Some(ticket()));
        assert_eq!(tokens.read_lease(&key.replace(JOB_KEY_PREFIX, LEASE_PREFIX)), None);
        assert_eq!(other.read_job_key(&key), None);
    }

    #[test]
    fn after_a_restore_no_lease_from_before_is_good_and_all_else_is() {
        let before = Tokens::new(&Root::new([1; 32], [1; 32]));
        let after = Tokens::new(&Root::new([1; 32], [2; 32]));
        assert_eq!(after.read_lease(&before.lease(&ticket())), None);
        assert_eq!(after.read_delivery_lease(&before.delivery_lease(&ticket())), None);
        assert_eq!(after.read_job_key(&before.job_key(&ticket())), None);
        assert_eq!(after.executor_secret("agent"), before.executor_secret("agent"));
        let portal = before.portal(TenantId(3), Timestamp::from_millis(1000));
        assert!(after.read_portal(&portal, Timestamp::from_millis(1)).is_some());
    }

    #[test]
    fn a_link_reads_back_and_a_changed_one_does_not() {
        let tokens = Tokens::new(&Root::new([1; 32], [1; 32]));
        let link = Link { tenant: TenantId(3), work: WorkId(Ulid::MAX), hops: 7 };
        let token = tokens.chain(&link);
        assert_eq!(tokens.read_chain(&token), Some(link));
        for index in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[index] = if bytes[index] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(tokens.read_chain(&changed), None, "{changed}");
        }
        let other = Tokens::new(&Root::new([2; 32], [2; 32]));
        assert_eq!(other.read_chain(&token), None);
    }

    #[test]
    fn a_portals_key_is_for_one_tenant_and_a_while() {
        let tokens = Tokens::new(&Root::new([1; 32], [1; 32]));
        let at = Timestamp::from_millis;
        let token = tokens.portal(TenantId(3), at(1000));
        assert_eq!(tokens.read_portal(&token, at(999)), Some((TenantId(3), at(1000))));
        assert_eq!(tokens.read_portal(&token, at(1000)), None);
        assert_eq!(tokens.read_portal(&token.to_lowercase(), at(1)), None);
        let link = tokens.event_link(TenantId(3), WorkId(Ulid::MAX));
        assert_eq!(tokens.read_event_link(&link).map(|item| item.tenant), Some(TenantId(3)));
        assert_eq!(tokens.read_event_link(&link[1..]), None);
    }

    #[test]
    fn a_task_token_is_for_one_job_and_a_while() {
        let tokens = Tokens::new(&Root::new([1; 32], [1; 32]));
        let item = Item { tenant: TenantId(3), work: WorkId(Ulid::MAX) };
        let at = Timestamp::from_millis;
        let token = tokens.task(item, at(1000));
        assert_eq!(tokens.read_task(&token, at(999)), Some(item));
        assert_eq!(tokens.read_task(&token, at(1000)), None);
        for index in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[index] = if bytes[index] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(tokens.read_task(&changed, at(1)), None, "{changed}");
        }
        assert_eq!(tokens.read_task(&tokens.job_key(&ticket()), at(1)), None);
        let other = Tokens::new(&Root::new([2; 32], [2; 32]));
        assert_eq!(other.read_task(&token, at(1)), None);
    }
}
