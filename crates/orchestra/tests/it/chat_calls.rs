//! `orchestra chat` makes only calls whose text is complete and that the model did not only think of.

use serde_json::{Value, json};

use crate::{
    chat::lines,
    models::{Fake, Ollama, OpenAi, Say},
    support::Workspace,
};

const SHAPES: Ollama = Ollama("0.12.6");

/// A call as a stream of OpenAI has it, with its arguments as they are.
fn call(name: &str, arguments: &str, reason: &str) -> Say {
    let call = json!({"tool_calls": [{"index": 0, "id": "a",
        "function": {"name": name, "arguments": arguments}}]});
    let mut events = vec![
        OpenAi.event(&call, None),
        OpenAi.event(&json!({}), Some(reason)),
    ];
    events.extend(OpenAi.end());
    Say::Stream(events)
}

/// Asks with every call allowed. Returns the answer, and what the model was told last.
fn asked(workspace: &Workspace, model: &Fake, backend: &str) -> (Value, String) {
    asked_with(workspace, model, backend, &["--yes"])
}

/// Asks with some flags. Returns the answer, and what the model was told last.
fn asked_with(
    workspace: &Workspace,
    model: &Fake,
    backend: &str,
    flags: &[&str],
) -> (Value, String) {
    let host = match backend {
        "openai" => format!("{}/v1", model.address),
        _ => model.address.clone(),
    };
    let words = [
        "chat",
        "--backend",
        backend,
        "--host",
        &host,
        "--model",
        "tiny",
    ];
    let said = workspace.run_with_input([&words, flags].concat(), "Make a project.");
    let told = model.chats().last().unwrap().body["messages"].to_string();
    (lines(&said).remove(0), told)
}

fn projects(workspace: &Workspace) -> Value {
    workspace.call("list_projects", &json!({}))["items"].clone()
}

#[test]
fn arguments_that_are_cut_or_garbled_make_no_call_and_the_model_is_told() {
    let workspace = Workspace::board();
    for (arguments, told) in [
        ("{\"name\":\"Sho", "incomplete"),
        ("{\"name\":\"Shop\"}}", "trailing characters"),
        (
            "{\"name\":\"Shop\"}{\"name\":\"Other\"}",
            "trailing characters",
        ),
        ("me\":\"Shop\"}", "cannot be read"),
        ("{\"name\":\"Shop\",\"name\":\"Other\"}", "occurs twice"),
    ] {
        for reason in ["stop", "tool_calls"] {
            let fine = Say::Stream(OpenAi.words(&["Fine."]));
            let model = Fake::openai(vec![call("create_project", arguments, reason), fine]);
            let (answered, messages) = asked(&workspace, &model, "openai");
            assert_eq!(answered["answer"], "Fine.", "{arguments}");
            assert!(messages.contains(told), "{arguments}: {messages}");
            assert_eq!(projects(&workspace), json!([]), "{arguments}");
        }
    }
}

#[test]
fn printed_call_that_is_cut_or_only_thought_of_makes_no_call() {
    let workspace = Workspace::board();
    let whole = "<tool_call>{\"name\": \"create_project\", \"arguments\": {\"name\": \"Shop\"}}</tool_call>";
    let cut = "<tool_call>{\"name\": \"create_project\", \"arguments\": {\"name\": \"Sho";
    for text in [
        cut.to_owned(),
        format!("<think>Perhaps {whole}</think>Fine."),
        format!("<Thinking>Perhaps {whole}</Thinking>Fine."),
        format!("<reasoning>Perhaps {whole}"),
        format!("Perhaps {whole}</think>Fine."),
    ] {
        let pieces: Vec<String> = text.chars().map(String::from).collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let fine = || Say::Stream(OpenAi.words(&["Fine."]));
        let model = Fake::openai(vec![Say::Stream(OpenAi.words(&pieces)), fine()]);
        let (answered, _) = asked(&workspace, &model, "openai");
        assert_eq!(answered["answer"], "Fine.", "{text}");
        let fine = || Say::Stream(SHAPES.words(&["Fine."]));
        let model = Fake::ollama("0.12.6", vec![Say::Stream(SHAPES.words(&pieces)), fine()]);
        let (answered, _) = asked(&workspace, &model, "ollama");
        assert_eq!(answered["answer"], "Fine.", "{text}");
        assert_eq!(projects(&workspace), json!([]), "{text}");
    }
    let after = format!("<think>I shall.</think>{whole}");
    let model = Fake::openai(vec![Say::Stream(OpenAi.words(&[&after]))]);
    asked(&workspace, &model, "openai");
    assert_eq!(projects(&workspace)[0]["name"], "Shop");
}

#[test]
fn cut_call_of_a_read_only_tool_is_not_made_with_or_without_consent() {
    let workspace = Workspace::board();
    for flags in [&[][..], &["--yes"]] {
        for reason in ["stop", "tool_calls"] {
            let cut = call("list_epics", "{\"project\":\"sho", reason);
            let fine = Say::Stream(OpenAi.words(&["Fine."]));
            let model = Fake::openai(vec![cut, fine]);
            let (answered, messages) = asked_with(&workspace, &model, "openai", flags);
            assert_eq!(answered["answer"], "Fine.", "{flags:?}");
            assert!(messages.contains("incomplete"), "{flags:?}: {messages}");
        }
    }
}

#[test]
fn thinking_in_the_text_is_no_part_of_the_answer_and_not_sent_back() {
    let workspace = Workspace::board();
    for tag in ["think", "thinking", "reasoning"] {
        let text = format!("<{tag}>hidden plan</{tag}>Let me look.");
        let list = ("list_projects", json!({}));
        let fine = format!("<{tag}>hidden end</{tag}>Fine.");
        let mut events = vec![OpenAi.event(&json!({"content": text}), None)];
        events.extend(OpenAi.calls(std::slice::from_ref(&list)));
        let openai = vec![Say::Stream(events), Say::Stream(OpenAi.words(&[&fine]))];
        let ollama = vec![
            Say::Stream(SHAPES.calls(&text, &[list])),
            Say::Stream(SHAPES.words(&[&fine])),
        ];
        for (backend, model) in [
            ("openai", Fake::openai(openai)),
            ("ollama", Fake::ollama("0.12.6", ollama)),
        ] {
            let (answered, messages) = asked(&workspace, &model, backend);
            assert_eq!(answered["answer"], "Fine.", "{backend}: {tag}");
            assert_eq!(model.chats().len(), 2, "{backend}: {tag}");
            assert!(!messages.contains("hidden"), "{backend}: {messages}");
        }
    }
}

#[test]
fn call_sent_while_the_text_is_thinking_makes_no_call_and_the_model_receives_an_error() {
    let workspace = Workspace::board();
    let arguments = json!({"name": "Shop"});
    for [before, after] in [
        ["<think>Perhaps ", ""],
        ["<think>Perhaps ", " no, better not.</think>Fine."],
        ["Perhaps ", "</think>Fine."],
    ] {
        let sent = json!({"tool_calls": [{"index": 0, "id": "a",
            "function": {"name": "create_project", "arguments": arguments.to_string()}}]});
        let text = |text: &str| json!({"content": text});
        let messages = [text(before), sent, text(after)];
        let mut events: Vec<String> = { messages.iter() }
            .map(|message| OpenAi.event(message, None))
            .collect();
        events.push(OpenAi.event(&json!({}), Some("tool_calls")));
        events.extend(OpenAi.end());
        let openai = vec![Say::Stream(events), Say::Stream(OpenAi.words(&["Fine."]))];
        let sent = json!({"content": "", "tool_calls": [{
            "function": {"name": "create_project", "arguments": arguments}}]});
        let messages = [text(before), sent, text(after)];
        let mut pieces: Vec<String> = messages
            .iter()
            .map(|message| SHAPES.line(message))
            .collect();
        pieces.push(SHAPES.last(None));
        let ollama = vec![Say::Stream(pieces), Say::Stream(SHAPES.words(&["Fine."]))];
        for (backend, model) in [
            ("openai", Fake::openai(openai)),
            ("ollama", Fake::ollama("0.12.6", ollama)),
        ] {
            let (answered, messages) = asked(&workspace, &model, backend);
            assert_eq!(answered["answer"], "Fine.", "{backend}: {before}{after}");
            assert!(
                messages.contains("within the thinking"),
                "{backend}: {messages}"
            );
            assert_eq!(
                projects(&workspace),
                json!([]),
                "{backend}: {before}{after}"
            );
        }
    }
}
