//! How much is asked of one agent: a rough number out of its instructions, so that work that is too
//! much for one job is seen before it runs.
//!
//! Files that are named, tests that are asked for, lines of code that are wanted, words of fields in
//! which much can go wrong, and dependencies each add to it, up to a bound of their own.

use std::{collections::HashSet, fmt};

use crate::{
    definition::JobDefinition,
    work::{Brief, WorkSpec},
};

/// How much is asked of one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Complexity(u32);

/// What should be done about work that asks much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// It may be too much.
    Watch(Complexity),
    /// It should be several jobs.
    Decompose(Complexity),
}

/// One kind of sign: how much each of them weighs, and how much all of them may.
struct Weight {
    each: usize,
    most: usize,
}

const FILES: Weight = Weight { each: 5, most: 60 };
const TESTS: Weight = Weight { each: 4, most: 32 };
/// For every so many lines of code.
const LINES: Weight = Weight { each: 4, most: 60 };
const LINES_PER_SIGN: usize = 50;
const FIELDS: Weight = Weight { each: 8, most: 64 };
const DEPENDENCIES: Weight = Weight { each: 3, most: 30 };

/// Words of fields in which much can go wrong, by how they start.
const FIELD_WORDS: [&str; 24] = [
    "aes",
    "certificate",
    "cipher",
    "codec",
    "concurren",
    "consensus",
    "crypto",
    "decrypt",
    "deadlock",
    "ed25519",
    "encrypt",
    "fsm",
    "handshake",
    "hmac",
    "lock-free",
    "parser",
    "protocol",
    "rsa",
    "serializ",
    "signature",
    "state-machine",
    "statemachine",
    "tls",
    "transaction",
];

impl Complexity {
    /// From here on people are told.
    pub const WATCH: Self = Self(80);
    /// From here on it should be several jobs.
    pub const DECOMPOSE: Self = Self(120);

    /// How much a job asks of its agent; `None` when it has none.
    #[must_use]
    pub fn of_job(job: &JobDefinition) -> Option<Self> {
        let more = job.instructions.as_ref().map_or("", |text| text.as_str());
        Self::of_work(job.work.as_ref()?, more, job.dependencies.len())
    }

    /// How much this work asks of its agent, who is told `more` besides; `None` when it has none.
    #[must_use]
    pub fn of_work(work: &WorkSpec, more: &str, dependencies: usize) -> Option<Self> {
        let text = match &work.agent()?.brief {
            Brief::Text(text) => text.as_str(),
            Brief::File(_) => "",
        };
        Some(Self::of_texts([text, more], dependencies))
    }

    fn of_texts(texts: [&str; 2], dependencies: usize) -> Self {
        let mut signs = Signs::default();
        for text in texts {
            signs.read(&text.to_lowercase());
        }
        let score = FILES.of(signs.files.len())
            + TESTS.of(signs.tests)
            + LINES.of(signs.lines / LINES_PER_SIGN)
            + FIELDS.of(signs.fields.len())
            + DEPENDENCIES.of(dependencies);
        Self(u32::try_from(score).unwrap_or(u32::MAX))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// What should be done about it, if anything.
    #[must_use]
    pub fn advice(self) -> Option<Advice> {
        if self >= Self::DECOMPOSE {
            Some(Advice::Decompose(self))
        } else if self >= Self::WATCH {
            Some(Advice::Watch(self))
        } else {
            None
        }
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Watch(Complexity(score)) => write!(
                f,
                "this task is large for one agent (complexity {score}); consider several jobs"
            ),
            Self::Decompose(Complexity(score)) => write!(
                f,
                "this asks too much of one agent (complexity {score}); please decompose it into \
                 several jobs"
            ),
        }
    }
}

impl Weight {
    fn of(&self, signs: usize) -> usize {
        signs.saturating_mul(self.each).min(self.most)
    }
}

#[derive(Default)]
struct Signs {
    files: HashSet<u64>,
    fields: HashSet<&'static str>,
    tests: usize,
    lines: usize,
}

impl Signs {
    fn read(&mut self, text: &str) {
        let mut before: Option<&str> = None;
        for word in text
            .split(|c: char| c.is_whitespace() || "`'\"()[]{}<>,;:*".contains(c))
            .map(|word| word.trim_end_matches(['.', '!', '?']))
            .filter(|word| !word.is_empty())
        {
            if is_file(word) {
                self.files.insert(hash(word));
            } else if word.starts_with("test") || word.ends_with("tests") {
                self.tests += 1;
            } else if is_lines(word) {
                let count = before.and_then(number);
                self.lines = self.lines.saturating_add(count.unwrap_or_default());
            }
            let field = FIELD_WORDS.iter().find(|field| is_field(word, field));
            self.fields.extend(field);
            if before == Some("state") && word.starts_with("machine") {
                self.fields.insert("state-machine");
            }
            before = Some(word);
        }
    }
}

/// Short names are whole words; longer ones are how words start.
fn is_field(word: &str, field: &str) -> bool {
    match field.len() {
        ..=4 => word == field,
        _ => word.starts_with(field),
    }
}

/// Whether a word is the name of a file: something, a point, and an ending of letters.
fn is_file(word: &str) -> bool {
    let Some((stem, ending)) = word.rsplit_once('.') else {
        return false;
    };
    let named = stem
        .rsplit('/')
        .next()
        .is_some_and(|name| name.len() > 1 && name.contains(|c: char| c.is_ascii_alphabetic()));
    named
        && (1..=5).contains(&ending.len())
        && ending.starts_with(|c: char| c.is_ascii_alphabetic())
        && ending.bytes().all(|b| b.is_ascii_alphanumeric())
        && !word.contains("://")
}

fn is_lines(word: &str) -> bool {
    matches!(word, "lines" | "loc" | "sloc" | "line")
}

/// The number that a word is: `400`, `~400`, `300-400`, `1000+`.
fn number(word: &str) -> Option<usize> {
    let digits = word
        .rsplit(['-', '–'])
        .next()?
        .trim_matches(|c: char| !c.is_ascii_digit());
    digits.parse().ok().filter(|number| *number <= 1_000_000)
}

fn hash(word: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    word.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
