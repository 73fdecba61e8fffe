//! Calls behind marks that mean nothing else.

use std::sync::Arc;

use super::{Fault, Found, names, pieces::calls, plain::shows};
use crate::{thinking::Split, tool::Tool};

/// A mark, and what ends what stands behind it; without any it goes on to the next mark or the end.
struct Mark {
    begin: &'static str,
    ends: &'static [&'static str],
}

/// In small letters, as they are looked for.
const MARKS: [Mark; 37] = [
    Mark {
        begin: "<|tool_calls_section_begin|>",
        ends: &["<|tool_calls_section_end|>"],
    },
    Mark {
        begin: "<｜tool▁calls▁begin｜>",
        ends: &["<｜tool▁calls▁end｜>"],
    },
    Mark {
        begin: "<|tool_calls|>",
        ends: &["<|/tool_calls|>"],
    },
    Mark {
        begin: "<|tool_call|>",
        ends: &["<|/tool_call|>", "</tool_call>", "<|end|>"],
    },
    Mark {
        begin: "<|tool_call>",
        ends: &["<tool_call|>"],
    },
    Mark {
        begin: "<|tool_call_begin|>",
        ends: &["<|tool_call_end|>"],
    },
    Mark {
        begin: "<|tool_call_start|>",
        ends: &["<|tool_call_end|>"],
    },
    Mark {
        begin: "<|start_action|>",
        ends: &["<|end_action|>"],
    },
    Mark {
        begin: "<|tools_prefix|>",
        ends: &["<|tools_suffix|>"],
    },
    Mark {
        begin: "<｜dsml｜function_calls>",
        ends: &["</｜dsml｜function_calls>"],
    },
    Mark {
        begin: "<｜dsml｜invoke ",
        ends: &["</｜dsml｜invoke>"],
    },
    Mark {
        begin: "<minimax:tool_call>",
        ends: &["</minimax:tool_call>"],
    },
    Mark {
        begin: "<seed:tool_call>",
        ends: &["</seed:tool_call>"],
    },
    Mark {
        begin: "<longcat_tool_call>",
        ends: &["</longcat_tool_call>"],
    },
    Mark {
        begin: "<tool_calls>",
        ends: &["</tool_calls>"],
    },
    Mark {
        begin: "<tool_call>",
        ends: &["</tool_call>", "<tool_call/>", "</tool_calls>"],
    },
    Mark {
        begin: "<toolcall>",
        ends: &["</toolcall>"],
    },
    Mark {
        begin: "<tool_use>",
        ends: &["</tool_use>"],
    },
    Mark {
        begin: "<tool_code>",
        ends: &["</tool_code>"],
    },
    Mark {
        begin: "<function_calls>",
        ends: &["</function_calls>"],
    },
    Mark {
        begin: "<function_call>",
        ends: &["</function_call>"],
    },
    Mark {
        begin: "<functioncall>",
        ends: &["</functioncall>", "<|endoftext|>"],
    },
    Mark {
        begin: "<tool>",
        ends: &["</tool>"],
    },
    Mark {
        begin: "<start_function_call>",
        ends: &["<end_function_call>"],
    },
    Mark {
        begin: "<invoke ",
        ends: &["</invoke>"],
    },
    Mark {
        begin: "<function=",
        ends: &["</function>"],
    },
    Mark {
        begin: "<|python_tag|>",
        ends: &["<|eom_id|>", "<|eot_id|>"],
    },
    Mark {
        begin: "<|plugin|>",
        ends: &["<|action_end|>", "<|im_end|>"],
    },
    Mark {
        begin: "[tool_calls]",
        ends: &["</s>"],
    },
    Mark {
        begin: "[tool_request]",
        ends: &["[end_tool_request]"],
    },
    Mark {
        begin: "functools[",
        ends: &[],
    },
    Mark {
        begin: "```tool_code",
        ends: &["```"],
    },
    Mark {
        begin: "```tool_call",
        ends: &["```"],
    },
    Mark {
        begin: "```function_call",
        ends: &["```"],
    },
    Mark {
        begin: "to=functions.",
        ends: &["<|call|>", "<|end|>"],
    },
    Mark {
        begin: "to=tool.",
        ends: &["<|call|>", "<|end|>"],
    },
    Mark {
        begin: ACTION,
        ends: &["observation:"],
    },
];

/// A mark that is a word of a sentence unless it begins a line.
const ACTION: &str = "action:";

/// Beginning of the text that an agent prints before an action, in lower case.
const THOUGHT: &str = "thought:";

/// So much of the text before a mark says whether it is shown as an example.
const NEAR: usize = 80;

/// Marks of a template that stand around calls and say nothing.
const AROUND: [&str; 18] = [
    "<|eom_id|>",
    "<|eot_id|>",
    "<|im_end|>",
    "<|im_start|>assistant",
    "<|im_start|>",
    "<|end|>",
    "<|endoftext|>",
    "</s>",
    "<s>",
    "<|call|>",
    "<|assistant|>",
    "<|start_header_id|>assistant<|end_header_id|>",
    "<end_of_turn>",
    "<|start|>assistant",
    "<|channel|>commentary",
    "<|eos|>",
    "<|action_start|>",
    "<|message|>",
];

/// How many marks of a text are looked at: a model that goes on for ever calls nothing.
const MOST: usize = 64;

/// Marks that begin calls.
pub(super) fn begins() -> impl Iterator<Item = &'static str> {
    MARKS.iter().map(|mark| mark.begin)
}

/// Places of a mark in a text; both are in lower case. A mark that begins with a letter is no part of a longer word.
pub(super) fn places<'t>(folded: &'t str, mark: &'t str) -> impl Iterator<Item = usize> + 't {
    let is_word = mark.starts_with(char::is_alphabetic);
    let places = folded.match_indices(mark).map(|(at, _)| at);
    places.filter(move |at| !(is_word && folded[..*at].ends_with(char::is_alphanumeric)))
}

/// Returns whether a call may be meant behind a text: nothing is before it but the thought of an agent before its
/// action, which ends before the line of the action and neither asks nor introduces it.
fn may_follow(before: &str, mark: &str) -> bool {
    let before = without_templates(before);
    let (thought, line) = before.rsplit_once('\n').unwrap_or(("", &before));
    let thought = thought.trim();
    let is_thought = mark == ACTION
        && thought.to_ascii_lowercase().starts_with(THOUGHT)
        && !thought.ends_with([':', '?', '：', '？'])
        && line.trim().is_empty();
    before.trim().is_empty() || is_thought
}

/// The calls behind marks; `None` where there is no mark, or nothing is called behind it.
pub(super) fn found(text: &str, tools: &[Arc<Tool>]) -> Option<Found> {
    let folded = text.to_ascii_lowercase();
    let mut said = Vec::new();
    let mut rest = String::new();
    // Up to where it was looked at.
    let mut from = 0;
    // Length of the text without calls at the last call, and whether it ends what the model says.
    let mut last: Option<usize> = None;
    let mut is_over = false;
    let mut is_surrounded = false;
    for _ in 0..MOST {
        let Some((at, mark)) = next(&folded[from..]) else {
            break;
        };
        let (at, behind) = (from + at, from + at + mark.begin.len());
        let (end, after, is_closed) = piece(&folded[behind..], mark);
        // Calls before it are no part of the Markdown around it.
        let before = format!("{rest}{}", &text[from..at]);
        let follows = &text[if is_closed { behind + after } else { behind }..];
        let inner = &text[behind..behind + end];
        let fenced = fenced(&before, follows);
        let is_example = fenced == Fenced::BeforeText
            || is_code(&before, inner, follows, mark.begin, fenced)
            || is_shown(&text[..at], mark.begin);
        let mut calls = match is_example {
            true => Vec::new(),
            false => calls(mark.begin, inner, is_closed),
        };
        if fenced == Fenced::AfterText {
            let quoted = calls.into_iter().map(|call| call.with(Some(Fault::Quoted)));
            calls = quoted.collect();
        }
        if mark.begin == ACTION {
            // It is a word of a sentence as well.
            calls.retain(|call| names::nearly(&call.name, tools).is_some());
        }
        if !calls.is_empty() {
            is_surrounded |= match last {
                Some(last) => !is_nothing(&before[last..]),
                None if fenced == Fenced::Whole => {
                    let open = open_fence(&before).map_or(0, |(open, _)| open);
                    let inner = before[open..].split_once('\n');
                    inner.is_some_and(|(_, inner)| !is_nothing(inner))
                }
                None => !may_follow(&before, mark.begin),
            };
            is_surrounded |= !is_closed && is_followed(inner);
            // A model that goes on behind it invents the result: more calls depend on the invention.
            is_over = mark.begin == ACTION && is_closed;
            // The text behind it may show that the call is part of the thinking.
            is_surrounded |= is_over && {
                let rest = [&text[..at], &text[behind + after..]].concat();
                Split::of(&rest).is_thinking(at, at)
            };
            last = Some(before.len());
        }
        // Marks within an example are a part of it, but for a mark that is only mentioned.
        let is_mention =
            inner.starts_with('`') || folded[behind..behind + end].contains(mark.begin);
        let (text_until, next_from) = match calls.is_empty() {
            true if is_example && is_closed && !is_mention => (behind + after, behind + after),
            true => (behind, behind),
            false => (at, behind + after),
        };
        rest.push_str(&text[from..text_until]);
        from = next_from;
        said.append(&mut calls);
        if is_over {
            break;
        }
    }
    rest.push_str(&text[from..]);
    is_surrounded |= !is_over && last.is_some_and(|last| !is_nothing(&rest[last..]));
    if is_surrounded {
        let surrounded = said
            .into_iter()
            .map(|call| call.with(Some(Fault::Surrounded)));
        said = surrounded.collect();
    }
    (!said.is_empty()).then(|| Found {
        said,
        rest: cleaned(&rest),
    })
}

/// Returns whether text is behind the calls within a piece that no mark ends.
fn is_followed(inner: &str) -> bool {
    let ends = [
        "</invoke>",
        "</function>",
        "</tool_call>",
        "<|tool_call_end|>",
        "<｜tool▁call▁end｜>",
    ];
    let ends = ends.iter();
    let end = ends
        .filter_map(|end| Some(inner.rfind(end)? + end.len()))
        .max();
    end.is_some_and(|end| !is_nothing(&inner[end..]))
}

/// Returns whether a text holds nothing but blanks, signs of fences and marks.
pub(super) fn is_nothing(text: &str) -> bool {
    let mut left = without_templates(text).to_ascii_lowercase();
    for mark in &MARKS {
        let own = std::iter::once(mark.begin).chain(mark.ends.iter().copied());
        for mark in own.filter(|mark| mark.starts_with(['<', '['])) {
            if left.contains(mark) {
                left = left.replace(mark, "");
            }
        }
    }
    left.trim_matches(|c: char| c.is_whitespace() || matches!(c, '`' | '~'))
        .is_empty()
}

/// A text without the marks of templates that say nothing. One that another speaker follows remains.
pub(super) fn without_templates(text: &str) -> String {
    let mut left = text.to_owned();
    for mark in AROUND {
        let speaks = |at: usize| {
            let next = left[at + mark.len()..].chars().next();
            mark == "<|im_start|>" && next.is_some_and(char::is_alphabetic)
        };
        let is_of_another = left.match_indices(mark).any(|(at, _)| speaks(at));
        if !is_of_another && left.contains(mark) {
            left = left.replace(mark, "");
        }
    }
    left
}

/// Returns whether a mark is behind words that show an example.
fn is_shown(before: &str, mark: &str) -> bool {
    let mut from = before.len().saturating_sub(NEAR);
    while !before.is_char_boundary(from) {
        from += 1;
    }
    mark != ACTION && shows(&before[from..])
}

/// Returns whether a mark is in a code span.
fn is_code(before: &str, inner: &str, follows: &str, mark: &str, fenced: Fenced) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    let is_open = fenced == Fenced::No && line.matches('`').count() % 2 == 1;
    let is_closed = follows.lines().next().unwrap_or_default().contains('`');
    let is_first = before.ends_with('`') && !before.ends_with("```");
    // A fence has more than one line.
    let begins_fence = fenced != Fenced::No && unindented(line).starts_with("```");
    let is_span = begins_fence && is_closed && !inner.contains('\n');
    !mark.starts_with('`') && (is_first || is_span || (is_open && is_closed))
}

/// Place of a mark in the Markdown of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fenced {
    /// In no fence.
    No,
    /// In a fence that is the whole answer.
    Whole,
    /// In a fence with other text only before it: a call or an example.
    AfterText,
    /// In a fence that other text follows: an example.
    BeforeText,
}

/// Returns the place of a mark, by the text before it and the text that follows the call.
fn fenced(before: &str, follows: &str) -> Fenced {
    let Some((open, fence)) = open_fence(before) else {
        return Fenced::No;
    };
    let is_last = cleaned(behind_fence(follows, fence)).is_empty();
    match cleaned(&before[..open]).is_empty() {
        _ if !is_last => Fenced::BeforeText,
        true => Fenced::Whole,
        false => Fenced::AfterText,
    }
}

/// The fence of Markdown that a text leaves open: its place and its first characters.
fn open_fence(text: &str) -> Option<(usize, &str)> {
    let mut open: Option<(usize, &str)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let inner = unindented(line);
        open = match open {
            None => fence(inner).map(|fence| (at, fence)),
            Some((_, own)) if inner.starts_with(own) && cleaned(unfenced(inner)).is_empty() => None,
            open => open,
        };
        at += line.len();
    }
    open
}

/// The text behind the end of a fence; empty where the fence does not end.
fn behind_fence<'t>(text: &'t str, fence: &str) -> &'t str {
    let mut left = text;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let inner = unindented(line);
        // The first line is that of the call.
        let end = match number {
            0 => line.find(fence),
            _ => inner.starts_with(fence).then(|| line.len() - inner.len()),
        };
        if let Some(end) = end {
            return unfenced(&left[end..]);
        }
        left = &left[line.len()..];
    }
    ""
}

/// The characters with which a line opens a fence.
fn fence(line: &str) -> Option<&str> {
    let length = line.len() - line.trim_start_matches('`').len();
    let length = match length {
        0 => line.len() - line.trim_start_matches('~').len(),
        length => length,
    };
    // A span of code is no fence.
    let is_fence = length >= 3 && !line[length..].contains('`');
    is_fence.then(|| &line[..length])
}

fn unfenced(text: &str) -> &str {
    text.trim_start_matches(['`', '~'])
}

/// A line without blanks and the signs of a quotation before it.
fn unindented(line: &str) -> &str {
    line.trim_start_matches([' ', '\t', '>'])
}

/// Up to where a text has no mark, nor what may be the beginning of one at its end.
pub(super) fn free_until(text: &str, is_mid_line: bool) -> usize {
    let folded = text.to_ascii_lowercase();
    let text = folded.as_str();
    // A line that goes on does not begin with anything.
    let found = next(text).filter(|(at, mark)| !(is_mid_line && *at == 0 && mark.begin == ACTION));
    if let Some((at, _)) = found {
        return at;
    }
    let marks = MARKS.iter().map(|mark| mark.begin).chain(AROUND);
    let begun = marks.filter_map(|mark| {
        let length = begun(text, mark)?;
        let at = text.len() - length;
        // A word of a sentence unless it begins a line.
        let begins_line = text[..at].trim_end_matches([' ', '\t']);
        let begins = (begins_line.is_empty() && !is_mid_line) || begins_line.ends_with('\n');
        let counts = mark != ACTION || begins;
        counts.then_some(at)
    });
    begun.min().unwrap_or(text.len())
}

/// Returns whether a text begins with a mark.
pub(super) fn begins_with(text: &str, is_mid_line: bool) -> bool {
    let longest = MARKS.iter().map(|mark| mark.begin.len()).max();
    let head: String = text.chars().take(longest.unwrap_or_default()).collect();
    let head = head.to_ascii_lowercase();
    let begins = |mark: &Mark| head.starts_with(mark.begin);
    MARKS
        .iter()
        .any(|mark| begins(mark) && !(is_mid_line && mark.begin == ACTION))
}

/// How many of the last letters of a text are the first ones of a mark.
fn begun(text: &str, mark: &str) -> Option<usize> {
    let lengths = mark.char_indices().map(|(at, c)| at + c.len_utf8());
    lengths
        .rev()
        .find(|length| text.ends_with(&mark[..*length]))
}

/// The first mark in a text.
fn next(text: &str) -> Option<(usize, &'static Mark)> {
    let places = MARKS.iter().filter_map(|mark| {
        let at = match mark.begin {
            // A word of a sentence unless it begins a line.
            ACTION => line_that_begins(text, ACTION)?,
            begin => places(text, begin).next()?,
        };
        Some((at, mark))
    });
    // Of those at one place the longest is meant.
    places.min_by_key(|(at, mark)| (*at, usize::MAX - mark.begin.len()))
}

fn line_that_begins(text: &str, with: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let blanks = line.len() - line.trim_start().len();
        if line.trim_start().starts_with(with) {
            return Some(at + blanks);
        }
        at += line.len();
    }
    None
}

/// Up to where what stands behind a mark belongs to it, from where on something else comes, and whether a mark ends it.
fn piece(behind: &str, mark: &Mark) -> (usize, usize, bool) {
    let ends = mark.ends.iter();
    let end = ends
        .filter_map(|end| Some((behind.find(end)?, end.len())))
        .min();
    match end {
        Some((at, length)) => (at, at + length, true),
        None => {
            // The next call of the same kind ends one that was not closed.
            let again = behind.find(mark.begin).unwrap_or(behind.len());
            (again, again, false)
        }
    }
}

/// A text without marks that say nothing.
fn cleaned(text: &str) -> String {
    let mut cleaned = text.to_owned();
    for mark in AROUND {
        if cleaned.contains(mark) {
            cleaned = cleaned.replace(mark, "");
        }
    }
    cleaned.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_in_a_fence_has_the_place_of_the_fence() {
        for (before, follows, expected) in [
            ("", "", Fenced::No),
            ("Text.\n```\ncode\n```\n", "\nText.", Fenced::No),
            ("```x``` and ", "", Fenced::No),
            ("```xml\n", "\n```", Fenced::Whole),
            ("```", "```", Fenced::Whole),
            ("<s>\n```\n", "\n```\n<|im_end|>", Fenced::Whole),
            ("```\n", "", Fenced::Whole),
            ("Text.\n~~~\n", "\n~~~", Fenced::AfterText),
            ("```\n", "\n```\nText.", Fenced::BeforeText),
            ("```", "``` Text.", Fenced::BeforeText),
            (
                "Text.\n````\n```\n",
                "\n```\n````\nText.",
                Fenced::BeforeText,
            ),
            ("Text.\n> ```\n> ", "\n> ```\n> Text.", Fenced::BeforeText),
        ] {
            assert_eq!(fenced(before, follows), expected, "{before:?} {follows:?}");
        }
    }
}
