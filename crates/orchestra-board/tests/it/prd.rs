//! The PRD questionnaire.

use orchestra_board::{Command, Kind, PrdMove, PrdStatus, QUESTIONS, Refusal, Slug, View};

use crate::fixture::{Board, body, title};

fn step(board: &mut Board, step: PrdMove) -> Result<(), Refusal> {
    let command = Command::Prd {
        project: board.slug.clone(),
        step,
    };
    board.run(&command).map(|_| ())
}

fn answer(board: &mut Board, text: &str) -> Result<(), Refusal> {
    step(
        board,
        PrdMove::Answer {
            text: body(text),
            overwrite: false,
        },
    )
}

fn complete(board: &mut Board) {
    step(board, PrdMove::Start { restart: true }).expect("begun");
    for question in QUESTIONS {
        answer(board, &format!("about {}", question.key)).expect("answered");
    }
}

#[test]
fn twelve_answers_write_the_document_and_no_more_are_taken() {
    let mut board = Board::with_a_project("My App");
    complete(&mut board);
    let text = board.model.prd(&board.slug).expect("a document").to_owned();
    assert!(
        text.starts_with("# about project_name\n\n## Overview\n\n### Project Name\n"),
        "{text}"
    );
    assert!(text.ends_with("### Deadline\n\nabout deadline\n"));
    assert_eq!(answer(&mut board, "more"), Err(Refusal::PrdComplete));
    assert_eq!(
        step(&mut board, PrdMove::Skip { overwrite: false }),
        Err(Refusal::PrdComplete)
    );
    step(&mut board, PrdMove::Back).expect("reopened");
    let session = board
        .model
        .prd_session(&board.slug)
        .expect("a model")
        .expect("a session");
    assert_eq!(
        (session.status, session.current),
        (PrdStatus::InProgress, 11)
    );
}

#[test]
fn required_questions_are_neither_skipped_nor_answered_with_nothing() {
    let mut board = Board::with_a_project("My App");
    assert!(matches!(
        answer(&mut board, "x"),
        Err(Refusal::NoPrdSession { .. })
    ));
    step(&mut board, PrdMove::Start { restart: false }).expect("begun");
    assert_eq!(step(&mut board, PrdMove::Back), Err(Refusal::FirstQuestion));
    let required = Err(Refusal::AnswerRequired {
        key: "project_name",
    });
    assert_eq!(
        step(&mut board, PrdMove::Skip { overwrite: false }),
        required
    );
    assert_eq!(answer(&mut board, "  \n "), required);
    answer(&mut board, "x").expect("answered");
    assert!(matches!(
        step(&mut board, PrdMove::Start { restart: false }),
        Err(Refusal::PrdUnderWay { .. })
    ));
    step(&mut board, PrdMove::Start { restart: true }).expect("said so");
}

#[test]
fn a_written_prd_is_not_replaced_unasked() {
    let mut board = Board::with_a_project("My App");
    let content = "my own".to_owned();
    board
        .run(&Command::WritePrd {
            project: board.slug.clone(),
            content,
        })
        .expect("written");
    step(&mut board, PrdMove::Start { restart: false }).expect("begun");
    for _ in 0..11 {
        answer(&mut board, "x").expect("answered");
    }
    assert_eq!(answer(&mut board, "x"), Err(Refusal::PrdWouldBeReplaced));
    assert_eq!(board.model.prd(&board.slug), Some("my own"));
    step(&mut board, PrdMove::Skip { overwrite: true }).expect("said so");
    assert!(
        board
            .model
            .prd(&board.slug)
            .expect("a document")
            .starts_with("# x\n")
    );
}

#[test]
fn phases_are_projects_that_work() {
    let mut board = Board::with_a_project("My App");
    let phases = |names: &[&str]| PrdMove::Split {
        phases: names.iter().map(|name| title(name)).collect(),
    };
    step(&mut board, PrdMove::Start { restart: false }).expect("begun");
    assert_eq!(
        step(&mut board, phases(&["a", "b"])),
        Err(Refusal::PrdNotComplete)
    );
    complete(&mut board);
    assert_eq!(step(&mut board, phases(&["a"])), Err(Refusal::PhaseCount));
    step(&mut board, phases(&["First", "Second"])).expect("split");
    assert!(matches!(
        step(&mut board, phases(&["x", "y"])),
        Err(Refusal::SplitAlready { .. })
    ));
    let names: Vec<_> = board
        .model
        .projects()
        .map(|p| (p.slug.to_string(), p.key.to_string()))
        .collect();
    let expected = [
        ("my-app", "MA"),
        ("my-app-phase-1", "MAP"),
        ("my-app-phase-2", "MAP2"),
    ];
    assert_eq!(
        names,
        expected.map(|(slug, key)| (slug.to_owned(), key.to_owned()))
    );
    board.slug = Slug::parse("my-app-phase-1").expect("a slug");
    assert_eq!(board.create(Kind::Epic, None, "Works").to_string(), "MAP-1");
    answer(&mut board, "a phase is answered with the same tools").expect("answered");
}
