//! `core.sharedRepository`, `core.bare` and `core.worktree` in the configuration file of a repository. Nothing else of the file is
//! looked at.
//!
//! Included files are not read: git itself writes the key into this file (`git init --shared`).

/// Returns whether the text of a configuration file lets other users write the repository.
pub(crate) fn is_shared(config: &[u8]) -> bool {
    core_key(config, "sharedrepository", lets_others_write)
}

/// Returns whether the text of a configuration file is that of a bare repository.
pub(crate) fn is_bare(config: &[u8]) -> bool {
    core_key(config, "bare", |value| {
        let value = value.split(['#', ';']).next().unwrap_or_default();
        let value = value.trim().trim_matches('"').to_ascii_lowercase();
        matches!(value.as_str(), "true" | "yes" | "on" | "1")
    })
}

/// Returns the paths that the text of a configuration file has as `core.worktree`, in the form in which git writes them.
pub(crate) fn working_trees(config: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(config);
    let values = core_values(&text, "worktree");
    values
        .map(|value| unquoted(value.unwrap_or_default()))
        .collect()
}

/// Returns a value without the quotes and escapes that git writes.
fn unquoted(value: &str) -> String {
    let value = value.trim();
    let inner = value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    let mut plain = String::new();
    let mut rest = inner.unwrap_or(value).chars();
    while let Some(next) = rest.next() {
        plain.extend(match next {
            '\\' => rest.next().map(|escaped| match escaped {
                'n' => '\n',
                't' => '\t',
                other => other,
            }),
            other => Some(other),
        });
    }
    plain
}

/// Returns whether the last value of a key in the section `core` is one that counts. A key without a value does.
fn core_key(config: &[u8], key: &str, counts: impl Fn(&str) -> bool) -> bool {
    let text = String::from_utf8_lossy(config);
    let last = core_values(&text, key).last();
    last.is_some_and(|value| value.is_none_or(counts))
}

/// Returns the values of a key in the section `core`; `None` for a key without a value, which is true.
fn core_values<'t>(text: &'t str, key: &str) -> impl Iterator<Item = Option<&'t str>> {
    let mut is_core = false;
    let lines = text.trim_start_matches('\u{feff}').lines();
    lines.filter_map(move |line| {
        let mut line = line.trim();
        while let Some((section, rest)) =
            line.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        {
            is_core = section.trim().eq_ignore_ascii_case("core");
            line = rest.trim();
        }
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (line.split(['#', ';']).next().unwrap_or_default(), None),
        };
        (is_core && name.trim().eq_ignore_ascii_case(key)).then_some(value)
    })
}

/// A value that is not understood counts as shared.
fn lets_others_write(value: &str) -> bool {
    let value = value.split(['#', ';']).next().unwrap_or_default();
    let value = value.trim().trim_matches('"').to_ascii_lowercase();
    let is_private = matches!(
        value.as_str(),
        "" | "umask" | "false" | "no" | "off" | "0" | "00" | "000" | "0000" | "0600"
    );
    !is_private
}

#[cfg(test)]
mod tests {
    use super::{is_bare, is_shared, working_trees};

    #[test]
    fn working_tree_is_read_in_the_form_that_git_writes() {
        for (text, path) in [
            ("[core]\n\tworktree = ../../../lib\n", "../../../lib"),
            ("[a] [core] worktree=/x", "/x"),
            ("\u{feff}[core]\n\tworktree = \"/a #b \"\n", "/a #b "),
            ("[core]\n\tworktree = /a\\\\b\\\"c\n", "/a\\b\"c"),
            ("[core]\nworktree\n", ""),
        ] {
            assert_eq!(working_trees(text.as_bytes()), [path], "{text}");
        }
        assert!(working_trees(b"[core \"x\"]\nworktree = /x\n[other]\nworktree = /x\n").is_empty());
    }

    #[test]
    fn shared_repository_is_recognised_in_any_spelling() {
        for text in [
            "[core]\n\tsharedRepository = group\n",
            "[core]\n\tsharedrepository = 1",
            "[CORE]\r\nSHAREDREPOSITORY=0660\r\n",
            "[core] sharedRepository = all",
            "[core]\nsharedRepository\n",
            "[core]\nsharedRepository ; comment\n",
            "[core]\nsharedRepository = \"true\" # comment\n",
            "[remote \"x\"]\nurl = y\n[core]\nsharedRepository = everybody",
            "[core]\nsharedRepository = false\nsharedRepository = group",
        ] {
            assert!(is_shared(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn bare_repository_is_recognised() {
        assert!(is_bare(b"[core]\n\tbare = true\n") && is_bare(b"[core]\nbare\n"));
        assert!(!is_bare(b"[core]\n\tbare = false\n") && !is_bare(b"[other]\nbare = true\n"));
    }

    #[test]
    fn private_repository_is_not_shared() {
        for text in [
            "",
            "[core]\n\tbare = false\n",
            "[core]\nsharedRepository = umask",
            "[core]\nsharedRepository = FALSE\n",
            "[core]\nsharedRepository = 0600",
            "[core]\nsharedRepository = group\nsharedRepository = no",
            "[core]\n# sharedRepository = group\n",
            "[core \"x\"]\nsharedRepository = group",
            "[other]\nsharedRepository = group\n[core]\n",
            "sharedRepository = group",
        ] {
            assert!(!is_shared(text.as_bytes()), "{text}");
        }
        assert!(!is_shared(b"\xff[core]\xfe"));
    }
}
