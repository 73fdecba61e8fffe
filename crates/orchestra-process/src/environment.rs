//! Which environment a child gets.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

/// What a child inherits of our environment, before variables of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Environment {
    /// The few variables that programs need to find their way: `HOME`, `LANG`, `LC_*`, `LOGNAME`,
    /// `PATH`, `SHELL`, `TERM`, `TMPDIR`, `USER`. No secrets that we were given.
    #[default]
    Default,
    /// All of it.
    All,
    /// Nothing.
    None,
}

/// What [`Environment::Default`] lets through, besides `LC_*`.
const ALLOWED: [&str; 8] = [
    "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER",
];

impl Environment {
    fn inherits(self, name: &OsStr) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Default => name
                .to_str()
                .is_some_and(|name| ALLOWED.contains(&name) || name.starts_with("LC_")),
        }
    }

    /// The environment of a child: what it inherits of `ours`, then `own`, which wins.
    pub(crate) fn resolve(
        self,
        ours: impl Iterator<Item = (OsString, OsString)>,
        own: &BTreeMap<OsString, OsString>,
    ) -> BTreeMap<OsString, OsString> {
        let mut all: BTreeMap<_, _> = ours.filter(|(name, _)| self.inherits(name)).collect();
        all.extend(own.clone());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_inherits_what_is_on_the_list_and_its_own_variables_win() {
        let ours = || {
            ["PATH", "LC_ALL", "TOKEN", "HOMES", "USER"]
                .map(|name| (name.into(), "ours".into()))
                .into_iter()
        };
        let own = BTreeMap::from([("USER".into(), "own".into()), ("X".into(), "own".into())]);
        let names = |environment: Environment| {
            let all = environment.resolve(ours(), &own);
            assert_eq!(all[OsStr::new("USER")], "own");
            let names = all.keys().map(|name| name.to_string_lossy().into_owned());
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(Environment::Default), "LC_ALL PATH USER X");
        assert_eq!(names(Environment::All), "HOMES LC_ALL PATH TOKEN USER X");
        assert_eq!(names(Environment::None), "USER X");
    }
}
