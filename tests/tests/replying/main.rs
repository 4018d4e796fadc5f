//! Replying: what an agent answers stands on the thread it was asked on, every part once, whatever goes wrong.

mod approving;
mod conversation;
mod discord;
mod email;
mod google_docs;
mod slack;
mod telegram;
mod whatsapp;
