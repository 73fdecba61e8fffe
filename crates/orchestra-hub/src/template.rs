//! Matches URIs against URI templates (RFC 6570), as far as routing needs it: what a name stands for
//! is not read out.

/// Longer URIs do not match templates of the higher levels, whose cost is that of both lengths.
const MAX_WIDE_BYTES: usize = 8 * 1024;

/// Whether `uri` can come from `template`. An expression `{name}` stands for one or more
/// characters other than `/`; one with an operator, a list or a modifier for any text or none.
pub(crate) fn matches(template: &str, uri: &str) -> bool {
    if is_wide(template) {
        return uri.len() <= MAX_WIDE_BYTES && wide(template, uri);
    }
    let mut segments = uri.split('/');
    template
        .split('/')
        .all(|part| segments.next().is_some_and(|text| segment(part, text)))
        && segments.next().is_none()
}

/// Whether a template has expressions beyond level 1.
fn is_wide(template: &str) -> bool {
    let mut expressions = template.split('{').skip(1);
    expressions
        .any(|rest| rest.starts_with(OPERATORS) || expression(rest).contains([',', '*', ':']))
}

/// The operators of levels 2 and 3 (RFC 6570, section 2.2).
const OPERATORS: [char; 7] = ['+', '#', '.', '/', ';', '?', '&'];

fn expression(rest: &str) -> &str {
    rest.split('}').next().unwrap_or_default()
}

/// Matches a template each of whose expressions stands for any text. Each literal is searched from
/// the left, the last one has to stand at the end.
fn wide(template: &str, uri: &str) -> bool {
    let mut parts = template.split('{');
    // `split` yields at least one part.
    let Some(mut text) = parts.next().and_then(|first| uri.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        let Some((_, literal)) = part.split_once('}') else {
            return false;
        };
        if parts.peek().is_none() {
            return text.ends_with(literal);
        }
        let Some(at) = text.find(literal) else {
            return false;
        };
        text = &text[at + literal.len()..];
    }
    text.is_empty()
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
            ("file:///{+path}", "file:///a/b c", true),
            ("file:///{+path}", "http://x", false),
            ("x://{/a,b}/end{?q,r}", "x:///1/2/end?q=1", true),
            ("x://{/a,b}/end{?q,r}", "x:///1/2/en", false),
            ("x://{a*}.txt", "x://1,2.txt", true),
            ("x://{a*}.txt", "x://1,2.tx", false),
            ("x://{+a", "x://1", false),
            ("a", "a", true),
            ("a", "a/", false),
        ] {
            assert_eq!(matches(template, uri), expected, "{template} {uri}");
        }
    }
}
