//! Context for the work at hand.

use orchestra_board::{Body, Command, Kind, NewIssue, Title};
use orchestra_memory::search::{Asked, Context, PieceKind, gather, tokens};
use orchestra_store::{Action, ContextItem};

use crate::fixture::{Workspace, chunk, slug};

fn context(memory: &Workspace, query: &str, limit: usize, budget: usize) -> Context {
    let project = slug();
    let asked = Asked {
        project: &project,
        query,
        limit,
        budget,
        now: memory.store.now(),
        near: &[],
        weight: 0.0,
    };
    memory
        .store
        .read(|reader| gather(reader, &asked))
        .expect("the store can be read")
}

fn kinds(context: &Context) -> Vec<&'static str> {
    let kind = |kind: &PieceKind| match kind {
        PieceKind::Remembered(ContextItem::Chunk(_)) => "memory",
        PieceKind::Remembered(ContextItem::Session(_)) => "session",
        PieceKind::Other { kind, .. } => kind,
    };
    context
        .pieces
        .iter()
        .map(|piece| kind(&piece.kind))
        .collect()
}

#[test]
fn texts_sessions_and_issues_are_mixed() {
    let memory = Workspace::new();
    memory.remember(chunk("the parser keeps its tokens in an arena"));
    memory.save_session("s-1", "made the parser quick", &[]);
    memory.act(Action::Board(Command::CreateIssue {
        project: slug(),
        issue: NewIssue {
            kind: Kind::Epic,
            parent: None,
            epic: None,
            title: Title::parse("Parser for plans").expect("a title"),
            description: Body::default(),
            priority: None,
            assignees: Vec::new(),
            labels: Vec::new(),
            depends_on: Vec::new(),
        },
    }));
    let mut found = kinds(&context(&memory, "parser", 10, 2_000));
    found.sort_unstable();
    assert_eq!(found, ["issue", "memory", "session"]);
    assert!(kinds(&context(&memory, "absent", 10, 2_000)).is_empty());
}

#[test]
fn nothing_is_said_twice() {
    let memory = Workspace::new();
    memory.remember(chunk("the cache of the api lives for ten minutes in redis"));
    memory.remember(chunk(
        "The cache of the API lives for ten minutes in Redis!",
    ));
    let found = context(&memory, "cache redis", 10, 2_000);
    assert_eq!((found.pieces.len(), found.left_out), (1, 1));
}

#[test]
fn the_budget_is_kept() {
    let memory = Workspace::new();
    for number in 0..20 {
        let words = format!("w{number} ").repeat(200);
        memory.remember(chunk(&format!("cache number {number}: {words}")));
    }
    for budget in [100, 500, 2_000] {
        let found = context(&memory, "cache", 20, budget);
        let cost: usize = found
            .pieces
            .iter()
            .map(|piece| match (&piece.kind, piece.cut) {
                (PieceKind::Remembered(ContextItem::Chunk(chunk)), false) => {
                    tokens(chunk.content.as_str())
                }
                _ => tokens(&piece.snippet),
            })
            .sum();
        assert!(cost <= budget, "{cost} of {budget}");
        assert!(!found.pieces.is_empty());
    }
}
