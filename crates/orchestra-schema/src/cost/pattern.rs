//! Size of a regular expression, and the steps of matching it, estimated from its text.

use std::{iter::Peekable, str::Chars};

use super::{MAX_BACKTRACKS, length};

/// States of a class of Unicode characters.
const UNICODE_CLASS: u64 = 200;

/// Measures of a pattern. Reading its text takes longer than computing the steps of a match.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pattern {
    /// Number of states, with counted repetitions expanded.
    pub(super) states: u64,
    /// Measures for an engine with backtracking, where the pattern needs that.
    branching: Option<Branching>,
}

/// Branches of a pattern, among which an engine with backtracking chooses.
#[derive(Debug, Clone, Copy, Default)]
struct Branching {
    /// Repetitions, each of which ends anywhere in the text.
    repetitions: u32,
    /// Choices between two branches.
    choices: u32,
    /// A part with branches is repeated.
    is_nested: bool,
    /// Nesting of the look-arounds, each of which may read the text to its end.
    look_arounds: u32,
}

impl Pattern {
    pub(super) fn of(text: &str) -> Self {
        Reader::new(text).read()
    }

    /// Steps of matching a text of `bytes` bytes.
    pub(super) fn steps(self, bytes: usize) -> u64 {
        let work = self.states.saturating_mul(length(bytes));
        let linear = work / 64 + 1;
        let Some(branching) = self.branching else {
            return linear;
        };
        let backtracks = branching.backtracks(bytes);
        // The text is read to its end from each place, and once more after each step back.
        let outer = length(bytes).saturating_add(1);
        let outer = outer.saturating_pow(branching.look_arounds.saturating_sub(1));
        let times = length(bytes)
            .saturating_add(backtracks)
            .saturating_mul(outer);
        let again = work.saturating_mul(times) / 64;
        linear.saturating_add(again).saturating_add(backtracks / 4)
    }
}

impl Branching {
    /// Largest number of steps back.
    fn backtracks(self, bytes: usize) -> u64 {
        let most = length(MAX_BACKTRACKS);
        if self.is_nested {
            return most;
        }
        let places = length(bytes).saturating_add(1);
        let places = places.saturating_pow(self.repetitions.saturating_add(1));
        let choices = 2_u64.saturating_pow(self.choices);
        places.saturating_mul(choices).min(most)
    }
}

/// Reads the text of a pattern.
struct Reader<'p> {
    chars: Peekable<Chars<'p>>,
    /// Open groups, from the outermost one.
    groups: Vec<Group>,
    /// States and branches of the innermost open group.
    sum: u64,
    has_branches: bool,
    /// The same of the part that was read last.
    last: u64,
    last_has_branches: bool,
    branching: Branching,
    /// The pattern needs an engine with backtracking.
    needs_backtracking: bool,
    /// Only look-aheads stand between `^` and this place.
    is_at_start: bool,
    /// Look-aheads stand behind `^`: an engine evaluates each of them once.
    looks_ahead_first: bool,
    /// `|` is outside of all groups.
    has_alternatives: bool,
}

/// Group that is open.
struct Group {
    kind: Kind,
    /// States and branches of the group around it.
    sum: u64,
    has_branches: bool,
    is_first: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    LookAhead,
    /// Look-behind, or another group beyond a regular language.
    Special,
}

impl<'p> Reader<'p> {
    fn new(text: &'p str) -> Self {
        let rest = text.strip_prefix('^');
        Self {
            chars: rest.unwrap_or(text).chars().peekable(),
            groups: Vec::new(),
            sum: 1 + u64::from(rest.is_some()),
            has_branches: false,
            last: 0,
            last_has_branches: false,
            branching: Branching::default(),
            needs_backtracking: false,
            is_at_start: rest.is_some(),
            looks_ahead_first: false,
            has_alternatives: false,
        }
    }

    fn read(mut self) -> Pattern {
        let mut is_repeated = false;
        while let Some(c) = self.chars.next() {
            let is_at_start = std::mem::take(&mut self.is_at_start);
            let was_repeated = std::mem::take(&mut is_repeated);
            match c {
                '(' => self.open(is_at_start),
                ')' => self.close(),
                '|' => {
                    self.has_alternatives |= self.groups.is_empty();
                    self.choose();
                }
                '*' | '+' | '?' | '{' => {
                    // A look-ahead or, as `a++` does elsewhere, a repetition that never gives back.
                    self.needs_backtracking |= is_at_start || was_repeated && c == '+';
                    is_repeated = self.repeat(c);
                }
                _ => {
                    let part = match c {
                        '[' => self.class(),
                        '\\' => self.escape(),
                        _ => 1,
                    };
                    self.add(part, false);
                }
            }
        }
        let groups = self.groups.iter().map(|group| group.sum);
        let is_branching = self.looks_ahead_first && self.has_alternatives;
        Pattern {
            states: groups.fold(self.sum, u64::saturating_add),
            branching: (self.needs_backtracking || is_branching).then_some(self.branching),
        }
    }

    fn add(&mut self, states: u64, has_branches: bool) {
        self.sum = self.sum.saturating_add(states);
        self.has_branches |= has_branches;
        (self.last, self.last_has_branches) = (states, has_branches);
    }

    fn choose(&mut self) {
        self.sum = self.sum.saturating_add(1);
        self.branching.choices += 1;
        self.has_branches = true;
    }

    /// Reads a quantifier; returns whether it is one.
    fn repeat(&mut self, c: char) -> bool {
        let (most, is_repetition) = match c {
            '{' => match self.bounds() {
                Some(bounds) => bounds,
                None => {
                    self.add(1, false);
                    return false;
                }
            },
            c => (1, c != '?'),
        };
        // The first repetition is part of the sum.
        let more = self.last.saturating_mul(most.saturating_sub(1));
        self.sum = self.sum.saturating_add(more.max(1));
        self.last = self.last.saturating_mul(most.max(1));
        match is_repetition {
            true => {
                self.branching.repetitions += 1;
                self.branching.is_nested |= self.last_has_branches;
            }
            false => self.branching.choices += 1,
        }
        (self.has_branches, self.last_has_branches) = (true, true);
        true
    }

    /// Reads the rest of `{n}`, `{n,}` or `{n,m}`: the largest number, and whether it repeats a part.
    /// Returns `None` for a brace that is a literal.
    fn bounds(&mut self) -> Option<(u64, bool)> {
        let mut text = String::new();
        while let Some(c) = self.chars.next_if(|c| c.is_ascii_digit() || *c == ',') {
            text.push(c);
        }
        let is_closed = self.chars.next_if_eq(&'}').is_some();
        if !is_closed || !text.starts_with(|c: char| c.is_ascii_digit()) {
            self.sum = self.sum.saturating_add(length(text.len()));
            return None;
        }
        let numbers = text.split(',').filter(|number| !number.is_empty());
        let numbers = numbers.map(|number| number.parse().unwrap_or(u64::MAX));
        let most = numbers.max().unwrap_or_default();
        Some((most, most > 1 || text.ends_with(',')))
    }

    fn open(&mut self, is_at_start: bool) {
        let kind = self.kind();
        let is_first = is_at_start && kind == Kind::LookAhead;
        self.looks_ahead_first |= is_first;
        if kind != Kind::Plain {
            self.needs_backtracking |= !is_first;
            let open = self.groups.iter().filter(|group| group.kind != Kind::Plain);
            let open = u32::try_from(open.count()).unwrap_or(u32::MAX);
            let deepest = &mut self.branching.look_arounds;
            *deepest = open.saturating_add(1).max(*deepest);
        }
        self.groups.push(Group {
            kind,
            sum: std::mem::take(&mut self.sum),
            has_branches: std::mem::take(&mut self.has_branches),
            is_first,
        });
    }

    /// Reads what follows the parenthesis of a group: `?:`, `?=` and the like.
    fn kind(&mut self) -> Kind {
        if self.chars.next_if_eq(&'?').is_none() {
            return Kind::Plain;
        }
        // `(?P<name>` is `(?<name>`, but `(?P=name)` is a reference.
        let is_python = self.chars.next_if_eq(&'P').is_some();
        match self.chars.peek().copied() {
            Some('<') => {
                self.chars.next();
                match self.chars.peek() {
                    Some('=' | '!') => Kind::Special,
                    _ => Kind::Plain,
                }
            }
            Some('=' | '!') if !is_python => Kind::LookAhead,
            Some(':' | '-') if !is_python => Kind::Plain,
            Some(c) if !is_python && c.is_ascii_alphabetic() => Kind::Plain,
            _ => Kind::Special,
        }
    }

    fn close(&mut self) {
        let states = self.sum.saturating_add(1);
        let has_branches = self.has_branches;
        let Some(group) = self.groups.pop() else {
            return self.add(1, false);
        };
        (self.sum, self.has_branches) = (group.sum, group.has_branches);
        self.add(states, has_branches);
        self.is_at_start = group.is_first;
    }

    fn class(&mut self) -> u64 {
        let (mut size, mut length) = (0_u64, 0_u64);
        while let Some(c) = self.chars.next() {
            match c {
                ']' if length > 0 => break,
                '\\' => size = size.saturating_add(self.escape()),
                _ => {}
            }
            length += 1;
        }
        size.saturating_add(length / 4 + 1)
    }

    fn escape(&mut self) -> u64 {
        let Some(kind) = self.chars.next() else {
            return 1;
        };
        // The name of a class, or the number of a character, is part of the escape.
        if matches!(kind, 'p' | 'P' | 'u' | 'x') && self.chars.next_if_eq(&'{').is_some() {
            while self.chars.next().is_some_and(|c| c != '}') {}
        }
        // References to groups, and assertions that only such an engine has.
        self.needs_backtracking |= matches!(kind, '1'..='9' | 'k' | 'g' | 'K' | 'G');
        match kind {
            'p' | 'P' => UNICODE_CLASS,
            _ => 4,
        }
    }
}
