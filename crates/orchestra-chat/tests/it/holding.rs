//! What is shown while an answer comes: words at once, and nothing of a call that is printed as text.

use orchestra_chat::{End, Manner, Ollama, Settings};

use crate::{
    fake::{Fake, Ollama as Shapes, Say},
    support::Held,
};

const SHAPES: Shapes = Shapes("0.12.6");

async fn shown(said: &str) -> (String, usize, End) {
    let letters: Vec<String> = said.chars().map(String::from).collect();
    let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
    let fake = Fake::ollama(
        "0.12.6",
        vec![
            Say::Stream(SHAPES.words(&letters)),
            Say::Stream(SHAPES.words(&["Done."])),
        ],
    );
    let backend = Ollama::new(&fake.address, None, "tiny", Manner::default()).unwrap();
    let mut held = Held::new(Settings::default());
    let ending = held.say(&backend, "Do it.").await;
    (held.face.text, held.shelf.called().len(), ending.how)
}

#[tokio::test]
async fn a_printed_call_is_made_and_not_shown() {
    for (said, words) in [
        ("{\"name\": \"list_issues\", \"arguments\": {}}", ""),
        (
            "Thought: I look.\nAction: list_issues\nAction Input: {}",
            "Thought: I look.\n",
        ),
        (
            "```json\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}\n```",
            "",
        ),
        ("get_weather(city=\"Rome\")", ""),
    ] {
        let (text, calls, how) = shown(said).await;
        assert_eq!(
            (text.as_str(), calls),
            (format!("{words}Done.").as_str(), 1),
            "{said}"
        );
        assert_eq!(how, End::Answered);
    }
}

#[tokio::test]
async fn what_is_no_call_is_shown_as_it_is() {
    for said in [
        "Use `get_weather(city=\"Rome\")` for that.",
        "Here is an example:\n\n```json\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}\n```",
        "{\"answer\": 42}",
        "Action: I would restart it.",
        "a < b, and b > c",
    ] {
        let (text, calls, _) = shown(said).await;
        assert_eq!((text.as_str(), calls), (said, 0));
    }
}
