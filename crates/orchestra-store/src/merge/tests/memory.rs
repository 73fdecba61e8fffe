//! Merges of remembered texts.

use orchestra_board::{Body, Label};

use super::{BoardContents, CONFLICT, Context, Side, at, context, merge, project, slug};
use crate::{Chunk, ChunkId, NewChunk};

fn chunk(number: u64, content: &str) -> Chunk {
    Chunk::new(
        ChunkId::new(number),
        slug(),
        body(content),
        at(super::START),
    )
}

fn board(chunks: Vec<Chunk>) -> BoardContents {
    let mut side = Side::new();
    let last = chunks.iter().map(|chunk| chunk.id.number()).max();
    side.project().next_chunk = last.map_or(1, |last| last + 1);
    side.project().chunks = chunks;
    side.board
}

fn body(text: &str) -> Body {
    Body::parse(text).expect("a text")
}

fn tags(names: impl IntoIterator<Item = String>) -> Vec<Label> {
    let names = names.into_iter();
    names
        .map(|name| Label::parse(&name).expect("a label"))
        .collect()
}

/// Merges two sides that come from a base, and checks that a second merge changes nothing.
fn merged(base: &[Chunk], ours: Vec<Chunk>, theirs: Vec<Chunk>) -> Vec<Chunk> {
    let (base, theirs) = (board(base.to_vec()), board(theirs));
    let cx: Context<'_> = context(Some(&base), false);
    let merged = merge(&board(ours), &theirs, &cx);
    let next = project(&merged).next_chunk;
    let chunks = &project(&merged).chunks;
    assert!(chunks.iter().all(|chunk| chunk.id.number() < next));
    assert_eq!(merge(&merged, &theirs, &cx), merged);
    assert_eq!(merge(&merged, &merged, &cx), merged);
    chunks.clone()
}

#[test]
fn change_of_what_supersedes_a_text_is_merged() {
    let by = |number: Option<u64>| Chunk {
        superseded_by: number.map(ChunkId::new),
        ..chunk(1, "old")
    };
    let side = |number| vec![by(number), chunk(2, "new"), chunk(5, "newest")];
    for (base, ours, theirs, expected) in [
        (Some(2), Some(2), None, None),
        (Some(2), None, Some(2), None),
        (Some(2), Some(2), Some(5), Some(5)),
        (Some(2), Some(5), Some(2), Some(5)),
        (None, None, Some(2), Some(2)),
        (None, Some(2), None, Some(2)),
        (Some(2), Some(5), None, Some(5)),
    ] {
        let merged = merged(&side(base), side(ours), side(theirs));
        assert_eq!(merged, side(expected), "{base:?} {ours:?} {theirs:?}");
    }
}

#[test]
fn texts_that_exchange_their_places_are_superseded_as_on_the_other_side() {
    let side = |by: [Option<u64>; 2]| {
        let mut chunks = vec![chunk(1, "one"), chunk(2, "two")];
        for (chunk, by) in chunks.iter_mut().zip(by) {
            chunk.superseded_by = by.map(ChunkId::new);
        }
        chunks
    };
    let (before, after) = (side([None, Some(1)]), side([Some(2), None]));
    assert_eq!(merged(&before, before.clone(), after.clone()), after);
}

#[test]
fn texts_that_look_alike_on_both_sides_stay_as_they_are() {
    let first = Chunk {
        summary: body("one"),
        source: Some(Label::parse("web").unwrap()),
        expires_at: Some(at(super::START + 1)),
        superseded_by: Some(ChunkId::new(2)),
        ..chunk(1, "Use Tabs")
    };
    let second = Chunk {
        summary: body("other"),
        tags: tags(["style".to_owned()]),
        ..chunk(3, "use  tabs")
    };
    let all = vec![first, chunk(2, "Use spaces"), second];
    assert_eq!(merged(&all, all.clone(), all.clone()), all);
}

#[test]
fn text_that_looks_like_the_only_one_of_the_other_side_is_the_same() {
    let theirs = Chunk {
        summary: body("theirs"),
        ..chunk(4, "use tabs")
    };
    let found = merged(&[], vec![chunk(1, "Use Tabs")], vec![theirs]);
    let expected = Chunk {
        summary: body("theirs"),
        ..chunk(1, "Use Tabs")
    };
    assert_eq!(found, [expected]);
}

#[test]
fn value_for_which_the_summary_has_no_room_is_a_text_of_its_own() {
    let with = |summary: &str| Chunk {
        summary: body(summary),
        ..chunk(1, "text")
    };
    let long = "x".repeat(NewChunk::MAX_SUMMARY_BYTES);
    let found = merged(&[with("base")], vec![with(&long)], vec![with("theirs")]);
    let aside = Chunk {
        tags: tags([CONFLICT.to_owned()]),
        created_at: at(super::START + 100),
        ..chunk(2, "summary of mem-1 on the worktree other: theirs")
    };
    assert_eq!(found, [with(&long), aside]);
}

#[test]
fn text_with_the_tags_of_both_sides_has_no_more_than_one_may_have() {
    let with = |name: &str| Chunk {
        tags: tags((0..20).map(|number| format!("{name} {number}"))),
        ..chunk(1, "text")
    };
    let found = merged(
        &[chunk(1, "text")],
        vec![with("ours")],
        vec![with("theirs")],
    );
    let [text, aside] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(text.tags.len(), NewChunk::MAX_TAGS);
    let content = "tags of mem-1 on the worktree other: theirs 12, theirs 13, theirs 14, theirs 15, theirs 16, \
                   theirs 17, theirs 18, theirs 19";
    assert_eq!(aside.content.as_str(), content);
}
