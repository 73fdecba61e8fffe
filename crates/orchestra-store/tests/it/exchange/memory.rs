//! Exchange of memories.

use orchestra_board::Timestamp;
use orchestra_store::{Action, Chunk, ChunkId, ChunkPatch, NewChunk};

use super::{Replica, pair};
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

/// Changes the memory with a number, if there is one.
pub(super) fn change(replica: &Replica, text: &str, which: usize, to: usize) {
    let mut patch = ChunkPatch::of(slug(), id(which));
    match to {
        0..8 => patch.superseded_by = Some(Some(id(to))),
        8..11 => patch.superseded_by = Some(None),
        11 => patch.tags = Some(vec![label(text)]),
        12..14 => patch.summary = Some(body(&format!("{text} {}", "long ".repeat(700)))),
        _ => patch.source = Some(Some(label(text))),
    }
    // There may be none.
    let action = Action::UpdateMemory(Box::new(patch));
    drop(replica.workspace.try_act(action));
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
    one.workspace.act(Action::ForgetMemory {
        project: slug(),
        id: ChunkId::new(2),
    });
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
