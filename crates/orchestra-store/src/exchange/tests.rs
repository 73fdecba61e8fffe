//! Properties of merges of remembered texts, over boards that went apart in random steps.

use std::collections::{BTreeMap, BTreeSet};

use orchestra_board::{Body, Key, Label, Project, Slug, Timestamp, Title};
use proptest::prelude::*;

use super::{merged, read, render};
use crate::merge::{BoardContents, ProjectContents};
use crate::toon::project::Retired;
use crate::{Chunk, ChunkId};

/// A step on one side. Each number chooses among a few texts, or among the texts that the side has.
#[derive(Debug, Clone)]
enum Step {
    Save(u8, Option<usize>),
    Change(usize, u8),
    Tag(usize, u8),
    Supersede(usize, Option<usize>),
    Forget(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (text, which) = (0..7_u8, 0..7_usize);
    let other = || proptest::option::of(0..7_usize);
    let step = prop_oneof![
        4 => (text.clone(), other()).prop_map(|(text, old)| Step::Save(text, old)),
        3 => (which.clone(), text.clone()).prop_map(|(which, text)| Step::Change(which, text)),
        1 => (which.clone(), text).prop_map(|(which, tag)| Step::Tag(which, tag)),
        2 => (which.clone(), other()).prop_map(|(which, by)| Step::Supersede(which, by)),
        2 => which.prop_map(Step::Forget),
    ];
    proptest::collection::vec(step, 0..8)
}

fn slug() -> Slug {
    Slug::parse("my-app").expect("a slug")
}

fn now() -> Timestamp {
    Timestamp::from_unix_seconds(1_770_000_000)
}

fn chunk(number: u64, content: Body) -> Chunk {
    Chunk::new(ChunkId::new(number), slug(), content, now())
}

fn text(number: u8) -> Body {
    Body::parse(&format!("text {number}")).expect("a text")
}

fn board(chunks: Vec<Chunk>, next_chunk: u64) -> BoardContents {
    let key = Key::parse("MA").expect("a key");
    let name = Title::parse("My App").expect("a title");
    let contents = ProjectContents {
        project: Project::new(slug(), key, name, Body::default(), now()),
        retired: Retired::default(),
        issues: BTreeMap::new(),
        prd: "stub".to_owned(),
        questionnaire: None,
        readme: None,
        requests: Vec::new(),
        plans: Vec::new(),
        chunks,
        next_chunk,
        sessions: BTreeMap::new(),
    };
    BoardContents {
        projects: BTreeMap::from([(slug(), contents)]),
        ..BoardContents::default()
    }
}

fn chunks(board: &BoardContents) -> &[Chunk] {
    &board.projects[&slug()].chunks
}

fn texts(board: &BoardContents) -> BTreeSet<&str> {
    let chunks = chunks(board).iter();
    chunks.map(|chunk| chunk.content.as_str()).collect()
}

/// The board after steps, each of which does what a store does.
fn run(board: &BoardContents, steps: &[Step]) -> BoardContents {
    let mut board = board.clone();
    let project = board.projects.get_mut(&slug()).expect("there is one");
    for step in steps {
        apply(project, step);
    }
    board
}

fn apply(project: &mut ProjectContents, step: &Step) {
    let count = project.chunks.len();
    let chunks = &mut project.chunks;
    match *step {
        Step::Save(number, old) => {
            let old = old.filter(|_| count > 0).map(|old| old % count);
            let content = text(number);
            let known = chunks.iter().position(|chunk| chunk.content == content);
            let at = known.unwrap_or(count);
            if known.is_none() {
                chunks.push(chunk(project.next_chunk, content));
                project.next_chunk += 1;
            }
            chunks[at].superseded_by = None;
            if let Some(old) = old.filter(|old| *old != at) {
                chunks[old].superseded_by = Some(chunks[at].id);
            }
        }
        _ if count == 0 => {}
        Step::Change(which, number) => {
            let content = text(number);
            if chunks.iter().all(|chunk| chunk.content != content) {
                chunks[which % count].content = content;
            }
        }
        Step::Tag(which, number) => {
            let tag = Label::parse(&format!("tag {number}")).expect("a label");
            chunks[which % count].tags = vec![tag];
        }
        Step::Supersede(which, by) => {
            let (which, by) = (which % count, by.map(|by| by % count));
            let by = by.filter(|by| *by != which).map(|by| chunks[by].id);
            chunks[which].superseded_by = by;
        }
        Step::Forget(which) => {
            let gone = chunks.remove(which % count).id;
            for chunk in chunks {
                chunk.superseded_by = chunk.superseded_by.filter(|by| *by != gone);
            }
        }
    }
}

#[test]
fn local_board_with_a_text_under_two_ids_is_merged_into_one() {
    let base = board(vec![chunk(1, text(1)), chunk(2, text(2))], 3);
    let duplicate = Chunk {
        superseded_by: Some(ChunkId::new(2)),
        ..chunk(3, text(1))
    };
    let local = board([chunks(&base), &[duplicate]].concat(), 4);
    let merged = merged(&base, &local, Some(&base), "a clone", now());
    let found = chunks(&merged).iter().map(|chunk| &chunk.content);
    assert_eq!(found.collect::<Vec<_>>(), [&text(1), &text(2)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Two clones that reuse texts end with the same texts, whichever clone publishes first. No text is missing that both
    /// clones have or that one clone added. Each text is there once, and other clones can read the board.
    #[test]
    fn merged_memories_are_whole_unique_and_readable_in_either_order(
        (before, one, other) in (steps(), steps(), steps())
    ) {
        let base = run(&board(Vec::new(), 1), &before);
        let (one, other) = (run(&base, &one), run(&base, &other));
        let merge = |published, local| merged(published, local, Some(&base), "a clone", now());
        let (ahead, behind) = (merge(&one, &other), merge(&other, &one));
        prop_assert_eq!(texts(&ahead), texts(&behind));
        for merged in [&ahead, &behind] {
            let (found, all) = (texts(merged), chunks(merged));
            prop_assert_eq!(found.len(), all.len(), "a text is there twice");
            for text in texts(&one).union(&texts(&other)) {
                let is_on_both = texts(&one).contains(text) && texts(&other).contains(text);
                let is_needed = is_on_both || !texts(&base).contains(text);
                prop_assert!(!is_needed || found.contains(text), "`{}` is lost", text);
            }
            for chunk in all {
                let by = chunk.superseded_by;
                let is_there = |by| by != chunk.id && all.iter().any(|other| other.id == by);
                prop_assert!(by.is_none_or(is_there), "{:?} is superseded by none", chunk);
            }
            let read = read::contents(&render::files(merged), now()).expect("readable");
            prop_assert_eq!(chunks(&read), all);
        }
    }
}
