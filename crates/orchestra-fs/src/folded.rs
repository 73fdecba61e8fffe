//! Names that file systems without case treat as equal.

/// A name as a file system without case has it, without the characters that some file systems ignore: there
/// `.Store` is `.store`.
#[must_use]
pub fn folded(name: &str) -> String {
    let seen = |c: &char| !matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let upper = name.chars().filter(seen).flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).collect()
}
