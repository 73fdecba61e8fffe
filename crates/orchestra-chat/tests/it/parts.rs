//! Calls that arrive in parts: choices of an answer, and deltas with and without an index.

use serde_json::{Value, json};

use crate::{
    certain::{VERSION, ollama, openai},
    fake::{Ollama as OllamaShapes, OpenAi as OpenAiShapes},
};

#[test]
fn only_the_first_choice_of_one_answer_makes_a_call() {
    let part = |id: &str, index: u32, name: &str, arguments: &str, reason: Option<&str>| {
        let calls = json!([{"index": 0, "function": {"name": name, "arguments": arguments}}]);
        let choice =
            json!({"index": index, "delta": {"tool_calls": calls}, "finish_reason": reason});
        format!("data: {}\n\n", json!({"id": id, "choices": [choice]}))
    };
    let rome = ("get_weather".to_owned(), json!({"city": "Rome"}));
    let end = Some("tool_calls");
    let begin = part("a", 0, "get_weather", "{\"city\":", None);
    let done = part("a", 0, "", "\"Rome\"}", end);
    for other in [
        part("a", 1, "", "\"Oslo\"}", end),
        part("b", 0, "", "\"Oslo\"}", end),
        part("a", 1, "list_issues", "{}", end),
    ] {
        let last = OpenAiShapes.end().to_vec();
        let whole = [vec![begin.clone(), other.clone(), done.clone()], last].concat();
        assert_eq!(openai(whole).0, std::slice::from_ref(&rome), "{other}");
        for cut in [vec![begin.clone(), other.clone()], vec![other.clone()]] {
            let (made, _) = openai([cut, OpenAiShapes.end().to_vec()].concat());
            assert!(made.is_empty(), "{other}");
        }
    }
}

#[test]
fn deltas_of_calls_without_index_are_put_together() {
    let delta = |call: Value| OpenAiShapes.event(&json!({"tool_calls": [call]}), None);
    let part = |arguments: &str| json!({"arguments": arguments});
    let named = |name: &str, arguments: &str| json!({"name": name, "arguments": arguments});
    let rome = ("get_weather".to_owned(), json!({"city": "Rome"}));
    let oslo = ("get_weather".to_owned(), json!({"city": "Oslo"}));
    let issues = ("list_issues".to_owned(), json!({}));
    let (first, last) = ("{\"city\":", "\"Rome\"}");
    let whole = "{\"city\":\"Rome\"}";
    for (deltas, expected) in [
        (
            vec![
                json!({"id": "a", "function": named("get_weather", first)}),
                json!({"id": "a", "function": named("get_weather", last)}),
            ],
            vec![rome.clone()],
        ),
        (
            vec![
                json!({"id": "a", "function": named("get_weather", "")}),
                json!({"id": "", "function": named("", first)}),
                json!({"function": named("", last)}),
            ],
            vec![rome.clone()],
        ),
        (
            vec![
                json!({"id": "a", "function": named("get_weather", "")}),
                json!({"id": "b", "function": named("list_issues", "")}),
                json!({"id": "a", "function": part(whole)}),
                json!({"id": "b", "function": part("{}")}),
            ],
            vec![rome.clone(), issues],
        ),
        (
            vec![
                json!({"index": 0, "function": named("get_weather", whole)}),
                json!({"index": 0, "function": named("get_weather", "{\"city\":\"Oslo\"}")}),
            ],
            vec![rome.clone(), oslo],
        ),
        (
            vec![
                json!({"index": 0, "id": "a", "function": part(first)}),
                json!({"index": 0, "function": named("get_weather", last)}),
            ],
            vec![rome],
        ),
    ] {
        let mut events: Vec<String> = deltas.iter().cloned().map(delta).collect();
        events.push(OpenAiShapes.event(&json!({}), Some("tool_calls")));
        events.extend(OpenAiShapes.end());
        assert_eq!(openai(events).0, expected, "{deltas:?}");
    }
}

#[test]
fn index_is_read_as_text_or_float() {
    let rome = ("get_weather".to_owned(), json!({"city": "Rome"}));
    let issues = ("list_issues".to_owned(), json!({}));
    for [first, second] in [
        [json!("0"), json!("1")],
        [json!(0.0), json!(1.0)],
        [json!(" 0 "), json!("1.0")],
    ] {
        let part = |delta: Value, reason: Option<&str>| {
            let choice = json!({"index": first, "delta": delta, "finish_reason": reason});
            format!("data: {}\n\n", json!({"id": "a", "choices": [choice]}))
        };
        let call = |index: &Value, function: Value| {
            part(
                json!({"tool_calls": [{"index": index, "function": function}]}),
                None,
            )
        };
        let mut events = vec![
            call(&first, json!({"name": "get_weather", "arguments": ""})),
            call(&second, json!({"name": "list_issues", "arguments": ""})),
            call(&first, json!({"arguments": "{\"city\":\"Rome\"}"})),
            call(&second, json!({"arguments": "{}"})),
            part(json!({}), Some("tool_calls")),
        ];
        events.extend(OpenAiShapes.end());
        assert_eq!(openai(events).0, [rome.clone(), issues.clone()], "{first}");
        let words = vec![
            part(json!({"content": "Sunny."}), None),
            part(json!({}), Some("stop")),
        ];
        assert_eq!(openai(words).1.face.text, "Sunny.", "{first}");
    }
}

#[test]
fn content_is_read_in_each_form() {
    for content in [
        json!("Sunny."),
        json!(["Sun", "ny."]),
        json!({"type": "text", "text": "Sunny."}),
        json!({"text": "Sunny."}),
        json!([{"type": "text", "text": "Sun"}, "ny.", {"type": "image", "text": "x"}, 7]),
        json!([["Sun"], {"text": ["n", "y."]}]),
    ] {
        let event = OpenAiShapes.event(&json!({"content": content}), None);
        let end = OpenAiShapes.event(&json!({}), Some("stop"));
        assert_eq!(openai(vec![event, end]).1.face.text, "Sunny.", "{content}");
        let shapes = OllamaShapes(VERSION);
        let line = shapes.line(&json!({"role": "assistant", "content": content}));
        let lines = vec![line, shapes.last(None)];
        assert_eq!(ollama(lines).1.face.text, "Sunny.", "{content}");
    }
}

#[test]
fn lines_without_an_object_are_left_out() {
    for other in ["null", "[]", "[null]", "\"\"", "0", "true"] {
        let event = format!("data: {other}\n\n");
        let mut events = OpenAiShapes.words(&["Sun", "ny."]);
        events.insert(1, event.clone());
        events.insert(0, event.clone());
        assert_eq!(openai(events).1.face.text, "Sunny.", "{other}");
        let mut lines = OllamaShapes(VERSION).words(&["Sun", "ny."]);
        lines.insert(1, format!("{other}\n"));
        lines.insert(0, event);
        assert_eq!(ollama(lines).1.face.text, "Sunny.", "{other}");
    }
}
