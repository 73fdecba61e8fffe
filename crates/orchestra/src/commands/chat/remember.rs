//! What a turn leaves behind: its usage, and a memory.

use orchestra_chat::Ending;
use serde_json::json;

use super::{room::Room, talk::Conversation};
use crate::{exit::Failure, output};

/// Why nothing can be remembered.
const NO_BOARD: &str = "there is no board here to store memories in; `orchestra init` creates one";

/// The longest text of a memory that is made of a turn.
const MAX_CHARS: usize = 16_000;

/// The longest summary of one.
const SUMMARY_CHARS: usize = 120;

/// The longest name that the usage tools take.
const NAME_CHARS: usize = 50;

/// Counts a turn in the usage tools, where there is a board and something was used.
pub(super) async fn usage(conversation: &Conversation<'_>, ending: &Ending) {
    let used = ending.usage;
    let room = conversation.room;
    let Some(model) = conversation.model.as_ref().filter(|_| room.has_board()) else {
        return;
    };
    if used.input == 0 && used.output == 0 {
        return;
    }
    let mut arguments = json!({
        "input_tokens": used.input, "output_tokens": used.output,
        "provider": named(model.backend.name()), "model": named(model.backend.model()),
    });
    if let Some(cost) = ending.cost {
        arguments["cost"] = json!(cost);
    }
    if let Some(project) = &conversation.manner.remember {
        arguments["project"] = json!(project);
    }
    let mut counted = room.call("record_usage", &arguments).await;
    if counted.is_err() && conversation.manner.remember.is_some() {
        // The project may have been deleted meanwhile.
        if let Some(arguments) = arguments.as_object_mut() {
            arguments.remove("project");
        }
        counted = room.call("record_usage", &arguments).await;
    }
    if let Err(why) = counted {
        output::complain(&output::printable(&format!(
            "the usage of this turn is not counted: {why}"
        )));
    }
}

/// A name as the usage tools take it: of a longer one the beginning and the end, which tell versions
/// apart.
fn named(name: &str) -> String {
    let letters: Vec<char> = name.chars().filter(|c| !c.is_control()).collect();
    if letters.len() <= NAME_CHARS {
        return letters.into_iter().collect();
    }
    let half = NAME_CHARS / 2;
    let (beginning, end) = (&letters[..half - 1], &letters[letters.len() - half..]);
    beginning.iter().chain(&['…']).chain(end).collect()
}

/// Looks whether there is the project whose memory each turn is to become.
///
/// # Errors
/// When there is none, or no board.
pub(super) async fn check(room: &Room, project: Option<&str>) -> Result<(), Failure> {
    let Some(project) = project else {
        return Ok(());
    };
    let found = match room.has_board() {
        true => {
            room.call("get_project_status", &json!({"project": project}))
                .await
        }
        false => Err(NO_BOARD.to_owned()),
    };
    found.map_err(|why| Failure::usage_text(format!("--remember {project}: {why}")))
}

/// Saves a question and its answer as a memory of a project.
///
/// # Errors
/// Why it is not saved.
pub(super) async fn turn(
    conversation: &Conversation<'_>,
    project: &str,
    said: Option<&str>,
) -> Result<(), String> {
    if !conversation.room.has_board() {
        return Err(NO_BOARD.to_owned());
    }
    let content = match (said, &conversation.last) {
        (Some(text), _) => text.to_owned(),
        (None, Some((question, answer))) if !answer.trim().is_empty() => {
            format!("Asked: {question}\n\nAnswered: {answer}")
        }
        (None, _) => return Err("there is no answer to save yet".to_owned()),
    };
    let question = conversation.last.as_ref();
    let question = || question.map_or("", |(question, _)| question.as_str());
    let summary = said.unwrap_or_else(question);
    let summary = summary
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    let cut = |text: &str, most| text.chars().take(most).collect::<String>();
    let arguments = json!({
        "project": project, "content": cut(&content, MAX_CHARS),
        "summary": cut(summary.trim(), SUMMARY_CHARS), "source": "chat", "tags": ["chat"],
    });
    conversation.room.call("save_memory", &arguments).await
}

#[cfg(test)]
mod tests {
    use orchestra_board::Label;

    use super::named;

    #[test]
    fn names_of_any_length_are_taken_by_the_usage_tools() {
        assert_eq!(named("gpt-5"), "gpt-5");
        let long = |end: &str| {
            named(&format!(
                "hf.co/somebody/a-model-with-a-very-long-name-GGUF:{}-{end}",
                "x".repeat(500)
            ))
        };
        assert!(Label::parse(&long("Q4_K_M")).is_ok(), "{}", long("Q4_K_M"));
        assert_ne!(long("Q4_K_M"), long("Q8_0"));
        for length in 1..120 {
            let name = "é".repeat(length);
            assert!(Label::parse(&named(&name)).is_ok(), "{length}");
        }
        assert_eq!(named("a\nb"), "ab");
    }
}
