//! Markdown on a terminal while it comes: what was shown of the block that grows is shown anew where it
//! changes, and nothing before it.

mod render;

use std::fmt::Write as _;

use orchestra_plan::draw::Paint;

/// A block that is longer ends there.
const MAX_BLOCK_BYTES: usize = 8 * 1024;

/// How code is begun and ended to be shown.
const CODE: &str = "\u{1b}[36m";
const PLAIN: &str = "\u{1b}[0m";

/// Text that comes, as it is shown.
pub(super) struct Markdown {
    paint: Paint,
    width: usize,
    height: usize,
    /// What of the block that grows has come.
    block: String,
    /// Its lines as they are on the screen.
    shown: Vec<String>,
    /// The fence that was opened and not closed.
    fence: Option<String>,
    /// What of a line within a fence has come.
    line: String,
    /// Whether an empty line is due before the next block.
    is_apart: bool,
}

impl Markdown {
    /// On a screen of so many columns and rows.
    pub(super) fn new(paint: Paint, (width, height): (u16, u16)) -> Self {
        Self {
            paint,
            width: usize::from(width.max(21)) - 1,
            height: usize::from(height.max(4)),
            block: String::new(),
            shown: Vec::new(),
            fence: None,
            line: String::new(),
            is_apart: false,
        }
    }

    /// Takes more text in; what is to be written to the screen. The text must hold no control character but ends
    /// of lines and tabs.
    pub(super) fn push(&mut self, text: &str) -> String {
        let mut out = String::new();
        for part in text.split_inclusive('\n') {
            match self.fence {
                Some(_) => self.in_fence(part, &mut out),
                None => self.in_block(part, &mut out),
            }
        }
        match self.fence {
            Some(_) => {}
            None if self.block.len() > MAX_BLOCK_BYTES => self.end_block(&mut out),
            None => self.show(&mut out),
        }
        out
    }

    /// Ends the text; what is to be written to the screen.
    pub(super) fn end(&mut self) -> String {
        let mut out = String::new();
        match self.fence.take() {
            Some(_) => {
                let line = std::mem::take(&mut self.line);
                if !line.is_empty() {
                    out.push('\n');
                }
            }
            None => self.end_block(&mut out),
        }
        self.is_apart = false;
        out
    }

    fn in_block(&mut self, part: &str, out: &mut String) {
        self.block.push_str(part);
        if !part.ends_with('\n') {
            return;
        }
        let last = self
            .block
            .trim_end_matches('\n')
            .rsplit('\n')
            .next()
            .unwrap_or_default();
        let fence = fence(last);
        if let Some(fence) = fence {
            // What stands before it is a block of its own.
            let before = self.block.trim_end_matches('\n');
            let length = before.len() - last.len();
            self.block.truncate(length);
            self.end_block(out);
            self.apart(out);
            self.fence = Some(fence);
            return;
        }
        if last.trim().is_empty() || self.block.len() > MAX_BLOCK_BYTES {
            self.end_block(out);
        }
    }

    /// Within a fence nothing but its end means anything.
    fn in_fence(&mut self, part: &str, out: &mut String) {
        let is_whole = part.ends_with('\n');
        let text = part.trim_end_matches('\n');
        let before = self.line.len();
        self.line.push_str(text);
        let is_end = |line: &str, fence: &str| line.trim() == fence;
        let fence = self.fence.clone().unwrap_or_default();
        // A line that may be the end is not shown before it is known.
        let may_end = fence.starts_with(self.line.trim()) || is_end(&self.line, &fence);
        if is_whole && is_end(&self.line, &fence) {
            self.fence = None;
            self.line.clear();
            self.is_apart = true;
            return;
        }
        let held = before > 0 && fence.starts_with(self.line[..before].trim());
        let more = match (may_end && !is_whole, held) {
            (true, _) => "",
            (false, true) => self.line.as_str(),
            (false, false) => &self.line[before..],
        };
        let is_first = before == 0 || held;
        if !more.is_empty() {
            if is_first {
                out.push_str("  ");
            }
            match self.paint {
                Paint::Colour => {
                    let _ = write!(out, "{CODE}{more}{PLAIN}");
                }
                Paint::Plain => out.push_str(more),
            }
        }
        if is_whole {
            out.push('\n');
            self.line.clear();
        }
    }

    /// Shows the block that grows, but for a line that may become a fence.
    fn show(&mut self, out: &mut String) {
        let last = self.block.rsplit('\n').next().unwrap_or_default();
        let length = match may_be_fence(last) {
            true => self.block.len() - last.len(),
            false => self.block.len(),
        };
        self.show_first(length, out);
    }

    fn show_first(&mut self, length: usize, out: &mut String) {
        let text = &self.block[..length];
        if text.trim().is_empty() {
            return;
        }
        let lines = self.lines(text.trim_end_matches('\n'));
        if self.shown.is_empty() {
            self.apart(out);
        }
        self.redraw(lines, out);
    }

    fn end_block(&mut self, out: &mut String) {
        self.show_first(self.block.len(), out);
        if !self.shown.is_empty() {
            out.push('\n');
            self.is_apart = true;
        }
        self.shown.clear();
        self.block.clear();
    }

    fn apart(&mut self, out: &mut String) {
        if std::mem::take(&mut self.is_apart) {
            out.push('\n');
        }
    }

    /// Shows lines in place of those that are on the screen: from the first that differs on.
    fn redraw(&mut self, lines: Vec<String>, out: &mut String) {
        let same = lines
            .iter()
            .zip(&self.shown)
            .take_while(|(new, old)| new == old)
            .count();
        let last = self.shown.len().saturating_sub(1);
        // Where lines go, the last that stays is where the next are shown behind.
        let same = match lines.len() < self.shown.len() {
            true => same.min(lines.len().saturating_sub(1)),
            false => same,
        };
        // What has left the screen cannot be shown anew.
        let first = same.max(self.shown.len().saturating_sub(self.height - 1));
        match self.shown.get(first) {
            // The last line has become longer.
            Some(old)
                if first == last
                    && lines
                        .get(first)
                        .is_some_and(|new| new.starts_with(old.as_str())) =>
            {
                out.push_str(&lines[first][old.len()..]);
            }
            Some(_) => {
                out.push('\r');
                if last > first {
                    let _ = write!(out, "\u{1b}[{}A", last - first);
                }
                out.push_str("\u{1b}[J");
                out.push_str(lines.get(first).map_or("", String::as_str));
            }
            None if first == 0 => out.push_str(lines.first().map_or("", String::as_str)),
            // All that is there stays; more comes behind it.
            None => {
                if let Some(more) = lines.get(first) {
                    let _ = write!(out, "\n{more}");
                }
            }
        }
        for line in lines.iter().skip(first + 1) {
            let _ = write!(out, "\n{line}");
        }
        self.shown = lines;
    }

    fn lines(&self, text: &str) -> Vec<String> {
        let text = text.replace('\t', "    ");
        render::lines(&text, self.paint, self.width)
    }
}

/// The fence that a line opens.
fn fence(line: &str) -> Option<String> {
    let line = line.trim_start();
    let sign = line
        .chars()
        .next()
        .filter(|sign| matches!(sign, '`' | '~'))?;
    let length = line.chars().take_while(|c| *c == sign).count();
    let rest = &line[length..];
    (length >= 3 && !rest.contains('`')).then(|| sign.to_string().repeat(length))
}

/// Whether a line that still comes is the beginning of a fence, or may be.
fn may_be_fence(line: &str) -> bool {
    let line = line.trim();
    let signs = |sign| !line.is_empty() && line.chars().all(|c| c == sign);
    signs('`') || signs('~') || fence(line).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The screen after all of it: the sequences that are sent are followed.
    fn screen(pieces: &[&str], width: u16) -> Vec<String> {
        let mut markdown = Markdown::new(Paint::Plain, (width, 24));
        let mut sent = String::new();
        for piece in pieces {
            sent.push_str(&markdown.push(piece));
        }
        sent.push_str(&markdown.end());
        follow(&sent)
    }

    fn follow(sent: &str) -> Vec<String> {
        let mut lines: Vec<Vec<char>> = vec![Vec::new()];
        let (mut row, mut column) = (0, 0);
        let mut chars = sent.chars();
        while let Some(c) = chars.next() {
            match c {
                '\n' => {
                    row += 1;
                    column = 0;
                    if row == lines.len() {
                        lines.push(Vec::new());
                    }
                }
                '\r' => column = 0,
                '\u{1b}' => {
                    let sequence: String =
                        chars.by_ref().take_while(|c| !c.is_alphabetic()).collect();
                    // What ended it was taken as well: only two kinds are sent here.
                    match sequence.trim_start_matches('[').parse::<usize>() {
                        Ok(up) => row -= up,
                        Err(_) => {
                            lines.truncate(row + 1);
                            lines[row].truncate(column);
                        }
                    }
                }
                c => {
                    lines[row].truncate(column);
                    lines[row].push(c);
                    column += 1;
                }
            }
        }
        let lines = lines
            .into_iter()
            .map(|line| line.into_iter().collect::<String>());
        lines.map(|line| line.trim_end().to_owned()).collect()
    }

    /// However a text is cut into pieces, the screen is the same in the end.
    fn check(text: &str, width: u16, expected: &[&str]) {
        let whole = screen(&[text], width);
        assert_eq!(whole, expected, "{text}");
        let letters: Vec<String> = text.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        assert_eq!(screen(&letters, width), whole, "letter by letter: {text}");
        for size in [2, 3, 7, 11] {
            let pieces: Vec<String> = letters.chunks(size).map(<[&str]>::concat).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            assert_eq!(screen(&pieces, width), whole, "in pieces of {size}: {text}");
        }
    }

    #[test]
    fn text_is_shown_the_same_however_it_comes() {
        check(
            "Hello **bold** and `code`.",
            80,
            &["Hello bold and code.", ""],
        );
        check("One.\n\nTwo.\n", 80, &["One.", "", "Two.", ""]);
        check(
            "A list:\n\n- one\n- two\n\nThe end.",
            80,
            &["A list:", "", "• one", "• two", "", "The end.", ""],
        );
        check(
            "one two three four five six seven",
            22,
            &["one two three four", "five six seven", ""],
        );
        check(
            "Code:\n```rust\nfn main() {\n\n    // **no**\n}\n```\nDone.",
            80,
            &[
                "Code:",
                "",
                "  fn main() {",
                "",
                "      // **no**",
                "  }",
                "",
                "Done.",
                "",
            ],
        );
        check("```\nnever closed `` x", 80, &["  never closed `` x", ""]);
        check("", 80, &[""]);
    }

    #[test]
    fn a_table_is_shown_as_one() {
        let lines = screen(&["| a | b |\n|---|---|\n", "| 1 | 2 |\n", "\nafter"], 40);
        let text = lines.join("\n");
        assert!(text.contains('│') && text.contains("after"), "{text}");
    }

    #[test]
    fn what_has_left_the_screen_is_left_alone() {
        let mut markdown = Markdown::new(Paint::Plain, (40, 5));
        let mut sent = String::new();
        for number in 0..50 {
            sent.push_str(&markdown.push(&format!("- item {number}\n")));
        }
        sent.push_str(&markdown.end());
        let ups = sent
            .split("\u{1b}[")
            .filter_map(|part| part.split_once('A')?.0.parse::<usize>().ok());
        assert!(ups.max().unwrap_or_default() < 5);
        assert!(sent.contains("item 49"));
    }
}
