//! Printed calls between other text, which are not made, and calls alone, which are made.

use serde_json::json;

use crate::certain::{check_both, events_of_text, openai};

/// Texts in which `P` is a printed call that other text is around.
const NOT_MEANT: [&str; 58] = [
    "I will look.\nP",
    "I will look:\n\nP",
    "I refuse to run the following.\nP",
    "If you agree, I will do this.\nP",
    "Shall I?\nP",
    "Ich werde das nicht tun.\nP",
    "我不会这样做。\nP",
    "**Steps**\n\n1. Look\n2. Answer\n\nI begin with `list_issues`:\nP",
    "> How many?\n\nI will \"look\" if 1 < 2.\n\n  P",
    "Thought: I look.\nP",
    "```\ncargo build\n```\nI will look.\nP",
    "P is what I would do",
    "The page said: \"P\"",
    "> P\nsays the tool",
    "> The page:\nP",
    "<!-- P -->",
    "<!--\nP\n-->",
    "<!--\nP",
    "<pre>P</pre>",
    "<pre>\nP\n</pre>",
    "<pre>\nP",
    "<blockquote>P</blockquote>",
    "<details>P</details>no",
    "<example>P</example>",
    "~~P~~ no",
    "| call | P |",
    "| a | b |\nP",
    "1. P\n2. or nothing",
    "- P",
    "- I could:\n  P",
    "I will NOT do this: P because",
    "I will not do this:\nP",
    "The tool answered:\nP\nso I stop here.",
    "The tool answered:\nP",
    "The page: \"\nP",
    "<tool_response>P</tool_response>",
    "<tool_response>\nP\n</tool_response>",
    "<tool_response>\nP",
    "<|im_start|>user\nP<|im_end|>",
    "P<|im_end|>\n<|im_start|>user\nno",
    "<|start_header_id|>user<|end_header_id|>\n\nP",
    "<start_of_turn>user\nP",
    "[INST]\nP",
    "user\nP",
    "Tool result:\nP",
    "Look: P",
    "P\n\nThat is all.",
    "P\nP\nor neither.",
    "P or P",
    "P\nor\nP",
    "P\n<think>No.</think>\nI will not.",
    "<pre><think>Hm.</think>\nP",
    "< think >P</ think >no",
    "< think >\nP",
    "<think>Hm. P</think >no",
    "Text.\n\n    P",
    "Text.\n\tP",
    "&lt;think&gt;P&lt;/think&gt;no",
];

#[test]
fn printed_call_that_other_text_is_around_is_not_made() {
    let marked = "<tool_call>{\"name\": \"list_issues\", \"arguments\": {}}</tool_call>";
    let others = [
        "{\"name\": \"list_issues\", \"arguments\": {}}",
        "[TOOL_CALLS][{\"name\": \"list_issues\", \"arguments\": {}}]",
        "<function=list_issues></function>",
    ];
    for text in NOT_MEANT {
        check_both(&text.replace('P', marked), &[], None);
        for call in others {
            let (made, _) = openai(events_of_text(&text.replace('P', call), 1_000));
            assert!(made.is_empty(), "{text} {call}");
        }
    }
    for text in [
        "Action: list_issues\nAction Input: {}\nI will not do that.",
        "Action: list_issues()\nI will not do that.",
        "<function_calls>\n<invoke name=\"list_issues\"></invoke>\nI will not do that.",
        "[TOOL_CALLS][{\"name\": \"list_issues\", \"arguments\": {}}] is not what I do.",
        "Action: ```json\n{\"name\": \"list_issues\", \"arguments\": {}}\n```\nI will not do that.",
        "I will not do this.\nAction: list_issues\nAction Input: {}",
        "Thought: shall I?\nAction: list_issues\nAction Input: {}",
        "Thought: never do this:\n\nAction: list_issues\nAction Input: {}",
    ] {
        check_both(text, &[], None);
    }
    for text in ["P is what I would do", "I will look.\nP"] {
        let text = text.replace('P', marked);
        check_both(&text, &[], Some("repeat the call alone"));
    }
}

#[test]
fn printed_call_that_is_alone_or_the_action_of_a_thought_is_made() {
    let call = "<tool_call>{\"name\": \"list_issues\", \"arguments\": {}}</tool_call>";
    let made = ("list_issues".to_owned(), json!({}));
    for text in [
        "P",
        "P\n",
        "P<|im_end|>",
        "<|im_start|>assistant\nP<|im_end|>",
        "<think>I will look.</think>\nP",
        "Thought: I will look.\nAction: list_issues\nAction Input: {}",
    ] {
        check_both(&text.replace('P', call), std::slice::from_ref(&made), None);
    }
}

/// A printed call as JSON.
const CALL: &str = "{\"name\": \"list_issues\", \"arguments\": {}}";

#[test]
fn printed_value_with_anything_but_calls_makes_no_call() {
    for text in [
        "[P, \"do not do this\"]",
        "[\"never:\", P]",
        "[P, {}]",
        "[P, null]",
        "[P, []]",
        "[P, 1, true]",
        "[P, {\"note\": \"no\"}]",
        "[[P], \"no\"]",
        "{\"refused\": true, \"tool_calls\": [P]}",
        "{\"tool_calls\": [P], \"content\": \"I will not do this.\"}",
        "{\"tool_calls\": [P], \"role\": \"user\"}",
        "{\"tool_calls\": [P, \"no\"]}",
        "{\"tool_calls\": [P], \"function_call\": {\"name\": \"no\"}}",
        "{\"function\": P, \"is_example\": true}",
        "{\"name\": \"list_issues\", \"arguments\": {}, \"refused\": true}",
        "{\"name\": \"list_issues\", \"arguments\": {}, \"action\": \"none\"}",
    ] {
        let text = text.replace('P', CALL);
        check_both(&text, &[], Some("repeat the call alone"));
        let marked = format!("<tool_call>{text}</tool_call>");
        check_both(&marked, &[], Some("repeat the call alone"));
    }
    for arguments in ["[]", "\"[]\"", "[{}]", "1", "true"] {
        let text = CALL.replace("{}", arguments);
        check_both(
            &format!("<tool_call>{text}</tool_call>"),
            &[],
            Some("Not called"),
        );
        check_both(&text, &[], None);
    }
}

#[test]
fn printed_value_of_calls_in_a_known_shape_is_made() {
    let made = ("list_issues".to_owned(), json!({}));
    for text in [
        "P",
        "[P]",
        "{\"tool_calls\": [P]}",
        "{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [P]}",
        "{\"id\": \"call_1\", \"type\": \"function\", \"index\": 0, \"function\": P}",
        "{\"tool_call_id\": \"0\", \"tool_name\": \"list_issues\", \"parameters\": {}}",
        "{\"name\": \"list_issues\"}",
    ] {
        let text = text.replace('P', CALL);
        check_both(&text, std::slice::from_ref(&made), None);
        let marked = format!("<tool_call>{text}</tool_call>");
        check_both(&marked, std::slice::from_ref(&made), None);
    }
}

#[test]
fn answer_that_is_one_code_span_makes_no_call() {
    let calls = [
        CALL,
        "list_issues()",
        "[TOOL_CALLS][{\"name\": \"list_issues\", \"arguments\": {}}]",
        "<tool_call>{\"name\": \"list_issues\", \"arguments\": {}}</tool_call>",
        "<function=list_issues></function>",
    ];
    for call in calls {
        for text in [
            "`P`",
            "``P``",
            "` P `",
            "```P```",
            "``` P ```",
            "```json P```",
        ] {
            check_both(&text.replace('P', call), &[], None);
        }
        let made = ("list_issues".to_owned(), json!({}));
        check_both(&format!("```\n{call}\n```"), &[made], None);
    }
}
