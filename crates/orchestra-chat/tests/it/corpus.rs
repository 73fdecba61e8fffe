//! Calls as small models print them, and texts that are none.

use orchestra_chat::repair::{Repaired, recognised, repaired};
use serde_json::Value;

use crate::support::tools;

/// A call that was printed or told, and what it means.
const CALLS: &str = include_str!("../corpus/calls.jsonl");
/// Texts that call nothing.
const INNOCENT: &str = include_str!("../corpus/innocent.jsonl");

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// What is made out of one.
fn made_out(case: &Value) -> Vec<Repaired> {
    let tools = tools();
    match case["said"].as_str() {
        Some(said) => recognised(said, tools.all())
            .map(|found| found.calls)
            .unwrap_or_default(),
        None => {
            let told = &case["told"];
            vec![repaired(
                told["name"].as_str().unwrap(),
                &told["arguments"],
                tools.all(),
            )]
        }
    }
}

#[test]
fn calls_are_made_out_of_what_small_models_print() {
    let cases = lines(CALLS);
    assert!(cases.len() >= 100, "{}", cases.len());
    let mut missed = Vec::new();
    for case in &cases {
        let Some(means) = case.get("means") else {
            continue;
        };
        let means: Vec<(String, Value)> = serde_json::from_value(means.clone()).unwrap();
        let found: Vec<(String, Value)> = made_out(case)
            .into_iter()
            .filter(|call| call.fault.is_none())
            .map(|call| (call.tool, Value::Object(call.arguments)))
            .collect();
        if found != means {
            missed.push(format!("{}: {found:?} in place of {means:?}", case["form"]));
        }
    }
    let made_out = cases.len() - missed.len();
    eprintln!("{made_out} of {} calls are made out", cases.len());
    // 95 of 100.
    assert!(made_out * 100 >= cases.len() * 95, "{}", missed.join("\n"));
    // Those that are known to be made out stay so.
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn printed_call_that_is_cut_or_takes_a_guess_has_a_fault() {
    let cases = lines(CALLS);
    let faulty: Vec<&Value> = cases
        .iter()
        .filter(|case| case.get("faulty").is_some())
        .collect();
    assert!(faulty.len() >= 9, "{}", faulty.len());
    for case in faulty {
        let tools: Vec<String> = serde_json::from_value(case["faulty"].clone()).unwrap();
        let found = made_out(case);
        assert!(found.iter().all(|call| call.fault.is_some()), "{found:?}");
        let found: Vec<String> = found.into_iter().map(|call| call.tool).collect();
        assert_eq!(found, tools, "{}", case["form"]);
    }
}

#[test]
fn what_is_made_out_is_as_the_tool_takes_it() {
    let tools = tools();
    for case in lines(CALLS) {
        let calls = made_out(&case).into_iter();
        for call in calls.filter(|call| call.fault.is_none()) {
            let tool = tools.named(&call.tool).unwrap();
            assert_eq!(tool.mistakes(&call.arguments), None, "{}", case["form"]);
        }
    }
}

#[test]
fn no_innocent_text_is_taken_for_a_call() {
    let cases = lines(INNOCENT);
    assert!(cases.len() >= 50, "{}", cases.len());
    let tools = tools();
    for case in &cases {
        let said = case["said"].as_str().unwrap();
        let found = recognised(said, tools.all());
        assert_eq!(found, None, "{said}");
    }
    eprintln!("none of {} texts is taken for a call", cases.len());
}

#[test]
fn a_printed_call_is_shown_to_nobody_and_the_words_around_it_are() {
    let tools = tools();
    let said =
        "I will look.\n<tool_call>\n{\"name\": \"list_issues\", \"arguments\": {}}\n</tool_call>";
    assert_eq!(recognised(said, tools.all()).unwrap().text, "I will look.");
}

#[test]
fn what_goes_on_for_ever_is_no_call_and_takes_no_time_to_speak_of() {
    let tools = tools();
    let quotes = "\"'".repeat(4_000);
    let named = format!("{{\"name\": \"get_weather\", \"arguments\": {quotes:?}}}");
    for text in [
        "print(".repeat(10_000),
        "await ".repeat(10_000),
        "<tool_call> ".repeat(5_000),
        "[TOOL_CALLS]".repeat(5_000),
        "<a>".repeat(20_000),
        "{\"name\":".repeat(7_000),
        "[".repeat(60_000),
        named,
    ] {
        let found = orchestra_chat::repair::recognised(&text, tools.all());
        assert!(
            found.is_none_or(|found| found.calls.len() <= 1),
            "{:.40}",
            text
        );
    }
}

#[test]
fn what_a_tool_says_is_no_call_when_a_model_repeats_it() {
    let tools = tools();
    let makes = |text: &str| {
        let found = recognised(text, tools.all()).unwrap_or_default();
        found.calls.iter().any(|call| call.fault.is_none())
    };
    let cases = lines(CALLS);
    let said = cases.iter().filter_map(|case| case["said"].as_str());
    let actions = [
        "Action: get_weather\nAction Input: {\"city\": \"Rome\"}",
        "ACTION: get_weather(city=\"Rome\")",
        "Thought: I look.\n  action: {\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}",
    ];
    for action in actions {
        assert!(makes(action), "{action}");
    }
    let mut marked = 0;
    for text in said.chain(actions) {
        let guarded = orchestra_chat::guarded(text);
        // A value without a mark remains the value that it is.
        if guarded != text {
            marked += 1;
            assert!(!makes(&guarded), "{guarded}");
        }
    }
    assert!(marked > 40, "{marked}");
}

#[test]
fn argument_that_no_name_can_be_given_to_is_a_fault_of_the_call() {
    let tools = tools();
    for text in [
        "Action: list_issues({\"evil\": 1})",
        "list_issues({\"evil\": 1})",
        "<tool_call>list_issues({\"evil\": 1})</tool_call>",
        "<|python_tag|>get_weather(\"Rome\", city=\"Oslo\")",
    ] {
        let found = recognised(text, tools.all()).unwrap();
        let [call] = &found.calls[..] else {
            panic!("{found:?}");
        };
        let fault = call.fault.as_ref().unwrap().to_string();
        assert!(fault.contains("name it"), "{text}: {fault}");
    }
}
