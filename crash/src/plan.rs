//! What an agent's job does to the world outside.

/// Something an agent's job does to the world.
pub struct Act {
    /// Its key.
    pub key: &'static str,
    /// Whether the other side tells repeats by the idempotency key.
    pub repeatable: bool,
}

/// What a job does follows from its id, so that every run of it means to do the same.
pub fn plan(job: &str) -> Vec<Act> {
    let bits = job.bytes().fold(0u32, |sum, byte| sum.wrapping_mul(31) + u32::from(byte));
    let mut acts = Vec::new();
    if !bits.is_multiple_of(3) {
        acts.push(Act { key: "charge", repeatable: false });
    }
    if bits.is_multiple_of(4) {
        acts.push(Act { key: "mail", repeatable: true });
    }
    acts
}

/// The keys of what a job does.
pub fn planned_keys(job: &str) -> impl Iterator<Item = &'static str> {
    plan(job).into_iter().map(|act| act.key)
}
