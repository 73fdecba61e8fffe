//! Bounds of a YAML text, checked before a reader sees it.
//!
//! For each token the reader walks through all open flow collections, and for each `%TAG` directive through all earlier
//! ones. Their numbers are bounded here. An exact answer would need a whole reader: only the indentation of a text tells
//! whether a bracket is part of a block scalar. So each bracket that could open a flow collection begins a hypothesis
//! from which flow syntax is followed, in which indentation has no meaning. A hypothesis ends with its collection, or
//! where the reader would report an error. Brackets in prose and code end theirs soon.

/// Deepest nesting of flow collections. The parser of values allows no deeper one.
const MAX_DEPTH: u32 = 128;

/// Most lines that can be directives.
const MAX_DIRECTIVES: usize = 128;

/// Skipped where a line begins with it, and part of a plain scalar elsewhere.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Refusal of a YAML text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooDeep {
    /// Line at which flow collections are nested too deep.
    Nested(usize),
    /// The text has too many directives.
    Directives,
}

impl std::fmt::Display for TooDeep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nested(line) => write!(
                f,
                "line {line} opens more than {MAX_DEPTH} brackets inside each other"
            ),
            Self::Directives => write!(f, "more than {MAX_DIRECTIVES} lines begin with `%`"),
        }
    }
}

impl std::error::Error for TooDeep {}

/// Checks that a reader needs time in proportion to the length of a text.
///
/// # Errors
/// [`TooDeep`] for a text that nests flow collections deeper than 128, or has more than 128 lines that begin with `%`.
pub fn check_yaml_depth(text: &str) -> Result<(), TooDeep> {
    let is_directive = |line: &&str| line.trim_start_matches(BYTE_ORDER_MARK).starts_with('%');
    if text.split(is_break).filter(is_directive).count() > MAX_DIRECTIVES {
        return Err(TooDeep::Directives);
    }
    if text.matches(is_opening).nth(MAX_DEPTH as usize).is_none() {
        return Ok(());
    }
    let mut hypotheses = Hypotheses::default();
    let mut before = '\n';
    let mut line = 1;
    for c in text.chars() {
        hypotheses.step(c);
        if is_opening(c) && (is_blank(before) || before == BYTE_ORDER_MARK) {
            hypotheses.add(State::Node, 1);
        }
        if hypotheses.deepest() > MAX_DEPTH {
            return Err(TooDeep::Nested(line));
        }
        line += usize::from(c == '\n');
        before = c;
    }
    Ok(())
}

const fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

const fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t') || is_break(c)
}

const fn is_opening(c: char) -> bool {
    matches!(c, '[' | '{')
}

/// State of a tokenizer inside a flow collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before a node.
    Node,
    /// Behind a node, where only `,`, `:` or a closing bracket can follow.
    Behind,
    /// In a comment, before a node.
    CommentBeforeNode,
    /// In a comment, behind a node.
    CommentBehind,
    /// In a plain scalar.
    Plain,
    /// Behind a blank in a plain scalar, where `#` begins a comment.
    PlainBlank,
    /// In a scalar in single quotes.
    Single,
    /// Behind a single quote in such a scalar, which ends it unless it is doubled.
    SingleQuote,
    /// In a scalar in double quotes.
    Double,
    /// Behind a backslash in such a scalar.
    Escape,
    /// In an anchor.
    Anchor,
    /// In an alias.
    Alias,
    /// In a tag.
    Tag,
}

const STATES: [State; 13] = [
    State::Node,
    State::Behind,
    State::CommentBeforeNode,
    State::CommentBehind,
    State::Plain,
    State::PlainBlank,
    State::Single,
    State::SingleQuote,
    State::Double,
    State::Escape,
    State::Anchor,
    State::Alias,
    State::Tag,
];

/// Greatest depth of the hypotheses in each state; zero where there is none. Those in one state have the same future, so
/// the deepest one stands for all.
#[derive(Debug, Clone, Copy, Default)]
struct Hypotheses([u32; STATES.len()]);

impl Hypotheses {
    fn add(&mut self, state: State, depth: u32) {
        let deepest = &mut self.0[state as usize];
        *deepest = depth.max(*deepest);
    }

    fn deepest(&self) -> u32 {
        self.0.into_iter().max().unwrap_or_default()
    }

    /// Follows all hypotheses through one character.
    fn step(&mut self, c: char) {
        let before = std::mem::take(self);
        for (state, depth) in STATES.into_iter().zip(before.0) {
            if depth > 0 {
                self.follow(state, depth, c);
            }
        }
    }

    fn follow(&mut self, state: State, depth: u32, c: char) {
        match state {
            State::Node => self.before_node(depth, c),
            State::Behind => self.behind_node(depth, c),
            State::CommentBeforeNode if is_break(c) => self.add(State::Node, depth),
            State::CommentBehind if is_break(c) => self.add(State::Behind, depth),
            State::PlainBlank if c == '#' => self.add(State::CommentBehind, depth),
            State::Plain | State::PlainBlank => self.in_plain(depth, c),
            State::Single if c == '\'' => self.add(State::SingleQuote, depth),
            State::SingleQuote if c == '\'' => self.add(State::Single, depth),
            State::SingleQuote => self.behind_node(depth, c),
            State::Double if c == '"' => self.add(State::Behind, depth),
            State::Double if c == '\\' => self.add(State::Escape, depth),
            State::Escape => self.add(State::Double, depth),
            State::Anchor if !is_of_name(c) => self.before_node(depth, c),
            State::Alias if !is_of_name(c) => self.behind_node(depth, c),
            State::Tag if is_blank(c) => self.add(State::Node, depth),
            State::Tag if c == ',' => {
                self.add(State::Node, depth);
                self.add(State::Tag, depth);
            }
            State::CommentBeforeNode
            | State::CommentBehind
            | State::Single
            | State::Double
            | State::Anchor
            | State::Alias
            | State::Tag => self.add(state, depth),
        }
    }

    fn before_node(&mut self, depth: u32, c: char) {
        let next = match c {
            '[' | '{' => return self.add(State::Node, depth + 1),
            ']' | '}' => return self.close(depth),
            '#' => State::CommentBeforeNode,
            '\'' => State::Single,
            '"' => State::Double,
            '&' => State::Anchor,
            '*' => State::Alias,
            '!' => State::Tag,
            // A key, a value or no token at all, or the first character of a plain scalar.
            '?' | ':' | '-' | BYTE_ORDER_MARK => {
                self.add(State::Plain, depth);
                State::Node
            }
            c if is_blank(c) || c == ',' => State::Node,
            _ => State::Plain,
        };
        self.add(next, depth);
    }

    /// Everything that cannot follow a node is an error, which ends the hypothesis.
    fn behind_node(&mut self, depth: u32, c: char) {
        match c {
            ']' | '}' => self.close(depth),
            ',' | ':' => self.add(State::Node, depth),
            '#' => self.add(State::CommentBehind, depth),
            c if is_blank(c) || c == BYTE_ORDER_MARK => self.add(State::Behind, depth),
            _ => {}
        }
    }

    fn in_plain(&mut self, depth: u32, c: char) {
        match c {
            ']' | '}' => self.close(depth),
            ',' => self.add(State::Node, depth),
            // An opening bracket ends the scalar and cannot follow it.
            '[' | '{' => {}
            ':' => {
                self.add(State::Node, depth);
                self.add(State::Plain, depth);
            }
            c if is_blank(c) => self.add(State::PlainBlank, depth),
            _ => self.add(State::Plain, depth),
        }
    }

    fn close(&mut self, depth: u32) {
        self.add(State::Behind, depth - 1);
    }
}

/// Returns whether a character can be part of the name of an anchor.
const fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(text: &str) -> bool {
        check_yaml_depth(text).is_err()
    }

    #[test]
    fn nested_flow_collections_are_refused_in_every_notation() {
        for (start, unit) in [
            ("", "["),
            ("a: ", "["),
            ("- ", "[{a: "),
            ("", "{\"a\":["),
            ("\u{feff}", "{'it''s ]': ["),
            ("", "[\"\\\"]\", "),
            ("", "[a, "),
            ("", "[a, # ]\n"),
            ("", "[# ]\u{85}"),
            ("", "[a\u{feff}#, "),
            ("", "[? "),
            ("", "{? [a] : "),
            ("", "[&a-1 "),
            ("", "[*a , "),
            ("", "[!t "),
            ("", "[!<],[> "),
            ("", "[!t,"),
            ("", "{a: it's, b: "),
            ("", "{a\n b: "),
            ("", "[http://a, "),
            ("? ", "{: "),
            ("--- !t &a ", "["),
            ("text: |\n  ] it's\n  \" '\nb: ", "["),
            ("text: 'it''s'\n# don't\nb: ", "["),
            ("- it's ]\n- ", "["),
        ] {
            let nested = |depth: usize| format!("{start}{}", unit.repeat(depth));
            assert!(!is_refused(&nested(60)), "{start}{unit}");
            assert!(is_refused(&nested(129)), "{start}{unit}");
        }
        let text = format!("a: 1\nb: {}", "[\n".repeat(200));
        assert_eq!(check_yaml_depth(&text), Err(TooDeep::Nested(130)));
    }

    #[test]
    fn deepest_permitted_collection_passes_and_its_closing_counts() {
        let deep = format!("{}{}", "[".repeat(128), "]".repeat(128));
        assert!(!is_refused(&deep));
        assert!(!is_refused(
            &format!("- {deep}\n- {{a: {{}}}}\n").repeat(50)
        ));
    }

    #[test]
    fn brackets_in_code_and_prose_pass() {
        let code = [
            "fn main() {",
            "if [ \"$a\" = '[' ]; then {",
            "echo -e \"\\033[31m$x \\033[0m it's",
            "\u{1b}[31mred",
            "- [ ] don't [see",
            "case '{' => { [",
            "half-open [0, 1) and [2, 3)",
            "{{ template }} ${VAR} [[ -n $x ]] {",
            "regex: ^[^[]*[{]",
            "# [[[ comment {",
            "];",
        ];
        for line in code {
            let text = format!("work: |\n{}", format!("  {line}\n").repeat(1_000));
            assert!(!is_refused(&text), "{line}");
        }
        let all = format!("work: |\n  {}\n", code.join("\n  ").repeat(500));
        assert!(!is_refused(&all));
    }

    #[test]
    fn directives_are_bounded() {
        assert!(!is_refused(
            "%YAML 1.2\n%TAG !a! tag:a\n---\ntext: |\n  % a\n"
        ));
        let text = "%TAG !a! tag:a\n".repeat(129);
        assert_eq!(check_yaml_depth(&text), Err(TooDeep::Directives));
    }
}
