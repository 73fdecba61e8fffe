//! Place of a call in an answer: behind plain prose, not within markup or a quotation.

use super::marked::fence;

/// Characters that blanks before a call may have; with more the line is one of code.
const MAX_INDENT: usize = 3;

/// Marks of templates that tell of a speaker and are not written as elements, in lower case.
const SPEAKERS: [&str; 5] = [
    "[inst]",
    "[/inst]",
    "[tool_results]",
    "[/tool_results]",
    "[available_tools]",
];

/// Lines that name a speaker or a result, in lower case.
const HEADS: [&str; 12] = [
    "user",
    "human",
    "system",
    "developer",
    "tool",
    "function",
    "observation",
    "tool response",
    "tool result",
    "result",
    "output",
    "input",
];

/// Words of a line with a colon at its end that negates or reports the call below it, in lower case.
const REPORTS: [&str; 24] = [
    "not",
    "never",
    "don't",
    "won't",
    "cannot",
    "can't",
    "shouldn't",
    "wouldn't",
    "avoid",
    "refuse",
    "instead",
    "said",
    "says",
    "answered",
    "answers",
    "replied",
    "wrote",
    "writes",
    "returned",
    "returns",
    "printed",
    "prints",
    "contains",
    "reads",
];

/// Returns whether a call may be meant behind this text: it begins a line, and plain prose is before the line.
/// Marks of templates were removed.
pub(super) fn begins_line(before: &str) -> bool {
    let (prose, line) = before.rsplit_once('\n').unwrap_or(("", before));
    let is_blank = line.chars().all(|c| c == ' ') && line.len() <= MAX_INDENT;
    is_blank && is_prose(prose)
}

/// Returns whether a text is plain prose: no markup, quotation or mark of a speaker in it is open at its end.
pub(super) fn is_prose(text: &str) -> bool {
    let mut prose = String::new();
    let mut open: Option<&str> = None;
    for line in text.split('\n') {
        let inner = line.trim_start();
        match (open, fence(inner)) {
            (None, Some(begin)) => open = Some(begin),
            (None, None) => {
                prose.push_str(&without_spans(line));
                prose.push('\n');
            }
            (Some(begin), _) if inner.starts_with(begin) => open = None,
            (Some(_), _) => {}
        }
    }
    let folded = prose.to_lowercase();
    let count = |c: char| prose.matches(c).count();
    let is_quoted = count('"') % 2 == 1 || count('“') > count('”') || count('«') > count('»');
    let has_speaker = SPEAKERS.iter().any(|mark| folded.contains(mark));
    open.is_none() && !is_quoted && !has_speaker && !has_element(&folded) && !is_introduced(&folded)
}

/// A line without its spans of code.
fn without_spans(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    match parts.len() % 2 {
        1 => parts.into_iter().step_by(2).collect(),
        _ => line.to_owned(),
    }
}

/// Returns whether a text has an element, a comment or a mark of a template.
fn has_element(text: &str) -> bool {
    text.match_indices('<').any(|(at, _)| {
        let next = text[at + 1..].chars().next();
        next.is_some_and(|c| !c.is_whitespace() && !c.is_ascii_digit() && !matches!(c, '=' | '-'))
    })
}

/// Returns whether the last line, in lower case, makes what is below it a part of a list, a table or a quotation, or
/// reports or negates it.
fn is_introduced(text: &str) -> bool {
    let Some(last) = text.lines().rev().find(|line| !line.trim().is_empty()) else {
        return false;
    };
    let line = last.trim();
    let behind = &text[text.trim_end().len()..];
    let is_direct = behind.matches('\n').count() <= 1;
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_item = line.starts_with(['>', '|', '•'])
        || ["- ", "* ", "+ "].iter().any(|sign| line.starts_with(sign))
        || (number.len() < line.len() && number.starts_with(['.', ')']));
    let words = line.trim_end_matches(['*', '_']).strip_suffix([':', '：']);
    let head = words.unwrap_or(line).trim_matches(['*', '_', '#', ' ']);
    let has_report = words.is_some_and(|words| {
        let mut words = words.split(|c: char| !c.is_alphanumeric() && !matches!(c, '\'' | '’'));
        words.any(|word| REPORTS.contains(&word.replace('’', "'").as_str()))
    });
    (is_item && is_direct) || HEADS.contains(&head) || has_report
}
