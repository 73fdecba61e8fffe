//! Conversations in files: they are played again exactly, gone on with, and branched; what is otherwise is found.

use std::{fs, path::Path, time::Duration};

use orchestra_chat::{
    Approval, Backend, Budget, Context, Manner, Ollama, OpenAi, Outcome, Settings, Verdict,
    session::{Header, Played, Recorder, Session, SessionError, exported, played},
};
use serde_json::json;

use crate::{
    fake::{Fake, Ollama as Shapes, OpenAi as OpenAiShapes, Say},
    support::{Held, answered, note_tools, pictured},
};

const SHAPES: Shapes = Shapes("0.12.6");

fn header(backend: &str) -> Header {
    Header {
        version: Header::VERSION,
        id: "s".to_owned(),
        created: "2026-01-01T00:00:00Z".to_owned(),
        backend: backend.to_owned(),
        model: "tiny".to_owned(),
        branch_of: None,
    }
}

/// A conversation that is recorded.
fn recorded(path: &Path, settings: Settings) -> Held {
    let mut held = Held::new(settings);
    let mut recorder = Recorder::begin(path, header("ollama")).unwrap();
    recorder.settings(held.chat.settings());
    held.record = Some(recorder);
    note_tools(&mut held.record);
    held
}

fn ollama(says: Vec<Say>) -> Ollama {
    let fake = Fake::ollama("0.12.6", says);
    Ollama::new(&fake.address, None, "tiny", Manner::default()).unwrap()
}

fn weather(city: &str) -> Say {
    Say::Stream(SHAPES.calls("", &[("get_weather", json!({"city": city}))]))
}

fn words(text: &str) -> Say {
    Say::Stream(SHAPES.words(&[text]))
}

/// Ten conversations of ten kinds, each in a file; what each comes to.
async fn ten(directory: &Path) -> Vec<(String, Played)> {
    let usual = Settings::default;
    let asks = || Settings {
        approval: Approval::Ask,
        ..Settings::default()
    };
    let small = Settings {
        context: Context::of(2_048),
        ..Settings::default()
    };
    let hurried = Settings {
        budget: Budget {
            time: Some(Duration::from_secs(2)),
            ..Budget::default()
        },
        ..Settings::default()
    };
    let mut all = Vec::new();
    let mut done = async |name: &str,
                          settings: Settings,
                          says: Vec<Say>,
                          texts: &[&str],
                          verdicts: Vec<Verdict>| {
        let mut held = recorded(&directory.join(name), settings);
        held.face.verdicts = verdicts;
        held.shelf.answer("read_file", pictured("[an image]"));
        held.shelf
            .answer("search_web", answered(&"word ".repeat(1_500)));
        held.shelf.answer(
            "send_email",
            Outcome::Broken("the server is gone".to_owned()),
        );
        if name == "late" {
            held.shelf
                .answer("get_weather", Outcome::Broken("hangs".to_owned()));
        }
        let backend = ollama(says);
        for text in texts {
            held.say(&backend, text).await;
        }
        let session = Session::read(&directory.join(name)).unwrap();
        all.push((name.to_owned(), played(&session).unwrap()));
    };
    let task =
        |title: &str| Say::Stream(SHAPES.calls("", &[("create_task", json!({"title": title}))]));
    done("words", usual(), vec![words("Hello.")], &["Hi."], vec![]).await;
    done(
        "rounds",
        usual(),
        vec![weather("A"), weather("B"), words("Sunny.")],
        &["Weather?"],
        vec![],
    )
    .await;
    done(
        "approved",
        asks(),
        vec![task("a"), task("b"), task("c"), words("Done.")],
        &["Go."],
        vec![
            Verdict::Once,
            Verdict::No,
            Verdict::Edit(json!({"title": "d"}).as_object().unwrap().clone()),
        ],
    )
    .await;
    done(
        "printed",
        usual(),
        vec![words("<tool_call>{\"name\": \"get_weather\", \"arguments\": {'city': 'Rome'}}</tool_call>"), words("Sunny.")],
        &["Weather?"],
        vec![],
    )
    .await;
    done("loops", usual(), vec![task("x"); 9], &["Go."], vec![]).await;
    done(
        "fails",
        usual(),
        vec![
            Say::Whole(404, json!({"error": "no"})),
            Say::Cut(SHAPES.words(&["Well"])[..1].to_vec()),
        ],
        &["A?", "B?"],
        vec![],
    )
    .await;
    let search =
        |query: &str| Say::Stream(SHAPES.calls("", &[("search_web", json!({"query": query}))]));
    done(
        "small",
        small,
        vec![
            search("a"),
            words("A."),
            search("b"),
            words("B."),
            search("c"),
            words("C."),
        ],
        &["One?", "Two?", "Three?"],
        vec![],
    )
    .await;
    done("late", hurried, vec![weather("A")], &["Weather?"], vec![]).await;
    let image = Say::Stream(SHAPES.calls(
        "",
        &[
            ("read_file", json!({"path": "a.png"})),
            ("list_issues", json!({})),
        ],
    ));
    done(
        "images",
        Settings {
            sees: true,
            ..usual()
        },
        vec![image, words("A cat.")],
        &["Look."],
        vec![],
    )
    .await;
    // The tenth is of another server, and goes on with another model.
    let path = directory.join("models");
    let mut held = recorded(&path, usual());
    held.say(&ollama(vec![weather("A"), words("Sunny.")]), "Weather?")
        .await;
    let fake = Fake::openai(vec![
        Say::Stream(
            OpenAiShapes.calls(&[("calculate", json!({"a": "1", "b": 2, "operator": "+"}))]),
        ),
        Say::Stream(OpenAiShapes.words(&["Three."])),
    ]);
    let openai = OpenAi::new(
        &format!("{}/v1", fake.address),
        None,
        "other",
        Manner::default(),
    )
    .unwrap();
    held.chat.set(usual(), true);
    let record = held.record.as_mut().unwrap();
    record.model(openai.name(), openai.model());
    record.settings(&usual());
    held.say(&openai, "And one and two?").await;
    all.push((
        "models".to_owned(),
        played(&Session::read(&path).unwrap()).unwrap(),
    ));
    all
}

#[tokio::test]
async fn ten_sessions_are_played_again_exactly() {
    let directory = tempfile::tempdir().unwrap();
    let all = ten(directory.path()).await;
    assert_eq!(all.len(), 10);
    let counts: Vec<(&str, usize, usize, usize)> = all
        .iter()
        .map(|(name, played)| (name.as_str(), played.turns, played.requests, played.calls))
        .collect();
    assert_eq!(
        counts,
        [
            ("words", 1, 1, 0),
            ("rounds", 1, 3, 2),
            ("approved", 1, 4, 2),
            ("printed", 1, 2, 1),
            ("loops", 1, 3, 0),
            ("fails", 2, 2, 0),
            ("small", 3, 6, 3),
            ("late", 1, 1, 1),
            ("images", 1, 2, 2),
            ("models", 2, 4, 2),
        ]
    );
}

#[tokio::test]
async fn what_goes_otherwise_than_it_went_is_found_and_where() {
    let directory = tempfile::tempdir().unwrap();
    ten(directory.path()).await;
    let path = directory.path().join("rounds");
    let whole = fs::read_to_string(&path).unwrap();
    for (from, to, part) in [
        // What a tool said.
        (
            "\"text\":\"done\"",
            "\"text\":\"won\"",
            " of a request was ",
        ),
        // What a model said.
        ("\"city\":\"B\"", "\"city\":\"C\"", "it was"),
        // What was wanted.
        (
            "\"is\":\"call\",\"number\":2",
            "\"is\":\"call\",\"number\":7",
            "it was",
        ),
        // How it is held.
        ("\"rounds\":10", "\"rounds\":1", "it was"),
    ] {
        let changed = whole.replacen(from, to, 1);
        fs::write(&path, &changed).unwrap();
        assert_ne!(changed, whole, "{from}");
        match played(&Session::read(&path).unwrap()) {
            Ok(_) => panic!("{from} makes no difference"),
            Err(difference) => {
                assert!(
                    difference.what.contains(part) && difference.line > 2,
                    "{from}: {difference}"
                );
            }
        }
    }
    // An answer that a tool gave is a part of what the model was sent then.
    let changed = whole.replace("\"text\":\"done\"", "\"text\":\"other\"");
    assert_ne!(changed, whole);
    fs::write(&path, changed).unwrap();
    let difference = played(&Session::read(&path).unwrap()).unwrap_err();
    assert!(
        difference
            .what
            .starts_with("message 4 of a request was tool"),
        "{difference}"
    );
}

#[tokio::test]
async fn a_session_is_gone_on_with_where_it_ended() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.jsonl");
    let mut held = recorded(&path, Settings::default());
    held.say(&ollama(vec![weather("A"), words("Sunny.")]), "Weather?")
        .await;
    drop(held);
    // Killed while a line was written.
    let mut text = fs::read_to_string(&path).unwrap();
    text.push_str("{\"is\":\"said\",\"at\":5,\"te");
    fs::write(&path, &text).unwrap();
    let session = Session::read(&path).unwrap();
    let mut held = Held::new(Settings::default());
    held.chat.restore(session.messages());
    assert_eq!(held.chat.messages().count(), 4);
    let mut recorder = Recorder::resume(&session).unwrap();
    recorder.settings(held.chat.settings());
    held.record = Some(recorder);
    note_tools(&mut held.record);
    held.say(&ollama(vec![words("Rainy.")]), "And tomorrow?")
        .await;
    let session = Session::read(&path).unwrap();
    let played = played(&session).unwrap();
    assert_eq!((played.turns, played.requests), (2, 3));
    assert_eq!((session.turns(), session.title().as_str()), (2, "Weather?"));
    let texts: Vec<String> = session
        .messages()
        .iter()
        .map(|message| message.text().to_owned())
        .collect();
    assert_eq!(texts.last().unwrap(), "Rainy.");
    assert_eq!(session.messages_of(1).len(), 4);
    let markdown = exported(&session, &|arguments| arguments);
    for part in [
        "# Weather?",
        "## You\n\nAnd tomorrow?",
        "called `get_weather`",
        "## The model\n\nRainy.",
    ] {
        assert!(markdown.contains(part), "{markdown}");
    }
}

#[tokio::test]
async fn a_branch_begins_with_what_was_said_before() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.jsonl");
    let mut held = recorded(&path, Settings::default());
    held.say(&ollama(vec![words("One."), words("Two.")]), "First?")
        .await;
    let first = Session::read(&path).unwrap();
    let branch = directory.path().join("b.jsonl");
    let mut other = Held::new(Settings::default());
    other.chat.restore(first.messages_of(1));
    let mut recorder = Recorder::begin(&branch, header("ollama")).unwrap();
    recorder.before(&other.chat);
    recorder.settings(other.chat.settings());
    other.record = Some(recorder);
    note_tools(&mut other.record);
    other
        .say(&ollama(vec![weather("B"), words("Other.")]), "Second?")
        .await;
    let session = Session::read(&branch).unwrap();
    assert_eq!(played(&session).unwrap().requests, 2);
    let texts: Vec<String> = session
        .messages()
        .iter()
        .map(|message| message.text().to_owned())
        .collect();
    assert_eq!(
        (texts[0].as_str(), texts[1].as_str(), texts[2].as_str()),
        ("First?", "One.", "Second?")
    );
}

#[tokio::test]
async fn a_session_is_written_by_one_program_and_not_behind_what_another_wrote() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.jsonl");
    let mut held = recorded(&path, Settings::default());
    let session = Session::read(&path).unwrap();
    let error = Recorder::resume(&session).unwrap_err();
    let why = |error: &SessionError| std::error::Error::source(error).unwrap().to_string();
    assert!(why(&error).contains("using it now"), "{}", why(&error));
    held.say(&ollama(vec![words("Sunny.")]), "Weather?").await;
    drop(held);
    let error = Recorder::resume(&session).unwrap_err();
    assert!(why(&error).contains("meanwhile"), "{}", why(&error));
    let session = Session::read(&path).unwrap();
    assert_eq!(session.turns(), 1);
    Recorder::resume(&session).unwrap();
}

#[test]
fn a_file_that_is_no_session_is_told_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.jsonl");
    let head = serde_json::to_string(&json!({
        "is": "session", "version": 1, "id": "s", "created": "", "backend": "ollama", "model": "m",
    }))
    .unwrap();
    for (text, part) in [
        ("", "it does not say what the session is of"),
        ("hello\n", "line 1"),
        (&format!("{head}\n{{\"is\":\"nothing\"}}\n"), "line 2"),
        (
            &head.replace("\"version\":1", "\"version\":9"),
            "update the program",
        ),
    ] {
        fs::write(&path, format!("{text}\n")).unwrap();
        let error = Session::read(&path).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    // Nothing that is there is written over.
    assert!(matches!(
        Recorder::begin(&path, header("ollama")),
        Err(SessionError::Io { .. })
    ));
    assert!(Session::read(&directory.path().join("none")).is_err());
}

#[cfg(unix)]
#[test]
fn a_session_is_its_owner_s_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.jsonl");
    Recorder::begin(&path, header("ollama")).unwrap();
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
}
