//! The parameters of calls, as they are sent.

use orchestra_wire::{RawJson, Rope, write};

use crate::definitions::raw;

/// Parameters that belong to a round of questions, or ask for something that our callers are not
/// offered: they are not passed on.
const OURS: [&str; 3] = ["inputResponses", "requestState", "task"];

/// A text as JSON.
pub(super) fn text(text: &str) -> RawJson {
    let mut rope = Rope::new();
    write::string(&mut rope, text);
    raw(rope)
}

/// The parameters of a call: those of ours, and those of the caller that nobody here knows.
pub(super) fn params(own: &[(&str, RawJson)], theirs: Option<&RawJson>) -> RawJson {
    let mut rope = Rope::new();
    let mut separator = b'{';
    let mut put = |key: &str, value: &RawJson| {
        rope.push_byte(std::mem::replace(&mut separator, b','));
        write::string(&mut rope, key);
        rope.push_byte(b':');
        write::raw(&mut rope, value);
    };
    own.iter().for_each(|(key, value)| put(key, value));
    for member in theirs.and_then(RawJson::members).into_iter().flatten() {
        let key = &*member.key;
        if !OURS.contains(&key) && !own.iter().any(|(name, _)| *name == key) {
            put(key, &member.value);
        }
    }
    rope.push_byte(b'}');
    raw(rope)
}
