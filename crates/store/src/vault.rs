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
use crate::moves::{DataKeyRow, DataKeys, Rewrap, SealedRow, WrappedKey};
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

impl fmt::Display for Slot<'_> {
    /// For operators: what it is, of which row.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Slot::Content(id) => write!(f, "the body of {id}"),
            Slot::SourceSecrets(id) => write!(f, "the secrets of {id}"),
            Slot::WebhookSecrets(id) => write!(f, "the secrets of {id}"),
            other => write!(f, "{other:?}"),
        }
    }
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
    /// The key of a number, from its bytes.
    pub fn new(
        tenant: TenantId,
        number: i32,
        bytes: &[u8; 32],
        entropy: Arc<dyn Entropy>,
    ) -> TenantKey {
        TenantKey { tenant, number, cipher: Xaes::new(bytes), entropy }
    }

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

/// Names a master key, and tells nothing of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MasterKeyId(pub(crate) [u8; 8]);

impl fmt::Display for MasterKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("mk_")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for MasterKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A master key: 32 bytes that wrap the tenants' keys, and nothing else.
#[derive(Clone)]
pub struct MasterKey(Zeroizing<[u8; 32]>);

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKey({})", self.id())
    }
}

impl MasterKey {
    /// From its bytes.
    pub fn new(bytes: [u8; 32]) -> MasterKey {
        MasterKey(Zeroizing::new(bytes))
    }

    /// What it is called where it must not be told.
    pub fn id(&self) -> MasterKeyId {
        let [a, b, c, d, e, f, g, h, ..] = derive(&self.0, "wakepost master key id");
        MasterKeyId([a, b, c, d, e, f, g, h])
    }

    fn wrapper(&self) -> Xaes {
        Xaes::new(&derive(&self.0, "wakepost data keys"))
    }

    fn wrap(&self, tenant: TenantId, key: &[u8; 32], entropy: &dyn Entropy) -> WrappedKey {
        let mut nonce = [0u8; NONCE];
        entropy.fill(&mut nonce);
        let mut cipher = *key;
        let tag = self.wrapper().seal(&nonce, &tenant.0.to_be_bytes(), &mut cipher);
        WrappedKey { master: self.id(), bytes: [&nonce[..], &cipher, &tag].concat() }
    }
}

/// The master key in use, and those that may still have wrapped something.
#[derive(Debug, Clone)]
pub struct MasterKeys {
    current: MasterKey,
    previous: Vec<MasterKey>,
}

impl MasterKeys {
    /// `current` wraps what is new; all open.
    pub fn new(current: MasterKey, previous: Vec<MasterKey>) -> MasterKeys {
        MasterKeys { current, previous }
    }

    /// The one in use.
    pub fn current(&self) -> &MasterKey {
        &self.current
    }

    /// The names of all, the one in use first.
    pub fn ids(&self) -> Vec<MasterKeyId> {
        self.all().map(MasterKey::id).collect()
    }

    /// All, the one in use first.
    pub fn all(&self) -> impl Iterator<Item = &MasterKey> {
        std::iter::once(&self.current).chain(&self.previous)
    }

    fn unwrap(&self, tenant: TenantId, wrapped: &WrappedKey) -> Result<Zeroizing<[u8; 32]>> {
        let wrong = || {
            StoreError::Corrupt(
                "a tenant's key does not open: is this the master key the database was made with?"
                    .to_owned(),
            )
        };
        let by = self.all().find(|key| key.id() == wrapped.master);
        let by = by.ok_or_else(|| self.lacks(&[(wrapped.master, 1)]))?;
        let (nonce, cipher) = wrapped.bytes.split_at_checked(NONCE).ok_or_else(wrong)?;
        let nonce: [u8; NONCE] = nonce.try_into().map_err(|_| wrong())?;
        let aad = tenant.0.to_be_bytes();
        let plain = by.wrapper().open(&nonce, &aad, cipher.to_vec()).ok_or_else(wrong)?;
        let plain = Zeroizing::new(plain);
        Ok(Zeroizing::new(plain.as_slice().try_into().map_err(|_| wrong())?))
    }

    fn lacks(&self, wrapped: &[(MasterKeyId, i64)]) -> StoreError {
        let names = |ids: Vec<MasterKeyId>| {
            ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let count: i64 = wrapped.iter().map(|(_, count)| count).sum();
        let by = names(wrapped.iter().map(|(id, _)| *id).collect());
        StoreError::Corrupt(format!(
            "{count} data key(s) are wrapped by master key {by}, and this program has only {}: give it that key \
             as master_key, or as master_key_previous while a rotation is under way",
            names(self.ids())
        ))
    }
}

/// Where a vault finds the master keys. It asks whenever it meets a tenant for the first time, so that keys in a file can
/// be rotated under a running server.
pub trait KeyRing: Send + Sync {
    /// The keys as they are now.
    fn keys(&self) -> MasterKeys;
}

impl KeyRing for MasterKeys {
    fn keys(&self) -> MasterKeys {
        self.clone()
    }
}

impl KeyRing for MasterKey {
    fn keys(&self) -> MasterKeys {
        MasterKeys::new(self.clone(), Vec::new())
    }
}

/// The server's own secrets, from which the keys of its tokens follow. They are stored wrapped as tenants' keys are, so
/// that a rotation of the master key changes no token and no derived signature.
pub struct Root {
    lasting: Zeroizing<[u8; 32]>,
    leases: Zeroizing<[u8; 32]>,
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Root(…)")
    }
}

impl Root {
    /// From the bytes of both.
    pub fn new(lasting: [u8; 32], leases: [u8; 32]) -> Root {
        Root { lasting: Zeroizing::new(lasting), leases: Zeroizing::new(leases) }
    }

    /// A key for one purpose, from which the root cannot be told.
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        derive(&self.lasting, purpose)
    }

    /// The same for what proves a lease, which no restore may bring back.
    pub fn derive_for_leases(&self, purpose: &str) -> [u8; 32] {
        derive(&self.leases, purpose)
    }
}

fn derive(key: &[u8; 32], purpose: &str) -> [u8; 32] {
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, key);
    let tag = aws_lc_rs::hmac::sign(&key, purpose.as_bytes());
    tag.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Whose key the root is: no tenant has this number.
const SERVER: TenantId = TenantId(0);

/// Whose key the root of leases is. A restore removes it, and the next start makes another: a database that went back in
/// time gives out fences that workers from before may hold too, so no token of theirs may be good any more.
pub const LEASES: TenantId = TenantId(-1);

/// Gives out the tenants' keys, and makes one for a tenant that has none.
pub struct Vault {
    ring: Arc<dyn KeyRing>,
    entropy: Arc<dyn Entropy>,
    store: Arc<dyn DataKeys + Send + Sync>,
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
        ring: Arc<dyn KeyRing>,
        store: Arc<dyn DataKeys + Send + Sync>,
        entropy: Arc<dyn Entropy>,
    ) -> Vault {
        Vault { ring, entropy, store, keys: RwLock::new(HashMap::new()) }
    }

    /// Whether the master keys open everything that is there: a wrong one must stop a start, not the first event.
    pub async fn check(&self) -> Result<()> {
        let keys = self.ring.keys();
        let mut wrapped = self.store.data_keys_by_master().await?;
        let ids = keys.ids();
        wrapped.retain(|(id, _)| !ids.contains(id));
        if !wrapped.is_empty() {
            return Err(keys.lacks(&wrapped));
        }
        self.key(TenantId::DEFAULT).await.map(|_| ())
    }

    /// The server's own secrets.
    pub async fn root(&self) -> Result<Root> {
        let (_, lasting) = self.stored(SERVER).await?;
        let (_, leases) = self.stored(LEASES).await?;
        Ok(Root { lasting, leases })
    }

    /// The key of a tenant.
    pub async fn key(&self, tenant: TenantId) -> Result<Arc<TenantKey>> {
        if let Some(key) = self.keys.read().get(&tenant) {
            return Ok(key.clone());
        }
        let (number, key) = self.stored(tenant).await?;
        let key = Arc::new(TenantKey::new(tenant, number, &key, self.entropy.clone()));
        self.keys.write().insert(tenant, key.clone());
        Ok(key)
    }

    async fn stored(&self, tenant: TenantId) -> Result<(i32, Zeroizing<[u8; 32]>)> {
        let mut fresh = Zeroizing::new([0u8; 32]);
        self.entropy.fill(&mut fresh[..]);
        let candidate = self.ring.keys().current.wrap(tenant, &fresh, self.entropy.as_ref());
        let (number, wrapped) = self.store.data_key(tenant, candidate).await?;
        // Read again: a rotation may have begun since.
        Ok((number, self.ring.keys().unwrap(tenant, &wrapped)?))
    }
}

/// No master key has this name: all keys are wrapped by others.
const NOBODY: MasterKeyId = MasterKeyId([0; 8]);

/// Whose keys none of the master keys opens, of at most `limit` keys.
pub async fn unopened(
    store: &(dyn DataKeys + Send + Sync),
    keys: &MasterKeys,
    limit: u32,
) -> Result<Vec<TenantId>> {
    let rows = store.wrapped_by_others(NOBODY, i32::MIN, limit).await?;
    let closed = |row: &DataKeyRow| keys.unwrap(row.tenant, &row.wrapped).is_err();
    Ok(rows.into_iter().filter(closed).map(|row| row.tenant).collect())
}

/// What became of records that were opened to see whether they do.
#[derive(Debug, Default)]
pub struct Sampled {
    /// How many records were tried.
    pub records: u64,
    /// Those that the key of their tenant does not open, though a master key opens that.
    pub closed: Vec<(TenantId, Slot<'static>)>,
}

/// How many keys' records are read at a time.
const SAMPLE_STEP: u32 = 20;

/// Opens some records of every tenant, of at most `limit` tenants: a key that is not the one they were sealed with, or a
/// record that is damaged, is else found by whoever reads it first.
pub async fn sample(
    store: &(dyn DataKeys + Send + Sync),
    keys: &MasterKeys,
    entropy: &Arc<dyn Entropy>,
    limit: u32,
) -> Result<Sampled> {
    let (mut sampled, mut after, mut left) = (Sampled::default(), i32::MIN, limit);
    while left > 0 {
        let rows = store.wrapped_by_others(NOBODY, after, SAMPLE_STEP.min(left)).await?;
        let Some(last) = rows.last() else { break };
        (after, left) = (last.number, left.saturating_sub(rows.len() as u32));
        let opened = rows.into_iter().filter_map(|DataKeyRow { number, tenant, wrapped }| {
            let plain = keys.unwrap(tenant, &wrapped).ok()?;
            let cipher = Xaes::new(&plain);
            Some((tenant, TenantKey { tenant, number, cipher, entropy: entropy.clone() }))
        });
        let opened: HashMap<TenantId, TenantKey> = opened.collect();
        let found = store.sealed_by(opened.keys().copied().collect()).await?;
        for SealedRow { tenant, slot, record } in found {
            sampled.records += 1;
            if opened.get(&tenant).is_none_or(|key| key.open(slot, &record).is_err()) {
                sampled.closed.push((tenant, slot));
            }
        }
    }
    Ok(sampled)
}

/// What a rotation did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rotated {
    /// How many keys it wrapped anew.
    pub rewrapped: u64,
    /// Whose keys no master key opened: these are as they were.
    pub unopened: Vec<TenantId>,
}

/// How many keys one step of a rotation wraps anew.
const ROTATION_STEP: u32 = 20;

/// Wraps every key by the current master key, in small steps. Nodes that have both keys do not notice. It can end
/// anywhere: the next call goes on with what is left.
pub async fn rotate(
    store: &(dyn DataKeys + Send + Sync),
    keys: &MasterKeys,
    entropy: &dyn Entropy,
    mut progress: impl FnMut(u64),
) -> Result<Rotated> {
    let mut rotated = Rotated::default();
    let mut after = i32::MIN;
    loop {
        let rows = store.wrapped_by_others(keys.current.id(), after, ROTATION_STEP).await?;
        let Some(last) = rows.last() else { return Ok(rotated) };
        after = last.number;
        let mut changes = Vec::with_capacity(rows.len());
        for DataKeyRow { number, tenant, wrapped: seen } in rows {
            match keys.unwrap(tenant, &seen) {
                Ok(plain) => {
                    let wrapped = keys.current.wrap(tenant, &plain, entropy);
                    changes.push(Rewrap { number, seen, wrapped });
                }
                Err(StoreError::Corrupt(_)) => rotated.unopened.push(tenant),
                Err(error) => return Err(error),
            }
        }
        rotated.rewrapped += store.rewrap(changes).await?;
        progress(rotated.rewrapped);
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
        TenantKey::new(TenantId(tenant), 7, &[9; 32], Arc::new(Counting(0.into())))
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
