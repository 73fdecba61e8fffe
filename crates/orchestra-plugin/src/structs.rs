//! `google.protobuf.Struct` and JSON, each written from the other in one pass, without a tree in
//! between.
//!
//! # Numbers
//!
//! A `Struct` holds doubles alone. One that is integral is written without a fraction or an exponent
//! below 10²¹, and above 2⁵³ with the very digits of its value, so that an integer which a double
//! holds comes back as it was. An integer that no double holds becomes the nearest one, as in the
//! JSON of JavaScript, Go and most clients of MCP: a call is not refused for an id with nineteen
//! digits. Who needs such an integer exactly sends the JSON beside the `Struct`, as our own peers
//! do, or asks for [`Numbers::Exact`]. A number beyond the doubles is an error, as are NaN and the
//! infinities, for which JSON has no form.
//!
//! # Objects
//!
//! Of members with the same name the last counts, as everywhere in protobuf. JSON that is read may
//! have them, and both are passed on; JSON that is written has each name once, where its last
//! member stood. A value of no kind is `null`. A value of two kinds, or a member with two values, is
//! an error: receivers would differ in what they take.

mod decode;
mod encode;
mod gaps;
mod lookup;
mod number;
mod text;

pub use decode::{decode, decode_into};
pub use encode::{Numbers, encode, encode_beside};
pub use lookup::{Member, member};

use crate::field::FieldError;
use crate::frame::MAX_FRAME_BYTES;

/// How deep objects and arrays may lie in each other.
pub const MAX_DEPTH: usize = 64;

/// Field of `Struct`: its members, each a message of the two fields below.
const STRUCT_FIELDS: u32 = 1;
/// Field of a member: its name.
const MEMBER_NAME: u32 = 1;
/// Field of a member: its value.
const MEMBER_VALUE: u32 = 2;
/// Field of `ListValue`: its items.
const LIST_VALUES: u32 = 1;

/// The fields of `Value`, of which one is set.
const VALUE_NULL: u32 = 1;
const VALUE_NUMBER: u32 = 2;
const VALUE_STRING: u32 = 3;
const VALUE_BOOL: u32 = 4;
const VALUE_STRUCT: u32 = 5;
const VALUE_LIST: u32 = 6;

/// How JSON is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Style {
    /// Members in the order in which they came, and no escapes but those that JSON needs.
    #[default]
    Plain,
    /// The text that the first bridges show to a reader: members in the order of their names; `<`,
    /// `>`, `&` and the two line separators of Unicode as `\u` escapes; of an integer above 2⁵³ no
    /// more digits than are needed to read it again, and zeros.
    Sorted,
}

/// Why a `Struct` and JSON cannot be made from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StructError {
    /// The bytes are no `Struct`.
    #[error("malformed struct")]
    Field(
        #[from]
        #[source]
        FieldError,
    ),
    /// The bytes are not JSON.
    #[error("malformed JSON at byte {at}: expected {expected}")]
    Json {
        /// Where.
        at: usize,
        /// What should stand there.
        expected: &'static str,
    },
    /// The JSON is a value, but not an object.
    #[error("a struct needs a JSON object, not another value")]
    NotAnObject,
    /// Objects and arrays lie too deep in each other.
    #[error("objects and arrays are nested more than {MAX_DEPTH} levels deep; flatten them")]
    TooDeep,
    /// A number that JSON has no form for.
    #[error("the struct contains NaN or infinity, which JSON cannot represent")]
    NotFinite,
    /// A number that is larger than every double.
    #[error("the number at byte {at} is out of the range of a double; send it as a string")]
    OutOfRange {
        /// Where it starts.
        at: usize,
    },
    /// An integer that no double holds, where numbers were to be kept exactly.
    #[error(
        "the integer at byte {at} cannot be represented exactly as a double; send it as a string"
    )]
    Inexact {
        /// Where it starts.
        at: usize,
    },
    /// The struct does not fit into a frame.
    #[error("the struct exceeds the limit of {MAX_FRAME_BYTES} bytes")]
    TooLarge,
}

#[cfg(test)]
mod tests;
