//! Arguments with placeholders: one value goes into one argument, whatever it holds.
//!
//! Arguments are written in groups. A group is left out when something that it names was not given,
//! and stands once for each item of a list that it names. A first word that begins with `?` makes
//! its group one that is given only to programs whose help names the option.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
};

use thiserror::Error;

/// The most groups of a command line, words of a group and bytes of a word: far more than any
/// program takes.
const MAX_GROUPS: usize = 64;
const MAX_WORDS: usize = 64;
const MAX_WORD_BYTES: usize = 4_096;

/// A value that is there or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum One {
    Prompt,
    PromptFile,
    Model,
    Session,
    NewSession,
    Worktree,
    Private,
    Effort,
    MaxTurns,
}

/// Values of which there are any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Many {
    Folders,
    Urls,
    Domains,
}

const ONES: [(&str, One); 9] = [
    ("prompt", One::Prompt),
    ("prompt_file", One::PromptFile),
    ("model", One::Model),
    ("session", One::Session),
    ("new_session", One::NewSession),
    ("worktree", One::Worktree),
    ("private", One::Private),
    ("effort", One::Effort),
    ("max_turns", One::MaxTurns),
];

const MANIES: [(&str, Many); 3] = [
    ("folders", Many::Folders),
    ("urls", Many::Urls),
    ("domains", Many::Domains),
];

/// What fills the placeholders.
#[derive(Debug, Clone, Default)]
pub(super) struct Values {
    pub(super) one: BTreeMap<One, OsString>,
    pub(super) many: BTreeMap<Many, Vec<OsString>>,
}

/// Why arguments are not arguments.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum TemplateError {
    #[error(
        "`{word}` contains `{name}`, which is not a placeholder; placeholders are {}",
        known()
    )]
    Unknown { word: String, name: String },
    #[error("`{word}` has an unclosed brace; write a literal brace twice")]
    Open { word: String },
    #[error(
        "the arguments exceed a limit: {MAX_GROUPS} groups, {MAX_WORDS} words in a group, or {MAX_WORD_BYTES} bytes in a word; shorten them"
    )]
    TooLong,
    #[error("`args` contains an empty group; remove it")]
    EmptyGroup,
    #[error("the group of `{word}` names more than one list")]
    TwoLists { word: String },
    #[error(
        "with the value of {placeholder}, `{word}` would begin with a hyphen and become an option"
    )]
    LooksLikeOption { word: String, placeholder: String },
    #[error("the value of {placeholder} contains a NUL byte, which no argument can contain")]
    Nul { placeholder: String },
    #[error("an item of {placeholder} contains a comma, which separates items")]
    Comma { placeholder: String },
}

fn known() -> String {
    let ones = ONES.iter().map(|(name, _)| format!("{{{name}}}"));
    let manies = MANIES
        .iter()
        .map(|(name, _)| format!("{{{name}}} {{{name},}}"));
    ones.chain(manies).collect::<Vec<_>>().join(" ")
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    One(One),
    /// Its group stands once for each.
    Each(Many),
    /// All of them, with commas between.
    Joined(Many),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    written: String,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    /// The option that the help has to name.
    needs: Option<String>,
    words: Vec<Word>,
    each: Option<Many>,
}

/// Arguments as they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template {
    groups: Vec<Group>,
}

impl Template {
    pub(super) fn parse(groups: &[Vec<String>]) -> Result<Self, TemplateError> {
        let too_long = |words: &Vec<String>| {
            words.len() > MAX_WORDS || words.iter().any(|word| word.len() > MAX_WORD_BYTES)
        };
        if groups.len() > MAX_GROUPS || groups.iter().any(too_long) {
            return Err(TemplateError::TooLong);
        }
        let groups = groups
            .iter()
            .map(|words| Group::parse(words))
            .collect::<Result<_, _>>()?;
        Ok(Self { groups })
    }

    /// Whether a value is used, by a program whose help names these options.
    pub(super) fn names(&self, one: One, known: &dyn Fn(&str) -> bool) -> bool {
        self.pieces(known).any(|piece| *piece == Piece::One(one))
    }

    /// Whether a list is used.
    pub(super) fn names_many(&self, many: Many, known: &dyn Fn(&str) -> bool) -> bool {
        self.pieces(known)
            .any(|piece| *piece == Piece::Each(many) || *piece == Piece::Joined(many))
    }

    /// Options that are only given when the help names them.
    pub(super) fn needs(&self) -> impl Iterator<Item = &str> {
        self.groups
            .iter()
            .filter_map(|group| group.needs.as_deref())
    }

    /// Returns whether the values of its placeholders, or a program that reads one of its words as text of a program,
    /// may name files that the words do not name. `is_known` returns whether a word is known to name none.
    pub(super) fn is_open(&self, is_known: &dyn Fn(&str) -> bool) -> bool {
        let mut words = self.groups.iter().flat_map(|group| &group.words);
        words.any(|word| word.is_open() && !is_known(&word.written))
    }

    fn pieces<'a>(&'a self, known: &'a dyn Fn(&str) -> bool) -> impl Iterator<Item = &'a Piece> {
        self.groups
            .iter()
            .filter(move |group| group.needs.as_deref().is_none_or(known))
            .flat_map(|group| &group.words)
            .flat_map(|word| &word.pieces)
    }

    /// The arguments. No value ever becomes two of them or none; one that would be taken for an
    /// option is refused.
    pub(super) fn expand(
        &self,
        values: &Values,
        known: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<OsString>, TemplateError> {
        let mut arguments = Vec::new();
        let mut after_options = false;
        let none = Vec::new();
        for group in &self.groups {
            if !group.needs.as_deref().is_none_or(known) || !group.is_given(values) {
                continue;
            }
            let items = group
                .each
                .map(|many| values.many.get(&many).unwrap_or(&none));
            let rounds: Vec<Option<&OsStr>> = match items {
                Some(items) => items.iter().map(|item| Some(item.as_os_str())).collect(),
                None => vec![None],
            };
            for item in rounds {
                for word in &group.words {
                    let argument = word.expand(values, item, after_options)?;
                    after_options |= word.is_end_of_options();
                    arguments.push(argument);
                }
            }
        }
        Ok(arguments)
    }
}

impl Group {
    fn parse(words: &[String]) -> Result<Self, TemplateError> {
        let first = words.first().ok_or(TemplateError::EmptyGroup)?;
        let option = first.strip_prefix('?');
        let needs = option.map(|option| option.split('=').next().unwrap_or_default().to_owned());
        let mut parsed = Vec::with_capacity(words.len());
        let mut each = None;
        for (at, word) in words.iter().enumerate() {
            let written = match (at, option) {
                (0, Some(option)) => option,
                _ => word,
            };
            let word = Word::parse(written)?;
            for piece in &word.pieces {
                if let Piece::Each(many) = piece {
                    if each.is_some_and(|other| other != *many) {
                        return Err(TemplateError::TwoLists {
                            word: word.written.clone(),
                        });
                    }
                    each = Some(*many);
                }
            }
            parsed.push(word);
        }
        Ok(Self {
            needs,
            words: parsed,
            each,
        })
    }

    fn is_given(&self, values: &Values) -> bool {
        let is_there = |piece: &Piece| match piece {
            Piece::Text(_) => true,
            Piece::One(one) => values.one.contains_key(one),
            Piece::Each(many) | Piece::Joined(many) => {
                values.many.get(many).is_some_and(|items| !items.is_empty())
            }
        };
        self.words
            .iter()
            .flat_map(|word| &word.pieces)
            .all(is_there)
    }
}

impl Word {
    fn parse(written: &str) -> Result<Self, TemplateError> {
        let open = || TemplateError::Open {
            word: written.to_owned(),
        };
        let mut pieces = Vec::new();
        let mut text = String::new();
        let mut rest = written;
        while let Some(at) = rest.find(['{', '}']) {
            text.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                text.push_str(brace);
                rest = after;
                continue;
            }
            let end = if brace == "{" { rest.find('}') } else { None };
            let end = end.ok_or_else(open)?;
            let name = &rest[..end];
            rest = &rest[end + 1..];
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            pieces.push(Piece::parse(name).ok_or_else(|| TemplateError::Unknown {
                word: written.to_owned(),
                name: name.to_owned(),
            })?);
        }
        text.push_str(rest);
        if !text.is_empty() || pieces.is_empty() {
            pieces.push(Piece::Text(text));
        }
        Ok(Self {
            written: written.to_owned(),
            pieces,
        })
    }

    fn is_open(&self) -> bool {
        let has_code = self.pieces.iter().any(|piece| match piece {
            Piece::Text(text) => has_program_text(text),
            _ => false,
        });
        let is_whole = match &self.pieces[..] {
            [_] => true,
            // The value is looked up like a word of its own.
            [Piece::Text(option), _] => is_option(option),
            _ => false,
        };
        let mut places = 0..self.pieces.len();
        has_code || !is_whole && places.any(|at| self.is_unknown(at))
    }

    /// Returns whether a piece is a value that is not known before the start. The directories are known, as the
    /// beginning of a path.
    fn is_unknown(&self, at: usize) -> bool {
        let text = |piece: Option<&Piece>| match piece {
            Some(Piece::Text(text)) => text.clone(),
            Some(_) => "{}".to_owned(),
            None => String::new(),
        };
        match &self.pieces[at] {
            Piece::Text(_) => false,
            Piece::One(One::Worktree | One::Private) => {
                let before = text(at.checked_sub(1).and_then(|at| self.pieces.get(at)));
                let after = text(self.pieces.get(at + 1));
                let word = before
                    .rsplit(char::is_whitespace)
                    .next()
                    .unwrap_or_default();
                let ends = |char: char| char == '/' || char.is_whitespace();
                let is_start = !word.contains(['/', '}']);
                !is_start || !(after.is_empty() || after.starts_with(ends))
            }
            Piece::One(_) | Piece::Each(_) | Piece::Joined(_) => true,
        }
    }

    fn is_end_of_options(&self) -> bool {
        self.pieces == [Piece::Text("--".to_owned())]
    }

    fn expand(
        &self,
        values: &Values,
        item: Option<&OsStr>,
        after_options: bool,
    ) -> Result<OsString, TemplateError> {
        let mut bytes = Vec::new();
        for (at, piece) in self.pieces.iter().enumerate() {
            let placeholder = || piece.written();
            let joined;
            let value: &[u8] = match piece {
                Piece::Text(text) => {
                    bytes.extend_from_slice(text.as_bytes());
                    continue;
                }
                Piece::One(one) => values.one.get(one).map_or(&[], |value| value.as_bytes()),
                Piece::Each(_) => item.map_or(&[], OsStr::as_bytes),
                Piece::Joined(many) => {
                    let items = values.many.get(many).map_or(&[][..], Vec::as_slice);
                    if items.iter().any(|item| item.as_bytes().contains(&b',')) {
                        return Err(TemplateError::Comma {
                            placeholder: placeholder(),
                        });
                    }
                    joined = items.join(OsStr::new(","));
                    joined.as_bytes()
                }
            };
            if value.contains(&0) {
                return Err(TemplateError::Nul {
                    placeholder: placeholder(),
                });
            }
            if at == 0 && !after_options && value.first() == Some(&b'-') {
                return Err(TemplateError::LooksLikeOption {
                    word: self.written.clone(),
                    placeholder: placeholder(),
                });
            }
            bytes.extend_from_slice(value);
        }
        Ok(OsString::from_vec(bytes))
    }
}

impl Piece {
    fn parse(name: &str) -> Option<Self> {
        let (name, is_joined) = match name.strip_suffix(',') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let many = MANIES.iter().find(|(known, _)| *known == name);
        match (many, is_joined) {
            (Some((_, many)), true) => Some(Self::Joined(*many)),
            (Some((_, many)), false) => Some(Self::Each(*many)),
            (None, true) => None,
            (None, false) => {
                let one = ONES.iter().find(|(known, _)| *known == name);
                one.map(|(_, one)| Self::One(*one))
            }
        }
    }

    fn written(&self) -> String {
        let many = |many: &Many| {
            let found = MANIES.iter().find(|(_, known)| known == many);
            found.map_or("", |(name, _)| name)
        };
        match self {
            Self::Text(text) => text.clone(),
            Self::One(one) => {
                let found = ONES.iter().find(|(_, known)| known == one);
                format!("{{{}}}", found.map_or("", |(name, _)| name))
            }
            Self::Each(list) => format!("{{{}}}", many(list)),
            Self::Joined(list) => format!("{{{},}}", many(list)),
        }
    }
}

/// Returns whether a text has a character that text of a program has and a name does not.
pub(super) fn has_program_text(text: &str) -> bool {
    // Node.js, Bun and Deno run the program in a URL with `data:`.
    let is_data = text.to_ascii_lowercase().starts_with("data:");
    is_data || text.contains(|char: char| "'\"();|<>$`*?[]!~\\\n\r".contains(char))
}

/// Returns whether a text is an option with the sign before its value, such as `--model=`.
fn is_option(text: &str) -> bool {
    let is_part = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
    let name = text.strip_suffix('=').unwrap_or_default();
    !name.is_empty() && name.chars().all(is_part)
}

#[cfg(test)]
mod tests;
