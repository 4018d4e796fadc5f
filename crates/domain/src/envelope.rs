//! The normalized envelope: what agents read, so that their code does not depend on a vendor's JSON.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Who did it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Actor {
    /// The provider's id for them.
    pub id: Option<String>,
    /// Their name.
    pub name: Option<String>,
    /// Their address.
    pub email: Option<String>,
    /// Whether the provider vouches for who they are. Never a guess.
    pub verified: bool,
}

/// What it was done to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// What kind of thing, in the provider's words (`issue`, `charge`).
    pub kind: String,
    /// The provider's id for it.
    pub id: String,
    /// Where a person can see it.
    pub url: Option<String>,
}

impl Subject {
    /// The text clients filter and cancel by: `provider:kind:id`.
    pub fn text(&self, provider: &str) -> String {
        format!("{provider}:{}:{}", self.kind, self.id)
    }
}

/// What somebody said, on a platform that carries conversations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The conversation it belongs to, in the platform's own ids.
    pub thread_id: String,
    /// What was said, without the mention that called the agent.
    pub text: String,
    /// Who else hears it.
    pub conversation_type: ConversationType,
    /// Why it is the agent's business.
    pub trigger: Trigger,
    /// What came with it, by reference.
    pub files: Vec<File>,
}

/// Who hears a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConversationType {
    /// The agent alone.
    Direct,
    /// A few people.
    Group,
    /// Everybody in a channel.
    Channel,
    /// Who a mail is addressed to.
    Email,
    /// Who can read a document.
    Document,
}

/// What makes a message the agent's business.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// It was said to the agent alone.
    Direct,
    /// It names the agent.
    Mention,
    /// It answers the agent, or goes on in a thread the agent is in.
    Reply,
    /// It is a command of the agent's.
    Command,
    /// It is a mail to the agent's address.
    Email,
    /// It is a comment that names the agent.
    Comment,
}

/// Something that came with a message. Only where it is: nothing is fetched.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct File {
    /// The platform's id for it.
    pub id: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Its media type.
    pub media_type: Option<String>,
    /// How large it is.
    pub bytes: Option<u64>,
    /// Where the platform keeps it; usually to be read with the platform's token only.
    pub url: Option<String>,
}

/// Whether an event makes a job, by the provider's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Starts {
    /// It does.
    #[default]
    Job,
    /// It does not (GitHub's `ping`, a bot's own message).
    Nothing,
    /// It does if the agent already takes part in the message's thread.
    InKnownThread,
}

/// What a provider's request says, in words all providers share. Derived from the raw bytes, never stored.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Mapped {
    /// The provider's own id for the event, which makes a repeat a duplicate. `None`: the body's hash.
    pub dedup_key: Option<String>,
    /// A second id that also makes a repeat a duplicate (Slack's team, channel and time stamp).
    pub second_key: Option<String>,
    /// What happened (`issues.opened`).
    pub event_type: String,
    /// Whether it makes a job.
    pub starts: Starts,
    /// When it happened, by the provider's word.
    pub occurred_at: Option<Timestamp>,
    /// Who did it.
    pub actor: Option<Actor>,
    /// What it was done to.
    pub subject: Option<Subject>,
    /// What was said, on a messaging platform.
    pub message: Option<Message>,
    /// The provider's request id, kept even when unused.
    pub provider_request_id: Option<String>,
}
