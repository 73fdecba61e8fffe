//! JSON that the parser of every client reads. Parsers differ in halves of surrogate pairs, in numbers beyond the range
//! of floats and in the depth that they permit, and a parser that refuses one member refuses the whole message.

use orchestra_wire::RawJson;

use super::{Notes, Repairable};

/// Maximum depth of a definition. The message around a definition adds four levels, and System.Text.Json, which permits
/// the fewest, permits 64.
const MAX_DEPTH: usize = 56;

/// Returns a value that the parser of every client reads, or `None` if the given value is already readable.
pub(super) fn plain(kind: Repairable, value: &RawJson, notes: &mut Notes<'_>) -> Option<RawJson> {
    let shallow = match is_definition(kind) {
        true => shallow(value),
        // The depth of a result is content, which the caller asked for.
        false => None,
    };
    if shallow.is_some() {
        notes.add("was nested too deep: emptied there");
    }
    let readable = shallow.as_ref().unwrap_or(value).made_readable();
    if readable.is_some() {
        notes.add("had half of a surrogate pair, or a number beyond floats: replaced");
    }
    readable.or(shallow)
}

const fn is_definition(kind: Repairable) -> bool {
    match kind {
        Repairable::Tool | Repairable::Prompt | Repairable::Resource | Repairable::Template => true,
        Repairable::ToolResult
        | Repairable::PromptResult
        | Repairable::ResourceResult
        | Repairable::Completion
        | Repairable::Elicitation
        | Repairable::Sampling => false,
    }
}

/// Empties the arrays and objects below [`MAX_DEPTH`]. Returns `None` if there are none.
fn shallow(value: &RawJson) -> Option<RawJson> {
    let json = value.as_str();
    let openers = json.bytes().filter(|byte| matches!(byte, b'[' | b'{'));
    if openers.count() <= MAX_DEPTH {
        return None;
    }
    let mut emptied = String::new();
    // Everything before this offset is in `emptied`.
    let mut done = 0;
    let (mut depth, mut begin, mut is_escaped, mut in_string) = (0_usize, 0, false, false);
    for (at, byte) in json.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                if depth == MAX_DEPTH + 1 {
                    begin = at + 1;
                }
            }
            b']' | b'}' => {
                if depth == MAX_DEPTH + 1 && !json[begin..at].trim().is_empty() {
                    emptied.push_str(&json[done..begin]);
                    done = at;
                }
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
    }
    if done == 0 {
        return None;
    }
    emptied.push_str(&json[done..]);
    RawJson::checked(emptied.into()).ok()
}
