//! Matches URIs against URI templates of RFC 6570, level 1, as far as routing needs it.

/// Whether `uri` can come from `template`. An expression `{name}` stands for one or more
/// characters other than `/`.
pub(crate) fn matches(template: &str, uri: &str) -> bool {
    let mut segments = uri.split('/');
    template
        .split('/')
        .all(|part| segments.next().is_some_and(|text| segment(part, text)))
        && segments.next().is_none()
}

/// Matches one segment in linear time: each literal is searched from the left, the last one has
/// to stand at the end.
fn segment(mut pattern: &str, mut text: &str) -> bool {
    loop {
        let Some((literal, rest)) = pattern.split_once('{') else {
            return pattern == text;
        };
        let Some(after) = text.strip_prefix(literal) else {
            return false;
        };
        let Some((_, rest)) = rest.split_once('}') else {
            return false;
        };
        let literal = rest.split('{').next().unwrap_or_default();
        let Some(width) = after.chars().next().map(char::len_utf8) else {
            return false;
        };
        if literal.len() == rest.len() {
            return after[width..].ends_with(literal);
        }
        let Some(at) = after[width..].find(literal) else {
            return false;
        };
        (pattern, text) = (rest, &after[width + at..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_one_piece_of_one_segment() {
        for (template, uri, expected) in [
            (
                "toon://project/{slug}/prd",
                "toon://project/my-app/prd",
                true,
            ),
            ("toon://project/{slug}/prd", "toon://project//prd", false),
            ("toon://project/{slug}/prd", "toon://project/a/b/prd", false),
            ("toon://project/{slug}", "toon://project/é", true),
            ("a/{x}.{y}", "a/b.c", true),
            ("a/{x}.{y}", "a/b.c.d", true),
            ("a/{x}.{y}", "a/.c", false),
            ("a/{x}{y}", "a/bc", true),
            ("a/{x}{y}", "a/b", false),
            ("a/{x}b", "a/bb", true),
            ("a/{x}b", "a/b", false),
            ("a/{x", "a/x", false),
            ("a", "a", true),
            ("a", "a/", false),
        ] {
            assert_eq!(matches(template, uri), expected, "{template} {uri}");
        }
    }
}
