//! The parts of lines as what the loop knows, and back.

use std::time::Duration;

use super::{
    CallLine, DueLine, ImageLine, MessageLine, SettingsLine, ToolLine, TroubleLine, convert::millis,
};
use crate::{
    chat::Due,
    message::{Answer, Call, Image, Message},
    request::Trouble,
    settings::{Approval, Budget, Context, Price, Settings},
    tool::{Described, Nature},
};

impl SettingsLine {
    pub(in crate::session) fn into_settings(self) -> Settings {
        let [most, answer, tools] = self.context;
        Settings {
            system: self.system,
            approval: match self.approval.as_str() {
                "ask" => Approval::Ask,
                "yes" => Approval::Yes,
                _ => Approval::Deny,
            },
            budget: Budget {
                rounds: self.rounds,
                tokens: self.tokens,
                time: self.time_ms.map(Duration::from_millis),
                cost: self.cost,
            },
            price: self.price.map(|[input, output]| Price { input, output }),
            context: Context {
                most,
                answer,
                tools,
            },
            most_tools: self.most_tools,
            answer_chars: self.answer_chars,
            sees: self.sees,
            takes_tools: self.takes_tools,
        }
    }
}

impl ToolLine {
    pub(in crate::session) fn into_described(self) -> Described {
        Described {
            name: self.name,
            description: self.description,
            schema: self.schema,
            lean: self.lean,
            server: self.server,
            nature: if self.reads {
                Nature::Reads
            } else {
                Nature::Changes
            },
        }
    }
}

impl MessageLine {
    pub(in crate::session) fn of(message: &Message) -> Self {
        match message.clone() {
            Message::System(text) => Self::System { text },
            Message::User(text) => Self::User { text },
            Message::Assistant { text, calls } => Self::Assistant {
                text,
                calls: calls
                    .into_iter()
                    .map(
                        |Call {
                             id,
                             tool,
                             arguments,
                         }| CallLine {
                            id,
                            tool,
                            arguments,
                        },
                    )
                    .collect(),
            },
            Message::Tool(Answer {
                call,
                tool,
                text,
                images,
                is_error,
            }) => Self::Tool {
                call,
                tool,
                text,
                images: images.into_iter().map(ImageLine::of).collect(),
                error: is_error,
            },
        }
    }

    pub(in crate::session) fn into_message(self) -> Message {
        match self {
            Self::System { text } => Message::System(text),
            Self::User { text } => Message::User(text),
            Self::Assistant { text, calls } => Message::Assistant {
                text,
                calls: calls
                    .into_iter()
                    .map(
                        |CallLine {
                             id,
                             tool,
                             arguments,
                         }| Call {
                            id,
                            tool,
                            arguments,
                        },
                    )
                    .collect(),
            },
            Self::Tool {
                call,
                tool,
                text,
                images,
                error,
            } => Message::Tool(Answer {
                call,
                tool,
                text,
                images: images.into_iter().map(ImageLine::into_image).collect(),
                is_error: error,
            }),
        }
    }
}

impl ImageLine {
    pub(super) fn of(image: Image) -> Self {
        let Image { mime, data } = image;
        Self { mime, data }
    }

    pub(super) fn into_image(self) -> Image {
        let Self { mime, data } = self;
        Image { mime, data }
    }
}

impl DueLine {
    pub(super) fn of(due: &Due) -> Self {
        Self {
            number: due.number,
            tool: due.call.tool.clone(),
            arguments: due.call.arguments.clone(),
            rule: due.rule.clone(),
            agreed: due.is_agreed,
        }
    }
}

impl TroubleLine {
    pub(super) fn of(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Unreachable { what } => Self::Unreachable { what },
            Trouble::NoModel { model, hint } => Self::NoModel { model, hint },
            Trouble::NoTools => Self::NoTools,
            Trouble::Slow { after } => Self::Slow {
                after_ms: millis(after),
            },
            Trouble::Cut { what } => Self::Cut { what },
            Trouble::Busy { what } => Self::Busy { what },
            Trouble::Refused { status, said } => Self::Refused { status, said },
            Trouble::Odd { what } => Self::Odd { what },
        }
    }

    pub(super) fn into_trouble(self) -> Trouble {
        match self {
            Self::Unreachable { what } => Trouble::Unreachable { what },
            Self::NoModel { model, hint } => Trouble::NoModel { model, hint },
            Self::NoTools => Trouble::NoTools,
            Self::Slow { after_ms } => Trouble::Slow {
                after: Duration::from_millis(after_ms),
            },
            Self::Cut { what } => Trouble::Cut { what },
            Self::Busy { what } => Trouble::Busy { what },
            Self::Refused { status, said } => Trouble::Refused { status, said },
            Self::Odd { what } => Trouble::Odd { what },
        }
    }
}
