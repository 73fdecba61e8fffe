//! Separation of a model's thinking from its answer, where the server sends both in one text.
//!
//! Servers that know the format of a model send its thinking in a field of its own. Other servers pass it on as the
//! model wrote it, between tags such as `<think>` and `</think>`. Nothing between such tags is an answer or a call.

use std::{collections::BTreeMap, ops::Range};

use crate::request::Piece;

/// Parts of the names of elements that enclose thinking, in lower case: `<longcat_think>`, `<thought_process>`.
const STEMS: [&str; 5] = ["think", "thought", "reasoning", "monologue", "scratchpad"];

/// Parts of such names that ordinary words contain as well, in lower case: `advance_task ID <reason>`.
const WORDS: [&str; 3] = ["reason", "reflect", "analysis"];

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

/// Certainty that a tag is one of thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Certainty {
    /// It is anywhere.
    Certain,
    /// It is at the beginning of the answer. Elsewhere it may be an ordinary word, such as `<reason>`, or a component,
    /// such as `<ThinkingPanel>`.
    Word,
    /// It is written like a type or a component, such as `Option<Thought>` or `<AnalysisPanel>`.
    Type,
}

impl Certainty {
    /// The certainty of a tag, by its text and the character before it.
    fn of(kind: &Kind, tag: &str, before: Option<char>) -> Self {
        let Kind::Element(folded) = kind else {
            return Self::Certain;
        };
        let name = &tag.trim_start_matches(['<', '/', ' '])[..folded.len()];
        let is_upper = |text: &str| text.starts_with(|c: char| c.is_ascii_uppercase());
        let mut pairs = name.as_bytes().windows(2);
        let is_component = is_upper(name)
            && pairs.any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
        let is_behind_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':');
        let is_parameter = is_behind_word && is_upper(&tag[1..]) && !folded.contains("think");
        let has_stem = contains(&STEMS, folded);
        if is_parameter || (is_component && !has_stem) {
            return Self::Type;
        }
        match has_stem && !is_component {
            true => Self::Certain,
            false => Self::Word,
        }
    }
}

/// Returns whether a name contains one of these parts.
fn contains(parts: &[&str], name: &str) -> bool {
    parts.iter().any(|part| name.contains(part))
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
    /// Set once the answer has a character that is not blank.
    has_answer: bool,
    /// Places of the uncertain tags that were not closed, by name. They are part of the answer.
    uncertain: BTreeMap<String, Vec<usize>>,
    split: Split,
}

/// A text that was split.
#[derive(Debug, Default)]
pub(crate) struct Split {
    /// The parts of the answer, which thinking separates. What one part leaves open does not continue in the next.
    pub(crate) parts: Vec<String>,
    /// The thinking.
    pub(crate) thinking: String,
    /// Places in the text, tags included, in which no call is made: the thinking, and the content of uncertain
    /// elements.
    ranges: Vec<Range<usize>>,
    /// The same for the thinking that began before the text: its end.
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

    /// Returns whether any of the text between two places may be thinking. A place is a length of the text before it.
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

/// State of a fence of Markdown whose name is a name of thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fence {
    /// The text does not begin with one.
    No,
    /// It is the whole text.
    Whole,
    /// Other text is behind its end.
    Closed,
}

impl Fence {
    /// The state of the fence with which a text begins.
    pub(crate) fn of(text: &str) -> Self {
        let (line, behind) = text
            .trim_start()
            .split_once('\n')
            .unwrap_or((text.trim(), ""));
        let name = line.trim_start_matches(['`', '~']).to_ascii_lowercase();
        let sign = &line[..line.len() - name.len()];
        let is_fence = sign.starts_with("```") || sign.starts_with("~~~");
        if !is_fence || !(contains(&STEMS, &name) || contains(&WORDS, &name)) {
            return Self::No;
        }
        let mut lines = behind.lines().map(str::trim);
        let is_end =
            |line: &str| line.starts_with(sign) && line.trim_matches(['`', '~']).is_empty();
        let is_closed = lines.any(is_end) && lines.any(|line| !line.is_empty());
        match is_closed {
            true => Self::Closed,
            false => Self::Whole,
        }
    }
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
            match tag(&folded[at..], before, is_end) {
                Tag::No => at += step,
                Tag::Undecided => break,
                Tag::Open(kind, length) => {
                    self.emit(&text[from..at], &mut pieces);
                    from = at;
                    let certainty = Certainty::of(&kind, &text[at..at + length], before);
                    if self.opens(kind, certainty, self.passed + at) {
                        from += length;
                    }
                    at += length;
                }
                Tag::Close(kind, length) => {
                    self.emit(&text[from..at], &mut pieces);
                    from = at;
                    let certainty = Certainty::of(&kind, &text[at..at + length], before);
                    if self.closes(&kind, certainty, self.passed + at + length) {
                        from += length;
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

    /// Takes an opening tag at a place. Returns whether it is a tag of thinking; otherwise it is text.
    fn opens(&mut self, kind: Kind, certainty: Certainty, place: usize) -> bool {
        if let Some((open, depth)) = &mut self.open {
            let is_same = *open == kind;
            *depth += usize::from(is_same);
            return is_same;
        }
        let is_thinking = match certainty {
            Certainty::Certain => true,
            Certainty::Word => !self.has_answer,
            Certainty::Type => false,
        };
        match kind {
            Kind::Element(name) if !is_thinking => {
                self.uncertain.entry(name).or_default().push(place);
            }
            kind => {
                self.open = Some((kind, 1));
                self.opened = place;
                self.split.begin_part();
            }
        }
        is_thinking
    }

    /// Takes a closing tag that ends at a place. Returns whether it is a tag of thinking; otherwise it is text.
    fn closes(&mut self, kind: &Kind, certainty: Certainty, end: usize) -> bool {
        match (&mut self.open, kind) {
            (Some((open, depth)), _) if *open == *kind => {
                *depth -= 1;
                if *depth == 0 {
                    self.open = None;
                    self.split.ranges.push(self.opened..end);
                }
                true
            }
            (None, Kind::Element(name)) if certainty != Certainty::Certain => {
                match self.uncertain.get_mut(name).and_then(Vec::pop) {
                    Some(begin) => self.split.ranges.push(begin..end),
                    None if certainty == Certainty::Word => self.split.from_start = end,
                    None => {}
                }
                false
            }
            (None, _) if kind.closes_from_start() => {
                let before = std::mem::take(&mut self.split.parts).concat();
                self.split.thinking.push_str(&before);
                self.split.begin_part();
                self.has_answer = false;
                self.split.from_start = end;
                true
            }
            _ => false,
        }
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
        let is_first = parts.len() > 1 && !self.has_answer;
        let text = if is_first { text.trim_start() } else { text };
        if text.is_empty() {
            return;
        }
        self.has_answer |= !text.trim().is_empty();
        match parts.last_mut() {
            Some(part) => part.push_str(text),
            None => parts.push(text.to_owned()),
        }
        pieces.push(Piece::Text(text.to_owned()));
    }
}

/// Looks for a tag at the start of a text in lower case. A tag in backquotes is a mention.
fn tag(text: &str, before: Option<char>, is_end: bool) -> Tag {
    let found = match text.chars().next() {
        Some('<' | '[' | '◁') => match mark(text) {
            Tag::No => element(text),
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
fn element(text: &str) -> Tag {
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
    if !contains(&STEMS, name) && !contains(&WORDS, name) {
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
        check("<reason>a</reason>b", "b", "a");
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
        check("word<Thinking>a", "word", "a");
        let long = format!("<think about=\"{}\">a</think>b", "x".repeat(200));
        check(&long, "b", "a");
    }

    #[test]
    fn element_with_an_ordinary_name_encloses_thinking_at_the_beginning() {
        for name in [
            "reason",
            "analysis",
            "self-reflection",
            "Reflection",
            "ThoughtProcess",
            "ThinkingProcess",
            "ChainOfThought",
            "InnerMonologue",
        ] {
            check(&format!("<{name}>a</{name}>b"), "b", "a");
            check(&format!("<{name}>a"), "", "a");
            check(&format!("<think>a</think><{name}>b"), "", "ab");
            for text in [
                format!("word <{name}>a"),
                format!("word <{name}>a</{name}>b"),
                format!("a</{name}>b"),
            ] {
                check(&text, &text, "");
            }
        }
        check("a</think>\n<reason>b</reason>c", "c", "ab");
        check("<reason>a<reason>b</reason>c</reason>d", "d", "abc");
    }

    #[test]
    fn place_in_an_element_that_may_be_of_thinking_is_thinking() {
        for (text, expected) in [
            ("word <reason>a|</reason>b", true),
            ("word <reason>a</reason>b|", false),
            ("word <reason>a|", false),
            ("word| <reason>a</reason>", false),
            ("<reason>a|", true),
            ("a|</reason>b", true),
            ("a</reason>b|", false),
            ("word <reason>a<reason>b</reason>c|</reason>", true),
            ("word <reason>a|<reason>b</reason>c", false),
            ("<AnalysisPanel>a|", false),
            ("<AnalysisPanel>a|</AnalysisPanel>", true),
            ("a|</AnalysisPanel>", false),
            ("Option<Thought>a|", false),
            ("Option<ThoughtProcess>a|", false),
            ("<ThinkingPanel>a|", true),
            ("word <ThinkingPanel>a|", false),
            ("word <think>a|", true),
        ] {
            let place = text.find('|').unwrap();
            let split = Split::of(&text.replace('|', ""));
            assert_eq!(split.is_thinking(place, place), expected, "{text}");
        }
    }

    #[test]
    fn fence_of_thinking_is_closed_where_text_is_behind_it() {
        for (text, expected) in [
            ("```thinking\na\n```\nb", Fence::Closed),
            ("~~~ Analysis\na\n~~~~\n\nb", Fence::Closed),
            ("```thinking\na\n```\n", Fence::Whole),
            ("\n```thinking\na", Fence::Whole),
            ("````thinking\na\n```\nb", Fence::Whole),
            ("```thinking\na\n```b", Fence::Whole),
            ("```thinking\na\n~~~\nb", Fence::Whole),
            ("```thinking", Fence::Whole),
            ("```json\na\n```\nb", Fence::No),
            ("thinking\n```\na", Fence::No),
            ("", Fence::No),
        ] {
            assert_eq!(Fence::of(text), expected, "{text:?}");
        }
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
            "I use `advance_task MA-3 <reason>` now.",
            "<AnalysisPanel> shows it",
            "#include <reflection>",
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
