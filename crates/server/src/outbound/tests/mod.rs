//! The client against real receivers on loopback, kind and hostile.

mod bounds;
mod corpus;
mod guard;
mod hostile;
mod pools;
mod receiver;
mod tls;
