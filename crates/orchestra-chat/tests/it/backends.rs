//! Servers of models in the wire formats that they have, and what they are sent.

use std::time::Duration;

use orchestra_chat::{
    Backend, End, Manner, Message, Ollama, OpenAi, Patience, Request, Settings, Trouble, Usage,
};
use serde_json::json;

use crate::{
    fake::{Fake, Ollama as OllamaShapes, OpenAi as OpenAiShapes, Say},
    support::{Held, answered, pictured},
};

/// The versions of Ollama whose shapes are spoken.
const VERSIONS: [&str; 2] = ["0.5.4", "0.12.6"];

fn quick() -> Manner {
    Manner {
        patience: Patience {
            first: Duration::from_secs(5),
            next: Duration::from_secs(5),
        },
        ..Manner::default()
    }
}

fn ollama(fake: &Fake) -> Ollama {
    Ollama::new(&fake.address, None, "tiny", quick()).unwrap()
}

fn openai(fake: &Fake) -> OpenAi {
    OpenAi::new(
        &format!("{}/v1", fake.address),
        Some("sk-secret"),
        "tiny",
        quick(),
    )
    .unwrap()
}

#[tokio::test]
async fn two_rounds_of_tools_and_an_answer_in_both_versions_of_ollama() {
    for version in VERSIONS {
        let shapes = OllamaShapes(version);
        let fake = Fake::ollama(
            version,
            vec![
                Say::Stream(shapes.calls(
                    "Let me look.",
                    &[("weather__get-alerts", json!({"state": "CA"}))],
                )),
                Say::Stream(shapes.calls("", &[("get_weather", json!({"city": "Fresno"}))])),
                Say::Stream(shapes.words(&["There is a ", "Heat Advisory."])),
            ],
        );
        let backend = ollama(&fake);
        let about = backend.about().await.unwrap();
        assert_eq!(about.context, Some(8_192), "{version}");
        let mut held = Held::new(Settings::default());
        held.shelf
            .answer("weather__get-alerts", answered("Event: Heat Advisory"));
        let ending = held
            .say(&backend, "Any weather alerts in California?")
            .await;
        assert_eq!((ending.how, ending.rounds), (End::Answered, 2), "{version}");
        assert_eq!(ending.text, "There is a Heat Advisory.");
        assert_eq!(
            ending.usage,
            Usage {
                input: 3 * 169,
                output: 3 * 15
            }
        );
        let called = held.shelf.called();
        assert_eq!(
            called[0],
            ("weather__get-alerts".to_owned(), json!({"state": "CA"}))
        );
        assert_eq!(
            called[1],
            ("get_weather".to_owned(), json!({"city": "Fresno"}))
        );
        let chats = fake.chats();
        // Old servers do not stream while there are tools.
        assert_eq!(
            chats[0].body["stream"],
            json!(version != "0.5.4"),
            "{version}"
        );
        assert_eq!(chats[0].body["tools"][0]["function"]["name"], "get_weather");
        assert!(chats[0].body["options"]["num_ctx"].as_u64().unwrap() >= 2_048);
        let messages = chats[2].body["messages"].as_array().unwrap();
        let roles: Vec<&str> = messages
            .iter()
            .map(|message| message["role"].as_str().unwrap())
            .collect();
        assert_eq!(
            roles,
            ["system", "user", "assistant", "tool", "assistant", "tool"]
        );
        assert_eq!(
            messages[2]["tool_calls"][0]["function"]["arguments"],
            json!({"state": "CA"})
        );
        assert_eq!(messages[3]["tool_name"], "weather__get-alerts");
        assert!(
            messages[3]["content"]
                .as_str()
                .unwrap()
                .contains("Event: Heat Advisory")
        );
    }
}

#[tokio::test]
async fn thoughts_are_told_apart_from_words() {
    let shapes = OllamaShapes("0.12.6");
    let line = |thinking: &str, content: &str| {
        shapes.line(&json!({"role": "assistant", "content": content, "thinking": thinking}))
    };
    let said = vec![
        line("Hm, ", ""),
        line("well.", ""),
        line("", "Yes."),
        shapes.last(None),
    ];
    let fake = Fake::ollama("0.12.6", vec![Say::Stream(said)]);
    let mut held = Held::new(Settings::default());
    let ending = held.say(&ollama(&fake), "Is it?").await;
    assert_eq!(ending.text, "Yes.");
    assert_eq!(
        (held.face.thinking.as_str(), held.face.text.as_str()),
        ("Hm, well.", "Yes.")
    );
}

#[tokio::test]
async fn a_stream_is_understood_however_it_is_cut_into_pieces() {
    let words = ["Grüße ", "aus 東京 ", "🦀!"];
    let whole: String = OllamaShapes("0.12.6").words(&words).concat();
    for size in [1, 2, 3, 7, 50] {
        let bytes = whole.as_bytes().chunks(size);
        // Pieces end within letters: what is sent is bytes, and a text only where all of it is there.
        let pieces: Vec<Vec<u8>> = bytes.map(<[u8]>::to_vec).collect();
        let fake = Fake::ollama("0.12.6", vec![Say::Bytes(pieces)]);
        let mut held = Held::new(Settings::default());
        let ending = held.say(&ollama(&fake), "Hello?").await;
        assert_eq!(ending.text, words.concat(), "in pieces of {size}");
    }
}

#[tokio::test]
async fn openai_s_chunks_are_put_together() {
    let fake = Fake::openai(vec![
        Say::Stream(OpenAiShapes.calls(&[
            ("get_weather", json!({"city": "Rome", "days": 2})),
            ("search_web", json!({"query": "rome"})),
        ])),
        Say::Stream(OpenAiShapes.words(&["It is ", "sunny."])),
    ]);
    let backend = openai(&fake);
    assert_eq!(backend.models().await.unwrap(), ["tiny"]);
    let mut held = Held::new(Settings::default());
    let ending = held.say(&backend, "Weather in Rome?").await;
    assert_eq!(
        (ending.how, ending.text.as_str()),
        (End::Answered, "It is sunny.")
    );
    assert_eq!(
        ending.usage,
        Usage {
            input: 2 * 169,
            output: 2 * 15
        }
    );
    assert_eq!(held.shelf.called().len(), 2);
    let chats = fake.chats();
    assert!(
        chats[0]
            .head
            .to_lowercase()
            .contains("authorization: bearer sk-secret")
    );
    assert_eq!(
        chats[0].body["stream_options"],
        json!({"include_usage": true})
    );
    let messages = chats[1].body["messages"].as_array().unwrap();
    let call = &messages[2]["tool_calls"][0];
    assert_eq!(
        call["function"]["arguments"],
        "{\"city\":\"Rome\",\"days\":2}"
    );
    assert_eq!(messages[3]["tool_call_id"], call["id"]);
    assert_eq!(
        messages[4]["tool_call_id"],
        messages[2]["tool_calls"][1]["id"]
    );
}

#[tokio::test]
async fn a_server_that_knows_less_than_openai_s_is_understood() {
    // No `[DONE]`, no usage, arguments as an object, an answer that is no stream.
    let whole = json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
        "role": "assistant", "content": null,
        "tool_calls": [{"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Rome"}}}],
    }}]});
    let refusal = json!({"error": {"message": "Unknown parameter: 'stream_options'."}});
    let fake = Fake::openai(vec![
        Say::Whole(400, refusal),
        Say::Whole(200, whole),
        Say::Stream(vec![
            ": a comment\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"Sunny.\"},\"finish_reason\":\"stop\"}]}\n\n".to_owned(),
        ]),
    ]);
    let mut held = Held::new(Settings::default());
    let ending = held.say(&openai(&fake), "Weather?").await;
    assert_eq!(
        (ending.how, ending.text.as_str()),
        (End::Answered, "Sunny.")
    );
    assert_eq!(
        held.shelf.called(),
        [("get_weather".to_owned(), json!({"city": "Rome"}))]
    );
    assert!(fake.chats()[1].body.get("stream_options").is_none());
}

#[tokio::test]
async fn images_go_to_models_that_can_see_and_to_no_others() {
    for sees in [true, false] {
        let shapes = OllamaShapes("0.12.6");
        let fake = Fake::ollama(
            "0.12.6",
            vec![Say::Stream(
                shapes.calls("", &[("read_file", json!({"path": "a.png"}))]),
            )],
        );
        let mut held = Held::new(Settings {
            sees,
            ..Settings::default()
        });
        held.shelf.answer("read_file", pictured("[an image]"));
        held.say(&ollama(&fake), "Look.").await;
        let message = fake.chats()[1].body["messages"][3].clone();
        assert_eq!(message["images"].is_array(), sees);
        assert!(message["content"].as_str().unwrap().contains("[an image]"));
    }
    // Nothing stands between the answers to one message.
    let fake = Fake::openai(vec![Say::Stream(OpenAiShapes.calls(&[
        ("read_file", json!({"path": "a.png"})),
        ("search_web", json!({"query": "x"})),
    ]))]);
    let mut held = Held::new(Settings {
        sees: true,
        ..Settings::default()
    });
    held.shelf.answer("read_file", pictured("[an image]"));
    held.say(&openai(&fake), "Look.").await;
    let messages = fake.chats()[1].body["messages"].clone();
    let roles: Vec<&str> = messages
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["role"].as_str().unwrap())
        .collect();
    assert_eq!(
        roles,
        ["system", "user", "assistant", "tool", "tool", "user"]
    );
    let url = messages[5]["content"][1]["image_url"]["url"]
        .as_str()
        .unwrap();
    assert!(url.starts_with("data:image/png;base64,"), "{url}");
}

#[tokio::test]
async fn what_is_refused_says_what_to_do() {
    let fake = Fake::ollama("0.12.6", vec![]);
    let missing = Ollama::new(&fake.address, None, "missing", quick()).unwrap();
    let trouble = missing.about().await.unwrap_err();
    assert_eq!(
        trouble.to_string(),
        "there is no model `missing`; `ollama pull missing` fetches it"
    );
    // Nobody listens there.
    let nowhere = Ollama::new("127.0.0.1:1", None, "tiny", quick()).unwrap();
    let trouble = nowhere.about().await.unwrap_err();
    assert!(
        trouble.to_string().contains("`ollama serve` starts it"),
        "{trouble}"
    );
    // A refusal that repeats the key does not show it.
    let fake = Fake::openai(vec![Say::Whole(
        401,
        json!({"error": {"message": "Incorrect API key: sk-secret"}}),
    )]);
    let mut held = Held::new(Settings::default());
    let ending = held.say(&openai(&fake), "Hello?").await;
    let why = ending.how.why().unwrap();
    assert!(why.contains("401") && !why.contains("sk-secret"), "{why}");
    assert!(matches!(
        ending.how,
        End::Failed(Trouble::Refused { status: 401, .. })
    ));
}

/// Returns the trouble of a model that is asked, as it may be shown.
async fn trouble(backend: &dyn Backend) -> String {
    let request = Request {
        messages: vec![Message::User("Is it?".to_owned())],
        tools: Vec::new(),
        context: 2_048,
        estimate: 8,
    };
    let (pieces, _listener) = tokio::sync::mpsc::channel(8);
    let failure = backend.ask(request, pieces).await.unwrap_err();
    format!("{} {:?}", failure.trouble, failure.trouble)
}

#[tokio::test]
async fn key_that_a_server_repeats_in_an_error_of_a_stream_is_masked() {
    let token = "sk-proj-abcdefghijklmnopqrstuvwxyz012345";
    let mut shown = Vec::new();
    for said in [
        format!("data: {{\"error\": {{\"message\": \"bad key sk-secret, {token}\"}}}}\n\n"),
        format!("event: error\ndata: bad key sk-secret, {token}\n\n"),
        format!("[{{\"error\": \"bad key sk-secret, {token}\"}}]\n"),
        format!("bad key sk-secret, {token}\n"),
        format!("data: {{\"detail\": \"Authorization: Bearer sk-secret {token}\"}}\n\n"),
    ] {
        let fake = Fake::openai(vec![Say::Stream(vec![said])]);
        shown.push(trouble(&openai(&fake)).await);
    }
    let line = format!("{{\"error\": \"bad key sk-secret, {token}\"}}\n");
    let fake = Fake::ollama("0.12.6", vec![Say::Stream(vec![line])]);
    let backend = Ollama::new(&fake.address, Some("sk-secret"), "tiny", quick()).unwrap();
    shown.push(trouble(&backend).await);
    for shown in shown {
        assert!(shown.contains("***"), "{shown}");
        for secret in ["sk-secret", "abcdefghijkl"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}

#[tokio::test]
async fn list_of_models_is_read_in_each_form() {
    for list in [
        r#"{"object":"list","data":[{"id":"tiny"}]}"#,
        r#"{"data":[{"id":"tiny"},{"id":7},"x",null]}"#,
        r#"{"data":null,"models":[{"name":"tiny","model":"tiny"}]}"#,
        r#"[{"id":"tiny"}]"#,
        "\u{feff}{\"data\":[{\"id\":\"tiny\"}]}\r\n",
    ] {
        let fake = Fake::start(move |_, _| Say::Stream(vec![list.to_owned()]));
        assert_eq!(openai(&fake).models().await.unwrap(), ["tiny"], "{list}");
    }
}

#[tokio::test]
async fn lines_of_ollama_are_read_from_events_of_a_proxy() {
    let words = OllamaShapes("0.12.6").words(&["It is ", "sunny."]).concat();
    let mut lines: Vec<String> = Vec::new();
    for line in words.lines() {
        let odd = line.replacen('{', "{\"error\":{},", 1);
        lines.push(format!(
            ": alive\r\nevent: message\r\nid: 1\r\ndata:{odd}\r\n\r\n"
        ));
    }
    lines.push("data: [DONE]\n\n".to_owned());
    let fake = Fake::ollama("0.12.6", vec![Say::Stream(lines)]);
    let mut held = Held::new(Settings::default());
    let ending = held.say(&ollama(&fake), "Weather?").await;
    assert_eq!(
        (ending.how, ending.text.as_str()),
        (End::Answered, "It is sunny.")
    );
}
