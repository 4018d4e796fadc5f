//! How far one exchange has come: written by the connector and the client, read when it ends.

use std::net::SocketAddr;
use std::time::Duration;

use parking_lot::Mutex;

use super::client::Timings;

/// Shared, because the deadline can end the exchange at any step.
#[derive(Debug, Default)]
pub(super) struct Progress(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    stage: Stage,
    timings: Timings,
    /// Our end of the connection that this exchange opened.
    socket: Option<SocketAddr>,
}

/// The step that is under way.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Stage {
    #[default]
    Resolving,
    Connecting,
    Securing,
    Waiting,
    Reading,
}

impl Stage {
    /// Fits after "timed out".
    pub(super) fn phrase(self) -> &'static str {
        match self {
            Stage::Resolving => "while resolving the name",
            Stage::Connecting => "while connecting",
            Stage::Securing => "during the TLS handshake",
            Stage::Waiting => "while waiting for the answer",
            Stage::Reading => "while reading the answer",
        }
    }
}

impl Progress {
    pub(super) fn stage(&self) -> Stage {
        self.0.lock().stage
    }

    pub(super) fn timings(&self, total: Duration) -> Timings {
        Timings { total, ..self.0.lock().timings }
    }

    pub(super) fn resolved(&self, took: Option<Duration>) {
        let mut state = self.0.lock();
        state.timings.dns = took;
        state.stage = Stage::Waiting;
    }

    pub(super) fn connecting(&self) {
        self.0.lock().stage = Stage::Connecting;
    }

    pub(super) fn connected(&self, took: Duration, socket: Option<SocketAddr>) {
        let mut state = self.0.lock();
        state.timings.connect = Some(took);
        state.socket = socket;
        state.stage = Stage::Securing;
    }

    /// The connection can carry the request, after a handshake or without one.
    pub(super) fn ready(&self, handshake: Option<Duration>) {
        let mut state = self.0.lock();
        state.timings.tls = handshake;
        state.stage = Stage::Waiting;
    }

    /// The head of the answer came, over the connection with this local end.
    pub(super) fn answered(&self, after: Duration, socket: Option<SocketAddr>) {
        let mut state = self.0.lock();
        state.timings.first_byte = Some(after);
        state.stage = Stage::Reading;
        // The pool may hand over a connection that became free while ours was being opened.
        if state.socket.is_none() || state.socket != socket {
            state.timings.connect = None;
            state.timings.tls = None;
        }
    }
}
