//! Readers of drawings, as strict as those that will read them.

use std::collections::{BTreeSet, HashSet};

use super::label;

/// Every line is one that is meant, and what stands in quotes has no meaning.
pub(super) fn check_mermaid(text: &str) {
    let is_name = |text: &str, letter: char| {
        text.strip_prefix(letter)
            .is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
    };
    let is_quoted = |text: &str| {
        let inner = text
            .strip_prefix("[\"")
            .and_then(|text| text.strip_suffix("\"]"));
        inner.is_some_and(|inner| {
            inner.chars().all(|c| {
                let plain = c.is_ascii_alphanumeric() || " -_.,/()#;".contains(c);
                plain || (!c.is_ascii() && !c.is_control())
            })
        })
    };
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("flowchart LR"));
    for line in lines {
        let line = line.trim_start();
        let named = |text: &str, letter: char| {
            text.split_once('[')
                .is_some_and(|(name, rest)| is_name(name, letter) && is_quoted(&format!("[{rest}")))
        };
        let right = line == "end"
            || line.starts_with("classDef ")
            || line.starts_with("class n")
            || line
                .strip_prefix("subgraph ")
                .is_some_and(|rest| named(rest, 'g'))
            || line
                .split_once(" --> ")
                .is_some_and(|(from, to)| is_name(from, 'n') && is_name(to, 'n'))
            || named(line, 'n');
        assert!(right, "{line}");
    }
}

/// Outside of quotes there is nothing but what is meant.
pub(super) fn check_dot(text: &str) {
    let (mut outside, mut quoted, mut chars) = (String::new(), false, text.chars());
    while let Some(c) = chars.next() {
        match (quoted, c) {
            (_, '"') => quoted = !quoted,
            (true, '\\') => assert!(matches!(chars.next(), Some('"' | '\\')), "{text}"),
            (true, c) => assert!(!c.is_control(), "{text}"),
            (false, c) => outside.push(c),
        }
    }
    assert!(!quoted, "{text}");
    let words: BTreeSet<&str> = outside
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .collect();
    let numbered = |word: &str| {
        let digits = word
            .strip_prefix("cluster_")
            .or_else(|| word.strip_prefix('n'));
        digits.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
    };
    let known = [
        "digraph",
        "plan",
        "rankdir",
        "LR",
        "label",
        "labelloc",
        "t",
        "fontname",
        "node",
        "shape",
        "box",
        "style",
        "tooltip",
        "fillcolor",
        "color",
        "subgraph",
    ];
    for word in words {
        assert!(known.contains(&word) || numbered(word), "{word} in {text}");
    }
    assert_eq!(outside.matches('{').count(), outside.matches('}').count());
}

/// It is well-formed, and has no element, attribute or entity but those that are meant.
pub(super) fn check_svg(text: &str) {
    let elements = ["svg", "title", "desc", "style", "rect", "text", "path", "g"];
    let attributes = [
        "xmlns", "class", "role", "width", "height", "viewBox", "x", "y", "rx", "d",
    ];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        check_characters(before);
        let (tag, after) = tag[1..].split_once('>').unwrap();
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{text}");
            continue;
        }
        let alone = tag.ends_with('/');
        let tag = tag.trim_end_matches('/');
        let (name, mut inside) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(elements.contains(&name), "<{name}> in {text}");
        while !inside.trim().is_empty() {
            let (attribute, value) = inside.trim_start().split_once("=\"").unwrap();
            assert!(attributes.contains(&attribute), "{attribute} in {text}");
            let (value, after) = value.split_once('"').unwrap();
            check_characters(value);
            inside = after;
        }
        if !alone {
            open.push(name);
        }
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{text}");
}

fn check_characters(text: &str) {
    let bad = |c: char| c != '\n' && (c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}'));
    assert!(!text.contains(bad), "{text:?}");
    for after in text.split('&').skip(1) {
        let entities = ["amp;", "lt;", "gt;", "quot;", "#39;"];
        assert!(
            entities.iter().any(|entity| after.starts_with(entity)),
            "{text}"
        );
    }
}

/// No line is wider than asked for, and the terminal is told of nothing but colours.
pub(super) fn check_terminal(text: &str, columns: usize) {
    for line in text.lines() {
        let mut plain = String::new();
        let mut parts = line.split("\u{1b}[");
        plain.push_str(parts.next().unwrap());
        for part in parts {
            let (number, rest) = part.split_once('m').unwrap();
            assert!(number.parse::<u8>().is_ok(), "{line:?}");
            plain.push_str(rest);
        }
        assert!(!plain.contains(char::is_control), "{line:?}");
        assert!(label::width(&plain) <= columns, "{line}");
    }
}

/// The jobs that the lines from a job lead to, for who follows them to the right, up and down.
pub(super) fn reached(text: &str, name: &str) -> HashSet<String> {
    let grid: Vec<Vec<char>> = text.lines().map(|line| line.chars().collect()).collect();
    let at = |y: usize, x: usize| {
        grid.get(y)
            .and_then(|row| row.get(x))
            .copied()
            .unwrap_or(' ')
    };
    let wanted: Vec<char> = name.chars().collect();
    let row = |row: &Vec<char>| row.windows(wanted.len()).position(|part| part == wanted);
    let (y, x) = grid
        .iter()
        .enumerate()
        .skip(1)
        .find_map(|(y, line)| Some((y, row(line)?)))
        .unwrap();
    // The end of its box, in the row of its name or in the one below.
    let edge = |y: usize| (x..grid[y].len()).find(|x| matches!(at(y, *x), '│' | '├'));
    let mut open: Vec<(usize, usize)> = [y, y + 1]
        .into_iter()
        .filter_map(|y| edge(y).filter(|x| at(y, *x) == '├').map(|x| (y, x + 1)))
        .collect();
    let (mut seen, mut reached) = (HashSet::new(), HashSet::new());
    while let Some((y, x)) = open.pop() {
        if !seen.insert((y, x)) {
            continue;
        }
        let c = at(y, x);
        if c == '▶' {
            // It stands before the edge of a box, a blank, a mark and a blank.
            reached.insert(
                (x + 5..)
                    .map(|x| at(y, x))
                    .take_while(|c| *c != ' ')
                    .collect(),
            );
            continue;
        }
        if "─┌└├┬┴┼".contains(c) {
            open.push((y, x + 1));
        }
        if "│└┘├┤┴┼".contains(c) && y > 0 && "│┌┐├┤┬┼".contains(at(y - 1, x))
        {
            open.push((y - 1, x));
        }
        if "│┌┐├┤┬┼".contains(c) && "│└┘├┤┴┼".contains(at(y + 1, x)) {
            open.push((y + 1, x));
        }
    }
    reached
}
