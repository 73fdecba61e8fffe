//! What is found, in which order, and what is said about it.

use orchestra_board::{Body, Command, NewProject, Slug, Title};
use orchestra_memory::search::{Near, Search, search};
use orchestra_store::{Action, ChunkId, MemoryFilter};
use proptest::prelude::{ProptestConfig, prop_assert_eq, proptest};
use unicode_normalization::UnicodeNormalization as _;

use crate::fixture::{Workspace, at, chunk, ids, label, slug};

#[test]
fn words_are_found_and_not_parts_of_them() {
    let memory = Workspace::new();
    memory.remember_all(&[
        "the database uses write-ahead logging",
        "tags are kept in a table of their own",
    ]);
    assert_eq!(
        memory.ids("ta"),
        ["mem-2"],
        "begun, and not the middle of a word"
    );
    assert_eq!(memory.ids("abas"), [""; 0]);
}

/// Words in scripts whose letters can be written composed or not.
const COMPOSED: &[&str] = &[
    "r\u{e9}sum\u{e9}",
    "\u{304c}\u{304e}\u{3050}",
    "\u{d55c}\u{ad6d}\u{c5b4}",
    "ti\u{1ebf}ng",
    "\u{419}\u{43e}\u{434}",
    "\u{39c}\u{3ac}\u{3b9}",
    "\u{623}\u{62d}\u{645}\u{62f}",
    "\u{929}\u{92e}\u{915}",
    "\u{c5}ngstr\u{f6}m",
];

/// A text decomposed.
fn apart(text: &str) -> String {
    text.nfd().collect()
}

#[test]
fn words_are_found_composed_or_not() {
    let (whole, decomposed) = (Workspace::new(), Workspace::new());
    for word in COMPOSED {
        whole.remember_all(&[&format!("about {word} alone")]);
        decomposed.remember_all(&[&apart(&format!("about {word} alone"))]);
    }
    for (at, word) in COMPOSED.iter().enumerate() {
        let expected = [format!("mem-{}", at + 1)];
        for query in [(*word).to_owned(), apart(word)] {
            assert_eq!(whole.ids(&query), expected, "{word}");
            assert_eq!(decomposed.ids(&query), expected, "{word}");
        }
    }
    assert_eq!(decomposed.ids("resume"), ["mem-1"]);
    assert_eq!(
        decomposed.ids("\u{304b}\u{304d}\u{304f}"),
        [""; 0],
        "other letters"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn queries_find_the_same_composed_or_not(
        texts in proptest::collection::vec("[a-e\u{e0}-\u{ef}\u{1ea0}-\u{1eaf}\u{304b}-\u{3058}\u{ac00}-\u{ac20}\u{929}\u{915}\u{93c}]{1,4}( [a-e]{1,3})?", 1..6),
        query in "[a-e\u{e0}-\u{ef}\u{1ea0}-\u{1eaf}\u{304b}-\u{3058}\u{ac00}-\u{ac20}]{1,3}",
    ) {
        let memory = Workspace::new();
        for (at, text) in texts.iter().enumerate() {
            let text = format!("{at} {text}");
            memory.remember_all(&[&if at % 2 == 0 { apart(&text) } else { text }]);
        }
        for query in texts.iter().chain([&query]) {
            let whole: String = query.nfc().collect();
            prop_assert_eq!(memory.ids(&whole), memory.ids(&apart(query)));
        }
    }
}

#[test]
fn a_text_is_remembered_once_composed_or_not() {
    let memory = Workspace::new();
    memory.remember_all(&["the cafe\u{301} is open", "the caf\u{e9} is open"]);
    assert_eq!(memory.ids("caf\u{e9}"), ["mem-1"]);
    let mut tagged = chunk("a note of its own");
    tagged.tags = vec![label("cafe\u{301}")];
    memory.remember(tagged);
    let filter = MemoryFilter {
        tags: vec![label("caf\u{e9}")],
        ..MemoryFilter::default()
    };
    assert_eq!(ids(&memory.found_with("", &filter, &[])), ["mem-2"]);
}

#[test]
fn other_forms_of_a_word_are_the_word() {
    let memory = Workspace::new();
    memory.remember_all(&[
        "Partners retried each webhook",
        "Colours of the depot screen",
    ]);
    assert_eq!(memory.ids("retrying webhooks"), ["mem-1"]);
    assert_eq!(memory.ids("screens"), ["mem-2"]);
}

#[test]
fn identifiers_are_found_whole_and_in_their_parts() {
    let memory = Workspace::new();
    memory.remember_all(&[
        "assignNextParcel reads and writes in one statement",
        "the next parcel is assigned by hand",
        "see crates/media/src/photo.rs",
        "see crates/media/src/sound.rs",
        "settle_invoice locks the ledger first",
    ]);
    assert_eq!(memory.ids("assignNextParcel")[0], "mem-1");
    assert_eq!(memory.ids("assign next parcel").len(), 2);
    assert_eq!(memory.ids("crates/media/src/sound.rs")[0], "mem-4");
    assert_eq!(memory.ids("settle invoice"), ["mem-5"]);
    assert!(
        memory.found("settle_invoice")[0]
            .why
            .contains("exactly settle_invoice")
    );
}

#[test]
fn a_misspelt_word_is_taken_for_the_nearest() {
    let memory = Workspace::new();
    memory.remember_all(&[
        "a deadlock between two transactions",
        "the deadline is on Friday",
    ]);
    assert_eq!(memory.ids("deadlok"), ["mem-1"]);
    assert!(memory.found("deadlok")[0].why.contains("deadlock"));
}

#[test]
fn words_that_every_question_has_do_no_harm() {
    let memory = Workspace::new();
    memory.remember_all(&[
        "What we do when it is not there is what it was when we did it",
        "Releases go out on Tuesdays",
    ]);
    assert_eq!(
        memory.ids("when do we do what we do with the releases")[0],
        "mem-2"
    );
    assert_eq!(
        memory.ids("what is it"),
        ["mem-1"],
        "where there is nothing else they count"
    );
}

#[test]
fn an_answer_is_found_by_the_words_around_it() {
    let memory = Workspace::new();
    for (session, turn) in [
        ("s-1", "Ilse: The talk about the scanner is in Lisbon."),
        ("s-1", "Noor: When is it?"),
        ("s-1", "Ilse: Thursday at four."),
        ("s-2", "Noor: Lunch?"),
        ("s-2", "Wei: Thursday at four, not earlier."),
    ] {
        let mut new = chunk(turn);
        (new.source, new.source_id) = (Some(label("session")), Some(label(session)));
        memory.remember(new);
    }
    let found = memory.found("when is the talk of Ilse");
    let place = |id: &str| ids(&found).iter().position(|other| other == id);
    assert!(place("mem-3").is_some_and(|place| place < 3), "{found:?}");
    assert!(place("mem-5") > place("mem-3") || place("mem-5").is_none());
    let answer = &found[place("mem-3").expect("found")];
    assert!(answer.why.contains("around it: talk"), "{}", answer.why);
}

#[test]
fn filters_leave_only_what_they_admit() {
    let memory = Workspace::new();
    let mut tagged = chunk("cache of the api");
    (tagged.tags, tagged.source) = (vec![label("a"), label("b")], Some(label("task")));
    memory.remember(tagged);
    memory.set_time("2026-04-01T12:00:00Z");
    let mut other = chunk("cache of the worker");
    (other.tags, other.source_id) = (vec![label("a")], Some(label("x-1")));
    memory.remember(other);
    memory.save_session("s-1", "cache", &[]);
    let check = |filter: MemoryFilter, expected: &[&str]| {
        for query in ["cache", ""] {
            assert_eq!(
                ids(&memory.found_with(query, &filter, &[])),
                expected,
                "{filter:?}"
            );
        }
    };
    let all = MemoryFilter::default;
    check(
        MemoryFilter {
            tags: vec![label("b"), label("a")],
            ..all()
        },
        &["mem-1"],
    );
    check(
        MemoryFilter {
            tags: vec![label("a")],
            ..all()
        },
        &["mem-2", "mem-1"],
    );
    check(
        MemoryFilter {
            source: Some(label("task")),
            ..all()
        },
        &["mem-1"],
    );
    check(
        MemoryFilter {
            source_id: Some(label("x-1")),
            ..all()
        },
        &["mem-2"],
    );
    check(
        MemoryFilter {
            since: Some(at("2026-03-15T00:00:00Z")),
            ..all()
        },
        &["mem-2"],
    );
    check(
        MemoryFilter {
            until: Some(at("2026-03-15T00:00:00Z")),
            ..all()
        },
        &["mem-1"],
    );
    check(
        MemoryFilter {
            source: Some(label("none")),
            ..all()
        },
        &[],
    );
}

#[test]
fn sessions_are_found_by_their_summaries_and_events() {
    let memory = Workspace::new();
    memory.save_session(
        "s-1",
        "worked on the parser",
        &["the lexer was rewritten", "tests ran"],
    );
    assert_eq!(memory.ids("parser"), ["s-1"]);
    let found = memory.found("rewriting lexers");
    assert_eq!(ids(&found), ["s-1"]);
    assert!(found[0].snippet.contains("lexer was rewritten"));
}

#[test]
fn the_day_that_is_named_counts() {
    let memory = Workspace::new();
    memory.remember_all(&["the deploy failed again"]);
    memory.set_time("2026-03-05T12:00:00Z");
    memory.remember_all(&["the deploy failed once more"]);
    assert_eq!(memory.ids("deploy on 1 March"), ["mem-1", "mem-2"]);
    assert_eq!(memory.ids("deploy on 2026-03-05"), ["mem-2", "mem-1"]);
}

#[test]
fn what_is_newer_comes_first_among_equals() {
    let memory = Workspace::new();
    memory.remember_all(&["the port of the cache is 6390"]);
    memory.set_time("2026-06-01T12:00:00Z");
    memory.remember_all(&["the port of the cache is 6391"]);
    assert_eq!(memory.ids("port of the cache"), ["mem-2", "mem-1"]);
}

#[test]
fn hits_by_meaning_fill_in() {
    let memory = Workspace::new();
    memory.remember_all(&["login hands out an opaque token", "the fox is quick"]);
    let rows = memory.rows(&slug());
    let near = [Near {
        row: rows[1],
        similarity: 0.8,
    }];
    let found = memory.found_with("authentication", &MemoryFilter::default(), &near);
    assert_eq!(ids(&found), ["mem-1"]);
    assert_eq!(found[0].why, "similar in meaning");
    // The nearest of all is not the best there could be.
    assert!((0.01..=0.5).contains(&found[0].score), "{found:?}");
    let tagged = MemoryFilter {
        tags: vec![label("none")],
        ..MemoryFilter::default()
    };
    assert!(
        memory
            .found_with("authentication", &tagged, &near)
            .is_empty()
    );
    let gone = [Near {
        row: 1,
        similarity: 0.9,
    }];
    assert!(
        memory
            .found_with("authentication", &MemoryFilter::default(), &gone)
            .is_empty()
    );
}

#[test]
fn what_has_common_words_alone_is_not_before_what_is_meant() {
    let memory = Workspace::new();
    memory.remember_all(&[
        "Carol owns the payment service",
        "we deploy on Mondays: nobody is there on Sundays",
    ]);
    let rows = memory.rows(&slug());
    let near = [(rows[1], 0.4), (rows[0], 0.25)].map(|(row, similarity)| Near { row, similarity });
    let query = "who is responsible for billing";
    let found = memory.found_with(query, &MemoryFilter::default(), &near);
    assert_eq!(ids(&found)[0], "mem-1", "{found:?}");
    assert!(found[0].score < 0.9, "{found:?}");
}

#[test]
fn a_query_without_a_word_is_near_to_nothing() {
    let memory = Workspace::new();
    memory.remember_all(&["login hands out an opaque token", "the fox is quick"]);
    let near: Vec<Near> = (memory.rows(&slug()).into_iter())
        .map(|row| Near {
            row,
            similarity: 0.9,
        })
        .collect();
    for query in ["???", "(((", "\"", "*", "\u{1}", "🦀", "¿ — !"] {
        let found = memory.found_with(query, &MemoryFilter::default(), &near);
        assert!(found.is_empty(), "{query:?}: {found:?}");
    }
    for query in ["", " ", "\t\n"] {
        let found = memory.found_with(query, &MemoryFilter::default(), &near);
        assert!(found.iter().all(|found| found.why == "among the newest"));
        assert_eq!(found.len(), 2);
    }
    // What a model makes of a word that is none is not near enough.
    let far: Vec<Near> = near
        .iter()
        .map(|near| Near {
            similarity: 0.15,
            ..*near
        })
        .collect();
    let found = memory.found_with("xqzw vlkjh", &MemoryFilter::default(), &far);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_snippet_is_the_part_that_fits() {
    let memory = Workspace::new();
    let long = format!(
        "{} the needle is blunt {}",
        "straw ".repeat(500),
        "hay ".repeat(500)
    );
    memory.remember_all(&[&long]);
    let found = memory.found("blunt needles");
    assert!(
        found[0].snippet.contains("needle is blunt"),
        "{}",
        found[0].snippet
    );
    assert!(found[0].snippet.len() < 250);
}

#[test]
fn common_words_decide_where_rare_ones_do_not() {
    let memory = Workspace::new();
    for number in 0..300 {
        memory.remember(chunk(&format!("worker {number} restarts the queue")));
    }
    memory.remember(chunk("worker and queue and nothing else stops them"));
    for number in 300..600 {
        memory.remember(chunk(&format!("worker {number} restarts the queue")));
    }
    assert_eq!(memory.ids("worker queue stops")[0], "mem-301");
    assert_eq!(memory.found("worker queue").len(), 10);
}

#[test]
fn what_is_superseded_or_over_is_not_found() {
    let memory = Workspace::new();
    memory.remember_all(&["we deploy on Fridays"]);
    let mut better = chunk("we deploy on Mondays");
    better.supersedes = vec![orchestra_store::ChunkId::new(1)];
    better.expires_at = Some(at("2026-03-02T12:00:00Z"));
    memory.remember(better);
    assert_eq!(memory.ids("deploy"), ["mem-2"]);
    assert_eq!(memory.ids(""), ["mem-2"]);
    memory.set_time("2026-03-03T12:00:00Z");
    assert_eq!(
        memory.ids("deploy"),
        ["mem-1"],
        "what superseded it is over"
    );
}

#[test]
fn what_is_superseded_takes_nobodys_place() {
    let memory = Workspace::new();
    memory.remember_all(&["to deploy the depot, ask for the key"]);
    for number in 0..150 {
        memory.remember(chunk(&format!("deploy log {number}")));
    }
    for from in (2..152).step_by(10) {
        let mut all = chunk(&format!("the logs from {from} on are in the archive"));
        all.supersedes = (from..from + 10).map(ChunkId::new).collect();
        memory.remember(all);
    }
    assert_eq!(memory.ids("deploy"), ["mem-1"]);
    assert_eq!(
        memory.ids("").len(),
        10,
        "the newest are looked for as well"
    );
}

#[test]
fn sessions_take_no_texts_place() {
    let memory = Workspace::new();
    memory.remember_all(&["to deploy the depot, ask for the key"]);
    for number in 0..150 {
        memory.save_session(&format!("s-{number}"), "deploy", &[]);
    }
    let project = slug();
    let found = |query| {
        let filter = MemoryFilter::default();
        let ask = Search {
            project: &project,
            query,
            filter: &filter,
            limit: 10,
            sessions: false,
            now: memory.store.now(),
            near: &[],
            weight: 0.0,
        };
        let found = memory.store.read(|reader| search(reader, &ask));
        ids(&found.expect("the store can be read"))
    };
    assert_eq!(found("deploy"), ["mem-1"]);
    assert_eq!(found(""), ["mem-1"]);
}

#[test]
fn a_filter_finds_the_few_that_it_lets_through() {
    let memory = Workspace::new();
    let mut old = chunk("the worker restarts the queue at night");
    old.source = Some(label("incident"));
    old.source_id = Some(label("T-12"));
    old.tags = vec![label("on-call")];
    memory.remember(old);
    memory.set_time("2026-04-01T12:00:00Z");
    for number in 0..400 {
        let mut new = chunk(&format!("the worker restarts the queue, round {number}"));
        new.source = Some(label("task"));
        new.source_id = Some(label("T-1"));
        new.tags = vec![label("on"), label("call")];
        memory.remember(new);
    }
    let all = MemoryFilter::default;
    for filter in [
        MemoryFilter {
            source: Some(label("incident")),
            ..all()
        },
        MemoryFilter {
            source_id: Some(label("T-12")),
            ..all()
        },
        MemoryFilter {
            tags: vec![label("on-call")],
            ..all()
        },
        MemoryFilter {
            until: Some(at("2026-03-15T00:00:00Z")),
            ..all()
        },
    ] {
        for query in ["worker queue", "restarting workers", "workre", ""] {
            let found = memory.found_with(query, &filter, &[]);
            assert_eq!(ids(&found), ["mem-1"], "{query} {filter:?}");
        }
    }
    let most = MemoryFilter {
        tags: vec![label("call")],
        ..all()
    };
    assert_eq!(memory.found_with("queue 399", &most, &[]).len(), 10);
    assert_eq!(ids(&memory.found_with("queue 17", &most, &[]))[0], "mem-19");
}

#[test]
fn nothing_of_another_project_is_near() {
    let memory = Workspace::new();
    memory.remember_all(&["login hands out an opaque token"]);
    let other = Slug::parse("other").expect("a slug");
    memory.act(Action::Board(Command::CreateProject(NewProject {
        name: Title::parse("Other").expect("a title"),
        description: Body::default(),
    })));
    let mut secret = chunk("the vault is behind the painting");
    secret.project = other.clone();
    memory.remember(secret);
    let near: Vec<Near> = [memory.rows(&other), memory.rows(&slug())]
        .concat()
        .into_iter()
        .map(|row| Near {
            row,
            similarity: 0.9,
        })
        .collect();
    assert_eq!(near.len(), 2);
    let found = memory.found_with("authentication", &MemoryFilter::default(), &near);
    assert_eq!(ids(&found), ["mem-1"]);
    assert!(found[0].snippet.contains("login"), "{found:?}");
}

#[test]
fn what_cannot_be_found_takes_nobodys_place_among_what_is_near() {
    let memory = Workspace::new();
    let mut tagged = chunk("login hands out an opaque token");
    tagged.tags = vec![label("security")];
    memory.remember(tagged);
    for number in 0..120 {
        memory.save_session(&format!("s-{number}"), "made something else", &[]);
    }
    let mut rows = memory.rows(&slug());
    // The hundred newest of them are sessions; the text is behind them.
    let project = slug();
    let all = orchestra_store::Recall {
        words: &[],
        filter: &MemoryFilter::default(),
        sessions: false,
        most: 1,
    };
    let text = memory
        .store
        .read(|reader| reader.newest_remembered(&project, &all))
        .expect("rows");
    rows.extend(text);
    let near: Vec<Near> = rows
        .into_iter()
        .zip(0_u32..)
        .map(|(row, place)| Near {
            row,
            similarity: 0.9 - f64::from(place) / 1_000.0,
        })
        .collect();
    let tagged = MemoryFilter {
        tags: vec![label("security")],
        ..MemoryFilter::default()
    };
    let found = memory.found_with("authentication", &tagged, &near);
    assert_eq!(ids(&found), ["mem-1"]);
}

#[test]
fn the_end_of_a_long_text_is_found_and_shown() {
    let memory = Workspace::new();
    let filler = "the harbour is quiet and the ferry goes at ten ".repeat(2_000);
    let marked = |at: usize, word: &str| format!("{} {word} {}", &filler[..at], &filler[..60]);
    let words = ["zebrafinch", "quillwort", "saltmarsh"];
    for (at, word) in [16_700, 40_000, 65_400].into_iter().zip(words) {
        memory.remember(chunk(&marked(at, word)));
    }
    for (place, word) in words.into_iter().enumerate() {
        let found = memory.found(&format!("ferry {word}"));
        assert_eq!(ids(&found)[0], format!("mem-{}", place + 1));
        assert!(found[0].snippet.contains(word), "{}", found[0].snippet);
        assert_eq!(memory.ids(word), [format!("mem-{}", place + 1)]);
    }
}
