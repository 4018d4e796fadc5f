//! What the outside world supplies: the time and chance. Tests supply their own.

use crate::time::Timestamp;

/// Tells the time. On Postgres, leases and due times go by the database's clock instead.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// Gives random bytes, good enough for keys.
pub trait Entropy: Send + Sync {
    /// Fills the whole buffer.
    fn fill(&self, buffer: &mut [u8]);

    /// A fraction in `0.0..1.0`, for jitter.
    fn fraction(&self) -> f64 {
        let mut bytes = [0u8; 8];
        self.fill(&mut bytes);
        (u64::from_be_bytes(bytes) >> 11) as f64 / (1u64 << 53) as f64
    }
}
