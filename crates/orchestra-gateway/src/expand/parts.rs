//! Texts cut at what they refer to.

use super::{ExpandError, Reference};

/// The variable that gives an input its value.
pub(super) fn input_variable(id: &str) -> String {
    let letters = id.chars().map(|c| match c.is_ascii_alphanumeric() {
        true => c.to_ascii_uppercase(),
        false => '_',
    });
    std::iter::once("ORCHESTRA_INPUT_".to_owned())
        .chain(letters.map(String::from))
        .collect()
}

/// What stands between the braces, without a default.
pub(crate) fn reference(name: &str) -> Option<Reference> {
    if let Some(id) = name.strip_prefix("input:") {
        return (!id.is_empty()).then(|| Reference::Input(id.to_owned()));
    }
    if let "workspaceFolder" | "workspaceFolderBasename" | "workspaceRoot" | "userHome" = name {
        return Some(Reference::Directory(name.to_owned()));
    }
    let name = name.strip_prefix("env:").unwrap_or(name);
    let is_name = |name: &str| {
        let permitted = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        name.bytes().all(permitted) && name.bytes().next().is_some_and(|b| !b.is_ascii_digit())
    };
    is_name(name).then(|| Reference::Variable(name.to_owned()))
}

/// A text cut at what it refers to.
pub(crate) struct Parts<'a>(pub(crate) &'a str);

/// A piece of a text.
pub(crate) enum Part<'a> {
    /// What stands for itself.
    Text(&'a str),
    /// What stands between the braces.
    Reference(&'a str),
}

impl<'a> Iterator for Parts<'a> {
    type Item = Result<Part<'a>, ExpandError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        if let Some(rest) = self.0.strip_prefix("$$") {
            let dollar = &self.0[..1];
            self.0 = rest;
            return Some(Ok(Part::Text(dollar)));
        }
        if let Some(rest) = self.0.strip_prefix("${") {
            let Some((inner, rest)) = rest.split_once('}') else {
                self.0 = "";
                return Some(Err(ExpandError::Open));
            };
            self.0 = rest;
            return Some(Ok(Part::Reference(inner)));
        }
        let from = usize::from(self.0.starts_with('$'));
        let next = self.0[from..].find('$').map(|at| at + from);
        let (text, rest) = self.0.split_at(next.unwrap_or(self.0.len()));
        self.0 = rest;
        Some(Ok(Part::Text(text)))
    }
}
