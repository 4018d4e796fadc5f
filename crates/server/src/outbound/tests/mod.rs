//! The client against real receivers on loopback, kind and hostile.

mod bounds;
mod guard;
mod pools;
mod receiver;
mod tls;
