//! Admission: how much may be on its way into the store at once. What is over the bound is refused before
//! memory grows.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{Result, StoreError};

/// How many moves may wait for the database at once.
const MOVES_MAX: usize = 16_384;
/// How many KiB of bodies may wait for the database at once.
const KIB_MAX: usize = 64 * 1024;

/// The gate in front of a database.
#[derive(Debug, Clone)]
pub struct Admission {
    moves: Arc<Semaphore>,
    kib: Arc<Semaphore>,
}

/// A place inside, given back when dropped.
#[derive(Debug)]
pub struct Place {
    _moves: OwnedSemaphorePermit,
    _kib: OwnedSemaphorePermit,
}

impl Default for Admission {
    fn default() -> Admission {
        Admission {
            moves: Arc::new(Semaphore::new(MOVES_MAX)),
            kib: Arc::new(Semaphore::new(KIB_MAX)),
        }
    }
}

impl Admission {
    /// How many are inside.
    pub fn inside(&self) -> usize {
        MOVES_MAX - self.moves.available_permits()
    }

    /// A place for a move that carries this many bytes, or `Busy`.
    pub fn enter(&self, bytes: usize) -> Result<Place> {
        let kib =
            u32::try_from(bytes.div_ceil(1024).clamp(1, KIB_MAX)).map_err(|_| StoreError::Busy)?;
        let moves = self.moves.clone().try_acquire_owned().map_err(|_| StoreError::Busy)?;
        let kib = self.kib.clone().try_acquire_many_owned(kib).map_err(|_| StoreError::Busy)?;
        Ok(Place { _moves: moves, _kib: kib })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_over_the_bound_are_refused_until_a_place_is_free() {
        let admission = Admission::default();
        let whole = admission.enter(KIB_MAX * 1024).unwrap();
        assert!(matches!(admission.enter(1), Err(StoreError::Busy)));
        drop(whole);
        assert!(admission.enter(1).is_ok());
    }
}
