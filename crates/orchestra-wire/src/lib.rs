//! JSON-RPC 2.0 and MCP messages, without I/O.
//!
//! Nothing here waits, reads a clock or knows of a socket: bytes come in, messages come out.
//! The parts, in reading order: [`LineDecoder`] cuts a stream into lines, [`parse`] turns a line
//! into a [`Message`] that borrows from it, [`RequestId`] keeps ids as they were sent,
//! [`RpcError`] and [`ErrorCode`] name what went wrong, [`Method`] is the table of methods,
//! [`Revision`] says what a protocol revision can do, [`Pending`] remembers open requests,
//! [`mod@unread`] finds the members of what cannot be parsed, and [`Rope`] with [`mod@write`] builds what
//! goes out.

mod depth;
mod envelope;
mod error;
mod frame;
mod id;
mod members;
mod method;
mod params;
mod pending;
mod raw;
mod readable;
mod revision;
mod rope;
pub mod unread;
pub mod write;

pub use envelope::{
    Inbound, Malformed, Message, NotificationRef, Reply, RequestRef, ResponseRef, parse,
    parse_item, parse_value, without_mark,
};
pub use error::{ErrorCode, RpcError, shown};
pub use frame::{Frame, Line, LineDecoder, MAX_LINE_BYTES};
pub use id::{InvalidId, RequestId};
pub use members::{Member, Members};
pub use method::{Direction, EraScope, INTERNAL, Method, MethodKind};
pub use params::{Fields, FieldsError, MetaFields, Params, text_of};
pub use pending::{Pending, PendingError};
pub use raw::{RawJson, RawJsonError};
pub use readable::large_integer;
pub use revision::{Era, Revision};
pub use rope::{Mark, Rope, SPLICE_BYTES};

/// Deepest nesting of arrays and objects that is accepted; deeper is a parse error (-32700).
pub const MAX_DEPTH: usize = 128;

/// Items that a batch may have.
pub const MAX_BATCH: usize = 1_024;

/// Largest reply that leaves; a larger one becomes the error `result_too_large`.
pub const MAX_REPLY_BYTES: usize = 16 * 1024 * 1024;
