//! `orchestra memory save`.

use std::io::Read as _;

use anyhow::Context as _;
use clap::Args;
use serde_json::{Value, json};

use crate::exit::Failure;

/// The largest text that is read from stdin: more than any tool takes, so that the tool says how
/// much it takes.
const MAX_TEXT_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Debug, Args)]
pub(super) struct Save {
    /// Text to save, or - for stdin
    content: String,
    /// Short summary, in words that a later search is likely to use
    #[arg(long)]
    summary: Option<String>,
    /// Kind of item that the memory is from, such as task, prd, session or user
    #[arg(long)]
    source: Option<String>,
    /// Id of the item that the memory is from, such as the id of a task
    #[arg(long)]
    source_id: Option<String>,
    /// Tag of the memory; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Id of a memory that this one replaces; may be repeated
    #[arg(long, value_name = "ID")]
    supersedes: Vec<String>,
    /// Number of days until the memory expires
    #[arg(long, value_name = "N")]
    expires_in_days: Option<u32>,
}

impl Save {
    /// The arguments of the tool.
    pub(super) fn arguments(self) -> Result<Value, Failure> {
        let content = match self.content.as_str() {
            "-" => read_text()?,
            _ => self.content,
        };
        let some = |list: Vec<String>| (!list.is_empty()).then_some(list);
        Ok(json!({
            "content": content, "summary": self.summary.unwrap_or_default(), "source": self.source, "source_id": self.source_id,
            "tags": some(self.tags), "supersedes": some(self.supersedes),
            "expires_in_days": self.expires_in_days,
        }))
    }
}

fn read_text() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = std::io::stdin()
        .lock()
        .take(MAX_TEXT_BYTES)
        .read_to_end(&mut bytes)
        .context("read the text from stdin")?;
    let is_cut = u64::try_from(read).is_ok_and(|read| read == MAX_TEXT_BYTES);
    Ok(text_of(bytes, is_cut)?)
}

/// The text; where it was cut, without the part of a character that it ends with.
fn text_of(mut bytes: Vec<u8>, is_cut: bool) -> anyhow::Result<String> {
    if let Err(error) = std::str::from_utf8(&bytes)
        && is_cut
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    String::from_utf8(bytes).context("the text from stdin is not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::text_of;

    #[test]
    fn a_text_that_is_cut_within_a_character_is_one() {
        let bytes = "aé".as_bytes();
        assert_eq!(text_of(bytes.to_vec(), false).unwrap(), "aé");
        assert_eq!(text_of(bytes[..2].to_vec(), true).unwrap(), "a");
        assert!(text_of(bytes[..2].to_vec(), false).is_err());
        assert!(text_of(b"a\xff".to_vec(), true).is_err());
    }
}
