//! Client certificates: who we are to a receiver that wants to see one.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// A certificate with its key.
pub struct Identity {
    key: Arc<CertifiedKey>,
    fingerprint: [u8; 32],
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(…)")
    }
}

impl Identity {
    /// Reads a chain, the client's own certificate first, and its key, both as PEM. What is wrong is said by field.
    pub fn read(cert: &str, key: &str) -> Result<Identity, (&'static str, &'static str)> {
        let chain = CertificateDer::pem_slice_iter(cert.as_bytes()).collect::<Result<Vec<_>, _>>();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or(("cert", "must be a certificate in PEM"))?;
        let wrong = ("key", "must be an unencrypted private key in PEM");
        let private = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| wrong)?;
        let signing = rustls::crypto::aws_lc_rs::sign::any_supported_type(&private);
        let certified = CertifiedKey::new(chain, signing.map_err(|_| wrong)?);
        certified.keys_match().map_err(|_| ("key", "does not belong to the certificate"))?;
        let mut hash = digest::Context::new(&digest::SHA256);
        hash.update(cert.as_bytes());
        hash.update(&[0]);
        hash.update(key.as_bytes());
        let fingerprint = hash.finish().as_ref().try_into().expect("SHA-256 has 32 bytes");
        Ok(Identity { key: Arc::new(certified), fingerprint })
    }

    /// What connections that were opened with it are told apart by.
    pub(super) fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }

    pub(super) fn key(&self) -> Arc<CertifiedKey> {
        self.key.clone()
    }
}
