//! The few lines of front matter that open a skill or an agent: `name` and `description`.

/// The value of `key` in the front matter of `text`; `None` when there is none.
///
/// Understands what such files use: plain and quoted values, values that go on in indented lines,
/// and block scalars (`|`, `>`). Lines are joined by blanks.
pub(crate) fn value(text: &str, key: &str) -> Option<String> {
    let mut lines = text.trim_start_matches('\u{feff}').lines();
    if lines.next()?.trim_end() != "---" {
        return None;
    }
    let mut lines = lines.take_while(|line| line.trim_end() != "---");
    let first = lines
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?
        .trim();
    let mut value = String::new();
    if !matches!(first.trim_end_matches(['-', '+']), "|" | ">") {
        value.push_str(first);
    }
    for line in lines.take_while(|line| line.starts_with([' ', '\t']) || line.is_empty()) {
        if !value.is_empty() && !line.trim().is_empty() {
            value.push(' ');
        }
        value.push_str(line.trim());
    }
    let value = unquote(value.trim());
    (!value.is_empty()).then_some(value)
}

/// The first line of prose, for files without front matter.
pub(crate) fn first_prose(text: &str) -> Option<String> {
    let prose = |line: &&str| !line.is_empty() && !line.starts_with(['#', '-', '<', '`']);
    text.lines().map(str::trim).find(prose).map(str::to_owned)
}

fn unquote(value: &str) -> String {
    if let Some(inner) = value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
    {
        return inner.replace("\\\"", "\"").replace("\\\\", "\\");
    }
    if let Some(inner) = value
        .strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''))
    {
        return inner.replace("''", "'");
    }
    value.to_owned()
}

#[cfg(test)]
mod tests {
    use super::{first_prose, value};

    #[test]
    fn descriptions_are_found() {
        let check = |front: &str, expected: Option<&str>| {
            let text = format!("---\nname: x\n{front}\nother: y\n---\n# Title\n\nProse.\n");
            assert_eq!(value(&text, "description").as_deref(), expected, "{front}");
        };
        check("description: Works the board.", Some("Works the board."));
        check(
            "description: \"Says \\\"hi\\\": twice\"",
            Some("Says \"hi\": twice"),
        );
        check("description: 'It''s'", Some("It's"));
        check("description: >-\n  Folded\n  lines", Some("Folded lines"));
        check("description: |\n  One\n\n  Two", Some("One Two"));
        check("description: Goes on\n  below", Some("Goes on below"));
        check("description:", None);
        check("descriptions: x", None);
    }

    #[test]
    fn text_without_front_matter_has_prose() {
        assert_eq!(value("# Title\n", "description"), None);
        assert_eq!(
            first_prose("# Title\n\nWhat it does.\n").as_deref(),
            Some("What it does.")
        );
        assert_eq!(
            value("---\ndescription: never ends\n", "description").as_deref(),
            Some("never ends")
        );
    }
}
