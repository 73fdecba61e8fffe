//! `core.sharedRepository` and `core.bare` in the configuration file of a repository. Nothing else of the file is
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

/// Returns whether the last value of a key in the section `core` is one that counts. A key without a value does.
fn core_key(config: &[u8], key: &str, counts: impl Fn(&str) -> bool) -> bool {
    let text = String::from_utf8_lossy(config);
    let (mut is_core, mut found) = (false, false);
    for line in text.lines() {
        let mut line = line.trim();
        if let Some((section, rest)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        {
            is_core = section.trim().eq_ignore_ascii_case("core");
            line = rest.trim();
        }
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            // A key without a value is true.
            None => (line.split(['#', ';']).next().unwrap_or_default(), None),
        };
        if is_core && name.trim().eq_ignore_ascii_case(key) {
            found = value.is_none_or(&counts);
        }
    }
    found
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
    use super::{is_bare, is_shared};

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
