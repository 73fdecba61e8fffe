//! Exchange of memories.

use std::collections::BTreeSet;

use orchestra_board::Timestamp;
use orchestra_store::{Action, BoardFiles, Chunk, ChunkId, ChunkPatch, NewChunk, PageRequest};

use super::{Replica, pair, with};
use crate::words::{body, chunk, label, slug};

/// Saves a memory, which supersedes the one with a number, if there is one.
pub(super) fn remember(replica: &Replica, text: &str, superseded: usize) {
    let save = |supersedes| {
        let new = NewChunk {
            supersedes,
            ..chunk(text)
        };
        replica.workspace.try_act(Action::SaveMemory(new))
    };
    let superseded = save(vec![id(superseded)]);
    superseded
        .or_else(|_| save(Vec::new()))
        .expect("it is saved");
}

/// A text of its own, or one of a few that clones have in common.
pub(super) fn text(own: String, which: usize) -> String {
    match which {
        0..4 => format!("common {which}"),
        _ => own,
    }
}

/// Changes the memory with a number, if there is one. Returns its former and its new text, if that has changed.
pub(super) fn change(
    replica: &Replica,
    text: &str,
    which: usize,
    to: usize,
) -> Option<(String, String)> {
    let mut patch = ChunkPatch::of(slug(), id(which));
    match to {
        0..8 => patch.superseded_by = Some(Some(id(to))),
        8..11 => patch.superseded_by = Some(None),
        11 => patch.tags = Some(vec![label(text)]),
        12..14 => patch.summary = Some(body(&format!("{text} {}", "long ".repeat(700)))),
        14..16 => patch.source = Some(Some(label(text))),
        _ => patch.content = Some(body(&self::text(text.to_owned(), to - 16))),
    }
    let store = &replica.workspace.store;
    let found = store.read(|reader| reader.chunk(&slug(), id(which)));
    let before = found.expect("readable")?.content;
    let content = patch.content.clone();
    let action = Action::UpdateMemory(Box::new(patch));
    // Another one can have the text.
    replica.workspace.try_act(action).ok()?;
    let after = content.filter(|content| *content != before)?;
    Some((before.to_string(), after.to_string()))
}

/// All memories of a clone.
fn all(side: &Replica) -> Vec<Chunk> {
    let page = PageRequest::default();
    let store = &side.workspace.store;
    let found = store.read(|reader| match reader.project(&slug())? {
        Some(_) => reader.chunks(&slug(), &page).map(|page| page.items),
        None => Ok(Vec::new()),
    });
    found.expect("readable")
}

/// Checks that no two memories of a clone have the same text.
pub(super) fn check_unique(side: &Replica) {
    let all = all(side);
    let texts: BTreeSet<&str> = all.iter().map(|chunk| chunk.content.as_str()).collect();
    assert_eq!(texts.len(), all.len(), "{all:?}");
}

fn id(number: usize) -> ChunkId {
    ChunkId::new(1 + u64::try_from(number).expect("small"))
}

fn update(side: &Replica, number: u64, change: &dyn Fn(&mut ChunkPatch)) {
    let mut patch = ChunkPatch::of(slug(), ChunkId::new(number));
    change(&mut patch);
    let action = Action::UpdateMemory(Box::new(patch));
    side.workspace.act(action);
}

fn find(side: &Replica, number: u64) -> Chunk {
    let found = side
        .workspace
        .store
        .read(|reader| reader.chunk(&slug(), ChunkId::new(number)));
    found.expect("readable").expect("it is there")
}

#[test]
fn fields_of_a_memory_that_two_clones_change_are_merged() {
    let (mut one, mut two, mut remote) = pair();
    let kept = NewChunk {
        tags: ["first", "second"].map(label).to_vec(),
        ..chunk("kept")
    };
    one.workspace.act(Action::SaveMemory(kept));
    one.sync(&mut remote);
    two.sync(&mut remote);
    let end = Timestamp::from_unix_seconds(one.workspace.store.now().unix_seconds() + 86_400);
    update(&one, 1, &|patch| {
        patch.tags = Some(vec![label("second")]);
        patch.expires_at = Some(Some(end));
        patch.summary = Some(body("from one"));
    });
    update(&two, 1, &|patch| {
        patch.tags = Some(["first", "second", "third"].map(label).to_vec());
        patch.source = Some(Some(label("web")));
        patch.summary = Some(body("from two"));
    });
    one.sync(&mut remote);
    two.sync(&mut remote);
    one.sync(&mut remote);
    assert_eq!(one.files(), two.files());
    let found = find(&one, 1);
    assert_eq!(found.expires_at, Some(end));
    assert_eq!(found.source, Some(label("web")));
    let tags = ["second", "third", "merge-conflict"].map(label);
    assert_eq!(found.tags, tags);
    assert_eq!(found.summary.as_str(), "from one\nsummary on b: from two");
    two.sync(&mut remote);
    assert_eq!(one.files(), two.files());
}

#[test]
fn memory_that_one_clone_makes_current_again_stays_current() {
    let (mut one, mut two, mut remote) = pair();
    one.workspace.act(Action::SaveMemory(chunk("old")));
    one.workspace.act(Action::SaveMemory(NewChunk {
        supersedes: vec![ChunkId::new(1)],
        ..chunk("new")
    }));
    one.sync(&mut remote);
    two.sync(&mut remote);
    assert_eq!(find(&two, 1).superseded_by, Some(ChunkId::new(2)));
    two.workspace.act(Action::SaveMemory(chunk("old")));
    update(&one, 1, &|patch| patch.summary = Some(body("from one")));
    one.sync(&mut remote);
    two.sync(&mut remote);
    one.sync(&mut remote);
    assert_eq!(one.files(), two.files());
    let found = find(&one, 1);
    assert_eq!(found.superseded_by, None);
    assert_eq!(found.summary.as_str(), "from one");
}

#[test]
fn memory_is_superseded_by_the_same_text_after_that_gets_another_id() {
    let (mut one, mut two, mut remote) = pair();
    one.workspace.act(Action::SaveMemory(chunk("old")));
    one.sync(&mut remote);
    two.sync(&mut remote);
    one.workspace.act(Action::SaveMemory(chunk("another")));
    two.workspace.act(Action::SaveMemory(NewChunk {
        supersedes: vec![ChunkId::new(1)],
        ..chunk("new")
    }));
    one.sync(&mut remote);
    two.sync(&mut remote);
    one.sync(&mut remote);
    assert_eq!(one.files(), two.files());
    let by = find(&one, 1).superseded_by.expect("it is superseded");
    assert_eq!(find(&one, by.number()).content.as_str(), "new");
}

#[test]
fn memory_whose_new_text_the_other_clone_has_forgotten_is_current() {
    let (mut one, mut two, mut remote) = pair();
    for content in ["old", "new"] {
        one.workspace.act(Action::SaveMemory(chunk(content)));
    }
    one.sync(&mut remote);
    two.sync(&mut remote);
    forget(&one, 2);
    update(&two, 1, &|patch| {
        patch.superseded_by = Some(Some(ChunkId::new(2)));
    });
    one.sync(&mut remote);
    two.sync(&mut remote);
    one.sync(&mut remote);
    assert_eq!(one.files(), two.files());
    assert_eq!(find(&one, 1).superseded_by, None);
}

#[test]
fn memory_stays_current_when_the_other_clone_changes_the_text_that_superseded_it() {
    let (mut one, mut two, mut remote) = pair();
    one.workspace.act(Action::SaveMemory(chunk("old")));
    one.workspace.act(Action::SaveMemory(NewChunk {
        supersedes: vec![ChunkId::new(1)],
        ..chunk("new")
    }));
    one.sync(&mut remote);
    two.sync(&mut remote);
    update(&one, 2, &|patch| patch.content = Some(body("newest")));
    update(&one, 1, &|patch| patch.summary = Some(body("from one")));
    update(&two, 1, &|patch| patch.superseded_by = Some(None));
    one.sync(&mut remote);
    two.sync(&mut remote);
    one.sync(&mut remote);
    assert_eq!(one.files(), two.files());
    assert_eq!(find(&one, 1).superseded_by, None);
}

/// Lets two clones change a board that begins with some steps, and expects the same memories whichever clone exchanges
/// first.
fn expect_in_either_order(
    before: impl Fn(&Replica),
    changes: impl Fn(&Replica, &Replica),
    expected: &[(&str, Option<&str>)],
) {
    for is_second_first in [false, true] {
        let (mut one, mut two, remote) = pair_after(&before);
        changes(&one, &two);
        exchange([&mut one, &mut two], remote, is_second_first);
        expect(&one, expected);
    }
}

/// Two clones with a board that one of them has changed first.
fn pair_after(steps: impl FnOnce(&Replica)) -> (Replica, Replica, BoardFiles) {
    let (mut one, mut two, mut remote) = pair();
    steps(&one);
    one.sync(&mut remote);
    two.sync(&mut remote);
    (one, two, remote)
}

/// Exchanges two clones, the second one first if wanted, until both have the same board.
fn exchange(sides: [&mut Replica; 2], mut remote: BoardFiles, is_second_first: bool) {
    let [one, two] = sides;
    let (first, second) = if is_second_first {
        (two, one)
    } else {
        (one, two)
    };
    first.sync(&mut remote);
    second.sync(&mut remote);
    first.sync(&mut remote);
    assert_eq!(first.files(), second.files());
}

fn save(side: &Replica, content: &str, supersedes: &[u64]) {
    side.workspace.act(Action::SaveMemory(NewChunk {
        supersedes: supersedes.iter().copied().map(ChunkId::new).collect(),
        ..chunk(content)
    }));
}

/// Saves a text, and one that supersedes it.
fn old_and_new(side: &Replica) {
    save(side, "old", &[]);
    save(side, "new", &[1]);
}

fn forget(side: &Replica, number: u64) {
    side.workspace.act(Action::ForgetMemory {
        project: slug(),
        id: ChunkId::new(number),
    });
}

/// Each memory with the text that supersedes it.
fn texts(side: &Replica) -> Vec<(String, Option<String>)> {
    let mut texts: Vec<_> = all(side)
        .iter()
        .map(|chunk| {
            let by = chunk.superseded_by.map(|by| find(side, by.number()));
            let by = by.map(|by| by.content.to_string());
            (chunk.content.to_string(), by)
        })
        .collect();
    texts.sort();
    texts
}

fn expect(side: &Replica, expected: &[(&str, Option<&str>)]) {
    let found = texts(side);
    let found: Vec<_> = found
        .iter()
        .map(|(text, by)| (text.as_str(), by.as_deref()))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn text_that_one_clone_changes_to_and_another_saves_is_one_memory() {
    expect_in_either_order(
        |one| {
            save(one, "Use tabs", &[]);
            save(one, "old", &[]);
            update(one, 2, &|patch| {
                patch.superseded_by = Some(Some(ChunkId::new(1)));
            });
        },
        |one, two| {
            update(one, 1, &|patch| patch.content = Some(body("Use spaces")));
            save(two, "Use spaces", &[]);
        },
        &[("Use spaces", None), ("old", Some("Use spaces"))],
    );
}

#[test]
fn memory_that_a_clone_makes_current_stays_current_when_its_successor_gets_another_id() {
    expect_in_either_order(
        old_and_new,
        |one, two| {
            update(one, 2, &|patch| patch.content = Some(body("Use spaces")));
            save(two, "Use spaces", &[]);
            update(two, 1, &|patch| patch.superseded_by = Some(None));
        },
        &[("Use spaces", None), ("old", None)],
    );
}

#[test]
fn text_that_two_clones_save_under_different_ids_is_one_memory() {
    expect_in_either_order(
        |_| {},
        |one, two| {
            save(one, "same", &[]);
            save(two, "another", &[]);
            save(two, "same", &[]);
        },
        &[("another", None), ("same", None)],
    );
}

#[test]
fn supersession_by_a_new_text_is_merged_after_the_former_one_was_forgotten() {
    expect_in_either_order(
        old_and_new,
        |one, two| {
            forget(one, 2);
            save(two, "newest", &[1]);
        },
        &[("newest", None), ("old", Some("newest"))],
    );
}

#[test]
fn memory_that_a_clone_forgets_and_saves_again_is_superseded_as_there() {
    expect_in_either_order(
        old_and_new,
        |one, two| {
            forget(one, 1);
            save(one, "old", &[]);
            save(one, "newest", &[3]);
            update(two, 2, &|patch| patch.summary = Some(body("from two")));
        },
        &[("new", None), ("newest", None), ("old", Some("newest"))],
    );
}

#[test]
fn summaries_of_a_text_that_two_clones_save_are_both_there() {
    let (mut one, mut two, remote) = pair();
    for side in [&one, &two] {
        side.workspace.act(Action::SaveMemory(NewChunk {
            summary: body(&format!("from {}", side.name)),
            ..chunk("same")
        }));
    }
    exchange([&mut one, &mut two], remote, false);
    let summary = find(&one, 1).summary;
    assert_eq!(summary.as_str(), "from a\nsummary on b: from b");
}

#[test]
fn published_board_with_a_text_under_two_ids_is_merged_into_one() {
    let (mut one, mut two, mut remote) = pair_after(|one| {
        for (content, summary) in [("text-1", "one"), ("text-2", "two")] {
            one.workspace.act(Action::SaveMemory(NewChunk {
                summary: body(summary),
                ..chunk(content)
            }));
        }
        save(one, "old", &[]);
        update(one, 3, &|patch| {
            patch.superseded_by = Some(Some(ChunkId::new(2)));
        });
    });
    remote = with(&remote, "my-app/.memory/chunks.toon", |text| {
        text.replace("text-2", "text-1")
    });
    remote.check().expect("it can be read");
    two.sync(&mut remote);
    one.sync(&mut remote);
    assert_eq!(one.files(), two.files());
    expect(&one, &[("old", Some("text-1")), ("text-1", None)]);
    let summary = find(&one, 1).summary;
    assert_eq!(summary.as_str(), "one\nsummary on a duplicate: two");
}
