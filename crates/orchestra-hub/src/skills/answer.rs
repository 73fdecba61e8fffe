//! Answers what skills there are, after the providers have looked at what they keep.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc, time::Duration};

use bytes::Bytes;
use orchestra_wire::{Rope, shown, write};
use percent_encoding::percent_decode_str;
use tokio::{task::JoinSet, time::timeout};

use crate::{
    BoxFuture, Outcome, ProviderError, SkillDescriptor, SkillFile,
    hub::Inner,
    listing::{Listing, text_member},
    merged::Merged,
    view::{Route, View},
};

/// How long providers may look for changes before what they last said is told.
const REFRESHING: Duration = Duration::from_secs(10);

/// Media type of a directory (SEP-2640, Directory Resources).
const DIRECTORY: &str = "inode/directory";

/// What is asked about skills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillQuery {
    /// `skills/list`: at most `limit` of them, from the one at `start` on.
    List {
        /// The first one.
        start: usize,
        /// How many at most.
        limit: usize,
    },
    /// `skills/get`: the skill with this `SKILL.md`.
    Get {
        /// URI.
        uri: String,
    },
    /// `resources/directory/read`: what lies right below a directory.
    Directory {
        /// URI.
        uri: String,
        /// The first entry.
        start: usize,
        /// How many at most.
        limit: usize,
    },
}

/// The answer to a [`SkillQuery`], as JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillAnswer {
    /// Entries of skills, separated by commas, and where the next page starts.
    List(Bytes, Option<usize>),
    /// The entry of one skill.
    Entry(Bytes),
    /// Resources, separated by commas, and where the next page starts.
    Directory(Bytes, Option<usize>),
}

/// What lies right below a directory.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Child<'s> {
    File(&'s str),
    Directory(&'s str),
}

impl SkillQuery {
    /// The URI that is asked for; empty when all skills are.
    pub(crate) fn uri(&self) -> &str {
        match self {
            Self::List { .. } => "",
            Self::Get { uri } | Self::Directory { uri, .. } => uri,
        }
    }
}

impl SkillAnswer {
    pub(crate) const fn text(&self) -> &Bytes {
        match self {
            Self::List(text, _) | Self::Entry(text) | Self::Directory(text, _) => text,
        }
    }
}

/// Answers at once when no provider has to look first.
pub(crate) fn route(hub: &Arc<Inner>, view: &View, query: &SkillQuery) -> Route {
    let refreshing: Vec<BoxFuture<()>> = view
        .merged
        .slots()
        .filter(|slot| slot.catalog.borrow().skills.is_some())
        .filter_map(|slot| slot.guarded(|provider| provider.refresh_skills()).flatten())
        .collect();
    let (hub, query) = (Arc::clone(hub), query.clone());
    Route::Run(Box::pin(async move {
        if !refreshing.is_empty() {
            refresh(refreshing).await;
        }
        answer(&hub.merged(), &query).map(Outcome::Skills)
    }))
}

/// Waits until the providers have looked, each in a task of its own, so that none of them stops
/// or breaks the others.
async fn refresh(refreshing: Vec<BoxFuture<()>>) {
    let mut tasks: JoinSet<()> = refreshing.into_iter().collect();
    let all = async {
        while let Some(done) = tasks.join_next().await {
            if let Err(error) = done {
                tracing::error!(%error, "a provider panicked while it read its skills");
            }
        }
    };
    if timeout(REFRESHING, all).await.is_err() {
        tracing::warn!("a provider is still reading its skills; returning the previous list");
    }
}

/// Answers from what is offered now.
///
/// # Errors
/// When there is no such skill or directory.
pub(crate) fn answer(merged: &Merged, query: &SkillQuery) -> Result<SkillAnswer, ProviderError> {
    match query {
        SkillQuery::List { start, limit } => {
            let (items, next) = merged.skill_listing().page(*start, *limit);
            Ok(SkillAnswer::List(items, next))
        }
        SkillQuery::Get { uri } => {
            let skill = merged.skills().find(|skill| skill.uri() == uri);
            let skill = skill.ok_or_else(|| not_served(merged, uri))?;
            let mut rope = Rope::new();
            entry(&mut rope, skill);
            Ok(SkillAnswer::Entry(rope.into_vec().into()))
        }
        SkillQuery::Directory { uri, start, limit } => {
            let children = children(merged, uri);
            if children.is_empty() {
                let is_file = merged.skills().any(|skill| skill.file(uri).is_some());
                return Err(if is_file {
                    let text = format!("{} is a file, no directory", shown(uri));
                    ProviderError::InvalidParams(text)
                } else {
                    none("no directory is served at", uri)
                });
            }
            let (items, next) = directory(merged, uri, &children).page(*start, *limit);
            Ok(SkillAnswer::Directory(items, next))
        }
    }
}

/// Says what is wrong with a skill, if one of the providers knows.
fn not_served(merged: &Merged, uri: &str) -> ProviderError {
    let mut slots = merged.slots();
    let problem = slots.find_map(|slot| slot.guarded(|provider| provider.skill_problem(uri))?);
    match problem {
        None => none("no skill is served at", uri),
        Some(problem) => {
            let text = format!("no skill is served at {}: {problem}", shown(uri));
            ProviderError::InvalidParams(text)
        }
    }
}

fn none(what: &str, uri: &str) -> ProviderError {
    ProviderError::InvalidParams(format!("{what} {}", shown(uri)))
}

/// The entry of a skill.
pub(crate) fn entry(rope: &mut Rope, skill: &SkillDescriptor) {
    text_member(rope, b"{\"uri\":", Some(skill.uri()));
    rope.push(b",\"frontmatter\":");
    write::raw(rope, skill.frontmatter());
    for (at, file) in skill.files().iter().enumerate() {
        let opening: &[u8] = if at == 0 {
            b",\"resources\":[{\"uri\":"
        } else {
            b",{\"uri\":"
        };
        text_member(rope, opening, Some(&file.uri));
        text_member(rope, b",\"digest\":", Some(&file.digest.to_string()));
        rope.push(b",\"size\":");
        write::number(rope, file.size);
        rope.push_byte(b'}');
    }
    rope.push(b"]}");
}

/// What lies right below a directory: the files and directories of all skills there, which may
/// lie inside of each other.
fn children<'s>(merged: &'s Merged, uri: &str) -> BTreeSet<Child<'s>> {
    let has_path = uri
        .split_once("://")
        .is_some_and(|(_, path)| !path.is_empty() && !path.ends_with('/'));
    if !has_path {
        return BTreeSet::new();
    }
    let files = merged.skills().flat_map(SkillDescriptor::files);
    let below = files.filter_map(|file| file.uri.strip_prefix(uri)?.strip_prefix('/'));
    below
        .map(|path| match path.split_once('/') {
            Some((name, _)) => Child::Directory(name),
            None => Child::File(path),
        })
        .collect()
}

fn directory(merged: &Merged, uri: &str, children: &BTreeSet<Child<'_>>) -> Listing {
    let resources: Vec<Bytes> = children
        .iter()
        .map(|child| {
            let mut rope = Rope::new();
            match child {
                Child::Directory(name) => {
                    text_member(&mut rope, b"{\"name\":", Some(&decoded(name)));
                    text_member(&mut rope, b",\"uri\":", Some(&format!("{uri}/{name}")));
                    text_member(&mut rope, b",\"mimeType\":", Some(DIRECTORY));
                    rope.push_byte(b'}');
                }
                Child::File(name) => {
                    let uri = format!("{uri}/{name}");
                    let with_it = merged.skills().find_map(|skill| skill.file(&uri));
                    let entry_of = merged.skills().find(|skill| skill.uri() == uri);
                    if let Some(file) = with_it {
                        resource(&mut rope, file, name, entry_of);
                    }
                }
            }
            rope.into_vec().into()
        })
        .collect();
    Listing::of_texts(&resources)
}

fn resource(rope: &mut Rope, file: &SkillFile, name: &str, entry_of: Option<&SkillDescriptor>) {
    match entry_of {
        Some(skill) => {
            text_member(rope, b"{\"name\":", Some(skill.name()));
            text_member(rope, b",\"description\":", Some(skill.description()));
        }
        None => text_member(rope, b"{\"name\":", Some(&decoded(name))),
    }
    text_member(rope, b",\"uri\":", Some(&file.uri));
    text_member(rope, b",\"mimeType\":", file.mime_type.as_deref());
    rope.push(b",\"size\":");
    write::number(rope, file.size);
    rope.push_byte(b'}');
}

/// A segment of a URI as people read it; what is no text stays as it is.
fn decoded(segment: &str) -> Cow<'_, str> {
    percent_decode_str(segment)
        .decode_utf8()
        .unwrap_or(Cow::Borrowed(segment))
}
