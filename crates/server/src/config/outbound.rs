//! What requests that we send may reach.

use crate::outbound::{AddressPolicy, Allow};

/// Reads the two settings.
pub fn policy(allow_http: bool, allow_private: &str) -> Result<AddressPolicy, String> {
    let allow: Allow = allow_private.parse().map_err(|error| format!("{error}"))?;
    Ok(AddressPolicy { allow_http, allow })
}
