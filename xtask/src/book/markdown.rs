//! Text that others wrote, as Markdown that shows it and nothing else.

/// Text outside of code: what has a meaning in Markdown or HTML is shown as it is. Spans of code in it
/// stay such. Line breaks become spaces.
pub(super) fn text(plain: &str) -> String {
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    let parts: Vec<&str> = plain.split('`').collect();
    // A backtick without a partner is no code.
    let lone = parts.len().is_multiple_of(2);
    let mut shown = String::new();
    for (number, part) in parts.iter().enumerate() {
        if number > 0 {
            let unpaired = lone && number + 1 == parts.len();
            shown.push_str(if unpaired { "\\`" } else { "`" });
        }
        let is_code = number % 2 == 1 && !(lone && number + 1 == parts.len());
        if is_code {
            shown.push_str(part);
        } else {
            part.chars().for_each(|c| escape(c, &mut shown));
        }
    }
    without_directives(&shown)
}

/// Text in a cell of a table.
pub(super) fn cell(plain: &str) -> String {
    text(plain).replace('|', "\\|")
}

/// A span of code, in a cell or anywhere.
pub(super) fn code(plain: &str) -> String {
    let plain = plain.replace(['\n', '\r'], " ");
    let span = if plain.contains('`') {
        format!("`` {plain} ``")
    } else {
        format!("`{plain}`")
    };
    without_directives(&span.replace('|', "\\|"))
}

/// A block of code. Its fence is longer than any in it.
pub(super) fn block(language: &str, plain: &str) -> String {
    let mut fence = "```".to_owned();
    while plain.contains(&fence) {
        fence.push('`');
    }
    let plain = without_directives(plain.trim_end());
    format!("{fence}{language}\n{plain}\n{fence}\n")
}

fn escape(c: char, shown: &mut String) {
    match c {
        '<' => shown.push_str("&lt;"),
        '>' => shown.push_str("&gt;"),
        '&' => shown.push_str("&amp;"),
        '\\' | '*' | '_' | '[' | ']' | '~' => {
            shown.push('\\');
            shown.push(c);
        }
        _ => shown.push(c),
    }
}

/// mdBook includes files where it reads `{{#`, also in code.
fn without_directives(text: &str) -> String {
    text.replace("{{#", "\\{{#")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_is_shown_as_it_is() {
        for (plain, shown) in [
            ("a <b> & *c*", "a &lt;b&gt; &amp; \\*c\\*"),
            ("`<b>` [x](y)", "`<b>` \\[x\\](y)"),
            ("one ` alone <i>", "one \\` alone &lt;i&gt;"),
            ("two\nlines", "two lines"),
            ("{{#include x}}", "\\{{#include x}}"),
        ] {
            assert_eq!(text(plain), shown);
        }
        assert_eq!(cell("a | b"), "a \\| b");
        assert_eq!(code("a|b"), "`a\\|b`");
        assert_eq!(code("a`b"), "`` a`b ``");
        assert_eq!(block("text", "```\nx\n"), "````text\n```\nx\n````\n");
    }
}
