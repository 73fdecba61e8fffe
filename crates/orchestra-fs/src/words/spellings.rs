//! Other spellings of a path in a command line, as parsers of URLs, loaders of modules and shells read it.

use std::path::{Component, Path, PathBuf};

use percent_encoding::percent_decode_str;

/// Returns a text and the paths that programs may read in it: without `..` by its text alone, as Node.js resolves it; as
/// a `file:` URL or a relative reference to one (WHATWG URL); and without the backslashes of a quoted text.
#[must_use]
pub fn spellings(text: &str) -> Vec<String> {
    let unquoted = text.replace('\\', "");
    let mut all = vec![text.to_owned()];
    for text in [Some(text.to_owned()), url_path(text), Some(unquoted)] {
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            continue;
        };
        let plain = lexical(Path::new(&text));
        let plain = plain.to_str().map(str::to_owned);
        for spelling in [Some(text), plain].into_iter().flatten() {
            if !all.contains(&spelling) {
                all.push(spelling);
            }
        }
    }
    all
}

/// The path of a URL, decoded. Parsers drop tabs, ends of lines and surrounding blanks, and read a backslash as a slash.
fn url_path(text: &str) -> Option<String> {
    let text = text.trim_matches(|char: char| char <= ' ');
    let text: String = text
        .chars()
        .filter(|char| !matches!(char, '\t' | '\n' | '\r'))
        .map(|char| if char == '\\' { '/' } else { char })
        .collect();
    let scheme = text.get(..5);
    let is_file = scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:"));
    let rest = if is_file { &text[5..] } else { &text };
    let path = match rest.strip_prefix("//") {
        // Behind the host.
        Some(authority) => &authority[authority.find('/')?..],
        None => rest,
    };
    let path = path.split(['?', '#']).next().unwrap_or(path);
    let path = percent_decode_str(path).decode_utf8().ok()?;
    Some(path.into_owned())
}

/// A path without `.` and `..` as far as its text tells; `.` where nothing is left.
pub(crate) fn lexical(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match (component, plain.components().next_back()) {
            (Component::CurDir, _) | (Component::ParentDir, Some(Component::RootDir)) => {}
            (Component::ParentDir, Some(Component::Normal(_))) => {
                plain.pop();
            }
            (component, _) => plain.push(component),
        }
    }
    match plain.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_spelled_as_url_parsers_and_module_loaders_read_it() {
        for (text, spelling) in [
            ("none/../b.js", "b.js"),
            ("../../b.js", "../../b.js"),
            ("./b.js/", "b.js"),
            ("./%73rv.mjs", "srv.mjs"),
            ("file:///ws/srv%2Emjs", "/ws/srv.mjs"),
            ("FILE://localhost/ws/srv.mjs", "/ws/srv.mjs"),
            ("//localhost/ws/srv.mjs", "/ws/srv.mjs"),
            ("file:/ws/a%3Fb.mjs?x#y", "/ws/a?b.mjs"),
            (" ./sr\tv.mjs\n", "srv.mjs"),
            ("./a\\srv.mjs", "a/srv.mjs"),
            ("./s\\rv.mjs", "srv.mjs"),
            ("a/%2e%2e/srv.mjs", "srv.mjs"),
            ("/../a", "/a"),
            ("a/..", "."),
        ] {
            let all = spellings(text);
            assert_eq!(all[0], text);
            assert!(all.iter().any(|one| one == spelling), "{text:?}: {all:?}");
        }
        assert_eq!(spellings("server.js"), ["server.js"]);
        assert_eq!(spellings("%ff"), ["%ff"]);
    }
}
