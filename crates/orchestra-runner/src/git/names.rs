//! Names as git says them, read into the types of a plan's model, and what git makes of branches' names.

use orchestra_plan::ids::{Branch, Commit};

use super::GitError;

/// By which function a repository names its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectFormat {
    /// 40 hexadecimal digits.
    Sha1,
    /// 64 hexadecimal digits.
    Sha256,
}

impl ObjectFormat {
    /// The name that stands for no object.
    pub(super) fn none(self) -> &'static str {
        match self {
            Self::Sha1 => "0000000000000000000000000000000000000000",
            Self::Sha256 => "0000000000000000000000000000000000000000000000000000000000000000",
        }
    }
}

/// Reads the name of a commit; the one that stands for no object is none.
pub(super) fn commit(text: &str) -> Result<Commit, GitError> {
    let bad = || GitError::Name {
        what: "commit",
        name: shortened(text),
        why: "40 or 64 hexadecimal digits are expected, not all of them zero",
    };
    let named = text.bytes().any(|byte| byte != b'0');
    Commit::parse(text).ok().filter(|_| named).ok_or_else(bad)
}

/// Reads the name of a branch.
pub(super) fn branch(text: &str) -> Result<Branch, GitError> {
    Branch::parse(text).map_err(|_| GitError::Name {
        what: "name of a branch",
        name: shortened(text),
        why: "git does not take it for one, or it is too long",
    })
}

/// The whole name of a branch as a reference.
pub(super) fn reference(branch: &Branch) -> String {
    format!("refs/heads/{branch}")
}

/// The branch that a whole name of a reference stands for.
pub(super) fn branch_of(reference: &str) -> Option<Branch> {
    Branch::parse(reference.strip_prefix("refs/heads/")?).ok()
}

/// Whether two branches cannot exist in one repository: they are the same, perhaps but for case, or one
/// would be a directory of the other.
pub(super) fn collide(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase() || is_below(one, other) || is_below(other, one)
}

/// Whether a branch would be in a directory that is called like another one, perhaps but for case.
pub(super) fn is_below(inner: &str, outer: &str) -> bool {
    let (inner, outer) = (inner.to_lowercase(), outer.to_lowercase());
    inner
        .strip_prefix(&outer)
        .is_some_and(|rest| rest.starts_with('/'))
}

/// A hostile text, short enough to be shown.
pub(super) fn shortened(text: &str) -> String {
    const SHOWN: usize = 80;
    let mut shown: String = text
        .chars()
        .take(SHOWN)
        .map(|letter| if letter.is_control() { '?' } else { letter })
        .collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

/// A text of which no URL has a user name or password. `is_end` returns whether a letter ends the authority of a URL.
pub(super) fn without_passwords(text: &str, is_end: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + "://".len());
        shown.push_str(before);
        let authority = &after[..after.find(&is_end).unwrap_or(after.len())];
        let host = authority.rfind('@').map_or(0, |at| at + 1);
        rest = &after[host..];
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_for_no_object_is_no_commit() {
        assert!(commit(&"a1".repeat(20)).is_ok());
        assert!(commit(&"a1".repeat(32)).is_ok());
        for bad in ["", "HEAD", &"0".repeat(40), &"a".repeat(41), "--all"] {
            assert!(commit(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn branches_collide_by_directory_and_case() {
        assert!(collide("orchestra/a", "orchestra"));
        assert!(collide("orchestra/a", "Orchestra/A"));
        assert!(collide("orchestra/a", "orchestra/a/b"));
        assert!(!collide("orchestra/a", "orchestra/ab"));
    }

    #[test]
    fn urls_are_shown_without_passwords() {
        for (text, shown) in [
            ("origin", "origin"),
            ("git@host:a/b", "git@host:a/b"),
            ("https://ada:x@host/a@b", "https://host/a@b"),
            (
                "a 'https://x@host' b ssh://y:z@h:1/c",
                "a 'https://host' b ssh://h:1/c",
            ),
            ("ext::https://ada:p@ss@host", "ext::https://host"),
            ("://@", "://"),
        ] {
            let is_end = |letter: char| letter == '/' || letter.is_whitespace();
            assert_eq!(without_passwords(text, is_end), shown, "{text}");
        }
    }
}
