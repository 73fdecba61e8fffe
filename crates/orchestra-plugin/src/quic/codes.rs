//! Numbers that say why a stream or a connection was ended.
//!
//! They start far from zero, which libraries use for want of a reason, so that a number means what
//! we mean by it.

use quinn::VarInt;

/// The connection is no longer needed.
pub(super) const CLOSED: VarInt = VarInt::from_u32(0);

const BASE: u32 = 0x4f52_0000;

/// The caller does not want the answer any more.
pub(super) const CANCELLED: VarInt = VarInt::from_u32(BASE + 1);

/// The call was not started, because too much is going on.
pub(super) const BUSY: VarInt = VarInt::from_u32(BASE + 2);

/// What came is no frame.
pub(super) const MALFORMED: VarInt = VarInt::from_u32(BASE + 3);

/// The peer was too slow.
pub(super) const TOO_SLOW: VarInt = VarInt::from_u32(BASE + 4);

/// Whoever should have answered is gone.
pub(super) const ABANDONED: VarInt = VarInt::from_u32(BASE + 5);

/// Nothing was expected after what was read.
pub(super) const UNWANTED: VarInt = VarInt::from_u32(BASE + 6);

/// The certificate names nobody, or somebody else.
pub(super) const WRONG_PEER: VarInt = VarInt::from_u32(BASE + 7);

/// The certificate is no longer trusted.
pub(super) const UNTRUSTED: VarInt = VarInt::from_u32(BASE + 9);

/// The peer has too many connections.
pub(super) const TOO_MANY: VarInt = VarInt::from_u32(BASE + 8);
