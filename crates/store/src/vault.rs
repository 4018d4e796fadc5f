//! Encryption at rest: XAES-256-GCM with a key per tenant, wrapped by the master key.
//!
//! A [`Sealed`] record holds its key's number and its own nonce, and is bound to its tenant, its purpose
//! and its row: moved to another row, column or tenant, it does not open. Backends only ever see sealed
//! records. Rotating the master key re-wraps the tenants' keys and touches no record.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use wakepost_domain::ports::Entropy;
use wakepost_domain::{EventId, RunId, ScheduleId, SourceId, TenantId, Ulid, WebhookId, WorkId};
use zeroize::Zeroizing;

use crate::error::{Result, StoreError};
use crate::moves::Settings;
use crate::xaes::{NONCE, TAG, Xaes};

const VERSION: u8 = 1;
const HEADER: usize = 1 + 4 + NONCE;

/// An encrypted record: version, key number, nonce, ciphertext and tag.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed(Vec<u8>);

impl Sealed {
    /// As stored.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// From storage; opening it says whether it is sound.
    pub fn from_stored(bytes: Vec<u8>) -> Sealed {
        Sealed(bytes)
    }

    /// How long the record is.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is nothing in it, which no vault makes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes)", self.0.len())
    }
}

/// What a record is, and which row it belongs to.
#[derive(Debug, Clone, Copy)]
pub enum Slot<'a> {
    /// Headers and body of an event.
    Content(EventId),
    /// Secrets of a source.
    SourceSecrets(SourceId),
    /// What set-up made for a source at its provider.
    Registration(SourceId),
    /// How far a source's changes were read.
    Position(SourceId),
    /// What a job's agent gets.
    Input(WorkId),
    /// An agent's own state.
    Checkpoint(WorkId),
    /// What came of a job.
    JobResult(WorkId),
    /// The text to reply with.
    Reply(WorkId),
    /// What came of an effect.
    EffectResult(Ulid, &'a str),
    /// A sign of progress.
    Progress(WorkId),
    /// A remembered answer.
    Answer(&'a [u8; 16]),
    /// Headers and body of a fixture.
    Fixture(Ulid),
    /// What the jobs of a schedule get.
    ScheduleInput(ScheduleId),
    /// Secrets of a webhook.
    WebhookSecrets(WebhookId),
    /// How exactly a run went.
    RunDetail(RunId),
}

impl Slot<'_> {
    fn bind(&self, tenant: TenantId) -> Vec<u8> {
        let (tag, row, key): (u8, [u8; 16], &str) = match self {
            Slot::Content(id) => (1, id.to_bytes(), ""),
            Slot::SourceSecrets(id) => (2, id.to_bytes(), ""),
            Slot::Input(id) => (3, id.to_bytes(), ""),
            Slot::Checkpoint(id) => (4, id.to_bytes(), ""),
            Slot::JobResult(id) => (5, id.to_bytes(), ""),
            Slot::Reply(id) => (6, id.to_bytes(), ""),
            Slot::EffectResult(scope, key) => (7, scope.to_bytes(), key),
            Slot::Progress(id) => (8, id.to_bytes(), ""),
            Slot::Answer(key) => (9, **key, ""),
            Slot::Fixture(id) => (10, id.to_bytes(), ""),
            Slot::Registration(id) => (11, id.to_bytes(), ""),
            Slot::Position(id) => (12, id.to_bytes(), ""),
            Slot::ScheduleInput(id) => (20, id.to_bytes(), ""),
            Slot::WebhookSecrets(id) => (21, id.to_bytes(), ""),
            Slot::RunDetail(id) => (22, id.to_bytes(), ""),
        };
        let mut bound = Vec::with_capacity(21 + key.len());
        bound.push(tag);
        bound.extend_from_slice(&tenant.0.to_be_bytes());
        bound.extend_from_slice(&row);
        bound.extend_from_slice(key.as_bytes());
        bound
    }
}

/// One tenant's key.
pub struct TenantKey {
    tenant: TenantId,
    number: i32,
    cipher: Xaes,
    entropy: Arc<dyn Entropy>,
}

impl fmt::Debug for TenantKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TenantKey({:?}, {})", self.tenant, self.number)
    }
}

impl TenantKey {
    /// Encrypts a record for one slot.
    pub fn seal(&self, slot: Slot<'_>, plain: &[u8]) -> Sealed {
        let mut nonce = [0u8; NONCE];
        self.entropy.fill(&mut nonce);
        let mut record = Vec::with_capacity(HEADER + plain.len() + TAG);
        record.push(VERSION);
        record.extend_from_slice(&self.number.to_be_bytes());
        record.extend_from_slice(&nonce);
        record.extend_from_slice(plain);
        let tag = self.cipher.seal(&nonce, &slot.bind(self.tenant), &mut record[HEADER..]);
        record.extend_from_slice(&tag);
        Sealed(record)
    }

    /// Decrypts a record of one slot.
    pub fn open(&self, slot: Slot<'_>, record: &Sealed) -> Result<Vec<u8>> {
        let damaged = || StoreError::Corrupt(format!("a sealed record does not open: {slot:?}"));
        let bytes = record.as_bytes();
        if bytes.len() < HEADER || bytes[0] != VERSION || bytes[1..5] != self.number.to_be_bytes() {
            return Err(damaged());
        }
        let nonce: [u8; NONCE] = bytes[5..HEADER].try_into().map_err(|_| damaged())?;
        let bound = slot.bind(self.tenant);
        self.cipher.open(&nonce, &bound, bytes[HEADER..].to_vec()).ok_or_else(damaged)
    }
}

/// The master key: 32 bytes that wrap the tenants' keys and sign lease tokens.
#[derive(Clone)]
pub struct MasterKey(Zeroizing<[u8; 32]>);

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey(…)")
    }
}

impl MasterKey {
    /// From its bytes.
    pub fn new(bytes: [u8; 32]) -> MasterKey {
        MasterKey(Zeroizing::new(bytes))
    }

    /// A key for another purpose, from which this one cannot be told.
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &self.0[..]);
        let tag = aws_lc_rs::hmac::sign(&key, purpose.as_bytes());
        tag.as_ref().try_into().expect("SHA-256 has 32 bytes")
    }
}

/// Gives out the tenants' keys, and makes one for a tenant that has none.
pub struct Vault {
    wrapper: Xaes,
    entropy: Arc<dyn Entropy>,
    settings: Arc<dyn Settings + Send + Sync>,
    keys: RwLock<HashMap<TenantId, Arc<TenantKey>>>,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vault(…)")
    }
}

impl Vault {
    /// A vault over the store's data keys.
    pub fn new(
        master: &MasterKey,
        settings: Arc<dyn Settings + Send + Sync>,
        entropy: Arc<dyn Entropy>,
    ) -> Vault {
        let wrapper = Xaes::new(&master.derive("wakepost data keys"));
        Vault { wrapper, entropy, settings, keys: RwLock::new(HashMap::new()) }
    }

    /// The key of a tenant.
    pub async fn key(&self, tenant: TenantId) -> Result<Arc<TenantKey>> {
        if let Some(key) = self.keys.read().get(&tenant) {
            return Ok(key.clone());
        }
        let mut fresh = Zeroizing::new([0u8; 32]);
        self.entropy.fill(&mut fresh[..]);
        let (number, wrapped) = self.settings.data_key(tenant, self.wrap(tenant, &fresh)).await?;
        let key = Arc::new(TenantKey {
            tenant,
            number,
            cipher: Xaes::new(&*self.unwrap(tenant, &wrapped)?),
            entropy: self.entropy.clone(),
        });
        self.keys.write().insert(tenant, key.clone());
        Ok(key)
    }

    fn wrap(&self, tenant: TenantId, key: &[u8; 32]) -> Vec<u8> {
        let mut nonce = [0u8; NONCE];
        self.entropy.fill(&mut nonce);
        let mut cipher = *key;
        let tag = self.wrapper.seal(&nonce, &tenant.0.to_be_bytes(), &mut cipher);
        [&nonce[..], &cipher, &tag].concat()
    }

    fn unwrap(&self, tenant: TenantId, wrapped: &[u8]) -> Result<Zeroizing<[u8; 32]>> {
        let wrong = || {
            StoreError::Corrupt(
                "a tenant's key does not open: is this the master key the database was made with?"
                    .to_owned(),
            )
        };
        let (nonce, cipher) = wrapped.split_at_checked(NONCE).ok_or_else(wrong)?;
        let nonce: [u8; NONCE] = nonce.try_into().map_err(|_| wrong())?;
        let aad = tenant.0.to_be_bytes();
        let plain = self.wrapper.open(&nonce, &aad, cipher.to_vec()).ok_or_else(wrong)?;
        let plain = Zeroizing::new(plain);
        Ok(Zeroizing::new(plain.as_slice().try_into().map_err(|_| wrong())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting(std::sync::atomic::AtomicU8);

    impl Entropy for Counting {
        fn fill(&self, buffer: &mut [u8]) {
            buffer.fill(self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        }
    }

    fn key(tenant: i32) -> TenantKey {
        TenantKey {
            tenant: TenantId(tenant),
            number: 7,
            cipher: Xaes::new(&[9; 32]),
            entropy: Arc::new(Counting(0.into())),
        }
    }

    #[test]
    fn a_record_opens_only_in_its_own_slot_row_and_tenant() {
        let event = EventId(Ulid::from_bytes([1; 16]));
        let other = EventId(Ulid::from_bytes([2; 16]));
        let record = key(1).seal(Slot::Content(event), b"secret");
        assert_eq!(key(1).open(Slot::Content(event), &record).unwrap(), b"secret");
        assert!(key(1).open(Slot::Content(other), &record).is_err());
        assert!(key(1).open(Slot::Input(WorkId(event.0)), &record).is_err());
        assert!(key(2).open(Slot::Content(event), &record).is_err());
    }

    #[test]
    fn a_changed_record_does_not_open() {
        let slot = Slot::Content(EventId(Ulid::from_bytes([1; 16])));
        let record = key(1).seal(slot, b"secret");
        for index in 0..record.len() {
            let mut bytes = record.as_bytes().to_vec();
            bytes[index] ^= 1;
            assert!(key(1).open(slot, &Sealed::from_stored(bytes)).is_err(), "byte {index}");
        }
        assert!(key(1).open(slot, &Sealed::from_stored(vec![])).is_err());
    }

    #[test]
    fn the_same_text_is_never_sealed_the_same_way_twice() {
        let key = key(1);
        let slot = Slot::Content(EventId(Ulid::from_bytes([1; 16])));
        assert_ne!(key.seal(slot, b"x"), key.seal(slot, b"x"));
    }
}
