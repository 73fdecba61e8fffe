//! Images on terminals that can show them.
//!
//! Two ways are spoken: that of iTerm2, for images of every kind, and that of Kitty, for PNG. Neither decodes
//! anything here: the data goes on as it came, when it is base64 and nothing else.

use std::fmt::Write as _;

use orchestra_chat::Image;

use crate::env::Variable;

/// The largest that is shown, in base64.
const MAX_CHARS: usize = 8 * 1024 * 1024;

/// Kitty takes data in pieces of so many letters.
const PIECE: usize = 4_096;

/// How a terminal shows images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shows {
    /// As iTerm2.
    Iterm,
    /// As Kitty.
    Kitty,
    /// Not at all.
    Nothing,
}

impl Shows {
    /// The terminal that this is, by what it says of itself.
    pub(super) fn here() -> Self {
        let read = |variable: Variable| {
            let value = variable.read().unwrap_or_default();
            value.to_string_lossy().into_owned()
        };
        let window = Variable::KittyWindow.read().is_some();
        Self::of(
            &read(Variable::TerminalProgram),
            &read(Variable::Terminal),
            window,
        )
    }

    fn of(program: &str, terminal: &str, has_kitty_window: bool) -> Self {
        match (program, terminal) {
            _ if has_kitty_window => Self::Kitty,
            ("ghostty", _) | (_, "xterm-kitty" | "xterm-ghostty") => Self::Kitty,
            ("iTerm.app" | "WezTerm" | "mintty" | "vscode", _) => Self::Iterm,
            _ => Self::Nothing,
        }
    }

    /// What shows an image; `None` where it cannot be shown.
    pub(super) fn sequence(self, image: &Image) -> Option<String> {
        let data: String = image.data.chars().filter(|c| !c.is_whitespace()).collect();
        let is_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
        if data.is_empty() || data.len() > MAX_CHARS || !data.chars().all(is_base64) {
            return None;
        }
        match self {
            Self::Nothing => None,
            Self::Iterm => Some(format!(
                "\u{1b}]1337;File=inline=1;preserveAspectRatio=1:{data}\u{7}\n"
            )),
            Self::Kitty if image.mime != "image/png" => None,
            Self::Kitty => Some(kitty(&data)),
        }
    }
}

fn kitty(data: &str) -> String {
    let mut sequence = String::new();
    let mut left = data;
    let mut head = "a=T,f=100,";
    while !left.is_empty() {
        // It is ASCII.
        let (piece, rest) = left.split_at(left.len().min(PIECE));
        let more = u8::from(!rest.is_empty());
        let _ = write!(sequence, "\u{1b}_G{head}m={more};{piece}\u{1b}\\");
        (left, head) = (rest, "");
    }
    sequence.push('\n');
    sequence
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_known_by_what_it_says() {
        for (program, terminal, window, shows) in [
            ("iTerm.app", "xterm-256color", false, Shows::Iterm),
            ("", "xterm-kitty", false, Shows::Kitty),
            ("tmux", "screen", true, Shows::Kitty),
            ("", "xterm-256color", false, Shows::Nothing),
        ] {
            assert_eq!(Shows::of(program, terminal, window), shows);
        }
    }

    #[test]
    fn nothing_but_data_reaches_the_terminal() {
        let image = |mime: &str, data: &str| Image {
            mime: mime.to_owned(),
            data: data.to_owned(),
        };
        for bad in ["", "\u{7}\u{1b}[2J", "abc;def", "YWJj\u{1b}"] {
            assert_eq!(
                Shows::Iterm.sequence(&image("image/png", bad)),
                None,
                "{bad:?}"
            );
        }
        let shown = Shows::Iterm
            .sequence(&image("image/jpeg", "YWJj\nZGVm"))
            .unwrap();
        assert!(shown.contains(":YWJjZGVm\u{7}"), "{shown:?}");
        assert_eq!(Shows::Kitty.sequence(&image("image/jpeg", "YWJj")), None);
        let long = "A".repeat(PIECE + 1);
        let shown = Shows::Kitty.sequence(&image("image/png", &long)).unwrap();
        assert_eq!(shown.matches("\u{1b}_G").count(), 2, "{shown:?}");
        assert!(shown.contains("a=T,f=100,m=1;") && shown.contains("\u{1b}_Gm=0;A\u{1b}\\"));
        assert_eq!(Shows::Nothing.sequence(&image("image/png", "YWJj")), None);
    }
}
