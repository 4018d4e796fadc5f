//! Delivering: what a user publishes reaches everybody who subscribed to it, whatever receivers and servers do meanwhile.

mod answers;
mod catching_up;
mod circuit;
mod hostile;
mod lifecycle;
mod publishing;
mod pulling;
mod sending;
mod subscriber;
mod surviving;
mod tenants;
mod tls;
