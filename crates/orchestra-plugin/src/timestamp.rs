//! The one message that the schema takes from elsewhere, and is not kept as the bytes that came.

/// A point in time: `google.protobuf.Timestamp`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Timestamp {
    /// Seconds of UTC since the beginning of 1970.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// What is beyond them, from 0 to 999,999,999.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}
