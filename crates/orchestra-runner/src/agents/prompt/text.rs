//! Putting texts that come from elsewhere into a prompt, so that they cannot leave their place in it.

use std::path::Path;

/// The longest path that is shown.
const MAX_PATH_BYTES: usize = 1_000;

/// The text with its marks replaced, each once: what is put in is not looked at again.
pub(super) fn filled(text: &str, marks: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(text.len() * 2);
    let mut rest = text;
    while let Some((before, from)) = rest.split_once("{{") {
        filled.push_str(before);
        let (name, after) = from.split_once("}}").unwrap_or((from, ""));
        let value = marks.iter().find(|(mark, _)| *mark == name);
        filled.push_str(value.map_or("", |(_, value)| value));
        rest = after;
    }
    filled.push_str(rest);
    filled
}

/// A text between fences that it cannot close.
pub(super) fn fenced(text: &str) -> String {
    let text = text.trim_end();
    let longest = text
        .split(|char| char != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    let text = if text.is_empty() { "(nothing)" } else { text };
    format!("{fence}text\n{text}\n{fence}")
}

/// A path as code in one line.
pub(super) fn path(path: &Path) -> String {
    let shown = line(&path.display().to_string());
    format!("`{}`", head(&shown, MAX_PATH_BYTES).replace('`', "'"))
}

/// A text in one line.
pub(super) fn line(text: &str) -> String {
    let text: String = text
        .chars()
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect();
    head(text.trim(), MAX_PATH_BYTES).to_owned()
}

/// The beginning of a text.
pub(super) fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}
