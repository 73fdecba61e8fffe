//! Values beside a name that is itself a value: `{"name": "DB_PASSWORD", "value": "…"}`.

use std::ops::Range;

use super::{
    Scanner,
    assignment::{Judgement, MAX_BESIDE, Separator},
    is_quote,
};
use crate::name::{Strength, strength};

/// Members whose value is the name of the value beside it.
const NAMES: [&str; 6] = ["name", "key", "header", "field", "variable", "n"];

impl Scanner<'_> {
    /// Masks the value beside a name that is itself a value, in any order: `{"name": "DB_PASSWORD", "value": "…"}`.
    pub(super) fn beside(&mut self, left: usize, right: usize, name: &str) {
        if !self.before(left).is_some_and(is_quote) {
            return;
        }
        let is_edge = |char: char| matches!(char, ' ' | '\t' | '\\' | '"' | '\'');
        let lowest = self
            .text
            .ceil_char_boundary(left.saturating_sub(MAX_BESIDE));
        let before = &self.text[lowest..left];
        self.examined(2 * MAX_BESIDE);
        let Some(member) = before.trim_end_matches(is_edge).strip_suffix(':') else {
            return;
        };
        let member = member.trim_end_matches(is_edge);
        let is_name = |name: &&str| {
            let start = member.len().checked_sub(name.len());
            let (head, tail) = member.split_at_checked(start?)?;
            (tail.eq_ignore_ascii_case(name) && head.ends_with(['"', '\'', ' ', '{', ',']))
                .then_some(())
        };
        if !NAMES.iter().any(|name| is_name(name).is_some()) {
            return;
        }
        let is_written = name.contains(|char: char| char.is_ascii_uppercase());
        match strength(name) {
            Some(Strength::Strong) => {}
            Some(Strength::Weak) if is_written => {}
            _ => return,
        }
        let highest = self.text.floor_char_boundary(right + MAX_BESIDE);
        let open = edges(before).last().map_or(lowest, |at| lowest + at);
        let close = edges(&self.text[right..highest]).next();
        let close = close.map_or(highest, |at| right + at);
        for range in [right..close, open..left] {
            let Some(at) = self.member(range) else {
                continue;
            };
            if let Some((begin, delimiter)) = self.opens(at) {
                let value = self.quoted(begin, &delimiter);
                self.judge(
                    &value,
                    Separator::Colon,
                    Judgement::Certain,
                    Strength::Strong,
                );
            }
        }
    }

    /// Position of the value of the member `value` in a range.
    pub(super) fn member(&self, range: Range<usize>) -> Option<usize> {
        let text = &self.text[range.clone()];
        let names = text.match_indices(['v', 'V']);
        names
            .filter_map(|(at, _)| {
                let rest = text[at..].get(5..)?;
                let is_begin = text[..at].ends_with(['"', '\'', ' ', '{', ',']);
                let rest = rest.trim_start_matches(['\\', '"', '\'', ' ']);
                let is_member = is_begin && text[at..at + 5].eq_ignore_ascii_case("value");
                let rest = rest.strip_prefix(':').filter(|_| is_member)?;
                Some(range.end - rest.trim_start_matches([' ', '\t']).len())
            })
            .next()
    }
}

/// Positions at which an object of JSON, or an item of YAML, begins or ends.
fn edges(text: &str) -> impl Iterator<Item = usize> {
    let is_item = |at: usize| {
        let before = text[..at].trim_end_matches([' ', '\t']);
        before.ends_with(['\n', '\r']) || before.ends_with("\\n")
    };
    let edges = text.match_indices(['{', '}', '-']);
    edges.filter_map(move |(at, edge)| (edge != "-" || is_item(at)).then_some(at))
}
