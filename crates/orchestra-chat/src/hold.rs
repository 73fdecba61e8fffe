//! What of an answer may be shown while it comes: not what may become a call that is printed as text.

use std::sync::Arc;

use crate::{
    repair::{self, Wait},
    tool::Tool,
};

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
    /// The text for which `pending` waits.
    wait: Wait,
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
            wait: Wait::Any,
        }
    }

    /// Takes a piece in, and gives what may be shown now.
    pub(crate) fn take(&mut self, piece: &str) -> String {
        let looked = self.pending.len();
        self.pending.push_str(piece);
        if !self.wait.is_over(&self.pending, looked) {
            return String::new();
        }
        let free = repair::shown_until(&self.pending, self.tools, self.place());
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
        self.wait = Wait::of(&self.pending, self.tools, self.place());
        new
    }

    fn place(&self) -> repair::Place {
        repair::Place {
            in_fence: self.in_fence,
            is_beginning: self.is_beginning,
            is_mid_line: !self.head.is_empty(),
        }
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

    #[test]
    fn held_text_waits_for_the_end_of_its_call() {
        for (text, wait) in [
            ("<tool_call>{", Wait::End),
            ("I see <|tool_call|>", Wait::End),
            ("{\"name\": \"get_weather\"", Wait::End),
            ("[get_weather(", Wait::End),
            ("```json\n{\"name\": \"get_weather\"", Wait::For("```")),
            ("get_weather(", Wait::For("\n")),
            ("I see <|tool_c", Wait::Any),
            ("[get_weather", Wait::Any),
            ("```json\n{\"name\"", Wait::Any),
        ] {
            let tools = tools();
            let mut hold = Hold::new(tools.all());
            hold.take(text);
            assert_eq!(hold.wait, wait, "{text}");
        }
    }

    #[test]
    fn waiting_hold_shows_the_same_as_a_hold_without_waits() {
        let call = "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}";
        for text in [
            format!("A client writes:\n```json\n{call}\n```\nand more [text](x)."),
            format!("```\n{call}\n```\n\nText.\n{call}"),
            format!("<tool_call>{call}</tool_call> and ```\nmore\n```\n"),
            format!("get_weather(city=\"Rome\")\nand {call}\n{call}"),
            "[get_weather] is a tool.\n[get_weather](x) as well.".to_owned(),
            format!("<tool_call>{}", "x".repeat(70_000)),
        ] {
            let tools = tools();
            let (mut hold, mut looking) = (Hold::new(tools.all()), Hold::new(tools.all()));
            let letters: Vec<char> = text.chars().collect();
            for piece in letters.chunks(if letters.len() > 1_000 { 1_000 } else { 1 }) {
                let piece: String = piece.iter().collect();
                looking.wait = Wait::Any;
                assert_eq!(hold.take(&piece), looking.take(&piece), "{text:.100}");
            }
            assert_eq!(hold.rest(), looking.rest(), "{text:.100}");
        }
    }
}
