//! Calls that a server sends as calls, at every place relative to the thinking in the text: one within it is not made.

use proptest::{prelude::*, sample::select, test_runner::Config};
use serde_json::{Value, json};

use crate::{
    certain::{Made, STREAMS, VERSION, check_both, events_of_text, line_of_call, ollama, openai},
    fake::{Ollama as OllamaShapes, OpenAi as OpenAiShapes},
    support::Held,
};

/// Meaning of a pair of marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// They are around thinking.
    Thinking,
    /// They are around thinking, or the opening one is an ordinary word in the answer.
    Word,
    /// They are the tags of a component, or a type.
    Type,
}

use Meaning::{Type, Word};

/// A pair of marks.
type Marks = (&'static str, &'static str, Meaning);

/// Pairs of marks that may be around thinking.
const MARKS: [Marks; 9] = [
    ("<think>", "</think>", Meaning::Thinking),
    ("<Thinking>", "</Thinking>", Meaning::Thinking),
    ("<reasoning>", "</reasoning>", Meaning::Thinking),
    ("[THINK]", "[/THINK]", Meaning::Thinking),
    ("<|inner_prefix|>", "<|inner_suffix|>", Meaning::Thinking),
    ("<reason>", "</reason>", Word),
    ("<reflection>", "</reflection>", Word),
    ("<ChainOfThought>", "</ChainOfThought>", Word),
    ("<AnalysisPanel>", "</AnalysisPanel>", Type),
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

/// The calls that are outside of thinking, by a reading of the whole text. A word is thinking up to its closing mark;
/// without one, it is thinking only where it begins the answer.
fn strictly(pieces: &[Piece]) -> Vec<Made> {
    let whole: String = pieces.iter().map(words).collect();
    let mut is_thinking = vec![false; whole.len() + 1];
    let mut open: Option<(Marks, usize)> = None;
    let mut has_answer = false;
    // Opening marks of words and types in the answer, with their places.
    let mut words_open: Vec<(Marks, usize)> = Vec::new();
    let mut at = 0;
    while let Some(next) = whole[at..].chars().next() {
        let begins = |mark: &str| whole[at..].starts_with(mark);
        let opening = MARKS.into_iter().find(|(open, ..)| begins(open));
        let closing = MARKS.into_iter().find(|(_, close, _)| begins(close));
        let from = at;
        at += match (opening, closing) {
            (Some((mark, ..)), _) | (_, Some((_, mark, _))) => mark.len(),
            _ => next.len_utf8(),
        };
        let is_word = |(_, _, meaning): Marks| meaning == Type || (meaning == Word && has_answer);
        match (&mut open, opening, closing) {
            (Some((marks, depth)), Some(other), _) if *marks == other => *depth += 1,
            (Some((marks, depth)), _, Some(other)) if *marks == other => {
                *depth -= 1;
                if *depth == 0 {
                    open = None;
                    // A place within a mark is one of thinking.
                    is_thinking[from + 1..at].fill(true);
                }
            }
            (Some(_), ..) => {}
            (None, Some(marks), _) if is_word(marks) => {
                words_open.push((marks, from));
                has_answer = true;
            }
            (None, Some(marks), _) => {
                open = Some((marks, 1));
                is_thinking[from + 1..at].fill(true);
            }
            (None, _, Some(marks)) if marks.2 == Meaning::Thinking => {
                is_thinking[..at].fill(true);
                has_answer = false;
            }
            (None, _, Some(marks)) => {
                let begun = words_open.iter().rposition(|(other, _)| *other == marks);
                match begun.map(|place| words_open.remove(place)) {
                    Some((_, begin)) => is_thinking[begin + 1..at].fill(true),
                    None if marks.2 == Word => is_thinking[..at].fill(true),
                    None => {}
                }
                has_answer = true;
            }
            (None, ..) => has_answer |= !next.is_whitespace(),
        }
        if open.is_some() {
            is_thinking[from + 1..=at].fill(true);
        }
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
    let mark = (pair, any::<bool>()).prop_map(|((open, close, _), opens)| match opens {
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
        vec![text("Perhaps <think>"), call()],
        vec![text(" <reason>Perhaps "), call()],
        vec![text("Perhaps "), call(), text("</reason>Fine.")],
        vec![text("So <analysis>Perhaps "), call(), text("</analysis>")],
        vec![text("<AnalysisPanel>"), call(), text("</AnalysisPanel>")],
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
fn call_sent_beside_an_ordinary_word_in_angle_brackets_is_made() {
    let rome = [("get_weather".to_owned(), arguments("Rome"))];
    for words in [
        "I use `advance_task MA-3 <reason>` now.",
        "I'll render <AnalysisPanel>.",
        "<AnalysisPanel> and <ThinkingPanel> show it.",
        "The file begins with:\n```cpp\n#include <reflection>\n```",
        "It gives an Option<Thought> for the <analysis>.",
        "I use <reason>a</reason> and end with </AnalysisPanel>.",
    ] {
        for (made, held) in played(&[text(words), call()]) {
            assert_eq!(made, rome, "{words}");
            assert!(held.face.text.starts_with(words), "{}", held.face.text);
        }
        if !words.contains("</") {
            for (made, _) in played(&[call(), text(words)]) {
                assert_eq!(made, rome, "{words}");
            }
        }
    }
}

#[test]
fn printed_call_with_an_ordinary_word_in_angle_brackets_is_made() {
    for title in [
        "Show <AnalysisPanel>",
        "Name a <reason>",
        "<reason>a</reason>",
        "Close </reflection>",
    ] {
        let made = [("create_task".to_owned(), json!({"title": title}))];
        let call =
            format!("{{\"name\": \"create_task\", \"arguments\": {{\"title\": \"{title}\"}}}}");
        check_both(&format!("<tool_call>{call}</tool_call>"), &made, None);
        check_both(&call, &made, None);
        let tags = format!("<function=create_task><parameter=title>{title}</parameter></function>");
        check_both(&tags, &made, None);
    }
}

#[test]
fn action_in_an_element_of_thinking_is_not_made() {
    let action = "Action: list_issues\nAction Input: {}";
    let made = [("list_issues".to_owned(), json!({}))];
    for (open, close) in [
        ("<analysis>", "</analysis>"),
        ("<AnalysisPanel>", "</AnalysisPanel>"),
    ] {
        let thought = format!("Thought: I look. {open}");
        check_both(&format!("{thought}\n{action}"), &made, None);
        check_both(
            &format!("{thought}\n{action}\nObservation: none"),
            &made,
            None,
        );
        for text in [
            format!("{thought}\n{action}\nObservation: none{close}"),
            format!("{thought}\n{action}\n{close}"),
        ] {
            check_both(&text, &[], Some("Not called"));
        }
    }
    check_both(
        &format!("Thought: I look.\n{action}\nObservation: none</reason>"),
        &[],
        Some("Not called"),
    );
}

#[test]
fn printed_call_without_an_end_before_other_text_is_not_made() {
    let made = [("list_issues".to_owned(), json!({}))];
    for call in [
        "<tool_use>\n<name>list_issues</name>\n<arguments>{}</arguments>\n",
        "<tool_use>\n<arguments>{}</arguments>\n<name>list_issues</name>\n",
        "<tool_call>\n<list_issues></list_issues>\n",
    ] {
        for close in ["</reason>", "</analysis>"] {
            let text = format!("{call}{close}\nI do not need it.");
            check_both(&text, &[], Some("other text follows it"));
        }
        for end in ["", "<|im_end|>", "</tool_use>", "</tool_call>"] {
            check_both(&format!("{call}{end}"), &made, None);
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

#[test]
fn printed_call_behind_a_closed_fence_of_thinking_is_asked_for_alone() {
    let json = "{\"name\": \"list_issues\", \"arguments\": {}}";
    for fence in ["```", "~~~", "````"] {
        let text = format!("{fence}thinking\nI look.\n{fence}\n<tool_call>{json}</tool_call>");
        check_both(&text, &[], Some("repeat the call alone"));
    }
    for text in [
        format!("```thinking\n<tool_call>{json}\n```\n</tool_call>"),
        format!("````thinking\n```\n<tool_call>{json}</tool_call>\n````"),
    ] {
        check_both(&text, &[], Some("within the thinking"));
    }
}
