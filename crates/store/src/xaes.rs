//! XAES-256-GCM: AES-256-GCM with nonces long enough to be drawn at random for every record for ever.
//!
//! The first half of the nonce derives a key for this record, the second half is AES-GCM's own, as
//! specified at c2sp.org/XAES-256-GCM. Plain AES-GCM would have to count its records: after some billions
//! of random 12-byte nonces a repeat is no longer unlikely.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::cipher::{AES_256, EncryptingKey, UnboundCipherKey};
use zeroize::Zeroizing;

/// How long a nonce is.
pub const NONCE: usize = 24;
/// How long the tag behind a sealed text is.
pub const TAG: usize = 16;

const BLOCK: usize = 16;

/// A key, ready for use.
pub struct Xaes {
    block_cipher: EncryptingKey,
    /// What CMAC mixes into a last block that is full.
    subkey: [u8; BLOCK],
}

impl Xaes {
    /// From the key's bytes.
    pub fn new(key: &[u8; 32]) -> Xaes {
        let block_cipher = UnboundCipherKey::new(&AES_256, key).and_then(EncryptingKey::ecb);
        let block_cipher = block_cipher.expect("AES-256 takes 32 bytes");
        let mut zero = [0; BLOCK];
        block_cipher.encrypt(&mut zero).expect("one whole block");
        Xaes { block_cipher, subkey: double(zero) }
    }

    /// Encrypts a text in its place, and answers its tag. A nonce must be random, and is used once.
    pub fn seal(&self, nonce: &[u8; NONCE], bound: &[u8], text: &mut [u8]) -> [u8; TAG] {
        let (key, nonce) = self.record_key(nonce);
        key.seal_in_place_separate_tag(nonce, Aad::from(bound), text)
            .expect("a record is far below the cipher's limit")
            .as_ref()
            .try_into()
            .expect("a tag of AES-GCM has 16 bytes")
    }

    /// Decrypts a text that its tag follows. None: it is not what was sealed with this nonce and bound.
    pub fn open(&self, nonce: &[u8; NONCE], bound: &[u8], mut sealed: Vec<u8>) -> Option<Vec<u8>> {
        let (key, nonce) = self.record_key(nonce);
        let length = key.open_in_place(nonce, Aad::from(bound), &mut sealed).ok()?.len();
        sealed.truncate(length);
        Some(sealed)
    }

    fn record_key(&self, nonce: &[u8; NONCE]) -> (LessSafeKey, Nonce) {
        let (derives, rest) = nonce.split_at(NONCE - NONCE_LEN);
        let mut key = Zeroizing::new([0; 2 * BLOCK]);
        for (block, count) in key.chunks_exact_mut(BLOCK).zip(1..) {
            block[..4].copy_from_slice(&[0, count, b'X', 0]);
            block[4..].copy_from_slice(derives);
            block.iter_mut().zip(self.subkey).for_each(|(byte, mask)| *byte ^= mask);
        }
        self.block_cipher.encrypt(&mut key[..]).expect("two whole blocks");
        let key = UnboundKey::new(&AES_256_GCM, &key[..]).expect("AES-256 takes 32 bytes");
        let nonce = Nonce::try_assume_unique_for_key(rest).expect("the other half has 12 bytes");
        (LessSafeKey::new(key), nonce)
    }
}

/// Twice the block, in the field of CMAC.
fn double(block: [u8; BLOCK]) -> [u8; BLOCK] {
    let number = u128::from_be_bytes(block);
    let carry = if number >> 127 == 1 { 0x87 } else { 0 };
    ((number << 1) ^ carry).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of the specification.
    #[test]
    fn it_is_the_cipher_of_the_specification() {
        let nonce = b"ABCDEFGHIJKLMNOPQRSTUVWX";
        for (key, bound, expected) in [
            ([1; 32], "", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"),
            (
                [3; 32],
                "c2sp.org/XAES-256-GCM",
                "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d",
            ),
        ] {
            let mut text = *b"XAES-256-GCM";
            let tag = Xaes::new(&key).seal(nonce, bound.as_bytes(), &mut text);
            let sealed = [&text[..], &tag].concat();
            assert_eq!(hex::encode(&sealed), expected);
            let opened = Xaes::new(&key).open(nonce, bound.as_bytes(), sealed);
            assert_eq!(opened.as_deref(), Some(&b"XAES-256-GCM"[..]));
        }
    }

    #[test]
    fn a_short_text_does_not_open() {
        assert_eq!(Xaes::new(&[1; 32]).open(&[0; NONCE], b"", vec![0; TAG - 1]), None);
    }
}
