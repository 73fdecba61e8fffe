//! The commands within a conversation.

/// A line that is a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    /// With the words that they are to have.
    Tools(Option<String>),
    Servers,
    Enable(String),
    Disable(String),
    Model(Option<String>),
    System(Option<String>),
    History,
    Save(Option<String>),
    Load(Option<String>),
    Branch(Option<usize>),
    Export(Option<String>),
    Remember {
        project: String,
        text: Option<String>,
    },
    Trace,
    Clear,
    Quit,
}

impl Command {
    /// All of them: the name, what stands behind it, and what it does.
    pub(super) const ALL: [(&'static str, &'static str, &'static str); 16] = [
        ("help", "", "list the commands"),
        (
            "tools",
            "[WORDS]",
            "list the tools, or only the tools that match words",
        ),
        ("servers", "", "list the servers and their states"),
        ("enable", "NAME", "enable a server or a tool"),
        ("disable", "NAME", "disable a server or a tool"),
        ("model", "[NAME]", "list the models, or select another one"),
        ("system", "[TEXT]", "show the system prompt, or replace it"),
        ("history", "", "show the conversation"),
        (
            "save",
            "[FILE]",
            "show where the conversation is stored, or write it to a file",
        ),
        ("load", "[NAME]", "list the conversations, or continue one"),
        (
            "branch",
            "[N]",
            "start another conversation with the first N turns of this one",
        ),
        (
            "export",
            "[FILE]",
            "show the conversation as Markdown, or write it to a file",
        ),
        (
            "remember",
            "PROJECT [TEXT]",
            "save the last answer, or a text, as a memory",
        ),
        ("trace", "", "show or hide the messages of servers"),
        ("clear", "", "begin another conversation"),
        ("quit", "", "leave"),
    ];

    /// The command that a line is; `None` where it is said to the model.
    ///
    /// # Errors
    /// When it begins as a command and is none.
    pub(super) fn parse(line: &str) -> Option<Result<Self, String>> {
        let line = line.trim();
        let rest = line.strip_prefix('/')?;
        // A path is no command.
        let name = rest.split_whitespace().next().unwrap_or_default();
        if name.contains('/') {
            return None;
        }
        let behind = rest[name.len()..].trim();
        let words = (!behind.is_empty()).then(|| behind.to_owned());
        Some(Self::named(name, words).ok_or_else(|| told(name)))
    }

    fn named(name: &str, words: Option<String>) -> Option<Self> {
        Some(match name {
            "help" | "?" => Self::Help,
            "tools" => Self::Tools(words),
            "servers" => Self::Servers,
            "enable" => Self::Enable(words?),
            "disable" => Self::Disable(words?),
            "model" | "models" => Self::Model(words),
            "system" => Self::System(words),
            "history" => Self::History,
            "save" => Self::Save(words),
            "load" => Self::Load(words),
            "branch" => match words {
                Some(words) => Self::Branch(Some(words.parse().ok()?)),
                None => Self::Branch(None),
            },
            "export" => Self::Export(words),
            "remember" => {
                let words = words?;
                let (project, text) = match words.split_once(char::is_whitespace) {
                    Some((project, text)) => (project.to_owned(), Some(text.trim().to_owned())),
                    None => (words, None),
                };
                Self::Remember { project, text }
            }
            "trace" => Self::Trace,
            "clear" => Self::Clear,
            "quit" | "exit" | "bye" => Self::Quit,
            _ => return None,
        })
    }
}

/// What is wrong with a line that begins as a command.
fn told(name: &str) -> String {
    match Command::ALL.iter().find(|(own, ..)| *own == name) {
        Some((own, behind, _)) => format!("expected is /{own} {behind}"),
        None => format!("there is no command /{name}; /help lists them"),
    }
}

/// The commands, a line each.
pub(super) fn help() -> String {
    let lines = Command::ALL.iter().map(|(name, behind, meaning)| {
        let whole = format!("/{name} {behind}");
        format!("{whole:<26} {meaning}\n")
    });
    let mut text: String = lines.collect();
    text.push_str(
        "\nAlt-Enter begins a new line, and so does a backslash at the end; \"\"\" begins and ends a text of \
         several. Ctrl-C stops the model, and leaves the second time; Ctrl-D leaves.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_known_and_a_text_is_none() {
        for (name, behind, _) in Command::ALL {
            let line = match behind {
                "NAME" | "PROJECT [TEXT]" => format!("/{name} x"),
                _ => format!("/{name}"),
            };
            assert!(matches!(Command::parse(&line), Some(Ok(_))), "{line}");
        }
        for text in ["hello", "what is 1/2?", "/etc/passwd is a file", ""] {
            assert_eq!(Command::parse(text), None, "{text}");
        }
        assert_eq!(Command::parse("/nope"), Some(Err(told("nope"))));
        assert_eq!(
            Command::parse("/branch x"),
            Some(Err("expected is /branch [N]".to_owned()))
        );
        let remember = Command::Remember {
            project: "shop".to_owned(),
            text: Some("two words".to_owned()),
        };
        assert_eq!(
            Command::parse("/remember shop two words"),
            Some(Ok(remember))
        );
    }
}
