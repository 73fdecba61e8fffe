//! Context for the work at hand.

use orchestra_board::{Body, Command, Kind, Label, NewIssue, Title};
use orchestra_memory::search::{Asked, Context, Near, Piece, PieceKind, gather, tokens};
use orchestra_store::{Action, ContextItem, NewChunk};
use proptest::prelude::*;

use crate::fixture::{Workspace, body, chunk, label, slug};

fn context(memory: &Workspace, query: &str, limit: usize, budget: usize) -> Context {
    with_near(memory, query, limit, budget, &[])
}

fn with_near(
    memory: &Workspace,
    query: &str,
    limit: usize,
    budget: usize,
    near: &[Near],
) -> Context {
    let project = slug();
    let asked = Asked {
        project: &project,
        query,
        limit,
        budget,
        now: memory.store.now(),
        near,
        weight: 0.3,
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

/// However much they have in common.
#[test]
fn facts_that_differ_in_a_number_or_a_name_are_all_said() {
    let memory = Workspace::new();
    for (version, who) in [
        ("1.4", "Carol"),
        ("1.5", "Carol"),
        ("1.6", "Carol"),
        ("1.6", "Dave"),
    ] {
        memory.remember(chunk(&format!(
            "Release {version} of the payment service was cut from main by {who} after the full test run"
        )));
    }
    for day in 0..6 {
        memory.remember(chunk(&format!(
            "On day {day} the nightly build of the billing gateway took forty minutes on the shared runner"
        )));
    }
    let found = context(&memory, "release payment service", 10, 50_000);
    assert_eq!((found.pieces.len(), found.left_out), (4, 0), "{found:?}");
    let found = context(&memory, "nightly build billing", 10, 50_000);
    assert_eq!((found.pieces.len(), found.left_out), (6, 0), "{found:?}");
}

/// What it costs to show the pieces, counted by what is shown of each.
fn cost(context: &Context) -> usize {
    let texts = |piece: &Piece| match &piece.kind {
        PieceKind::Remembered(ContextItem::Chunk(chunk)) => {
            let mut names: String = chunk.tags.iter().map(Label::as_str).collect();
            names.extend(chunk.source.iter().map(Label::as_str));
            let content = chunk.content.as_str();
            let content = if piece.cut { "" } else { content };
            format!("{names}{}{content}", chunk.summary)
        }
        PieceKind::Remembered(ContextItem::Session(session)) => session.summary.to_string(),
        PieceKind::Other { title, text, .. } => {
            format!("{title}{}", if piece.cut { "" } else { text })
        }
    };
    let shown = |piece: &Piece| tokens(&format!("{}{}{}", texts(piece), piece.snippet, piece.why));
    context.pieces.iter().map(shown).sum()
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
        assert!(cost(&found) <= budget, "{} of {budget}", cost(&found));
        assert!(!found.pieces.is_empty());
    }
}

/// However long the first one is, and its summary, and in whatever script: it is there, and shortened.
#[test]
fn the_first_is_made_to_fit() {
    for word in ["cache ", "缓存", "кэш ", "कैश ", "🦀 "] {
        let memory = Workspace::new();
        memory.remember(NewChunk {
            summary: body(&format!("cache {}", word.repeat(100))),
            tags: (0..32).map(|n| label(&format!("{n} {word}"))).collect(),
            source: Some(label(&word.trim().repeat(8))),
            ..chunk(&format!("cache {}", word.repeat(5_000)))
        });
        memory.save_session("s-1", &format!("warm {}", word.repeat(400)), &[]);
        for query in ["cache", "warm"] {
            for budget in [100, 130, 400] {
                let found = context(&memory, query, 8, budget);
                assert!(!found.pieces.is_empty(), "{query} {word} {budget}");
                assert!(
                    cost(&found) <= budget,
                    "{} of {budget}: {found:?}",
                    cost(&found)
                );
            }
        }
    }
}

fn said() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "[a-z]{1,12} ",
        "[0-9a-f]{8,40} ",
        "[\\u{4e00}-\\u{9fff}]{1,30}",
        "[\\u{3040}-\\u{30ff}]{1,30}",
        "[\\u{400}-\\u{44f}]{1,12} ",
        "[\\u{904}-\\u{939}]{1,12} ",
        "[\\u{1f300}-\\u{1f5ff}]{1,5}",
    ];
    prop::collection::vec(word, 0..60).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn no_budget_is_exceeded(
        texts in prop::collection::vec((said(), said()), 1..8),
        session in said(),
        plan in said(),
        budgets in prop::collection::vec(0_usize..3_000, 8),
    ) {
        let memory = Workspace::new();
        for (summary, content) in &texts {
            memory.remember(NewChunk {
                summary: body(summary),
                ..chunk(&format!("cache {content}"))
            });
        }
        memory.save_session("s-1", &format!("cache {session}"), &[]);
        memory.save_plan("Cache", &plan);
        for budget in budgets {
            let found = context(&memory, "cache", 20, budget);
            prop_assert!(cost(&found) <= budget, "{} of {budget}", cost(&found));
            let told: usize = found.pieces.iter().map(Piece::tokens).sum();
            prop_assert!(told <= budget && cost(&found) <= told);
            prop_assert!(budget < 100 || !found.pieces.is_empty());
        }
    }
}

/// Plans are found by what they are about, whatever their names, and however many there are.
#[test]
fn the_plans_that_were_saved_last_are_found() {
    let memory = Workspace::new();
    for number in 0..60 {
        memory.save_plan(&format!("A{number:02}"), "nothing of it");
    }
    memory.set_time("2026-03-02T12:00:00Z");
    memory.save_plan("Z", "the parser is rewritten");
    let found = context(&memory, "parser", 8, 2_000);
    assert_eq!(kinds(&found), ["plan"], "{found:?}");
}

/// A long plan is found by its beginning, and shown whole where the budget allows that.
#[test]
fn a_long_plan_is_shown_whole_or_cut() {
    let memory = Workspace::new();
    let text = format!("the parser {}end", "is rewritten ".repeat(3_000));
    memory.save_plan("Parser", &text);
    for (budget, is_cut) in [(2_000, true), (8_000, true), (50_000, false)] {
        let found = context(&memory, "parser", 8, budget);
        let [piece] = found.pieces.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(piece.cut, is_cut, "{budget}");
        if let PieceKind::Other { text: shown, .. } = &piece.kind
            && !is_cut
        {
            assert_eq!(*shown, text);
        }
    }
}

#[test]
fn what_is_near_is_mixed_with_the_rest() {
    let memory = Workspace::new();
    memory.remember(chunk("the parser keeps its tokens in an arena"));
    memory.remember(chunk(
        "memory for syntax trees comes from one block that is freed at once",
    ));
    memory.remember(chunk(
        "Memory for syntax trees comes from one block, that is freed at once!",
    ));
    memory.save_session("s-1", "made the grammar quick", &[]);
    let project = slug();
    let mut near: Vec<Near> = (memory.rows(&project).into_iter())
        .map(|row| Near {
            row,
            similarity: 0.8,
        })
        .collect();
    // One that was forgotten a moment ago, one of another project, and one of none.
    near.extend([near[0].row + 1_000, 5 << 32 | 1, -1].map(|row| Near {
        row,
        similarity: 0.9,
    }));
    let found = with_near(&memory, "parser", 10, 2_000, &near);
    let mut all = kinds(&found);
    all.sort_unstable();
    assert_eq!(all, ["memory", "memory", "session"], "{found:?}");
    assert_eq!(found.left_out, 1, "said twice");
    let first = &found.pieces[0];
    assert!(first.why.contains("parser"), "{first:?}");
    let others = found.pieces.iter().skip(1);
    assert!(
        others
            .clone()
            .all(|piece| piece.why == "similar in meaning"),
        "{found:?}"
    );
    let small = with_near(&memory, "parser", 10, 100, &near);
    assert!(small.pieces.len() < 3 || small.pieces.iter().any(|piece| piece.cut));
}
