//! DNS messages, as far as questions for addresses need them (RFC 1035).

use std::net::IpAddr;

use super::zone::Record;

/// The types of records.
pub const A: u16 = 1;
pub const AAAA: u16 = 28;
const CNAME: u16 = 5;
/// The class of all of them.
const INTERNET: u16 = 1;

const HEADER_BYTES: usize = 12;
/// Bits of the header: an answer, with authority, cut short; recursion was wanted, and is there.
const IS_ANSWER: u16 = 0x8400;
const IS_CUT: u16 = 0x0200;
const RECURSION: u16 = 0x0180;

/// One question.
pub struct Question {
    id: [u8; 2],
    /// The name, in lower case, without its last dot.
    pub name: String,
    /// The type of record that is wanted.
    pub kind: u16,
}

impl Question {
    /// Reads the first question of a message.
    pub fn read(message: &[u8]) -> Option<Question> {
        let (header, mut rest) = message.split_at_checked(HEADER_BYTES)?;
        let mut labels = Vec::new();
        loop {
            let (&length, after) = rest.split_first()?;
            if length == 0 {
                rest = after;
                break;
            }
            let (label, after) = after.split_at_checked(usize::from(length))?;
            labels.push(std::str::from_utf8(label).ok()?.to_ascii_lowercase());
            rest = after;
        }
        let kind = u16::from_be_bytes(rest.first_chunk().copied()?);
        Some(Question { id: [header[0], header[1]], name: labels.join("."), kind })
    }

    /// An answer with these records.
    pub fn answer(&self, code: u8, records: &[&Record]) -> Vec<u8> {
        let mut message = self.head(IS_ANSWER | RECURSION | u16::from(code), records.len());
        for record in records {
            let (owner, kind, data) = match record {
                Record::Address { owner, ip: IpAddr::V4(ip) } => (owner, A, ip.octets().to_vec()),
                Record::Address { owner, ip: IpAddr::V6(ip) } => {
                    (owner, AAAA, ip.octets().to_vec())
                }
                Record::Alias { owner, of } => (owner, CNAME, encoded(of)),
            };
            message.extend(encoded(owner));
            message.extend(kind.to_be_bytes());
            message.extend(INTERNET.to_be_bytes());
            // To be kept for no time at all.
            message.extend([0; 4]);
            message.extend((data.len() as u16).to_be_bytes());
            message.extend(data);
        }
        message
    }

    /// An answer that says: ask again over TCP.
    pub fn cut_answer(&self) -> Vec<u8> {
        self.head(IS_ANSWER | RECURSION | IS_CUT, 0)
    }

    fn head(&self, flags: u16, answers: usize) -> Vec<u8> {
        let mut message = self.id.to_vec();
        message.extend(flags.to_be_bytes());
        for count in [1, answers as u16, 0, 0] {
            message.extend(count.to_be_bytes());
        }
        message.extend(encoded(&self.name));
        message.extend(self.kind.to_be_bytes());
        message.extend(INTERNET.to_be_bytes());
        message
    }
}

fn encoded(name: &str) -> Vec<u8> {
    let labels = name.split('.').filter(|label| !label.is_empty());
    let mut bytes: Vec<u8> =
        labels.flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat()).collect();
    bytes.push(0);
    bytes
}
