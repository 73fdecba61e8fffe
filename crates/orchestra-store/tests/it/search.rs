//! Full-text search over issues.

use orchestra_board::{Command, IssuePatch, Kind};
use orchestra_store::{Cursor, PageRequest};

use crate::fixture::Workspace;
use crate::words::{body, create, ids_of, new_issue, slug, target, title};

fn workspace(titles: &[(&str, &str)]) -> Workspace {
    let workspace = Workspace::with_a_story();
    for (title, description) in titles {
        let mut issue = new_issue(Kind::Task, Some("MA-2"), title);
        issue.description = body(description);
        workspace.run(Command::CreateIssue {
            project: slug(),
            issue,
        });
    }
    workspace
}

#[test]
fn words_are_found_however_they_are_written() {
    let board = workspace(&[
        ("Fix the login form", "the button is dead"),  // MA-3
        ("parseHttpRequest drops headers", ""),        // MA-4
        ("Überblick über Straßen", "snake_case_name"), // MA-5
        ("数据库 迁移", "更新 schema"),                // MA-6
        ("Button", "see MA-3 for the form"),           // MA-7
    ]);
    let check =
        |query: &str, expected: &[&str]| assert_eq!(board.search(query), expected, "{query}");
    check("login", &["MA-3"]);
    check("LOGIN form", &["MA-3"]);
    check("http", &["MA-4"]);
    check("parsehttprequest", &["MA-4"]);
    check("parseHttp", &["MA-4"]);
    check("uberblick", &["MA-5"]);
    check("ÜBER", &["MA-5"]);
    check("case_name", &["MA-5"]);
    check("据库", &["MA-6"]);
    check("schema", &["MA-6"]);
    check("ta", &[]);
    check("nothing like this", &[]);
}

#[test]
fn words_are_found_composed_or_not() {
    let board = workspace(&[
        ("re\u{301}sume\u{301} sheet", ""),                      // MA-3
        ("caf\u{e9} menu", "\u{304c}\u{304e}"),                  // MA-4
        ("\u{304b}\u{3099} kana", "\u{1112}\u{1161}\u{11ab}글"), // MA-5
        ("हिन्दी", "Tie\u{302}\u{301}ng Vie\u{323}\u{302}t"),     // MA-6
        ("हनद", ""),                                             // MA-7
    ]);
    let check =
        |query: &str, expected: &[&str]| assert_eq!(board.search(query), expected, "{query}");
    check("r\u{e9}sum\u{e9}", &["MA-3"]);
    check("resume", &["MA-3"]);
    check("re\u{301}su", &["MA-3"]);
    check("cafe\u{301}", &["MA-4"]);
    check("\u{304b}\u{3099}", &["MA-5", "MA-4"]);
    check("\u{304b}", &[]);
    check("\u{d55c}글", &["MA-5"]);
    check("हिन्दी", &["MA-6"]);
    check("ti\u{1ebf}ng vi\u{1ec7}t", &["MA-6"]);
    check("tieng viet", &["MA-6"]);
    assert_eq!(
        board
            .issue("MA-3")
            .map(|issue| issue.issue.title.to_string())
            .as_deref(),
        Some("r\u{e9}sum\u{e9} sheet")
    );
}

#[test]
fn titles_weigh_more_and_the_last_word_is_completed() {
    let board = workspace(&[
        ("cache the answers", "about a parser"),
        ("parser", "of answers"),
        ("parsing", "numbers"),
    ]);
    assert_eq!(board.search("parser"), ["MA-4", "MA-3"]);
    assert_eq!(board.search("pars").len(), 3);
    assert_eq!(
        board.search("pars cache"),
        ["MA-3"],
        "only the last word is completed, and any will do"
    );
}

#[test]
fn ids_find_their_issues() {
    let board = workspace(&[("one", "after MA-4"), ("two", "")]);
    assert_eq!(board.search("MA-4"), ["MA-4", "MA-3"]);
    assert_eq!(board.search("ma-4,"), ["MA-4", "MA-3"]);
    assert_eq!(board.search("MA-99"), [""; 0]);
}

#[test]
fn nothing_of_a_query_is_an_operator() {
    let board = workspace(&[("near or not", "and \"quoted\"")]);
    for query in [
        "near OR",
        "\"",
        "'; DROP TABLE issue; --",
        "title:near",
        "near*",
        "NOT",
        "{near}",
        "^near",
        "(",
        "-near",
        "near AND NOT not",
        "\0",
        "\u{202e}near",
        "NEAR(a b, 2)",
        "col : near",
    ] {
        let _ = board.search(query);
    }
    assert_eq!(board.search("\"near\" AND (or)"), ["MA-3"]);
    assert_eq!(board.search(&"near ".repeat(100_000)), ["MA-3"]);
    assert_eq!(board.search(&"x".repeat(1_000_000)), [""; 0]);
}

#[test]
fn an_empty_query_finds_all_and_kinds_are_kept_apart() {
    let board = workspace(&[("Epic thing", ""), ("Story thing", "")]);
    assert_eq!(board.search("  ").len(), 4);
    let find = |kinds: &[Kind]| {
        ids_of(&board.read(|reader| reader.search(&slug(), "epic", kinds, &PageRequest::default())))
    };
    assert_eq!(find(&[]), ["MA-1", "MA-3"]);
    assert_eq!(find(&[Kind::Epic]), ["MA-1"]);
    assert_eq!(find(&[Kind::Task, Kind::Bug]), ["MA-3"]);
}

#[test]
fn changed_and_deleted_texts_are_found_as_they_are() {
    let board = workspace(&[("old words", "stay")]);
    let patch = IssuePatch {
        title: Some(title("new words")),
        ..IssuePatch::default()
    };
    board.run(Command::UpdateIssue {
        target: target("MA-3"),
        patch,
        evidence: None,
        version: None,
    });
    assert_eq!(board.search("old"), [""; 0]);
    assert_eq!(board.search("new"), ["MA-3"]);
    board.run(Command::DeleteIssue {
        target: target("MA-1"),
        expected: Kind::Epic,
    });
    assert_eq!(board.search("new"), [""; 0]);
}

#[test]
fn projects_are_searched_apart() {
    let board = workspace(&[("shared word", "")]);
    board.make_project("Other");
    let other = orchestra_board::Slug::parse("other").expect("a slug");
    let issue = new_issue(Kind::Epic, None, "shared word");
    board.run(Command::CreateIssue {
        project: other.clone(),
        issue,
    });
    assert_eq!(board.search("shared"), ["MA-3"]);
    let found = board.read(|reader| reader.search(&other, "shared", &[], &PageRequest::default()));
    assert_eq!(ids_of(&found), ["O-1"]);
}

#[test]
fn pages_of_a_search_go_on_where_they_ended() {
    let titles: Vec<(String, String)> = (0..25)
        .map(|n| (format!("thing {n}"), "word ".repeat(n + 1)))
        .collect();
    let titles: Vec<(&str, &str)> = titles
        .iter()
        .map(|(title, text)| (title.as_str(), text.as_str()))
        .collect();
    let board = workspace(&titles);
    let mut request = PageRequest::first(10);
    let (mut found, mut pages) = (Vec::new(), 0);
    loop {
        let page = board.read(|reader| reader.search(&slug(), "word", &[], &request));
        assert_eq!(page.total, 25);
        found.extend(ids_of(&page));
        pages += 1;
        match page.next_cursor {
            Some(cursor) => request.cursor = Some(Cursor::parse(&cursor).expect("a cursor")),
            None => break,
        }
    }
    assert_eq!((pages, found.len()), (3, 25));
    assert_eq!(
        found,
        ids_of(&board.read(|reader| reader.search(&slug(), "word", &[], &PageRequest::default())))
    );
}

#[test]
fn words_that_very_many_have_do_not_hide_rarer_ones() {
    const MANY: usize = 2_100;
    let board = workspace(&[("alpha needle", "beta")]);
    let answers: Vec<_> = (0..MANY)
        .map(|number| {
            let command = create(Kind::Task, Some("MA-2"), &format!("alpha beta {number}"));
            board
                .store
                .submit(None, orchestra_store::Action::Board(command))
        })
        .collect();
    drop(answers);
    let last = board
        .create(Kind::Task, Some("MA-2"), "alpha beta")
        .issue
        .id
        .to_string();
    assert_eq!(board.search("alpha needle"), ["MA-3"]);
    let page =
        board.read(|reader| reader.search(&slug(), "beta alpha", &[], &PageRequest::default()));
    assert_eq!(page.items[0].issue.id.to_string(), last, "the newest first");
    assert!(
        page.total >= 2_000 && page.total < 2_100,
        "only the newest: {}",
        page.total
    );
    assert!(board.search("beta alp").len() == 50);
}
