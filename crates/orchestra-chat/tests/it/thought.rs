//! Calls that a server sends as calls, at every place relative to the thinking in the text: one within it is not made.

use proptest::{prelude::*, sample::select, test_runner::Config};
use serde_json::{Value, json};

use crate::{
    certain::{Made, STREAMS, VERSION, check_both, events_of_text, line_of_call, ollama, openai},
    fake::{Ollama as OllamaShapes, OpenAi as OpenAiShapes},
    support::Held,
};

/// Pairs of marks around thinking.
const MARKS: [(&str, &str); 5] = [
    ("<think>", "</think>"),
    ("<Thinking>", "</Thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
];

/// A piece of a stream.
#[derive(Debug, Clone)]
enum Piece {
    Text(String),
    /// Text in the server's own field for thinking.
    Thinking(&'static str),
    /// A call about this city.
    Call(String),
}

use Piece::{Call, Text, Thinking};

fn text(text: &str) -> Piece {
    Text(text.to_owned())
}

fn call() -> Piece {
    Call("Rome".to_owned())
}

fn arguments(city: &str) -> Value {
    json!({"city": city})
}

/// Plays a stream to each backend.
fn played(pieces: &[Piece]) -> [(Vec<Made>, Held); 2] {
    let mut events = Vec::new();
    let mut lines = Vec::new();
    let mut index = 0;
    for piece in pieces {
        let deltas = match piece {
            Text(text) => vec![json!({"content": text})],
            Thinking(text) => vec![json!({"reasoning_content": text})],
            Call(city) => {
                let arguments = arguments(city).to_string();
                let (head, tail) = arguments.split_at(4);
                let begin = json!({"index": index, "id": format!("call_{index}"),
                    "function": {"name": "get_weather", "arguments": head}});
                let more = json!({"index": index, "function": {"arguments": tail}});
                index += 1;
                vec![
                    json!({"tool_calls": [begin]}),
                    json!({"tool_calls": [more]}),
                ]
            }
        };
        events.extend(deltas.iter().map(|delta| OpenAiShapes.event(delta, None)));
        lines.push(match piece {
            Text(text) => OllamaShapes(VERSION).line(&json!({"content": text})),
            Thinking(text) => OllamaShapes(VERSION).line(&json!({"content": "", "thinking": text})),
            Call(city) => line_of_call("get_weather", &arguments(city).to_string()),
        });
    }
    events.push(OpenAiShapes.event(&json!({}), Some("tool_calls")));
    events.extend(OpenAiShapes.end());
    lines.push(OllamaShapes(VERSION).last(None));
    [openai(events), ollama(lines)]
}

/// The calls behind which no thinking is open, by a reading of the whole text.
fn strictly(pieces: &[Piece]) -> Vec<Made> {
    let whole: String = pieces.iter().map(words).collect();
    let mut is_thinking = vec![false; whole.len() + 1];
    let mut open: Option<(&str, &str, usize)> = None;
    let mut at = 0;
    while let Some(next) = whole[at..].chars().next() {
        let begins = |mark: &str| whole[at..].starts_with(mark);
        let opening = MARKS.into_iter().find(|(open, _)| begins(open));
        let closing = MARKS.into_iter().find(|(_, close)| begins(close));
        let from = at;
        at += match (opening, closing) {
            (Some((mark, _)), _) | (_, Some((_, mark))) => mark.len(),
            _ => next.len_utf8(),
        };
        // A place within a mark is one of thinking.
        is_thinking[from + 1..at].fill(true);
        open = match (open, opening, closing) {
            (None, Some((mark, close)), _) => Some((mark, close, 1)),
            (Some((mark, close, depth)), Some((other, _)), _) if mark == other => {
                Some((mark, close, depth + 1))
            }
            (Some((mark, close, depth)), _, Some((_, other))) if close == other => {
                (depth > 1).then(|| (mark, close, depth - 1))
            }
            (None, _, Some(_)) => {
                is_thinking[..at].fill(true);
                None
            }
            (open, ..) => open,
        };
        is_thinking[at] = open.is_some();
    }
    let mut at = 0;
    let mut made = Vec::new();
    for piece in pieces {
        at += words(piece).len();
        if let (Call(city), false) = (piece, is_thinking[at]) {
            made.push(("get_weather".to_owned(), arguments(city)));
        }
    }
    made
}

fn words(piece: &Piece) -> &str {
    match piece {
        Text(text) => text,
        Thinking(_) | Call(_) => "",
    }
}

fn refusals(held: &Held) -> usize {
    let messages = held.chat.messages();
    messages
        .filter(|message| {
            message
                .text()
                .starts_with("Not called: the call is within the thinking")
        })
        .count()
}

/// Pieces of a text with marks, some of which end within a mark, with calls between them.
fn stream() -> impl Strategy<Value = Vec<Piece>> {
    let pair = select(MARKS.to_vec());
    let mark = (pair, any::<bool>()).prop_map(|((open, close), opens)| match opens {
        true => open,
        false => close,
    });
    let other = select(vec![
        "Perhaps ",
        "no, better not. ",
        "\n",
        "Fine. ",
        "é < 3 ",
    ]);
    let part = prop_oneof![
        3 => (mark, 0_usize..20).prop_map(|(mark, cut)| {
            let (head, tail) = mark.split_at(cut.min(mark.len()));
            vec![text(head), text(tail)]
        }),
        2 => other.prop_map(|words| vec![text(words)]),
    ];
    let part = (part, prop::option::of(0_usize..3));
    prop::collection::vec(part, 1..6).prop_map(|parts| {
        let mut pieces = vec![call()];
        for (number, (mut part, place)) in parts.into_iter().enumerate() {
            if let Some(place) = place {
                let place = place.min(part.len());
                part.insert(place, Call(format!("City{number}")));
            }
            pieces.extend(part);
        }
        pieces.retain(|piece| !matches!(piece, Text(text) if text.is_empty()));
        pieces
    })
}

// Each case is a stream for both servers.
proptest! {
    #![proptest_config(Config { cases: STREAMS / 2, failure_persistence: None, ..Config::default() })]

    #[test]
    fn call_sent_beside_text_with_thinking_is_made_only_outside_of_it(pieces in stream()) {
        let mut strict = strictly(&pieces);
        strict.sort_by_key(|(_, arguments)| arguments.to_string());
        let all = pieces.iter().filter(|piece| matches!(piece, Call(_))).count();
        for (mut made, held) in played(&pieces) {
            made.sort_by_key(|(_, arguments)| arguments.to_string());
            prop_assert_eq!(&made, &strict);
            prop_assert_eq!(refusals(&held), all - strict.len());
        }
    }
}

#[test]
fn call_sent_while_the_text_is_thinking_is_refused() {
    for pieces in [
        vec![text("<think>Perhaps "), call()],
        vec![text("<think>Perhaps "), call(), text(" no.</think>Fine.")],
        vec![text("Perhaps "), call(), text("</think>Fine.")],
        vec![call(), text("no.</think>Fine.")],
        vec![text("<thi"), call(), text("nk>")],
        vec![text("<think>Perhaps.</thi"), call(), text("nk>Fine.")],
        vec![text("<think>a<think>b</think>"), call(), text("</think>")],
        vec![text("[THINK]Perhaps "), call(), text("[/THINK]Fine.")],
        vec![Thinking("Hm."), text("<think>Perhaps "), call()],
    ] {
        for (made, held) in played(&pieces) {
            assert!(made.is_empty(), "{pieces:?}: {made:?}");
            assert_eq!(refusals(&held), 1, "{pieces:?}: {:?}", held.chat);
        }
    }
}

#[test]
fn call_sent_outside_of_thinking_is_made() {
    let rome = [("get_weather".to_owned(), arguments("Rome"))];
    for pieces in [
        vec![call()],
        vec![text("Let me look."), call()],
        vec![call(), text("I look.")],
        vec![text("<think>Perhaps.</think>"), call()],
        vec![text("<think>Perhaps.</think>\n\nLet me look."), call()],
        vec![text("Perhaps.</think>\n"), call()],
        vec![call(), text("<think>And then?")],
        vec![Thinking("Perhaps."), call()],
        vec![Thinking("Perhaps."), text("Let me look."), call()],
        vec![Thinking("Perhaps."), call(), Thinking("And then?")],
        vec![text("The tag `<think>` opens."), call()],
    ] {
        for (made, held) in played(&pieces) {
            assert_eq!(made, rome, "{pieces:?}: {:?}", held.chat);
        }
    }
}

#[test]
fn call_after_thinking_with_a_call_is_made_alone() {
    let first = Call("Oslo".to_owned());
    let pieces = [text("<think>"), first, text("</think>"), call()];
    for (made, held) in played(&pieces) {
        assert_eq!(made, [("get_weather".to_owned(), arguments("Rome"))]);
        assert_eq!(refusals(&held), 1);
    }
}

#[test]
fn call_whose_pieces_are_on_both_sides_of_a_mark_is_refused() {
    let piece = |arguments: &str| {
        let call = json!({"index": 0, "id": "a",
            "function": {"name": "get_weather", "arguments": arguments}});
        OpenAiShapes.event(&json!({"tool_calls": [call]}), None)
    };
    let text = |text: &str| OpenAiShapes.event(&json!({"content": text}), None);
    for events in [
        [piece("{\"city\":"), text("<think>"), piece("\"Rome\"}")],
        [
            text("<think>"),
            piece("{\"city\":\"Rome\"}"),
            text("</think>"),
        ],
    ] {
        let last = OpenAiShapes.event(&json!({}), Some("tool_calls"));
        let events = events.into_iter().chain([last]).chain(OpenAiShapes.end());
        let (made, held) = openai(events.collect());
        assert!(made.is_empty(), "{made:?}");
        assert_eq!(refusals(&held), 1);
    }
}

#[test]
fn part_of_a_content_that_is_not_text_makes_no_call() {
    let printed = "<tool_call>{\"name\": \"list_issues\", \"arguments\": {}}</tool_call>";
    let inner = json!([{"type": "text", "text": printed}]);
    for (part, is_made, is_thinking) in [
        (json!({"type": "text", "text": printed}), true, false),
        (json!({"type": "output_text", "text": printed}), true, false),
        (json!({"text": printed}), true, false),
        (json!({"type": "reasoning", "text": printed}), false, true),
        (
            json!({"type": "reasoning", "reasoning": printed}),
            false,
            true,
        ),
        (
            json!({"type": "thinking", "thinking": printed}),
            false,
            true,
        ),
        (json!({"type": "thinking", "thinking": inner}), false, true),
        (json!({"type": "thinking", "text": inner}), false, true),
        (json!({"type": "refusal", "text": printed}), false, false),
        (json!({"type": 7, "text": printed}), false, false),
    ] {
        let mut events = vec![OpenAiShapes.event(&json!({"content": [part]}), Some("stop"))];
        events.extend(OpenAiShapes.end());
        let (made, held) = openai(events);
        assert_eq!(!made.is_empty(), is_made, "{part}");
        assert_eq!(
            held.face.thinking.contains("list_issues"),
            is_thinking,
            "{part}"
        );
    }
}

#[test]
fn printed_call_in_a_fence_of_thinking_is_refused() {
    let json = "{\"name\": \"list_issues\", \"arguments\": {}}";
    let told = Some("within the thinking");
    for name in ["thinking", "Thought", "reasoning"] {
        for call in [json.to_owned(), format!("<tool_call>{json}</tool_call>")] {
            check_both(&format!("```{name}\n{call}\n```"), &[], told);
            check_both(&format!("\n```{name}\n{call}"), &[], told);
        }
    }
    let made = [("list_issues".to_owned(), json!({}))];
    check_both(&format!("```json\n{json}\n```"), &made, None);
    let (made, _) = openai(events_of_text(&format!("~~~thinking\n{json}\n~~~"), 5));
    assert!(made.is_empty());
}
