//! What can go wrong in the store, by what the caller should do about it.

/// A move that did not happen.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Too much is in flight: come back in a moment. Nothing was written.
    #[error("the store is busy")]
    Busy,
    /// The database cannot be reached, is full or cannot be written. What was asked may or may not have
    /// been committed if the connection broke at the wrong moment; a repeat is safe.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The lease token is not the item's live one. Nothing was written.
    #[error("the lease is lost")]
    LeaseLost,
    /// The item is not in a state that allows the move. Nothing was written.
    #[error("{0}")]
    InvalidState(String),
    /// An operator asked the job to stop. Nothing was written.
    #[error("the job is asked to stop")]
    CancelRequested,
    /// What was decided on is not what is proposed. Nothing was written.
    #[error("what is proposed is not what was decided on")]
    ProposalChanged,
    /// There is no such thing, or it is another tenant's.
    #[error("not found")]
    NotFound,
    /// Something with that name is there already.
    #[error("{0}")]
    Exists(String),
    /// The publication with this place in its batch has the key of an earlier one and says something else. Nothing was
    /// written.
    #[error("another event was published under this key")]
    Mismatch(usize),
    /// A bound was reached.
    #[error("{0}")]
    Limit(String),
    /// A row, or a sealed record, is not what this program writes.
    #[error("the stored data is damaged: {0}")]
    Corrupt(String),
}

impl StoreError {
    /// Whether the move may have been committed all the same. Whoever waits for it should then be told as if
    /// it was: a hint too many costs nothing, one too few the time until the next resync.
    pub fn is_unknown(&self) -> bool {
        matches!(self, StoreError::Unavailable(_))
    }

    /// A newer program was here: what it wrote is not for this one to read or to add to.
    pub(crate) fn newer_schema(found: i64, known: i64) -> StoreError {
        StoreError::Unavailable(format!(
            "the database has schema {found}, made by a newer wakepost, and this is wakepost {}, which knows schemas up \
             to {known}: start the newer program, or restore the backup from before the upgrade",
            env!("CARGO_PKG_VERSION")
        ))
    }

    /// Somebody else was faster.
    pub(crate) fn changed_meanwhile() -> StoreError {
        StoreError::InvalidState("somebody else changed it meanwhile: read it again".to_owned())
    }
}

/// What a move answers.
pub type Result<T> = std::result::Result<T, StoreError>;
