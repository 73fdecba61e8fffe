//! What followers and holder say to each other: one JSON object a line.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

use super::place::Token;

/// The longest line: the definition of the largest plan, and more.
pub(super) const MAX_LINE: usize = 64 * 1024 * 1024;
/// The longest line of somebody who has shown no token.
pub(super) const MAX_FIRST_LINE: usize = 4 * 1024;

/// How many requests of one follower are worked on at once; more wait at the follower's.
pub(super) const MAX_IN_FLIGHT: usize = 64;

/// What a follower says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub(super) enum Ask {
    /// The first line.
    Hello {
        protocol: u32,
        token: Token,
        name: String,
    },
    /// Do something.
    Call {
        id: u64,
        method: String,
        params: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        once: Option<String>,
    },
    /// Say when there are events after this one.
    Changes { id: u64, after: u64, wait_ms: u64 },
    /// Nobody waits for this any more.
    Cancel { id: u64 },
}

/// What the holder says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub(super) enum Tell {
    /// The first line.
    Hello { protocol: u32, version: String },
    /// It was done.
    Result { id: u64, result: Value },
    /// It is refused.
    Error {
        id: u64,
        code: String,
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Value>,
    },
    /// The last event of all.
    Changed { id: u64, seq: u64 },
    /// Nothing was done, for this process is about to leave: ask the next.
    Moved { id: u64 },
}

/// A line as it is sent.
pub(super) fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    if line.len() >= MAX_LINE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    line.push(b'\n');
    Ok(line)
}

/// Reads the next line, without its end; `false` where there is none any more. Loses what it has read when
/// it is cancelled.
///
/// # Errors
/// When the line is longer than `limit`, is cut off, or cannot be read.
pub(super) async fn read_line(
    reader: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
    limit: usize,
) -> io::Result<bool> {
    line.clear();
    loop {
        let found = reader.fill_buf().await?;
        if found.is_empty() {
            return if line.is_empty() {
                Ok(false)
            } else {
                Err(io::ErrorKind::UnexpectedEof.into())
            };
        }
        let end = memchr::memchr(b'\n', found);
        let part = &found[..end.unwrap_or(found.len())];
        if line.len() + part.len() > limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        line.extend_from_slice(part);
        let read = part.len() + usize::from(end.is_some());
        reader.consume(read);
        if end.is_some() {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_is_read_whole_or_not_at_all() {
        let mut line = Vec::new();
        let mut reader = tokio::io::BufReader::with_capacity(2, &b"one\n\nlonger\nten"[..]);
        assert!(read_line(&mut reader, &mut line, 6).await.unwrap());
        assert_eq!(line, b"one");
        assert!(read_line(&mut reader, &mut line, 6).await.unwrap());
        assert_eq!(line, b"");
        assert!(read_line(&mut reader, &mut line, 6).await.unwrap());
        assert_eq!(line, b"longer");
        let cut = read_line(&mut reader, &mut line, 6).await.unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
        let mut reader = &b"longer\n"[..];
        let long = read_line(&mut reader, &mut line, 5).await.unwrap_err();
        assert_eq!(long.kind(), io::ErrorKind::FileTooLarge);
        assert!(!read_line(&mut &b""[..], &mut line, 5).await.unwrap());
    }
}
