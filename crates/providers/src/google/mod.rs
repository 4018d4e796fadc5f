//! What Google's APIs have in common: an access token, from the key of a service account.
//!
//! Used for replies to comments and by all else that calls Google. It signs and reads; someone else sends.

pub(crate) mod token;
