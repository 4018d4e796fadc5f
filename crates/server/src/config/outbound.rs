//! What requests that we send may reach, and whom they trust.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::outbound::{AddressPolicy, Allow};

/// Reads the two settings.
pub fn policy(allow_http: bool, allow_private: &str) -> Result<AddressPolicy, String> {
    let allow: Allow = allow_private.parse().map_err(|error| format!("{error}"))?;
    Ok(AddressPolicy { allow_http, allow })
}

/// Reads a file of certificate authorities, as PEM.
pub fn authorities(file: Option<&str>) -> Result<Vec<CertificateDer<'static>>, String> {
    let Some(file) = file else { return Ok(Vec::new()) };
    let text = std::fs::read(file).map_err(|error| format!("{file:?} cannot be read: {error}"))?;
    let wrong = || format!("{file:?} must have certificates in PEM");
    let found = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let found = found.ok().filter(|found| !found.is_empty()).ok_or_else(wrong)?;
    let mut store = RootCertStore::empty();
    found.iter().try_for_each(|one| store.add(one.clone())).map_err(|_| wrong())?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn authorities_come_from_a_file_of_certificates() {
        let named = |text: &str| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            authorities(file.path().to_str()).map(|found| found.len())
        };
        let made = rcgen::generate_simple_self_signed(vec!["ca.example".to_owned()]).unwrap();
        let pem = made.cert.pem();
        assert_eq!(authorities(None), Ok(Vec::new()));
        assert_eq!(named(&format!("{pem}{pem}")), Ok(2));
        let key = made.signing_key.serialize_pem();
        let broken = pem.replacen('M', "*", 1);
        for text in ["", "no certificate", key.as_str(), broken.as_str()] {
            assert!(named(text).unwrap_err().contains("must have certificates"), "{text}");
        }
        assert!(authorities(Some("/no/such/file")).unwrap_err().contains("cannot be read"));
    }
}
