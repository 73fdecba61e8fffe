//! Models of servers, over real sockets: what is asked, and what is made of any answer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use orchestra_engine::model::{
    Api, EmbedError, Embedder as _, ModelKind, Purpose, RemoteModel, RemoteOptions,
};
use serde_json::{Value, json};

use crate::server::{Reply, Request, Server};

/// Two numbers for each text: how many letters it has, and 1.
fn vectors(request: &Request) -> Vec<[f32; 2]> {
    let texts = request.body["input"].as_array().expect("texts");
    let letters = |text: &Value| text.as_str().expect("a text").len() as f32;
    texts.iter().map(|text| [letters(text), 1.0]).collect()
}

fn ollama(request: &Request) -> Reply {
    let answer = json!({ "model": "m", "embeddings": vectors(request) });
    Reply::With(200, answer.to_string())
}

fn open_ai(request: &Request) -> Reply {
    let item =
        |(index, vector)| json!({ "object": "embedding", "index": index, "embedding": vector });
    // Servers may answer in any order.
    let data: Vec<Value> = vectors(request)
        .into_iter()
        .enumerate()
        .map(item)
        .rev()
        .collect();
    Reply::With(200, json!({ "data": data, "usage": {} }).to_string())
}

fn options(server: &Server, api: Api) -> RemoteOptions {
    let url = match api {
        Api::Ollama => server.url.clone(),
        Api::OpenAi => format!("{}/v1/", server.url),
    };
    RemoteOptions::new(api, &url, "m")
}

#[test]
fn ollama_is_asked_as_it_wants_to_be() {
    let server = Server::start(ollama);
    let model = RemoteModel::connect(options(&server, Api::Ollama)).expect("it answers");
    assert_eq!((model.dimensions(), model.kind()), (2, ModelKind::Remote));
    let made = model
        .embed(&["four", ""], Purpose::Text)
        .expect("two vectors");
    let length = 17.0_f32.sqrt();
    assert_eq!(made[0], [4.0 / length, 1.0 / length]);
    // An empty text is sent as one that servers take.
    assert_eq!(made[1][0], made[1][1]);
    let seen = server.seen();
    assert!(
        seen[1].head.starts_with("post /api/embed http/1.1"),
        "{}",
        seen[1].head
    );
    assert_eq!(
        seen[1].body,
        json!({ "model": "m", "input": ["four", "."], "truncate": true })
    );
    assert!(!seen[1].head.contains("authorization"));
}

#[test]
fn open_ai_is_asked_with_the_key_and_in_any_order() {
    let server = Server::start(open_ai);
    let mut options = options(&server, Api::OpenAi);
    options.key = Some("sk-1".to_owned());
    options.dimensions = Some(2);
    options.query_prefix = "query: ".to_owned();
    let model = RemoteModel::connect(options).expect("it answers");
    let made = model
        .embed(&["a", "bbbbbbbbbb"], Purpose::Query)
        .expect("two vectors");
    assert!(made[0][0] < made[1][0], "{made:?}");
    let request = &server.seen()[1];
    assert!(
        request.head.starts_with("post /v1/embeddings http/1.1"),
        "{}",
        request.head
    );
    assert!(request.head.contains("authorization: bearer sk-1"));
    let expected = json!({
        "model": "m",
        "input": ["query: a", "query: bbbbbbbbbb"],
        "encoding_format": "float",
        "dimensions": 2,
    });
    assert_eq!(request.body, expected);
}

#[test]
fn many_and_long_texts_go_in_batches() {
    let server = Server::start(ollama);
    let model = RemoteModel::connect(options(&server, Api::Ollama)).expect("it answers");
    let mut texts = vec!["short"; 70];
    let long = "é".repeat(1_000_000);
    texts.extend(vec![long.as_str(); 20]);
    let made = model.embed(&texts, Purpose::Text).expect("vectors");
    assert_eq!(made.len(), 90);
    for request in &server.seen()[1..] {
        let texts = vectors(request);
        let bytes: f32 = texts.iter().map(|text| text[0]).sum();
        assert!(
            texts.len() <= 32 && bytes <= 131_072.0,
            "{} {bytes}",
            texts.len()
        );
        assert!(texts.iter().all(|text| text[0] <= 8_192.0));
    }
}

/// What a server that answers thus to everything but the first request is said to have done.
#[track_caller]
fn failure(status: u16, body: &str) -> EmbedError {
    let (body, asked) = (body.to_owned(), AtomicUsize::new(0));
    let server = Server::start(move |request| match asked.fetch_add(1, Ordering::Relaxed) {
        0 => open_ai(request),
        _ => Reply::With(status, body.clone()),
    });
    let mut options = options(&server, Api::OpenAi);
    options.key = Some("sk-secret".to_owned());
    let model = RemoteModel::connect(options).expect("it answers");
    let error = model
        .embed(&["text", "other"], Purpose::Text)
        .expect_err("a failure");
    let told = format!("{error} {error:?} {model:?}");
    assert!(!told.contains("sk-secret"), "{told}");
    assert!(told.contains("http://127.0.0.1:"), "{told}");
    error
}

#[test]
fn a_bad_answer_is_told_and_never_used() {
    let refused = failure(401, r#"{"error":{"message":"bad key sk-secret"}}"#);
    assert!(
        refused.to_string().ends_with("401: bad key ***"),
        "{refused}"
    );
    assert!(!refused.may_pass());
    assert!(failure(429, "slow down").may_pass());
    assert!(failure(503, &"x".repeat(100_000)).to_string().len() < 500);
    assert!(!failure(302, "").may_pass());
    let vector =
        |index: usize, numbers: &str| format!(r#"{{"index":{index},"embedding":[{numbers}]}}"#);
    let data = |all: &[String]| format!(r#"{{"data":[{}]}}"#, all.join(","));
    for (answer, said) in [
        ("no json".to_owned(), "expected is `data`"),
        ("{}".to_owned(), "expected is `data`"),
        (data(&[vector(0, "1,2")]), "1 vectors for 2 texts"),
        (
            data(&[vector(0, "1,2"), vector(0, "1,2")]),
            "fields `index`",
        ),
        (
            data(&[vector(0, "1,2"), vector(1, "1")]),
            "a vector of 1 numbers",
        ),
        (
            data(&[vector(0, ""), vector(1, "")]),
            "a vector of 0 numbers",
        ),
        (data(&[vector(0, "1e39,2"), vector(1, "1,2")]), ""),
    ] {
        let error = failure(200, &answer);
        assert!(matches!(error, EmbedError::Answer { .. }), "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    let asked = AtomicUsize::new(0);
    let server = Server::start(move |request| match asked.fetch_add(1, Ordering::Relaxed) {
        0 => ollama(request),
        _ => Reply::Nothing,
    });
    let mut options = options(&server, Api::Ollama);
    options.query_time = Duration::from_millis(200);
    let model = RemoteModel::connect(options).expect("it answers");
    let error = model
        .embed(&["text"], Purpose::Query)
        .expect_err("no answer");
    assert!(
        error.may_pass() && error.to_string().contains("no answer in time"),
        "{error}"
    );
}

#[test]
fn what_cannot_be_a_server_is_refused() {
    let check = |url: &str, key: Option<&str>, said: &str| {
        let mut options = RemoteOptions::new(Api::OpenAi, url, "m");
        options.key = key.map(str::to_owned);
        let error = RemoteModel::connect(options)
            .expect_err("no server")
            .to_string();
        assert!(error.contains(said), "{error}");
        assert!(!error.contains("sk-"), "{error}");
    };
    check("somewhere", None, "not a URL");
    check("ftp://127.0.0.1/v1", None, "not an http or https URL");
    check("http://192.0.2.1/v1", Some("sk-1"), "only over https");
    check(
        "http://127.0.0.1:1/v1",
        Some("sk-\n1"),
        "no header may have",
    );
    // Nothing listens on that port.
    check("http://127.0.0.1:1/v1", None, "cannot query");
}
