//! The transport's parameters, and why they are what they are.

use std::{sync::Arc, time::Duration};

use quinn::{IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt};

/// The protocol that both sides must name in the handshake.
pub const ALPN: &[u8] = b"orchestra-plugin";

/// How long a handshake may take, on either side.
pub(super) const HANDSHAKE_TIME: Duration = Duration::from_secs(5);

/// Streams that a peer may have open at us. Older peers allow 100, which makes the 101st call wait.
const MAX_STREAMS: u32 = 1024;

/// What may lie unread on one stream.
const STREAM_WINDOW: u32 = 6 * 1024 * 1024;

/// What may lie unread on all streams of a connection.
const CONNECTION_WINDOW: u32 = 15 * 1024 * 1024;

/// What we keep for sending on one connection before a writer waits.
const SEND_WINDOW: u64 = 16 * 1024 * 1024;

/// The largest datagram that is tried, and taken.
///
/// Connections begin with datagrams that every network passes, and try larger ones while they run:
/// on this machine and between machines with jumbo frames a call of a megabyte takes two thirds of
/// the time with these. Ten go out by one system call, which takes 64 KiB at most; larger ones would
/// be lost by tens.
pub(super) const MAX_DATAGRAM_BYTES: u16 = 6_528;

/// How soon a peer that went silent counts as gone.
///
/// The smaller idle time of the two sides holds. Older peers announce 5 minutes and ping after 15
/// seconds of silence, or after half of the idle time that was agreed if that is sooner; so our
/// shorter time costs them a few more pings and breaks nothing, and a call to a peer that is away
/// without a word fails after 15 seconds instead of 300. One that is stopped for less goes on.
///
/// Pings every second leave room for the loss of many in a row. They are that many because a peer
/// that was started anew answers the first of them by saying that the connection is over, and because
/// a [`Caller`](super::Caller) that hears nothing for longer finds out whether anybody is there at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// How long nothing may be heard.
    pub idle: Duration,
    /// After how much silence we ask.
    pub keep_alive: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(15),
            keep_alive: Duration::from_secs(1),
        }
    }
}

/// The side of a connection that a configuration is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Caller,
    Callee,
}

pub(super) fn config(pace: Pace, side: Side) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    // A time that does not fit into the parameter is over 10^8 years: none at all.
    config.max_idle_timeout(IdleTimeout::try_from(pace.idle).ok());
    config.keep_alive_interval(Some(pace.keep_alive));
    // Who was called never opens streams: each side calls over a connection that it made.
    config.max_concurrent_bidi_streams(match side {
        Side::Caller => VarInt::from_u32(0),
        Side::Callee => VarInt::from_u32(MAX_STREAMS),
    });
    config.max_concurrent_uni_streams(VarInt::from_u32(0));
    config.datagram_receive_buffer_size(None);
    config.stream_receive_window(VarInt::from_u32(STREAM_WINDOW));
    config.receive_window(VarInt::from_u32(CONNECTION_WINDOW));
    config.send_window(SEND_WINDOW);
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(MAX_DATAGRAM_BYTES);
    config.mtu_discovery_config(Some(discovery));
    Arc::new(config)
}
