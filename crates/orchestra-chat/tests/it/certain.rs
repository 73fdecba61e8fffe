//! Calls are made only as a strict reader of the whole text reads them: cut, garbled and mixed streams.

use std::time::Duration;

use orchestra_chat::{
    Approval, Backend, Chat, Described, Manner, Nature, Ollama, OpenAi, Patience, Settings, Tools,
};
use proptest::{prelude::*, sample::select, test_runner::Config};
use serde_json::{Map, Value, json};

use crate::{
    fake::{Fake, Ollama as OllamaShapes, OpenAi as OpenAiShapes, Say},
    support::{Held, tools},
};

pub(crate) const VERSION: &str = "0.12.6";

/// Streams for each backend and kind of call.
pub(crate) const STREAMS: u32 = 200;

/// A call of a model: tool and arguments.
pub(crate) type Made = (String, Value);

fn manner() -> Manner {
    Manner {
        patience: Patience {
            first: Duration::from_secs(30),
            next: Duration::from_secs(30),
        },
        ..Manner::default()
    }
}

fn settings() -> Settings {
    Settings {
        approval: Approval::Yes,
        ..Settings::default()
    }
}

/// Plays one answer, and then a last one. Returns the calls that were made and the conversation.
fn played(backend: &dyn Backend) -> (Vec<Made>, Held) {
    played_with(backend, tools())
}

/// Plays one answer to these tools, and then a last one.
fn played_with(backend: &dyn Backend, tools: Tools) -> (Vec<Made>, Held) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut held = Held::new(settings());
    held.chat = Chat::new(settings(), tools);
    runtime.block_on(held.say(backend, "Go."));
    (held.shelf.called(), held)
}

pub(crate) fn openai(events: Vec<String>) -> (Vec<Made>, Held) {
    let fake = Fake::openai(vec![Say::Stream(events)]);
    let address = format!("{}/v1", fake.address);
    played(&OpenAi::new(&address, None, "tiny", manner()).unwrap())
}

pub(crate) fn ollama(lines: Vec<String>) -> (Vec<Made>, Held) {
    let fake = Fake::ollama(VERSION, vec![Say::Stream(lines)]);
    played(&Ollama::new(&fake.address, None, "tiny", manner()).unwrap())
}

/// The events of calls whose arguments are these texts.
fn events_of_calls(calls: &[(&str, &str)], size: usize, reason: Option<&str>) -> Vec<String> {
    let mut events = Vec::new();
    for (index, (name, arguments)) in calls.iter().enumerate() {
        let begin = json!({"tool_calls": [{"index": index, "id": format!("call_{index}"),
            "function": {"name": name, "arguments": ""}}]});
        events.push(OpenAiShapes.event(&begin, None));
        let text: Vec<char> = arguments.chars().collect();
        for piece in text.chunks(size) {
            let piece: String = piece.iter().collect();
            let more = json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]});
            events.push(OpenAiShapes.event(&more, None));
        }
    }
    if reason.is_some() {
        events.push(OpenAiShapes.event(&json!({}), reason));
    }
    events.extend(OpenAiShapes.end());
    events
}

/// Parts of a text, of `size` characters each.
fn parts(text: &str, size: usize) -> Vec<String> {
    let text: Vec<char> = text.chars().collect();
    let parts = text.chunks(size).map(|part| part.iter().collect());
    parts.collect()
}

/// Events of a stream that carries a text in parts.
pub(crate) fn events_of_text(text: &str, size: usize) -> Vec<String> {
    let parts = parts(text, size);
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    OpenAiShapes.words(&parts)
}

/// Lines of a stream that carries a text in parts.
fn lines_of_text(text: &str, size: usize) -> Vec<String> {
    let parts = parts(text, size);
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    OllamaShapes(VERSION).words(&parts)
}

/// A line with a call whose arguments are this text, as it is.
pub(crate) fn line_of_call(name: &str, arguments: &str) -> String {
    format!(
        "{{\"message\":{{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{{\"function\":\
         {{\"name\":\"{name}\",\"arguments\":{arguments}}}}}]}},\"done\":false}}\n"
    )
}

/// A JSON object, unless a name occurs twice in it.
fn object(text: &str) -> Option<Map<String, Value>> {
    let value: Value = serde_json::from_str(text).ok()?;
    let Value::Object(object) = value else {
        return None;
    };
    // Every name of the tests is in quotes and before a colon.
    let names = [
        "city",
        "days",
        "path",
        "title",
        "query",
        "name",
        "arguments",
    ];
    let is_single = |name: &&str| text.matches(&format!("\"{name}\"")).count() <= 1;
    names.iter().all(is_single).then_some(object)
}

/// The call that a strict reader makes of arguments: an object, the text of one, or nothing where nothing is taken.
fn strictly(name: &str, arguments: &str) -> Option<Made> {
    let takes_nothing = name == "list_issues";
    if takes_nothing && matches!(arguments.trim(), "" | "null" | "\"\"" | "[]") {
        return Some((name.to_owned(), json!({})));
    }
    let inner = serde_json::from_str::<String>(arguments).ok();
    let object = object(arguments).or_else(|| object(&inner?))?;
    Some((name.to_owned(), Value::Object(object)))
}

/// The calls that a strict reader finds printed in a text: objects of JSON with a name and arguments.
fn printed(text: &str) -> Vec<Made> {
    let tools = tools();
    let folded = |name: &str| name.trim().replace('_', "");
    let begins = text.match_indices('{').map(|(at, _)| &text[at..]);
    let values = begins.filter_map(|text| {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let value = values.next()?.ok()?;
        let name = folded(value["name"].as_str()?);
        let tool = tools
            .all()
            .iter()
            .find(|tool| folded(tool.name()) == name)?;
        let whole = object(&text[..values.byte_offset()])?;
        let arguments = whole.get("arguments")?.to_string();
        strictly(tool.name(), &arguments)
    });
    values.collect()
}

/// A change of a text.
#[derive(Debug, Clone)]
enum Change {
    None,
    /// It ends there.
    Cut(usize),
    /// It begins there.
    Lost(usize),
    Remove(usize),
    Insert(usize, char),
    /// Something follows it.
    Append(&'static str),
    /// It is there twice.
    Twice,
}

impl Change {
    fn of(&self, text: &str) -> String {
        let mut chars: Vec<char> = text.chars().collect();
        let place = |at: usize| at % (chars.len() + 1);
        match self {
            Self::None => {}
            Self::Cut(at) => chars.truncate(place(*at)),
            Self::Lost(at) => drop(chars.drain(..place(*at))),
            Self::Remove(at) => {
                let at = at % chars.len().max(1);
                chars.drain(at..(at + 1).min(chars.len()));
            }
            Self::Insert(at, c) => chars.insert(place(*at), *c),
            Self::Append(more) => chars.extend(more.chars()),
            Self::Twice => chars.extend(text.chars()),
        }
        chars.into_iter().collect()
    }
}

fn change() -> impl Strategy<Value = Change> {
    let inserted = select(vec!['{', '}', '[', ']', '"', ':', '\\', 'x', '7', ' ']);
    let appended = select(vec![
        "}",
        "{}",
        " and more",
        "\n",
        "]",
        "\"",
        "{\"city\": \"Oslo\"}",
    ]);
    prop_oneof![
        2 => Just(Change::None),
        4 => any::<usize>().prop_map(Change::Cut),
        1 => any::<usize>().prop_map(Change::Lost),
        3 => any::<usize>().prop_map(Change::Remove),
        3 => (any::<usize>(), inserted).prop_map(|(at, c)| Change::Insert(at, c)),
        1 => appended.prop_map(Change::Append),
        1 => Just(Change::Twice),
    ]
}

/// A whole call: the tool, and its arguments as JSON.
fn call() -> impl Strategy<Value = (&'static str, String)> {
    let text = "[a-zA-Z /.é\"\\\\{}<>]{0,12}";
    prop_oneof![
        (text, any::<bool>()).prop_map(|(city, long)| {
            let arguments = match long {
                true => json!({"city": city, "days": 3}),
                false => json!({"city": city}),
            };
            ("get_weather", arguments.to_string())
        }),
        text.prop_map(|path| ("read_file", json!({"path": path}).to_string())),
        text.prop_map(|title| ("create_task", json!({"title": title}).to_string())),
        text.prop_map(|city| {
            let arguments = json!({"city": city}).to_string();
            ("get_weather", json!(arguments).to_string())
        }),
        select(vec!["", "{}", "null"]).prop_map(|arguments| ("list_issues", arguments.to_owned())),
    ]
}

/// A part of a text.
#[derive(Debug, Clone)]
enum Part {
    Words,
    Call(String),
    /// Within tags of thinking.
    Thought(&'static str, &'static str, String),
}

/// A call that is printed, with a change within its marks.
fn printed_call() -> impl Strategy<Value = String> {
    (call(), change()).prop_map(|((name, arguments), change)| {
        let arguments = if arguments.is_empty() {
            "{}"
        } else {
            &arguments
        };
        let text = format!("{{\"name\": \"{name}\", \"arguments\": {arguments}}}");
        format!("<tool_call>{}</tool_call>", change.of(&text))
    })
}

fn part() -> impl Strategy<Value = Part> {
    let tags = select(vec![
        ("<think>", "</think>"),
        ("<Thinking>", "</Thinking>"),
        ("<reasoning>", "</reasoning>"),
        ("<think><think>", "</think> more </think>"),
        ("[THINK]", "[/THINK]"),
        ("<longcat_think>", "</longcat_think>"),
        ("<|inner_prefix|>", "<|inner_suffix|>"),
        ("<reason>", "</reason>"),
        ("<AnalysisPanel>", "</AnalysisPanel>"),
    ]);
    prop_oneof![
        Just(Part::Words),
        printed_call().prop_map(Part::Call),
        (tags, printed_call()).prop_map(|((open, close), text)| Part::Thought(open, close, text)),
    ]
}

/// The text of parts up to a cut, and the calls that a strict reader finds in it.
fn text_of(parts: &[Part], cut: Option<usize>) -> (String, Vec<Made>) {
    let all = parts.iter().map(|part| match part {
        Part::Words => "Let me see.\n".len(),
        Part::Call(text) => text.len(),
        Part::Thought(open, close, text) => open.len() + text.len() + close.len(),
    });
    let all: usize = all.sum();
    let mut left = cut.map_or(all, |cut| cut % (all + 1));
    let (mut whole, mut calls) = (String::new(), Vec::new());
    let mut take = |text: &str, whole: &mut String| -> String {
        let mut end = left.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        left -= end;
        if end < text.len() {
            left = 0;
        }
        whole.push_str(&text[..end]);
        text[..end].to_owned()
    };
    for part in parts {
        match part {
            Part::Words => drop(take("Let me see.\n", &mut whole)),
            Part::Call(text) => calls.extend(printed(&take(text, &mut whole))),
            Part::Thought(open, close, text) => {
                for text in [*open, text, *close] {
                    take(text, &mut whole);
                }
            }
        }
    }
    (whole, calls)
}

/// Checks that each call may be made, and no more often than it was.
fn within(made: &[Made], strict: &[Made]) -> Result<(), TestCaseError> {
    let mut left = strict.to_vec();
    for call in made {
        let place = left.iter().position(|may| may == call);
        prop_assert!(place.is_some(), "{call:?} is not in {strict:?}");
        left.remove(place.unwrap());
    }
    Ok(())
}

proptest! {
    #![proptest_config(Config { cases: STREAMS, failure_persistence: None, ..Config::default() })]

    #[test]
    fn openai_call_is_made_only_as_its_whole_text_reads(
        (name, arguments) in call(),
        change in change(),
        size in 1_usize..9,
        reason in select(vec![None, Some("stop"), Some("tool_calls"), Some("length")]),
    ) {
        let text = change.of(&arguments);
        let (made, held) = openai(events_of_calls(&[(name, &text)], size, reason));
        let strict = strictly(name, &text);
        within(&made, strict.as_slice())?;
        if strict.is_none() || made.is_empty() {
            prop_assert!(held.chat.messages().any(|message| message.text().starts_with("Not called")));
        } else {
            prop_assert_eq!(made.len(), 1);
        }
    }

    #[test]
    fn ollama_call_is_made_only_as_its_whole_text_reads((name, arguments) in call(), change in change()) {
        let arguments = if arguments.is_empty() { "null" } else { &arguments };
        let text = change.of(arguments);
        let line = line_of_call(name, &text);
        let is_line = serde_json::from_str::<Value>(&line).is_ok() && !line.trim_end().contains('\n');
        let (made, _) = ollama(vec![line, OllamaShapes(VERSION).last(None)]);
        let strict = strictly(name, &text).filter(|_| is_line);
        within(&made, strict.as_slice())?;
    }

    #[test]
    fn printed_call_is_made_only_as_the_whole_answer_reads(
        parts in prop::collection::vec(part(), 1..4),
        cut in prop::option::of(any::<usize>()),
        size in 1_usize..9,
        is_openai in any::<bool>(),
    ) {
        let (text, strict) = text_of(&parts, cut);
        let (made, _) = match is_openai {
            true => openai(events_of_text(&text, size)),
            false => ollama(lines_of_text(&text, size)),
        };
        within(&made, &strict)?;
    }
}

/// Checks which calls an answer of each server makes, and the error that the model receives.
pub(crate) fn check_both(text: &str, made: &[Made], told: Option<&str>) {
    for size in [1, 1_000] {
        for (found, held) in [
            openai(events_of_text(text, size)),
            ollama(lines_of_text(text, size)),
        ] {
            assert_eq!(found, made, "{text}");
            let is_told = |part: &str| {
                held.chat
                    .messages()
                    .any(|message| message.text().contains(part))
            };
            assert!(told.is_none_or(is_told), "{text}: {:?}", held.chat);
        }
    }
}

#[test]
fn call_in_thinking_is_not_made_and_call_after_it_is() {
    let call = "<tool_call>{\"name\": \"list_issues\", \"arguments\": {}}</tool_call>";
    let made = [("list_issues".to_owned(), json!({}))];
    for (open, close) in [
        ("<think>", "</think>"),
        ("<THINK>", "</Think>"),
        ("<thinking>", "</thinking>"),
        ("<reasoning>", "</reasoning>"),
        ("<think><think>", "</think> again </think>"),
        ("", "</think>"),
        ("[THINK]", "[/THINK]"),
        ("<longcat_think>", "</longcat_think>"),
        ("<thought_process>", "</thought_process>"),
        ("<inner_monologue>", "</inner_monologue>"),
        ("<reasoning_content>", "</reasoning_content>"),
        ("<ThoughtProcess>", "</ThoughtProcess>"),
        ("<analysis>", "</analysis>"),
        ("<reason>", "</reason>"),
        ("<|inner_prefix|>", "<|inner_suffix|>"),
        ("<unused94>thought\n", "<unused95>"),
    ] {
        check_both(&format!("{open}Perhaps {call}{close}Fine."), &[], None);
        check_both(&format!("{open}Perhaps.{close}\n{call}"), &made, None);
    }
    check_both(&format!("<think>Perhaps {call}"), &[], None);
    check_both(
        "<tool_call>{\"name\": \"create_task\", \"arguments\": {\"title\": \"a<think>b</think>c\"}}</tool_call>",
        &[],
        Some("Not called"),
    );
}

#[test]
fn printed_call_that_is_cut_or_garbled_is_answered_with_its_fault() {
    for (text, told) in [
        (
            "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"/ho",
            "incomplete",
        ),
        (
            "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"/ho</tool_call>",
            "incomplete",
        ),
        (
            "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"/\"}}}</tool_call>",
            "other text follows",
        ),
        ("<tool_call>{\"na", "incomplete"),
        ("<function=read_file><parameter=path>/ho", "incomplete"),
        (
            "<function=read_file><parameter=path>/home</parameter>",
            "incomplete",
        ),
        (
            "<invoke name=\"read_file\"><parameter name=\"path\">/ho",
            "incomplete",
        ),
        (
            "<tool_call>read_file<arg_key>path</arg_key><arg_value>/ho",
            "incomplete",
        ),
        (
            "<tool_call><read_file><path>/ho</read_file></tool_call>",
            "incomplete",
        ),
        ("[TOOL_CALLS]read_file{\"path\": \"/ho", "incomplete"),
        ("<|python_tag|>read_file(path=\"/ho", "incomplete"),
        (
            "Action: read_file\nAction Input: {\"path\": \"/ho",
            "incomplete",
        ),
        ("Action: read_file\nAction Input: /ho", "cannot be read"),
        (
            "{\"name\": \"read_file\", \"arguments\": {\"path\": \"/ho",
            "incomplete",
        ),
        (
            "{\"name\": \"read_file\", \"arguments\": {\"path\": \"/a\", \"path\": \"/b\"}}",
            "occurs twice",
        ),
        ("read_file(path=\"/ho", "incomplete"),
    ] {
        check_both(text, &[], Some(told));
    }
}

#[test]
fn quoted_example_of_a_call_is_not_made() {
    let call = "<tool_call>{\"name\": \"list_issues\", \"arguments\": {}}</tool_call>";
    let nested = "<tool_call>\n<function=list_issues>\n</function>\n</tool_call>";
    for call in [call, nested] {
        for text in [
            format!("A client writes:\n```\n{call}\n```\nand the server answers."),
            format!("```xml\n{call}\n```\nThe server answers."),
            format!("A client writes:\n````md\n```\n{call}\n```\n````\nand the server answers."),
            format!("A client writes:\n~~~\n{call}\n~~~\nand the server answers."),
            format!("A client writes `{call}` there."),
            format!("A client writes ```{call}``` there."),
        ] {
            check_both(&text, &[], None);
            let tools = tools();
            assert_eq!(
                orchestra_chat::repair::recognised(&text, tools.all()),
                None,
                "{text}"
            );
        }
        let undecided = format!("A client writes:\n```\n{call}\n```");
        check_both(&undecided, &[], Some("without the fence"));
        let made = [("list_issues".to_owned(), json!({}))];
        check_both(&format!("```xml\n{call}\n```"), &made, None);
    }
}

#[test]
fn call_in_a_text_of_a_call_is_not_made() {
    let inner = "<tool_call>{\\\"name\\\": \\\"list_issues\\\", \\\"arguments\\\": {}}</tool_call>";
    let text = format!(
        "<tool_call>{{\"name\": \"create_task\", \"arguments\": {{\"title\": \"{inner}\"}}}}</tool_call>"
    );
    check_both(&text, &[], None);
}

#[test]
fn arguments_that_are_cut_or_garbled_are_answered_with_their_fault() {
    for (arguments, told) in [
        ("{\"path\":\"/ho", "incomplete"),
        ("{\"path\":\"/\"}}", "trailing characters"),
        (
            "{\"path\":\"/\"}{\"path\":\"/home\"}",
            "trailing characters",
        ),
        ("th\":\"/\"}", "cannot be read"),
        ("{'path': '/'}", "cannot be read"),
        ("{\"path\":\"/\",\"path\":\"/home\"}", "`path` occurs twice"),
        ("[\"/\"]", "not a JSON object"),
        (
            "{\"path\":\"/\",\"end\":18446744073709551616}",
            "more than 64 bits",
        ),
        ("\"/\"", "cannot be read"),
        ("", "missing"),
        ("null", "missing"),
    ] {
        for reason in [None, Some("stop"), Some("tool_calls")] {
            let (made, held) = openai(events_of_calls(&[("read_file", arguments)], 3, reason));
            assert!(made.is_empty(), "{arguments}");
            let mut messages = held.chat.messages();
            let is_told = messages.any(|message| message.text().contains(told));
            assert!(is_told, "{arguments}: {:?}", held.chat);
        }
    }
}

#[test]
fn arguments_in_every_legitimate_form_are_understood() {
    for (name, arguments, expected) in [
        ("read_file", " {\"path\": \"/\"}\n", json!({"path": "/"})),
        (
            "read_file",
            "\"{\\\"path\\\": \\\"/\\\"}\"",
            json!({"path": "/"}),
        ),
        ("list_issues", "", json!({})),
        ("list_issues", "null", json!({})),
        ("list_issues", "\"\"", json!({})),
        ("list_issues", "{}", json!({})),
        ("list_issues", "[]", json!({})),
        ("list_issues", "\"[]\"", json!({})),
    ] {
        let (made, _) = openai(events_of_calls(&[(name, arguments)], 3, Some("tool_calls")));
        assert_eq!(made, [(name.to_owned(), expected.clone())], "{arguments}");
        if !arguments.is_empty() {
            let line = line_of_call(name, arguments.trim());
            let (made, _) = ollama(vec![line, OllamaShapes(VERSION).last(None)]);
            assert_eq!(made, [(name.to_owned(), expected)], "{arguments}");
        }
    }
}

#[test]
fn call_without_arguments_is_made_where_all_are_optional_and_the_answer_is_whole() {
    let described = Described {
        name: "list_notes".to_owned(),
        description: "Lists notes.".to_owned(),
        schema: json!({"type": "object", "properties": {"limit": {"type": "integer"}}}),
        lean: None,
        server: None,
        nature: Nature::Reads,
    };
    for (arguments, reason, is_made) in [
        ("", Some("tool_calls"), true),
        ("  \n", Some("tool_calls"), true),
        ("", Some("function_call"), true),
        ("null", Some("tool_calls"), true),
        ("[]", Some("tool_calls"), true),
        ("[null]", Some("tool_calls"), false),
        ("", Some("length"), false),
        ("", Some("stop"), false),
        ("", None, false),
        ("{\"limit\":", Some("tool_calls"), false),
    ] {
        let events = events_of_calls(&[("list_notes", arguments)], 3, reason);
        let fake = Fake::openai(vec![Say::Stream(events)]);
        let backend = OpenAi::new(&format!("{}/v1", fake.address), None, "tiny", manner()).unwrap();
        let tools = Tools::new([described.clone()]);
        let (made, held) = played_with(&backend, tools);
        let expected = is_made.then(|| ("list_notes".to_owned(), json!({})));
        assert_eq!(made, Vec::from_iter(expected), "{arguments:?} {reason:?}");
        let mut messages = held.chat.messages();
        let is_refused = messages.any(|message| message.text().starts_with("Not called"));
        assert_eq!(is_refused, !is_made, "{arguments:?} {reason:?}");
    }
}

#[test]
fn answer_whose_end_is_not_reported_as_finished_makes_no_call() {
    let whole = [("get_weather", "{\"city\":\"Rome\"}")];
    let rome = [("get_weather".to_owned(), json!({"city": "Rome"}))];
    let printed =
        "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}</tool_call>";
    let is_told = |held: &Held| {
        let mut messages = held.chat.messages();
        messages.any(|message| message.text().starts_with("Not called"))
    };
    for reason in ["stop", "tool_calls", "STOP", "eos", "end_turn", "tool_use"] {
        let (made, _) = openai(events_of_calls(&whole, 3, Some(reason)));
        assert_eq!(made, rome, "{reason}");
    }
    let bad = [
        "content_filter",
        "error",
        "abort",
        "aborted",
        "length",
        "other",
    ];
    let bad = bad.into_iter().map(Some).chain([None]);
    for reason in bad {
        let text = OpenAiShapes.event(&json!({"content": printed}), None);
        let mut events = vec![text, OpenAiShapes.event(&json!({}), reason)];
        events.extend(OpenAiShapes.end());
        for events in [events_of_calls(&whole, 3, reason), events] {
            let (made, held) = openai(events);
            assert!(made.is_empty() && is_told(&held), "{reason:?}: {made:?}");
        }
    }
    let last = |reason: &str| {
        let mut line: Value = serde_json::from_str(&OllamaShapes(VERSION).last(None)).unwrap();
        line["done_reason"] = json!(reason);
        format!("{line}\n")
    };
    for (reason, is_made) in [
        ("stop", true),
        ("", true),
        ("load", false),
        ("unload", false),
    ] {
        let (made, _) = ollama(vec![line_of_call(whole[0].0, whole[0].1), last(reason)]);
        assert_eq!(!made.is_empty(), is_made, "{reason}");
    }
}

#[test]
fn call_beside_a_call_with_a_fault_is_not_made() {
    for (first, second) in [("{\"ci", "{}"), ("", "{}"), ("{\"city\":\"Rome\"}}", "{}")] {
        let calls = [("get_weather", first), ("list_issues", second)];
        let (made, held) = openai(events_of_calls(&calls, 3, Some("tool_calls")));
        assert!(made.is_empty(), "{first}: {made:?}");
        let mut messages = held.chat.messages();
        assert!(messages.any(|message| message.text().contains("another call")));
    }
}

#[test]
fn call_beside_a_call_of_an_unknown_tool_is_not_made() {
    let rome = "{\"city\": \"Rome\"}";
    let orders = [
        [("get_weather", rome), ("no_such_tool", "{}")],
        [("no_such_tool", "{}"), ("get_weather", rome)],
    ];
    for calls in orders {
        let printed = calls.map(|(name, arguments)| {
            format!("<tool_call>{{\"name\": \"{name}\", \"arguments\": {arguments}}}</tool_call>\n")
        });
        for (made, held) in [
            openai(events_of_calls(&calls, 3, Some("tool_calls"))),
            openai(events_of_text(&printed.concat(), 3)),
        ] {
            assert!(made.is_empty(), "{made:?}");
            for told in ["There is no tool `no_such_tool`", "does not exist"] {
                let mut messages = held.chat.messages();
                assert!(messages.any(|message| message.text().contains(told)));
            }
        }
    }
}

#[test]
fn text_of_another_role_makes_no_call() {
    let printed = "<tool_call>{\"name\": \"list_issues\", \"arguments\": {}}</tool_call>";
    for (role, is_made) in [
        ("assistant", true),
        ("tool", false),
        ("user", false),
        ("system", false),
    ] {
        let message = json!({"role": role, "content": printed});
        let mut events = vec![OpenAiShapes.event(&message, Some("stop"))];
        events.extend(OpenAiShapes.end());
        let line = format!("{}\n", json!({"message": message, "done": false}));
        for (made, _) in [
            openai(events),
            ollama(vec![line, OllamaShapes(VERSION).last(None)]),
        ] {
            assert_eq!(!made.is_empty(), is_made, "{role}");
        }
    }
}

#[test]
fn thinking_is_shown_as_thinking_and_not_sent_back() {
    let begin = |message: Value| OpenAiShapes.event(&message, None);
    let call = json!({"tool_calls": [{"index": 0, "id": "a",
        "function": {"name": "list_issues", "arguments": "{}"}}]});
    for thinking in [
        json!({"content": "<think>secret plan</think>Let me look."}),
        json!({"reasoning_content": "secret plan", "content": "Let me look."}),
        json!({"reasoning": "secret plan", "content": "Let me look."}),
        json!({"thinking": "secret plan", "content": "Let me look."}),
        json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "secret plan"}]},
            {"type": "text", "text": "Let me look."}]}),
    ] {
        let mut events = vec![begin(thinking.clone()), begin(call.clone())];
        events.push(OpenAiShapes.event(&json!({}), Some("tool_calls")));
        let fake = Fake::openai(vec![Say::Stream(events)]);
        let address = format!("{}/v1", fake.address);
        let (made, held) = played(&OpenAi::new(&address, None, "tiny", manner()).unwrap());
        assert_eq!(made.len(), 1, "{thinking}");
        assert_eq!(held.face.thinking, "secret plan", "{thinking}");
        assert!(held.face.text.starts_with("Let me look."), "{thinking}");
        assert!(
            held.chat
                .messages()
                .all(|message| !message.text().contains("secret"))
        );
        let chats = fake.chats();
        assert_eq!(chats.len(), 2);
        let sent = chats[1].body.to_string();
        assert!(
            sent.contains("Let me look.") && !sent.contains("secret plan"),
            "{sent}"
        );
    }
}
