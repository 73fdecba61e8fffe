//! What of an answer may be shown while it comes: not what may become a call that is printed as text.

use std::sync::Arc;

use crate::{repair, tool::Tool};

/// An answer that comes, of which a part was shown.
#[derive(Debug)]
pub(crate) struct Hold<'t> {
    tools: &'t [Arc<Tool>],
    /// What has come and was not shown.
    pending: String,
    /// How the line that is being shown begins.
    head: String,
    in_fence: bool,
    is_beginning: bool,
}

/// As much of a line tells whether it opens a fence.
const HEAD: usize = 8;

impl<'t> Hold<'t> {
    /// For an answer to whoever was offered these tools.
    pub(crate) const fn new(tools: &'t [Arc<Tool>]) -> Self {
        Self {
            tools,
            pending: String::new(),
            head: String::new(),
            in_fence: false,
            is_beginning: true,
        }
    }

    /// Takes a piece in, and gives what may be shown now.
    pub(crate) fn take(&mut self, piece: &str) -> String {
        self.pending.push_str(piece);
        let place = repair::Place {
            in_fence: self.in_fence,
            is_beginning: self.is_beginning,
            is_mid_line: !self.head.is_empty(),
        };
        let free = repair::shown_until(&self.pending, self.tools, place);
        // What was shown is not looked at again.
        let new: String = self.pending.drain(..free).collect();
        for c in new.chars() {
            self.is_beginning &= c.is_whitespace();
            if c == '\n' {
                self.in_fence ^= self.head.trim_start().starts_with("```");
                self.head.clear();
            } else if self.head.len() < HEAD {
                self.head.push(c);
            }
        }
        new
    }

    /// What was held back and is no call after all.
    pub(crate) fn rest(&self) -> &str {
        &self.pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::{Described, Nature, Tools};
    use serde_json::json;

    fn tools() -> Tools {
        Tools::new([Described {
            name: "get_weather".to_owned(),
            description: String::new(),
            schema: json!({"type": "object", "properties": {"city": {"type": "string"}}}),
            lean: None,
            server: None,
            nature: Nature::Reads,
        }])
    }

    /// What is shown of a text that comes letter by letter, and what is held back at its end.
    fn shown(text: &str) -> (String, String) {
        let tools = tools();
        let mut hold = Hold::new(tools.all());
        let shown = text.chars().map(|c| hold.take(&c.to_string())).collect();
        (shown, hold.rest().to_owned())
    }

    #[test]
    fn words_are_shown_as_they_come() {
        for text in [
            "Hello, how are you?",
            "a < b and c > d\n\nnew [link](x) line\n",
            "[link](x) at the beginning",
            "```rust\nfn main() {}\n```\nand more",
            "I said: Action speaks.",
            "1. one\n2. two",
        ] {
            assert_eq!(shown(text), (text.to_owned(), String::new()), "{text}");
        }
        // The first word is there with itself, not with the second.
        let tools = tools();
        assert_eq!(Hold::new(tools.all()).take("Hello"), "Hello");
    }

    #[test]
    fn what_may_be_a_call_is_held_back() {
        for (text, before) in [
            ("{\"name\": \"get_weather\"", ""),
            ("Let me see.\n<tool_call>\n{\"name\"", "Let me see.\n"),
            (
                "Let me see.\n```json\n{\"name\": \"get_wea",
                "Let me see.\n",
            ),
            ("get_weather(city=", ""),
            ("[get_weather(", ""),
            ("Thought: x\nAction: get", "Thought: x\n"),
            ("I see <|tool_c", "I see "),
        ] {
            let (shown, held) = shown(text);
            assert_eq!(shown, before, "{text}");
            assert_eq!(format!("{shown}{held}"), text);
        }
    }

    #[test]
    fn what_is_no_call_after_all_is_shown() {
        let long = format!("{{\"people\": [{}]}}", "\"somebody\", ".repeat(60));
        let (shown_of_long, held) = shown(&long);
        assert_eq!(format!("{shown_of_long}{held}"), long);
        assert!(held.is_empty(), "{held}");
        let fenced = "```json\n{\"a\": 1}\n```\nis an example.";
        assert_eq!(shown(fenced), (fenced.to_owned(), String::new()));
    }
}
