//! Separation of a model's thinking from its answer, where the server sends both in one text.
//!
//! Servers that know the format of a model send its thinking in a field of its own. Other servers pass it on as the
//! model wrote it, between tags such as `<think>` and `</think>`. Nothing between such tags is an answer or a call.

use std::ops::Range;

use crate::request::Piece;

/// Parts of the names of elements that enclose thinking, in lower case: `<longcat_think>`, `<thought_process>`.
const STEMS: [&str; 7] = [
    "think",
    "thought",
    "reason",
    "reflect",
    "monologue",
    "scratchpad",
    "analysis",
];

/// Marks of chat templates that enclose thinking, in lower case.
const MARKS: [Mark; 9] = [
    Mark::new("[think]", "[/think]"),
    Mark::new("◁think▷", "◁/think▷"),
    Mark::new("<|start_thinking|>", "<|end_thinking|>"),
    Mark::new("<|begin_of_thought|>", "<|end_of_thought|>"),
    Mark::new("<|think|>", "<|/think|>"),
    Mark::new("<|inner_prefix|>", "<|inner_suffix|>"),
    Mark::new("<unused94>thought", "<unused95>"),
    Mark {
        closes_only_thinking: false,
        ..Mark::new("<|channel|>analysis<|message|>", "<|end|>")
    },
    Mark {
        closes_only_thinking: false,
        ..Mark::new("<|channel>thought", "<channel|>")
    },
];

/// Longest tag, in bytes; a longer one is text.
const MAX_TAG: usize = 512;

/// A pair of marks.
struct Mark {
    open: &'static str,
    close: &'static str,
    /// Whether the closing mark has no other meaning in the template.
    closes_only_thinking: bool,
}

impl Mark {
    const fn new(open: &'static str, close: &'static str) -> Self {
        Self {
            open,
            close,
            closes_only_thinking: true,
        }
    }
}

/// Kind of thinking: the name of its element, or the place of its marks in the table.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Element(String),
    Mark(usize),
}

impl Kind {
    /// Whether a closing tag that was never opened closes thinking that began before the text: templates put the
    /// opening tag of some models into the prompt.
    fn closes_from_start(&self) -> bool {
        match self {
            Self::Element(_) => true,
            Self::Mark(place) => MARKS[*place].closes_only_thinking,
        }
    }
}

/// Result of looking for a tag at the start of a text.
enum Tag {
    No,
    /// The text ends before it is decided.
    Undecided,
    Open(Kind, usize),
    Close(Kind, usize),
}

/// Splits a text that arrives in pieces.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    /// End of the text so far that may be the beginning of a tag.
    pending: String,
    /// Kind and depth of the thinking that is open.
    open: Option<(Kind, usize)>,
    /// Place of the tag that opened it.
    opened: usize,
    /// Length of the text before `pending`.
    passed: usize,
    /// Last character before `pending`.
    before: Option<char>,
    split: Split,
}

/// A text that was split.
#[derive(Debug, Default)]
pub(crate) struct Split {
    /// The parts of the answer, which thinking separates. What one part leaves open does not continue in the next.
    pub(crate) parts: Vec<String>,
    /// The thinking.
    pub(crate) thinking: String,
    /// Places of the thinking in the text, tags included.
    ranges: Vec<Range<usize>>,
    /// End of the thinking that began before the text.
    from_start: usize,
}

impl Split {
    /// Splits a whole text.
    pub(crate) fn of(text: &str) -> Self {
        let mut splitter = Splitter::default();
        splitter.take(text);
        splitter.end();
        if splitter.open.is_some() {
            splitter.split.ranges.push(splitter.opened..usize::MAX);
        }
        splitter.split
    }

    /// Returns whether any of the text between two places is thinking. A place is a length of the text before it.
    pub(crate) fn is_thinking(&self, first: usize, last: usize) -> bool {
        let overlaps = |range: &Range<usize>| range.start < last && first < range.end;
        first < self.from_start || self.ranges.iter().any(overlaps)
    }

    /// The whole answer.
    pub(crate) fn answer(&self) -> String {
        self.parts.concat()
    }

    fn begin_part(&mut self) {
        if self.parts.is_empty() {
            self.parts.push(String::new());
        }
        self.parts.push(String::new());
    }
}

/// Returns whether a text begins with a fence of Markdown whose name is a name of thinking.
pub(crate) fn begins_with_fence(text: &str) -> bool {
    let line = text.trim_start().lines().next().unwrap_or_default();
    let is_fence = line.starts_with("```") || line.starts_with("~~~");
    let name = line.to_ascii_lowercase();
    is_fence && STEMS.iter().any(|stem| name.contains(stem))
}

impl Splitter {
    /// Takes the next piece of the text. Returns the parts of it that can be shown.
    pub(crate) fn take(&mut self, text: &str) -> Vec<Piece> {
        self.pending.push_str(text);
        self.advance(false)
    }

    /// Takes the end of the text. Returns the parts that were held back.
    pub(crate) fn end(&mut self) -> Vec<Piece> {
        self.advance(true)
    }

    fn advance(&mut self, is_end: bool) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let text = std::mem::take(&mut self.pending);
        let folded = text.to_ascii_lowercase();
        let mut from = 0;
        let mut at = 0;
        while at < text.len() {
            let before = text[..at].chars().next_back().or(self.before);
            let step = folded[at..].chars().next().map_or(1, char::len_utf8);
            let next = text[at + step..].chars().next();
            let is_type = before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
                && next.is_some_and(char::is_uppercase);
            match tag(&folded[at..], before, is_type, is_end) {
                Tag::No => at += step,
                Tag::Undecided => break,
                Tag::Open(kind, length) => {
                    self.emit(&text[from..at], &mut pieces);
                    match &mut self.open {
                        None => {
                            self.open = Some((kind, 1));
                            self.opened = self.passed + at;
                            self.split.begin_part();
                        }
                        Some((open, depth)) if *open == kind => *depth += 1,
                        Some(_) => self.emit(&text[at..at + length], &mut pieces),
                    }
                    at += length;
                    from = at;
                }
                Tag::Close(kind, length) => {
                    self.emit(&text[from..at], &mut pieces);
                    from = at;
                    match &mut self.open {
                        Some((open, depth)) if *open == kind => {
                            *depth -= 1;
                            if *depth == 0 {
                                self.open = None;
                                let end = self.passed + at + length;
                                self.split.ranges.push(self.opened..end);
                            }
                            from = at + length;
                        }
                        None if kind.closes_from_start() => {
                            let before = std::mem::take(&mut self.split.parts).concat();
                            self.split.thinking.push_str(&before);
                            self.split.begin_part();
                            self.split.from_start = self.passed + at + length;
                            from = at + length;
                        }
                        _ => {}
                    }
                    at += length;
                }
            }
        }
        self.emit(&text[from..at], &mut pieces);
        self.before = text[..at].chars().next_back().or(self.before);
        self.passed += at;
        text[at..].clone_into(&mut self.pending);
        pieces
    }

    fn emit(&mut self, text: &str, pieces: &mut Vec<Piece>) {
        if text.is_empty() {
            return;
        }
        let Split {
            parts, thinking, ..
        } = &mut self.split;
        if self.open.is_some() {
            thinking.push_str(text);
            pieces.push(Piece::Thinking(text.to_owned()));
            return;
        }
        // The blank lines after a closing tag belong to neither.
        let is_first = parts.len() > 1 && parts.iter().all(|part| part.trim().is_empty());
        let text = if is_first { text.trim_start() } else { text };
        if text.is_empty() {
            return;
        }
        match parts.last_mut() {
            Some(part) => part.push_str(text),
            None => parts.push(text.to_owned()),
        }
        pieces.push(Piece::Text(text.to_owned()));
    }
}

/// Looks for a tag at the start of a text in lower case. A tag in backquotes is a mention.
/// `is_type` means that it is written like the parameter of a type, as in `Option<Analysis>`.
fn tag(text: &str, before: Option<char>, is_type: bool, is_end: bool) -> Tag {
    let found = match text.chars().next() {
        Some('<' | '[' | '◁') => match mark(text) {
            Tag::No => element(text, is_type),
            found => found,
        },
        _ => return Tag::No,
    };
    let length = match found {
        Tag::Open(_, length) | Tag::Close(_, length) => length,
        Tag::Undecided if is_end => return Tag::No,
        found => return found,
    };
    if before == Some('`') {
        match text[length..].chars().next() {
            Some('`') => return Tag::No,
            None if !is_end => return Tag::Undecided,
            _ => {}
        }
    }
    found
}

fn mark(text: &str) -> Tag {
    let mut undecided = false;
    for (place, mark) in MARKS.iter().enumerate() {
        if text.starts_with(mark.open) {
            return Tag::Open(Kind::Mark(place), mark.open.len());
        }
        if text.starts_with(mark.close) {
            return Tag::Close(Kind::Mark(place), mark.close.len());
        }
        undecided |= mark.open.starts_with(text) || mark.close.starts_with(text);
    }
    match undecided {
        true => Tag::Undecided,
        false => Tag::No,
    }
}

/// `<think>`, `</think >` or `<think type="x">`.
fn element(text: &str, is_type: bool) -> Tag {
    let Some(inner) = text.strip_prefix('<') else {
        return Tag::No;
    };
    // Some models write blanks around the name.
    let inner = inner.trim_start_matches(' ');
    let closes = inner.starts_with('/');
    let name_on = if closes {
        inner[1..].trim_start_matches(' ')
    } else {
        inner
    };
    let is_spaced = text.len() - name_on.len() > 1 + usize::from(closes);
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '_' | '-' | '.');
    let length = name_on.find(|c| !is_part(c)).unwrap_or(name_on.len());
    let (name, behind) = name_on.split_at(length);
    if behind.is_empty() {
        return match text.len() < MAX_TAG {
            true => Tag::Undecided,
            false => Tag::No,
        };
    }
    let is_thinking = STEMS.iter().any(|stem| name.contains(stem));
    let is_type = is_type && !name.contains("think");
    if !is_thinking || is_type {
        return Tag::No;
    }
    if !behind.starts_with('>') && !behind.starts_with(char::is_whitespace) {
        return Tag::No;
    }
    if is_spaced && !behind.trim_start().starts_with('>') && !behind.trim_start().is_empty() {
        return Tag::No;
    }
    match behind.find(['>', '<']) {
        Some(end) if behind[end..].starts_with('>') && !behind[..end].ends_with('/') => {
            let length = text.len() - behind.len() + end + 1;
            let kind = Kind::Element(name.to_owned());
            match closes {
                _ if length > MAX_TAG => Tag::No,
                true => Tag::Close(kind, length),
                false => Tag::Open(kind, length),
            }
        }
        None if text.len() < MAX_TAG => Tag::Undecided,
        _ => Tag::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, answer: &str, thinking: &str) {
        let whole = Split::of(text);
        assert_eq!(
            (&*whole.answer(), &*whole.thinking),
            (answer, thinking),
            "{text}"
        );
        let mut splitter = Splitter::default();
        for c in text.chars() {
            splitter.take(&c.to_string());
        }
        splitter.end();
        assert_eq!(splitter.split.parts, whole.parts, "{text}, by character");
        assert_eq!(splitter.split.thinking, thinking, "{text}, by character");
    }

    #[test]
    fn text_between_thinking_tags_is_thinking() {
        check("<think>a</think>\n\nb", "b", "a");
        check("<THINK>a</Think>b", "b", "a");
        check("<thinking >a</thinking >b", "b", "a");
        check("< think >a</ think >b", "b", "a");
        check("< Think>a< / think >b", "b", "a");
        check("<think type=\"deep\">a</think>b", "b", "a");
        check("x <reasoning>a</reasoning> y", "x  y", "a");
        check("[THINK]a[/THINK]b", "b", "a");
        check("◁think▷a◁/think▷b", "b", "a");
        check("<|START_THINKING|>a<|END_THINKING|>b", "b", "a");
        check("<|channel|>analysis<|message|>a<|end|>b", "b", "a");
        check("<think></think>b", "b", "");
    }

    #[test]
    fn element_with_a_thinking_word_in_its_name_encloses_thinking() {
        for name in [
            "longcat_think",
            "thought_process",
            "inner_monologue",
            "reasoning_content",
            "analysis",
            "self-reflection",
            "scratchpad2",
            "think_v2.5",
            "Think-Step_1",
        ] {
            check(&format!("<{name}>a</{name}>b"), "b", "a");
            check(&format!("a</{name}>b"), "b", "a");
            check(
                &format!("`<{name}>` opens"),
                &format!("`<{name}>` opens"),
                "",
            );
        }
        check("word<analysis>a</analysis>b", "wordb", "a");
        check("word<Thinking>a", "word", "a");
        let long = format!("<think about=\"{}\">a</think>b", "x".repeat(200));
        check(&long, "b", "a");
    }

    #[test]
    fn thinking_of_every_vendor_with_a_mark_of_calls_is_separated() {
        let think = ("<think>", "</think>");
        let cohere = ("<|START_THINKING|>", "<|END_THINKING|>");
        let harmony = ("<|channel|>analysis<|message|>", "<|end|>");
        let medgemma = ("<unused94>thought\n", "<unused95>");
        let vendors = [
            (
                "<|tool_calls_section_begin|>",
                vec![think, ("◁think▷", "◁/think▷")],
            ),
            ("<|tool_call_begin|>", vec![think, ("◁think▷", "◁/think▷")]),
            ("<｜tool▁calls▁begin｜>", vec![think]),
            ("<｜dsml｜function_calls>", vec![think]),
            ("<｜dsml｜invoke ", vec![think]),
            ("<|tool_calls|>", vec![think]),
            ("<|tool_call|>", vec![think]),
            ("<|tool_call>", vec![("<|channel>thought\n", "<channel|>")]),
            ("<|tool_call_start|>", vec![think]),
            ("<|start_action|>", vec![cohere]),
            (
                "<|tools_prefix|>",
                vec![("<|inner_prefix|>", "<|inner_suffix|>")],
            ),
            (
                "<minimax:tool_call>",
                vec![think, ("<mm:think>", "</mm:think>")],
            ),
            ("<seed:tool_call>", vec![("<seed:think>", "</seed:think>")]),
            (
                "<longcat_tool_call>",
                vec![("<longcat_think>", "</longcat_think>")],
            ),
            ("<tool_calls>", vec![think]),
            ("<tool_call>", vec![think]),
            ("<toolcall>", vec![think]),
            ("<tool_use>", vec![("<thinking>", "</thinking>")]),
            ("<tool_code>", vec![medgemma]),
            (
                "<function_calls>",
                vec![("<antthinking>", "</antthinking>")],
            ),
            ("<function_call>", vec![think]),
            ("<functioncall>", vec![think]),
            ("<tool>", vec![("<scratchpad>", "</scratchpad>")]),
            ("<start_function_call>", vec![medgemma]),
            ("<invoke ", vec![("<thinking>", "</thinking>")]),
            ("<function=", vec![think]),
            (
                "<|python_tag|>",
                vec![("<|begin_of_thought|>", "<|end_of_thought|>")],
            ),
            ("<|plugin|>", vec![think]),
            ("[tool_calls]", vec![("[THINK]", "[/THINK]")]),
            ("[tool_request]", vec![think]),
            ("functools[", vec![think]),
            ("```tool_code", vec![medgemma]),
            ("```tool_call", vec![think]),
            ("```function_call", vec![think]),
            ("to=functions.", vec![harmony]),
            ("to=tool.", vec![harmony]),
            ("action:", vec![think]),
        ];
        for mark in crate::repair::marks() {
            let vendor = vendors.iter().find(|(begin, _)| *begin == mark);
            let Some((_, pairs)) = vendor else {
                panic!("`{mark}` has no vendor: add its thinking");
            };
            for (open, close) in pairs {
                let split = Split::of(&format!("{open}{mark}{close}b"));
                assert_eq!(split.answer(), "b", "{open}");
                assert_eq!(split.thinking.trim(), mark.trim(), "{open}");
            }
        }
    }

    #[test]
    fn nested_and_unclosed_thinking_extends_to_its_own_end() {
        check("<think>a<think>b</think>c</think>d", "d", "abc");
        check(
            "<think>a<thinking>b</thinking>c</think>d",
            "d",
            "a<thinking>b</thinking>c",
        );
        check("<think>a</thinking>b", "", "a</thinking>b");
        check("<think>a", "", "a");
        check("<think>a</thi", "", "a</thi");
    }

    #[test]
    fn closing_tag_without_opening_tag_ends_thinking_from_the_start() {
        check("a</think>b", "b", "a");
        check("<think>a</think>b</think>c", "c", "ab");
    }

    #[test]
    fn thinking_separates_the_parts_of_an_answer() {
        let split = Split::of("{\"title\": \"<think>a</think>b\"}");
        assert_eq!(split.parts, ["{\"title\": \"", "b\"}"]);
    }

    #[test]
    fn other_text_is_answer() {
        for text in [
            "",
            "a < b and c > d",
            "if a < think about it, then b > c",
            "<thin_king>a</thin_king>",
            "fn check() -> Option<Analysis> { None }",
            "let all: Vec<Reason> = Vec::<Reason>::new();",
            "<think",
            "<think/>a",
            "<|end|>",
            "the tag `<think>` opens and `</think>` closes",
            "[think",
            "list[0] <- x",
            "\n\n  indented",
        ] {
            check(text, text, "");
        }
    }
}
