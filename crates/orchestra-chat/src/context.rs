//! What of a conversation a model is given, where not all of it fits: the oldest answers of tools go first, then old
//! turns; the system's text and what was asked last stay. Nothing is left out without a word.

use crate::{message::Message, tokens, untrusted::capped};

/// What a server adds to each message, nearly.
const AROUND: usize = 6;

/// The least characters that are left of an answer of the last round.
const LEAST_CHARS: usize = 400;

/// What a cut adds.
const NOTE_CHARS: usize = 60;

/// Characters of a token, where a text has to fit into so many.
const CHARS: usize = 3;

/// A message with what it costs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Kept {
    pub(crate) message: Message,
    pub(crate) tokens: usize,
}

impl Kept {
    pub(crate) fn new(message: Message) -> Self {
        let tokens = cost(&message);
        Self { message, tokens }
    }
}

/// What a message costs, nearly.
fn cost(message: &Message) -> usize {
    let calls = match message {
        Message::Assistant { calls, .. } => calls.as_slice(),
        _ => &[],
    };
    let calls: usize = calls
        .iter()
        .map(|call| {
            let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
            tokens::estimate(&arguments) + tokens::estimate(&call.tool) + AROUND
        })
        .sum();
    let images = match message {
        // What servers make of one that is not large.
        Message::Tool(answer) => answer.images.len() * 800,
        _ => 0,
    };
    tokens::estimate(message.text()) + calls + images + AROUND
}

/// What was left out so that the rest fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Answers of tools that were shortened or taken out.
    pub answers: usize,
    /// Whole turns.
    pub turns: usize,
}

impl LeftOut {
    /// Whether all is there.
    #[must_use]
    pub const fn is_nothing(&self) -> bool {
        self.answers == 0 && self.turns == 0
    }
}

/// What a model is given.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Assembled {
    pub(crate) messages: Vec<Message>,
    pub(crate) left_out: LeftOut,
    pub(crate) estimate: usize,
}

/// Fits a conversation into so many tokens; what is left over where even the last words do not fit is told by the
/// estimate.
pub(crate) fn assembled(system: &str, conversation: &[Kept], room: usize) -> Assembled {
    let system = Kept::new(Message::System(system.to_owned()));
    let mut parts: Vec<Kept> = conversation.to_vec();
    let mut left_out = LeftOut::default();
    let mut total: usize = system.tokens + parts.iter().map(|part| part.tokens).sum::<usize>();
    let last_user = |parts: &[Kept]| {
        let is_user = |part: &Kept| matches!(part.message, Message::User(_));
        parts.iter().rposition(is_user).unwrap_or(0)
    };
    // Old answers of tools, the oldest first.
    let before = last_user(&parts);
    shorten(&mut parts[..before], &mut total, room, &mut left_out);
    // Old turns.
    while total > room {
        let last = last_user(&parts);
        let next = parts
            .iter()
            .skip(1)
            .position(|part| matches!(part.message, Message::User(_)));
        let Some(end) = next.map(|at| at + 1).filter(|end| *end <= last && last > 0) else {
            break;
        };
        for part in parts.drain(..end) {
            total -= part.tokens;
        }
        left_out.turns += 1;
    }
    // Answers of earlier rounds of this turn.
    let last = last_user(&parts);
    let is_round = |part: &Kept| matches!(part.message, Message::Assistant { .. });
    let round = parts
        .iter()
        .rposition(is_round)
        .unwrap_or(parts.len())
        .max(last);
    shorten(&mut parts[last..round], &mut total, room, &mut left_out);
    cap_last(&mut parts[round..], &mut total, room, &mut left_out);
    let mut messages = vec![system.message];
    messages.extend(parts.into_iter().map(|part| part.message));
    Assembled {
        messages,
        left_out,
        estimate: total,
    }
}

/// Takes answers out until all fits.
fn shorten(parts: &mut [Kept], total: &mut usize, room: usize, left_out: &mut LeftOut) {
    for part in parts {
        if *total <= room {
            return;
        }
        let Message::Tool(answer) = &mut part.message else {
            continue;
        };
        let chars = answer.text.chars().count();
        let note = format!(
            "[{chars} characters are left out here to save room; call the tool again if they are needed]"
        );
        if note.len() >= answer.text.len() && answer.images.is_empty() {
            continue;
        }
        answer.text = note;
        answer.images.clear();
        left_out.answers += 1;
        let tokens = cost(&part.message);
        *total -= part.tokens.saturating_sub(tokens);
        part.tokens = tokens;
    }
}

/// Cuts the answers of the last round, the longest most.
fn cap_last(parts: &mut [Kept], total: &mut usize, room: usize, left_out: &mut LeftOut) {
    while *total > room {
        let answers = parts
            .iter_mut()
            .filter(|part| matches!(part.message, Message::Tool(_)));
        let Some(longest) = answers.max_by_key(|part| part.message.text().len()) else {
            return;
        };
        let over = (*total - room) * CHARS;
        let Message::Tool(answer) = &mut longest.message else {
            return;
        };
        let chars = answer.text.chars().count();
        if chars <= LEAST_CHARS {
            return;
        }
        let most = chars
            .saturating_sub(over + over / 4 + NOTE_CHARS)
            .clamp(LEAST_CHARS / 2, chars - 1);
        answer.text = capped(&answer.text, most.max(LEAST_CHARS / 2));
        if answer.text.chars().count() >= chars {
            return;
        }
        left_out.answers += 1;
        let tokens = cost(&longest.message);
        *total -= longest.tokens.saturating_sub(tokens);
        longest.tokens = tokens;
    }
}

/// Rooms for a context that are asked for: a server loads a model anew for another one, so there are few.
const STEPS: [usize; 9] = [
    2_048, 4_096, 8_192, 16_384, 32_768, 65_536, 131_072, 262_144, 1_048_576,
];

/// The room to ask for, where so much is needed, so much was asked for before, and so much there is at most.
pub(crate) fn step(needed: usize, before: usize, most: usize) -> usize {
    let step = STEPS
        .into_iter()
        .find(|step| *step >= needed)
        .unwrap_or(most);
    step.max(before).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Answer, Call};
    use serde_json::Map;

    fn user(text: &str) -> Kept {
        Kept::new(Message::User(text.to_owned()))
    }

    fn round(id: &str, answer: &str) -> [Kept; 2] {
        let call = Call {
            id: id.to_owned(),
            tool: "f".to_owned(),
            arguments: Map::new(),
        };
        let answer = Answer {
            call: id.to_owned(),
            tool: "f".to_owned(),
            text: answer.to_owned(),
            images: Vec::new(),
            is_error: false,
        };
        let text = String::new();
        let calls = vec![call];
        [Message::Assistant { text, calls }, Message::Tool(answer)].map(Kept::new)
    }

    #[test]
    fn what_fits_is_whole() {
        let conversation = [user("hello")];
        let found = assembled("system", &conversation, 1_000);
        assert!(found.left_out.is_nothing());
        assert_eq!(found.messages.len(), 2);
    }

    #[test]
    fn old_answers_go_before_old_turns_and_the_last_words_stay() {
        let long = "word ".repeat(500);
        let mut conversation = vec![user("first")];
        conversation.extend(round("1", &long));
        conversation.push(user("second"));
        conversation.extend(round("2", &long));
        conversation.push(user("third"));
        conversation.extend(round("3", &long));
        let found = assembled("system", &conversation, 1_300);
        assert_eq!(
            found.left_out,
            LeftOut {
                answers: 1,
                turns: 0
            }
        );
        assert!(
            found.messages[3].text().starts_with("[2500 characters"),
            "{:?}",
            found.messages[3]
        );
        let found = assembled("system", &conversation, 800);
        assert_eq!(
            found.left_out,
            LeftOut {
                answers: 2,
                turns: 0
            }
        );
        let found = assembled("system", &conversation, 560);
        assert_eq!(found.left_out.turns, 2, "{found:?}");
        let texts: Vec<&str> = found.messages.iter().map(Message::text).collect();
        assert_eq!((texts[0], texts[1]), ("system", "third"));
        assert!(found.estimate <= 560);
        // Even this is cut when it has to be.
        let found = assembled("system", &conversation, 240);
        assert!(found.estimate <= 240, "{}", found.estimate);
        assert!(found.messages[3].text().contains("characters are left out"));
    }

    #[test]
    fn the_answers_of_one_turn_are_cut_from_the_oldest_on() {
        let long = "word ".repeat(500);
        let mut conversation = vec![user("question")];
        for id in ["1", "2", "3"] {
            conversation.extend(round(id, &long));
        }
        let found = assembled("system", &conversation, 1_200);
        assert_eq!(found.left_out.answers, 1);
        assert!(found.messages[3].text().starts_with('['));
        assert!(found.messages[5].text().starts_with("word"));
    }

    #[test]
    fn the_room_grows_in_few_steps_and_never_shrinks() {
        assert_eq!(step(100, 0, 8_192), 2_048);
        assert_eq!(step(3_000, 2_048, 8_192), 4_096);
        assert_eq!(step(100, 4_096, 8_192), 4_096);
        assert_eq!(step(9_000, 4_096, 8_192), 8_192);
        assert_eq!(step(9_000, 0, 10_000), 10_000);
        assert_eq!(step(5_000_000, 0, 10_000_000), 10_000_000);
    }
}
