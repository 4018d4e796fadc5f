//! Stand-ins of the messaging platforms: real servers on the loopback address that behave as the vendors'
//! documentation says.
//!
//! Each checks what it is sent. What the real platform would refuse is refused in its words, and that and whatever
//! else is wrong (an unknown field, a text over our limit, a ping nobody meant) is noted as a violation. A stand-in
//! that is dropped with violations nobody expected fails its test. A [`Fault`] makes the next fitting call go wrong.
//!
//! They know nothing of our adapters: they are the independent half of the check.

mod call;
mod discord;
mod fault;
mod google_fields;
mod google_replies;
mod markdown_v2;
mod resend;
mod sendgrid;
mod server;
mod slack;
mod smtp;
mod smtp_session;
mod telegram;
#[cfg(test)]
mod testing;
mod violations;
mod whatsapp;

pub use call::{Call, Response};
pub use discord::{Discord, DiscordMessage};
pub use fault::Fault;
pub use google_replies::{GoogleReplies, GoogleReply};
pub use resend::{Resend, ResendEmail};
pub use sendgrid::{SendGrid, SendGridMail};
pub use server::{Platform, StandIn};
pub use slack::{Slack, SlackMessage};
pub use smtp::{Smtp, SmtpMail, SmtpTls};
pub use telegram::{Telegram, TelegramMessage};
pub use violations::Violations;
pub use whatsapp::{WhatsApp, WhatsAppMessage};
