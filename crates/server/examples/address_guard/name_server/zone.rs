//! What the name server knows, and what it was asked for.

use std::collections::HashMap;
use std::net::IpAddr;

use super::message::{A, AAAA, Question};

/// Codes of answers.
pub const SERVFAIL: u8 = 2;
const NXDOMAIN: u8 = 3;

/// What a question is answered with.
#[derive(Clone)]
pub enum Reply {
    /// Those of these records that were asked for; aliases always.
    Records(Vec<Record>),
    /// This code, without records.
    Code(u8),
    /// The code for IPv6, records for IPv4.
    CodeForIpv6(u8, Vec<Record>),
    /// Nothing at all.
    Silence,
}

/// One record.
#[derive(Clone)]
pub enum Record {
    /// An address of a name.
    Address { owner: String, ip: IpAddr },
    /// Another name of a name.
    Alias { owner: String, of: String },
}

/// Names and replies.
#[derive(Default)]
pub struct Zone {
    names: HashMap<String, Vec<Reply>>,
    /// How many questions of this name and type were answered.
    answered: HashMap<(String, u16), usize>,
    asked: Vec<String>,
}

impl Zone {
    /// Sets the replies for a name, from the first on.
    pub fn set(&mut self, name: &str, replies: &[Reply]) {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        self.answered.retain(|(answered, _), _| *answered != name);
        self.names.insert(name, replies.to_vec());
    }

    /// The names that were asked for since the last time.
    pub fn take_asked(&mut self) -> Vec<String> {
        std::mem::take(&mut self.asked)
    }

    /// The answer, in at most so many bytes; none to a question that is met with silence.
    pub fn answer(&mut self, question: &Question, bytes_max: usize) -> Option<Vec<u8>> {
        let answered = (question.name.clone(), question.kind);
        let times = self.answered.get(&answered).copied().unwrap_or(0);
        let replies = self.names.get(&question.name);
        let reply = replies.and_then(|replies| replies.get(times).or(replies.last()));
        let answer = match reply {
            None => Some(question.answer(NXDOMAIN, &[])),
            Some(Reply::Records(records)) => Some(with_records(question, records)),
            Some(Reply::Code(code)) => Some(question.answer(*code, &[])),
            Some(Reply::CodeForIpv6(code, _)) if question.kind == AAAA => {
                Some(question.answer(*code, &[]))
            }
            Some(Reply::CodeForIpv6(_, records)) => Some(with_records(question, records)),
            Some(Reply::Silence) => None,
        };
        if answer.as_ref().is_some_and(|answer| answer.len() > bytes_max) {
            return Some(question.cut_answer());
        }
        self.answered.insert(answered, times + 1);
        if question.kind == A {
            self.asked.push(question.name.clone());
        }
        answer
    }
}

fn with_records(question: &Question, records: &[Record]) -> Vec<u8> {
    let wanted = |record: &&Record| match record {
        Record::Address { ip, .. } => ip.is_ipv4() == (question.kind == A),
        Record::Alias { .. } => true,
    };
    question.answer(0, &records.iter().filter(wanted).collect::<Vec<_>>())
}
