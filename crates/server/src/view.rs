//! What clients read: envelopes and work items, put together from rows and sealed records.

mod content;
mod envelope;
mod history;
mod leased;
mod redacted;
mod waiting;
mod work;

pub use content::Content;
pub use envelope::envelope;
pub use history::{Entered, states};
pub use leased::leased;
pub use waiting::Waits;
pub use work::{ChainLink, WorkDetail, WorkView, name_of, work_view};

use serde_json::value::RawValue;
use wakepost_store::vault::{Sealed, Slot, TenantKey};
use wakepost_store::{Result, StoreError};

/// A JSON document from a sealed record.
pub fn open_json(key: &TenantKey, slot: Slot<'_>, record: &Sealed) -> Result<Box<RawValue>> {
    let plain = key.open(slot, record)?;
    String::from_utf8(plain)
        .ok()
        .and_then(|text| RawValue::from_string(text).ok())
        .ok_or_else(|| StoreError::Corrupt("a stored document is not JSON".to_owned()))
}
