//! A file as a tree whose parts know where they stand, whatever notation it is in.

use std::fmt;

use super::Place;

/// A value and its place.
#[derive(Clone, PartialEq)]
pub(crate) struct Node {
    /// Where it begins.
    pub(crate) place: Place,
    /// The value.
    pub(crate) value: Value,
}

/// A value.
#[derive(Clone, PartialEq)]
pub(crate) enum Value {
    /// Nothing.
    Null,
    /// Yes or no.
    Bool(bool),
    /// A number as it was written, in decimal.
    Number(String),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// Names with values, in the order of the file.
    Map(Vec<Member>),
}

/// A name with its value.
#[derive(Clone, PartialEq)]
pub(crate) struct Member {
    /// The name.
    pub(crate) key: String,
    /// Where the name stands.
    pub(crate) place: Place,
    /// The value.
    pub(crate) node: Node,
}

impl Node {
    /// The members of a map.
    pub(crate) fn members(&self) -> Option<&[Member]> {
        match &self.value {
            Value::Map(members) => Some(members),
            _ => None,
        }
    }

    /// The members of a map, none for an empty list: PHP writes an empty map as `[]`.
    pub(crate) fn entries(&self) -> Option<&[Member]> {
        match &self.value {
            Value::List(items) if items.is_empty() => Some(&[]),
            _ => self.members(),
        }
    }

    /// The last member of a name, as JSON parsers have it.
    pub(crate) fn member(&self, key: &str) -> Option<&Member> {
        let mut members = self.members()?.iter().rev();
        members.find(|member| member.key == key)
    }

    /// The text.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Value {
    /// What it is, in words.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "an object",
        }
    }
}

/// A step from a value to one inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// To the value of a name.
    Key(String),
    /// To the place in a list, counted from 0.
    Index(usize),
}

/// The way from the top of a file to a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Path(pub(crate) Vec<Step>);

impl Path {
    /// The way to a member.
    pub(crate) fn key(&self, key: &str) -> Self {
        let mut steps = self.0.clone();
        steps.push(Step::Key(key.to_owned()));
        Self(steps)
    }

    /// The way to a place in a list.
    pub(crate) fn index(&self, index: usize) -> Self {
        let mut steps = self.0.clone();
        steps.push(Step::Index(index));
        Self(steps)
    }
}

impl Path {
    /// Whether it leads to what another leads to, or inside it.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if place == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}
