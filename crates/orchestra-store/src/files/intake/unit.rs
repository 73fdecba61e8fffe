//! What is taken in as one: an issue with all its files, or any other file.

use crate::document::SIDE;
use crate::files::Owner;
use crate::files::place::{CONFLICT, Part, Place, directory};
use crate::toon::IssuePlace;

/// One thing whose files are looked at together, in the order in which they are taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unit {
    Issue(IssuePlace),
    File(Place),
}

impl Unit {
    pub(super) fn of(path: &str) -> Option<Self> {
        let path = path.strip_suffix(CONFLICT).unwrap_or(path);
        let path = path.strip_suffix(SIDE).unwrap_or(path);
        Some(match Place::parse(path)? {
            Place::Issue(place, _) => Self::Issue(place),
            place => Self::File(place),
        })
    }

    /// The path of the file that makes it.
    pub(super) fn first_path(&self) -> String {
        match self {
            Self::Issue(place) => Place::Issue(place.clone(), Part::Fields).path(),
            Self::File(place) => place.path(),
        }
    }

    /// All its paths, the first one first.
    pub(super) fn paths(&self) -> Vec<String> {
        match self {
            Self::Issue(place) => [Part::Fields, Part::Description, Part::History]
                .map(|part| Place::Issue(place.clone(), part).path())
                .to_vec(),
            Self::File(place @ Place::Document(path)) => {
                vec![place.path(), format!("{path}{SIDE}")]
            }
            Self::File(place) => vec![place.path()],
        }
    }

    /// The directory of its files, with the `/` at its end.
    pub(super) fn directory(&self) -> String {
        format!("{}/", directory(&self.first_path()))
    }

    /// Projects before what is in them, parents before children.
    pub(super) const fn depth(&self) -> u8 {
        match self {
            Self::File(Place::Project(_)) => 0,
            Self::Issue(IssuePlace { epic: None, .. }) => 1,
            Self::Issue(IssuePlace { story: None, .. }) => 2,
            Self::Issue(_) => 3,
            Self::File(_) => 4,
        }
    }

    /// Whose files they are.
    pub(super) fn owner(&self) -> Owner {
        match self {
            Self::Issue(place) => Owner::of_issue(place),
            Self::File(place) => Owner::of(place),
        }
    }
}
