//! Reading the members of an object one by one: each knows its names, what was not asked for is
//! told with the name that may have been meant, and what is wrong is told with its place.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    Template,
    node::{Member, Node, Path, Value},
    report::Report,
    units,
};

/// The members of an object, which are asked for one by one.
pub(super) struct Fields<'a> {
    members: &'a [Member],
    place: super::Place,
    path: Path,
    report: &'a Report,
    /// The names that were asked for, as they are told to people.
    known: Vec<&'static str>,
    taken: Vec<bool>,
    first_error: Option<String>,
}

impl<'a> Fields<'a> {
    /// The members of an object; `None`, and an error, when it is none.
    pub(super) fn of(node: &'a Node, path: &Path, report: &'a Report) -> Option<Self> {
        let Some(members) = node.members() else {
            let message = format!("must be an object, not {}", node.value.kind());
            report.error(node.place, path, message);
            return None;
        };
        Some(Self {
            members,
            place: node.place,
            path: path.clone(),
            report,
            known: Vec::new(),
            taken: vec![false; members.len()],
            first_error: None,
        })
    }

    /// The member of one of these names; capitals, `_` and `-` make no difference. Nothing counts
    /// as not there. Of several, the last is taken.
    pub(super) fn take(&mut self, names: &[&'static str]) -> Option<&'a Member> {
        self.known.extend(names);
        let mut found: Option<&Member> = None;
        for (member, taken) in self.members.iter().zip(&mut self.taken) {
            if !names.iter().any(|name| same(name, &member.key)) {
                continue;
            }
            *taken = true;
            if let Some(earlier) = found {
                let path = self.path.key(&member.key);
                let message = format!("occurs again, after line {}", earlier.place.line);
                self.report.warn(member.place, &path, message);
            }
            found = Some(member);
        }
        found.filter(|member| member.node.value != Value::Null)
    }

    /// The way to a member.
    pub(super) fn path_of(&self, member: &Member) -> Path {
        self.path.key(&member.key)
    }

    /// Where findings go.
    pub(super) const fn report(&self) -> &'a Report {
        self.report
    }

    /// Tells that a member is wrong, which makes the whole of it unusable.
    pub(super) fn wrong(&mut self, member: &Member, message: impl Into<String>) {
        let path = self.path_of(member);
        self.wrong_at(&member.node, &path, message.into());
    }

    fn wrong_at(&mut self, node: &Node, path: &Path, message: String) {
        let short = Path(path.0[self.path.0.len()..].to_vec());
        self.fail(format!("{short}: {message}"));
        self.report.error(node.place, path, message);
    }

    /// Something is missing.
    pub(super) fn missing(&mut self, message: &str) {
        // What is wrong with a member was told there.
        if self.first_error.is_none() {
            self.report.error(self.place, &self.path, message);
            self.fail(message.to_owned());
        }
    }

    /// Something in it cannot be used, for which no single member can be named.
    pub(super) fn unusable(&mut self, message: String) {
        self.report.error(self.place, &self.path, message.clone());
        self.fail(message);
    }

    /// What was wrong first, where much was not asked for; says only what was mistyped.
    pub(super) fn into_error(self) -> Option<String> {
        for member in self.reported() {
            if let Some(name) = units::nearest(&member.key, &self.known) {
                self.warn_unknown(member, Some(name));
            }
        }
        self.first_error
    }

    /// Something is wrong that was told elsewhere.
    pub(super) fn fail(&mut self, message: String) {
        self.first_error.get_or_insert(message);
    }

    /// Something inside was wrong.
    pub(super) fn fail_within(&mut self, name: &str, inner: Result<(), String>) {
        if let Err(message) = inner {
            self.fail(format!("{name}: {message}"));
        }
    }

    /// Says what nobody asked for, and whether something was wrong.
    ///
    /// # Errors
    /// What was wrong first.
    pub(super) fn end(self) -> Result<(), String> {
        for member in self.reported() {
            self.warn_unknown(member, units::nearest(&member.key, &self.known));
        }
        self.first_error.map_or(Ok(()), Err)
    }

    /// The first member that nobody asked for.
    pub(super) fn first_unknown(&self) -> Option<String> {
        let first = self.unknown().next();
        first.map(|member| member.key.chars().take(80).collect())
    }

    /// The members that nobody asked for; `x-…` and `$schema` are for other readers.
    fn unknown(&self) -> impl Iterator<Item = &'a Member> {
        let members = self.members.iter().zip(&self.taken);
        let unknown = members.filter(|(member, taken)| {
            !**taken && !member.key.starts_with("x-") && !member.key.starts_with('$')
        });
        unknown.map(|(member, _)| member)
    }

    /// Returns the unknown members until the report is full: the search for the name that was meant is slow.
    fn reported(&self) -> impl Iterator<Item = &'a Member> {
        self.unknown().take_while(|_| !self.report.is_full())
    }

    fn warn_unknown(&self, member: &Member, meant: Option<&str>) {
        let message = match meant {
            // It is of another kind of server.
            Some(name) if same(name, &member.key) => "is not used by a server of this kind".into(),
            Some(name) => format!("is not known and not used; did you mean `{name}`?"),
            None => "is not known and not used".to_owned(),
        };
        let path = self.path.key(&member.key);
        self.report.warn(member.place, &path, message);
    }

    /// Names that mean something elsewhere: one that was mistyped is told as one that is known.
    pub(super) fn elsewhere(&mut self, names: &[&'static str]) {
        self.known.extend(names);
    }

    /// Names that other programs use; they mean nothing here.
    pub(super) fn ignore(&mut self, names: &[&'static str]) {
        for (member, taken) in self.members.iter().zip(&mut self.taken) {
            *taken |= names.iter().any(|name| same(name, &member.key));
        }
    }

    /// A text.
    pub(super) fn text(&mut self, names: &[&'static str]) -> Option<String> {
        let member = self.take(names)?;
        let text = member.node.text().map(str::to_owned);
        if text.is_none() {
            let kind = member.node.value.kind();
            self.wrong(member, format!("must be a text, not {kind}"));
        }
        text
    }

    /// A text that may hold `${…}`.
    pub(super) fn template(&mut self, names: &[&'static str]) -> Option<Template> {
        self.text(names).map(Template::new)
    }

    /// Yes or no.
    pub(super) fn flag(&mut self, names: &[&'static str]) -> Option<bool> {
        let member = self.take(names)?;
        if let Value::Bool(flag) = member.node.value {
            return Some(flag);
        }
        let kind = member.node.value.kind();
        self.wrong(member, format!("must be true or false, not {kind}"));
        None
    }

    /// A whole number in a range.
    pub(super) fn number(
        &mut self,
        names: &[&'static str],
        range: RangeInclusive<u64>,
    ) -> Option<u64> {
        let member = self.take(names)?;
        let number = match &member.node.value {
            Value::Number(text) => text.parse().ok(),
            _ => None,
        };
        let found = number.filter(|number| range.contains(number));
        if found.is_none() {
            let message = format!(
                "must be a whole number, {} to {}",
                range.start(),
                range.end()
            );
            self.wrong(member, message);
        }
        found
    }

    /// A number above nothing.
    pub(super) fn rate(&mut self, names: &[&'static str], max: f64) -> Option<f64> {
        let member = self.take(names)?;
        let number: Option<f64> = match &member.node.value {
            Value::Number(text) => text.parse().ok(),
            _ => None,
        };
        let found = number.filter(|number| *number > 0.0 && *number <= max);
        if found.is_none() {
            self.wrong(member, format!("must be a number above 0, at most {max}"));
        }
        found
    }

    /// A time: a number of seconds, or a text such as `1m30s` or `500ms`.
    pub(super) fn duration(
        &mut self,
        names: &[&'static str],
        range: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let member = self.take(names)?;
        let duration = match &member.node.value {
            Value::Number(text) => units::seconds(text),
            Value::Text(text) => units::duration(text),
            _ => None,
        };
        let found = duration.filter(|duration| range.contains(duration));
        match (&member.node.value, found) {
            (Value::Number(text), Some(_)) if text.parse().is_ok_and(|n: f64| n >= 1_000.0) => {
                let message = format!("numbers are seconds; did you mean \"{text}ms\"?");
                self.report
                    .warn(member.node.place, &self.path_of(member), message);
            }
            (_, Some(_)) => {}
            _ => {
                let (from, to) = (range.start(), range.end());
                let message = format!(
                    "must be a time from {from:?} to {to:?}: a number of seconds, or a string such as \"500ms\", \"30s\" or \"1m30s\""
                );
                self.wrong(member, message);
            }
        }
        found
    }

    /// A size: a number of bytes, or a text such as `512MiB`.
    pub(super) fn bytes(
        &mut self,
        names: &[&'static str],
        range: RangeInclusive<u64>,
    ) -> Option<u64> {
        let member = self.take(names)?;
        let bytes = match &member.node.value {
            Value::Number(text) => text.parse().ok(),
            Value::Text(text) => units::bytes(text),
            _ => None,
        };
        let found = bytes.filter(|bytes| range.contains(bytes));
        if found.is_none() {
            let message = format!(
                "must be a number of bytes from {} to {}, or a string such as \"512MiB\"",
                range.start(),
                range.end()
            );
            self.wrong(member, message);
        }
        found
    }

    /// One of some words.
    pub(super) fn choice<T: Copy>(
        &mut self,
        names: &[&'static str],
        choices: &[(&str, T)],
    ) -> Option<T> {
        let member = self.take(names)?;
        let word = member.node.text();
        let found = choices
            .iter()
            .find(|(name, _)| word.is_some_and(|word| same(name, word)));
        if found.is_none() {
            let words: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            self.wrong(member, format!("must be one of {}", words.join(", ")));
        }
        found.map(|(_, value)| *value)
    }

    /// A list of texts; one text alone stands for a list of it, and an empty object for an empty list.
    pub(super) fn texts(&mut self, names: &[&'static str]) -> Option<Vec<String>> {
        let member = self.take(names)?;
        if let Some(text) = member.node.text() {
            return Some(vec![text.to_owned()]);
        }
        if member.node.members().is_some_and(<[Member]>::is_empty) {
            return Some(Vec::new());
        }
        let Value::List(items) = &member.node.value else {
            let kind = member.node.value.kind();
            self.wrong(member, format!("must be a list of texts, not {kind}"));
            return None;
        };
        let path = self.path_of(member);
        let mut texts = Vec::with_capacity(items.len());
        for (place, item) in items.iter().enumerate() {
            match plain(&item.value) {
                Some(text) => texts.push(text),
                None => {
                    let message = format!("must be a text, not {}", item.value.kind());
                    self.wrong_at(item, &path.index(place), message);
                }
            }
        }
        Some(texts)
    }

    /// A list of texts that may hold `${…}`.
    pub(super) fn templates(&mut self, names: &[&'static str]) -> Option<Vec<Template>> {
        let texts = self.texts(names)?;
        Some(texts.into_iter().map(Template::new).collect())
    }

    /// Names with texts, in their order. Numbers and yes and no are taken as they were written.
    pub(super) fn pairs(&mut self, names: &[&'static str]) -> Option<Vec<(String, String)>> {
        let member = self.take(names)?;
        let Some(members) = member.node.entries() else {
            let kind = member.node.value.kind();
            self.wrong(member, format!("must be an object of texts, not {kind}"));
            return None;
        };
        let path = self.path_of(member);
        let mut pairs = Vec::with_capacity(members.len());
        for inner in members {
            match plain(&inner.node.value) {
                Some(text) => pairs.push((inner.key.clone(), text)),
                None => {
                    let message = format!("must be a text, not {}", inner.node.value.kind());
                    self.wrong_at(&inner.node, &path.key(&inner.key), message);
                }
            }
        }
        Some(pairs)
    }

    /// The members of a member that is an object.
    pub(super) fn object(&mut self, names: &[&'static str]) -> Option<Self> {
        let member = self.take(names)?;
        let path = self.path_of(member);
        let fields = Fields::of(&member.node, &path, self.report);
        if fields.is_none() {
            self.fail(format!("{}: must be an object", member.key));
        }
        fields
    }
}

/// What can stand for a text.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) | Value::Number(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::List(_) | Value::Map(_) => None,
    }
}

/// Whether two names are the same but for capitals, `_` and `-`.
pub(super) fn same(one: &str, other: &str) -> bool {
    fn letters(text: &str) -> impl Iterator<Item = char> {
        let letters = text.chars().filter(|c| !matches!(c, '_' | '-'));
        letters.map(|c| c.to_ascii_lowercase())
    }
    letters(one).eq(letters(other))
}
