//! Batches (MCP 2025-03-26): which requests are in one, and which a batch of answers answers.

use bytes::Bytes;
use orchestra_wire::{Message, RequestId, parse_item, write};
use serde_json::value::RawValue;

/// The ids of the requests in a batch.
pub(super) fn requests(items: &[&RawValue]) -> Vec<RequestId> {
    let id = |item: &&RawValue| match parse_item(item) {
        Ok(Message::Request(request)) => Some(request.id),
        _ => None,
    };
    items.iter().filter_map(id).collect()
}

/// The ids of the requests that a batch of answers of ours answers.
pub(super) fn answered(message: &[u8]) -> Vec<RequestId> {
    let items: Vec<&RawValue> = serde_json::from_slice(message).unwrap_or_default();
    let id = |item: &&RawValue| write::answered(item.get().as_bytes()).map(|(id, _)| id);
    items.iter().filter_map(id).collect()
}

/// The messages of a text of lines, each of which ends.
pub(super) fn lines(messages: &Bytes) -> impl Iterator<Item = Bytes> + '_ {
    let mut start = 0;
    std::iter::from_fn(move || {
        let length = memchr::memchr(b'\n', &messages[start..])?;
        let message = messages.slice(start..start + length);
        start += length + 1;
        Some(message)
    })
}
