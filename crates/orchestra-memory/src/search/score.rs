//! How well a text fits a query.
//!
//! The sum, over the words of the query, of how rare each is and how often the text has it, as BM25
//! counts; what stands together, identifiers letter by letter and the days a query names count on
//! top. In talk a turn is lent a part of what its neighbours have, so that an answer is found by the
//! words of its question.

use std::collections::{BTreeMap, HashMap};

use orchestra_board::Label;
use orchestra_store::{ContextItem, NewChunk, stem, words_of};

use super::Candidate;
use super::query::Query;

/// The most bytes of a text that are counted: all of the longest one that is remembered, for what the
/// store finds in it must not be left out here.
pub(super) const COUNTED: usize = NewChunk::MAX_BYTES;
/// How soon further occurrences of a word count no more.
const SATURATION: f64 = 1.2;
/// How much long texts are held back.
const LENGTH: f64 = 0.35;
/// How many words a text has that is neither long nor short.
const USUAL_LENGTH: f64 = 60.0;
/// What an occurrence counts in a summary, where one in the text counts 1.
const IN_SUMMARY: f64 = 1.8;
/// What an occurrence counts among the tags.
const IN_TAGS: f64 = 1.0;
/// What an occurrence of another form of a word counts.
const OTHER_FORM: f64 = 0.85;
/// What an occurrence of a word counts that stands for a misspelt or unfinished one.
const MENDED: f64 = 0.6;
/// What a pair of words of the query adds that stands together, of the rarer one's worth.
const TOGETHER: f64 = 0.35;
/// How many words lie between two that stand together.
const NEAR: usize = 3;
/// What an identifier adds that stands there letter by letter.
const LITERAL: f64 = 4.0;
/// What the day or month of a query adds.
const DATED: f64 = 2.5;
/// What the kind of answer adds that is asked for.
const ANSWERS: f64 = 0.8;
/// What is new is lifted by this part, and what is a month old by half of it.
const RECENCY: f64 = 0.05;
/// The age at which half of that is left, in seconds.
const HALF_LIFE: f64 = 30.0 * 86_400.0;
/// What of a word the turns before lend, by how far away they are: an answer follows its question.
const FROM_BEFORE: [f64; 4] = [0.6, 0.45, 0.3, 0.2];
/// What of a word the turns after lend.
const FROM_AFTER: [f64; 4] = [0.35, 0.25, 0.15, 0.1];
/// What is left of the score of a text that asks itself, where a question is to be answered.
const ASKS_ITSELF: f64 = 0.85;

/// What a text has of the words of a query.
#[derive(Debug, Clone, Default)]
pub(super) struct Counted {
    /// For each word of the query what its occurrences count, 0 to about 2.
    own: Vec<f64>,
    /// The same with what the turns around lend.
    lent: Vec<f64>,
    in_summary: Vec<bool>,
    together: f64,
    literals: Vec<usize>,
    dated: bool,
    answers: bool,
    asks_itself: bool,
}

/// How well a text fits, and why.
#[derive(Debug, Clone, Default)]
pub(super) struct Scored {
    pub(super) score: f64,
    own: Vec<usize>,
    in_summary: Vec<usize>,
    around: Vec<usize>,
    literals: Vec<usize>,
    dated: bool,
    recent: bool,
}

/// Counts what texts have of the words of a query.
pub(super) struct Counter<'a> {
    pub(super) query: &'a Query,
    exact: HashMap<&'a str, (usize, f64)>,
    /// Stems, and the words that have them.
    stems: Vec<(&'a str, usize)>,
    /// By the first two bytes of a word: whether it may be one that is looked for, so that most words
    /// of a text are passed over at once.
    beginnings: Box<[bool; 1 << 16]>,
}

impl<'a> Counter<'a> {
    pub(super) fn new(query: &'a Query) -> Self {
        let (mut exact, mut stems) = (HashMap::new(), Vec::new());
        for (at, word) in query.words.iter().enumerate() {
            for mended in &word.mended {
                exact.entry(mended.as_str()).or_insert((at, MENDED));
            }
            stems.push((word.stem.as_str(), at));
        }
        for (at, word) in query.words.iter().enumerate() {
            exact.insert(&word.text, (at, 1.0));
        }
        let mut beginnings = Box::new([false; 1 << 16]);
        for word in exact.keys().chain(stems.iter().map(|(stem, _)| stem)) {
            beginnings[beginning(word)] = true;
        }
        Self {
            query,
            exact,
            stems,
            beginnings,
        }
    }

    /// Which word of the query a word of a text is, and how well.
    pub(super) fn find(&self, word: &str) -> Option<(usize, f64)> {
        if !self.beginnings[beginning(word)] {
            return None;
        }
        if let Some(found) = self.exact.get(word) {
            return Some(*found);
        }
        // A stem differs from its words in its last letter at most, and in what they have more.
        let may_be = |stem: &str| {
            let same = stem.len().saturating_sub(1);
            same > 0 && word.as_bytes().get(..same) == stem.as_bytes().get(..same)
        };
        if !self.stems.iter().any(|(stem, _)| may_be(stem)) {
            return None;
        }
        let stemmed = stem(word);
        let found = self.stems.iter().find(|(stem, _)| *stem == stemmed)?;
        Some((found.1, OTHER_FORM))
    }
}

/// The first two bytes of a word as a number.
fn beginning(word: &str) -> usize {
    let byte = |at: usize| usize::from(word.as_bytes().get(at).copied().unwrap_or_default());
    byte(0) << 8 | byte(1)
}

impl Counter<'_> {
    /// Counts what an item has of the words.
    pub(super) fn count(&self, item: &ContextItem) -> Counted {
        match item {
            ContextItem::Chunk(chunk) => {
                let marks = chunk.tags.iter().chain(&chunk.source_id);
                let tags: Vec<&str> = marks.map(Label::as_str).collect();
                let (summary, content) = (chunk.summary.as_str(), chunk.content.as_str());
                let mut counted = self.count_texts(summary, content, &tags.join(" "));
                counted.dated = self
                    .query
                    .dates
                    .iter()
                    .any(|span| span.has(chunk.created_at));
                counted
            }
            ContextItem::Session(session) => {
                let mut events = String::new();
                for event in &session.events {
                    events.push_str(event.summary.as_str());
                    events.push('\n');
                    if events.len() > COUNTED {
                        break;
                    }
                }
                let mut counted = self.count_texts(session.summary.as_str(), &events, "");
                let within = |at| self.query.dates.iter().any(|span| span.has(at));
                counted.dated = within(session.started_at) || within(session.ended_at);
                counted
            }
        }
    }

    /// Counts what a text has of the words.
    pub(super) fn count_texts(&self, summary: &str, content: &str, tags: &str) -> Counted {
        let mut counts = vec![0.0; self.query.words.len()];
        let mut in_summary = vec![false; self.query.words.len()];
        let mut together: BTreeMap<(usize, usize), ()> = BTreeMap::new();
        let mut length = 0.0;
        let fields = [(summary, IN_SUMMARY), (content, 1.0), (tags, IN_TAGS)];
        for (field, (text, weight)) in fields.into_iter().enumerate() {
            let text = &text[..text.floor_char_boundary(COUNTED)];
            let mut place = 0;
            let mut last: Option<(usize, usize)> = None;
            words_of(text, |_, word| {
                place += 1;
                length += 1.0;
                let Some((at, quality)) = self.find(word) else {
                    return;
                };
                counts[at] += weight * quality;
                in_summary[at] |= field == 0;
                if let Some((other, there)) = last
                    && other != at
                    && place - there <= NEAR
                {
                    together.insert((other.min(at), other.max(at)), ());
                }
                last = Some((at, place));
            });
        }
        self.query
            .count_joined(&mut counts, [summary, content, tags]);
        let drag = SATURATION * (1.0 - LENGTH + LENGTH * length / USUAL_LENGTH);
        let own: Vec<f64> = counts
            .iter()
            .map(|count| count * (SATURATION + 1.0) / (count + drag))
            .collect();
        let rarer =
            |(a, b): &(usize, usize)| self.query.words[*a].rarity.min(self.query.words[*b].rarity);
        Counted {
            lent: own.clone(),
            own,
            in_summary,
            together: together.keys().map(rarer).sum(),
            literals: self.query.literals_in([summary, content, tags]),
            dated: false,
            answers: self.query.is_answered_by(content),
            asks_itself: content.trim_end().ends_with('?'),
        }
    }
}

impl Query {
    /// Words of scripts without blanks are their characters next to each other.
    fn count_joined(&self, counts: &mut [f64], texts: [&str; 3]) {
        if !self.words.iter().any(|word| word.text.contains(' ')) {
            return;
        }
        let texts = texts.map(|text| {
            let mut line = String::from(" ");
            words_of(&text[..text.floor_char_boundary(COUNTED)], |_, word| {
                line.push_str(word);
                line.push(' ');
            });
            line
        });
        for (count, word) in counts.iter_mut().zip(&self.words) {
            let wanted = format!(" {} ", word.text);
            if word.text.contains(' ') && texts.iter().any(|text| text.contains(&wanted)) {
                *count += 1.0;
            }
        }
    }

    /// How well a text fits that has been counted.
    pub(super) fn score(&self, item: &ContextItem, counted: &Counted) -> Scored {
        let at = match item {
            ContextItem::Chunk(chunk) => chunk.created_at,
            ContextItem::Session(session) => session.ended_at,
        };
        let mut scored = self.score_counted(counted);
        #[expect(clippy::cast_precision_loss, reason = "seconds of some years")]
        let age = (self.now.unix_seconds() - at.unix_seconds()).max(0) as f64;
        let recent = (-age / HALF_LIFE * std::f64::consts::LN_2).exp();
        scored.score *= 1.0 + RECENCY * recent;
        if self.is_question && counted.asks_itself {
            scored.score *= ASKS_ITSELF;
        }
        scored.recent = recent > 0.8;
        scored
    }

    pub(super) fn score_counted(&self, counted: &Counted) -> Scored {
        let mut scored = Scored {
            literals: counted.literals.clone(),
            ..Scored::default()
        };
        let mut sum = 0.0;
        for (at, word) in self.words.iter().enumerate() {
            sum += word.rarity * counted.lent[at];
            if word.tells && counted.own[at] > 0.0 {
                scored.own.push(at);
                if counted.in_summary[at] {
                    scored.in_summary.push(at);
                }
            } else if word.tells && counted.lent[at] > 0.0 {
                scored.around.push(at);
            }
        }
        if sum > 0.0 || !counted.literals.is_empty() {
            sum += TOGETHER * counted.together;
            #[expect(clippy::cast_precision_loss, reason = "a few")]
            let literals = counted.literals.len() as f64;
            sum += LITERAL * literals;
            if counted.dated {
                sum += DATED;
                scored.dated = true;
            }
            if counted.answers {
                sum += ANSWERS;
            }
        }
        scored.score = sum;
        scored
    }
}

/// Lends each turn a part of what the turns around it have.
pub(super) fn lend(query: &Query, pool: &mut [Candidate]) {
    let mut sources: BTreeMap<&str, Vec<(u64, usize)>> = BTreeMap::new();
    for (place, candidate) in pool.iter().enumerate() {
        if let ContextItem::Chunk(chunk) = &candidate.item
            && let Some(source) = &chunk.source_id
        {
            let number = chunk.id.number();
            sources
                .entry(source.as_str())
                .or_default()
                .push((number, place));
        }
    }
    let mut loans: Vec<(usize, usize, f64)> = Vec::new();
    for turns in sources.values_mut() {
        turns.sort_unstable();
        for (at, (number, place)) in turns.iter().enumerate() {
            let reach = FROM_BEFORE.len();
            for (other_number, other) in turns
                .iter()
                .skip(at.saturating_sub(reach))
                .take(2 * reach + 1)
            {
                let parts = if other_number < number {
                    FROM_BEFORE
                } else {
                    FROM_AFTER
                };
                let apart = usize::try_from(number.abs_diff(*other_number)).unwrap_or(usize::MAX);
                let Some(part) = apart.checked_sub(1).and_then(|step| parts.get(step)) else {
                    continue;
                };
                for (word, own) in pool[*other].counted.own.iter().enumerate() {
                    if query.words[word].tells && *own > 0.0 {
                        loans.push((*place, word, part * own));
                    }
                }
            }
        }
    }
    for (place, word, loan) in loans {
        let lent = &mut pool[place].counted.lent[word];
        *lent = lent.max(loan);
    }
}

impl Scored {
    /// Whether it has something of the query that tells texts apart.
    pub(super) fn tells(&self) -> bool {
        let words = [&self.own, &self.in_summary, &self.around, &self.literals];
        self.dated || words.iter().any(|words| !words.is_empty())
    }

    /// What made it fit, in a few words.
    pub(super) fn why(&self, query: &Query) -> String {
        let words = |which: &[usize]| {
            let texts: Vec<&str> = which
                .iter()
                .filter_map(|at| query.words.get(*at))
                .map(|word| word.mended.first().unwrap_or(&word.text).as_str())
                .collect();
            texts.join(", ")
        };
        let mut reasons = Vec::new();
        if !self.literals.is_empty() {
            let texts = self
                .literals
                .iter()
                .filter_map(|at| query.literals.get(*at));
            let texts: Vec<&str> = texts.map(String::as_str).collect();
            reasons.push(format!("exactly {}", texts.join(", ")));
        }
        if !self.own.is_empty() {
            reasons.push(format!("has {}", words(&self.own)));
        }
        if !self.in_summary.is_empty() {
            reasons.push(format!("in the summary: {}", words(&self.in_summary)));
        }
        if !self.around.is_empty() {
            reasons.push(format!("around it: {}", words(&self.around)));
        }
        if self.dated {
            reasons.push("of that time".to_owned());
        }
        if self.recent && !reasons.is_empty() {
            reasons.push("recent".to_owned());
        }
        reasons.join("; ")
    }
}
