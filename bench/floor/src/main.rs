//! The floor of the echo benchmark: read a line, parse it, write a line, on one thread.
//!
//! It knows just enough of MCP for the load driver and checks nothing else. All complete lines of
//! one read are answered by one write.

use std::{
    borrow::Cow,
    io::{self, Read as _, Write as _},
};

use serde::Deserialize;
use serde_json::value::RawValue;

/// Enough for a batch of small calls; of a large one so little that the other side can refill the
/// pipe meanwhile, instead of both waiting for each other by turns.
const READ_BYTES: usize = 16 * 1024;

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow, default)]
    params: Params<'a>,
}

#[derive(Deserialize, Default)]
struct Params<'a> {
    #[serde(borrow, default)]
    arguments: Arguments<'a>,
}

#[derive(Deserialize, Default)]
struct Arguments<'a> {
    #[serde(borrow, default)]
    text: Cow<'a, str>,
}

fn main() -> io::Result<()> {
    let mut input = io::stdin().lock();
    let mut output = io::stdout().lock();
    let mut buffer = vec![0; READ_BYTES];
    let mut filled = 0;
    let mut replies = Vec::with_capacity(READ_BYTES);
    loop {
        if filled == buffer.len() {
            buffer.resize(buffer.len() * 2, 0);
        }
        let room = buffer.len().min(filled + READ_BYTES);
        let count = input.read(&mut buffer[filled..room])?;
        if count == 0 {
            return Ok(());
        }
        let Some(end) = memchr::memrchr(b'\n', &buffer[filled..filled + count]) else {
            filled += count;
            continue;
        };
        let (end, total) = (filled + end + 1, filled + count);
        for line in buffer[..end - 1].split_inclusive(|&byte| byte == b'\n') {
            answer(line, &mut replies);
        }
        buffer.copy_within(end..total, 0);
        filled = total - end;
        output.write_all(&replies)?;
        output.flush()?;
        replies.clear();
    }
}

fn answer(line: &[u8], replies: &mut Vec<u8>) {
    let Ok(message) = serde_json::from_slice::<Message<'_>>(line) else {
        return;
    };
    let Some(id) = message.id else { return };
    replies.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    replies.extend_from_slice(id.get().as_bytes());
    replies.extend_from_slice(b",\"result\":");
    if message.method == "tools/call" {
        replies.extend_from_slice(b"{\"content\":[{\"type\":\"text\",\"text\":");
        let written = serde_json::to_writer(&mut *replies, &message.params.arguments.text);
        written.expect("a text can be written to memory");
        replies.extend_from_slice(b"}]}");
    } else {
        replies.extend_from_slice(
            b"{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"tools\":{}},\
              \"serverInfo\":{\"name\":\"floor\",\"version\":\"0\"}}",
        );
    }
    replies.extend_from_slice(b"}\n");
}
