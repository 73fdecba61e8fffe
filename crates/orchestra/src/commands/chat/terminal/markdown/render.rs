//! Rendering of Markdown to lines of a terminal: emphasis by escape sequences, and words wrapped to its width.

use minimad::{Alignment, Composite, CompositeStyle, Compound, Line, Options, TableRow};
use orchestra_plan::draw::Paint;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Width below which no column of a table is narrowed.
const MIN_COLUMN: usize = 3;

/// Look of a piece of text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Style {
    is_bold: bool,
    is_faint: bool,
    is_italic: bool,
    is_underlined: bool,
    is_struck: bool,
    is_code: bool,
}

/// Look of bullets, borders and rules.
const MARK: Style = Style {
    is_bold: false,
    is_faint: true,
    is_italic: false,
    is_underlined: false,
    is_struck: false,
    is_code: false,
};

impl Style {
    /// Style of a compound within a line that has a style of its own.
    const fn of(compound: &Compound<'_>, line: Self) -> Self {
        Self {
            is_bold: line.is_bold || compound.bold,
            is_italic: compound.italic,
            is_struck: compound.strikeout,
            is_code: line.is_code || compound.code,
            ..line
        }
    }

    /// Escape sequence that begins the style; empty for plain text.
    fn escape(self) -> String {
        let codes = [
            (self.is_bold, "1"),
            (self.is_faint, "2"),
            (self.is_italic, "3"),
            (self.is_underlined, "4"),
            (self.is_struck, "9"),
            (self.is_code, "36"),
        ];
        let codes: Vec<_> = codes
            .iter()
            .filter(|(is_on, _)| *is_on)
            .map(|(_, code)| *code)
            .collect();
        match codes.is_empty() {
            true => String::new(),
            false => format!("\u{1b}[{}m", codes.join(";")),
        }
    }
}

/// A part of a line, of one style.
type Piece = (Style, String);

/// Renders a block of Markdown as lines of at most `width` columns.
pub(super) fn lines(text: &str, paint: Paint, width: usize) -> Vec<String> {
    let parsed = minimad::parse_text(text, Options::default());
    let is_table = |line: &Line<'_>| matches!(line, Line::TableRow(_) | Line::TableRule(_));
    let mut shown = Vec::new();
    for part in parsed.lines.chunk_by(|a, b| is_table(a) && is_table(b)) {
        match part {
            [Line::Normal(composite)] => shown.extend(wrapped(composite, width)),
            [Line::HorizontalRule] => shown.push(vec![rule(width)]),
            // The parser leaves fences out.
            [Line::CodeFence(_)] => {}
            rows => shown.extend(table(rows, width)),
        }
    }
    shown
        .iter()
        .map(|line| painted(line, paint).trim_end().to_owned())
        .collect()
}

fn plain(text: impl Into<String>) -> Piece {
    (Style::default(), text.into())
}

fn rule(width: usize) -> Piece {
    (MARK, "―".repeat(width))
}

/// Marks before the first and before each further line of a composite.
fn marks(style: CompositeStyle) -> (String, String) {
    match style {
        CompositeStyle::Paragraph | CompositeStyle::Header(_) | CompositeStyle::Code => {
            (String::new(), String::new())
        }
        CompositeStyle::ListItem(depth) => {
            let indent = " ".repeat(usize::from(depth));
            (format!("{indent}• "), format!("{indent}  "))
        }
        CompositeStyle::OrderedListItem { level, index } => {
            let mark = format!("{}{index}. ", " ".repeat(usize::from(level)));
            let next = " ".repeat(mark.len());
            (mark, next)
        }
        CompositeStyle::Quote => ("▐ ".to_owned(), "▐ ".to_owned()),
    }
}

/// Lines of a paragraph, heading, list item, quotation, line of code, or cell of a table.
fn wrapped(composite: &Composite<'_>, width: usize) -> Vec<Vec<Piece>> {
    let is_header = matches!(composite.style, CompositeStyle::Header(_));
    let style = Style {
        is_bold: is_header,
        is_underlined: is_header,
        is_code: composite.is_code(),
        ..Style::default()
    };
    let (first, next) = marks(composite.style);
    let room = width.saturating_sub(first.width());
    let inner = broken(&composite.compounds, style, room);
    let marked = inner.into_iter().enumerate().map(|(at, mut line)| {
        let mark = if at == 0 { &first } else { &next };
        if !mark.is_empty() {
            line.insert(0, (MARK, mark.clone()));
        }
        line
    });
    marked.collect()
}

/// Lines of at most `width` columns, broken between words where a word fits.
fn broken(compounds: &[Compound<'_>], style: Style, width: usize) -> Vec<Vec<Piece>> {
    let mut lines = Vec::new();
    let mut line: Vec<Piece> = Vec::new();
    let mut used = 0;
    let mut blank = Vec::new();
    for token in tokens(compounds, style) {
        if token.is_blank {
            blank = token.pieces;
            continue;
        }
        if used > 0 && used + columns(&blank) + columns(&token.pieces) > width {
            lines.push(std::mem::take(&mut line));
            used = 0;
            blank.clear();
        }
        for (style, text) in blank.drain(..).chain(token.pieces) {
            for letter in text.chars() {
                let columns = letter.width().unwrap_or(0);
                if used > 0 && used + columns > width {
                    lines.push(std::mem::take(&mut line));
                    used = 0;
                }
                append(&mut line, style, letter);
                used += columns;
            }
        }
    }
    lines.push(line);
    lines
}

/// A word, or the spaces between two words. `**bold**.` is one word of two pieces.
struct Token {
    is_blank: bool,
    pieces: Vec<Piece>,
}

fn tokens(compounds: &[Compound<'_>], style: Style) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    for compound in compounds {
        let style = Style::of(compound, style);
        for letter in compound.as_str().chars() {
            // Spaces in code are part of it.
            let is_blank = letter == ' ' && !style.is_code;
            match tokens.last_mut() {
                Some(token) if token.is_blank == is_blank => {
                    append(&mut token.pieces, style, letter);
                }
                _ => tokens.push(Token {
                    is_blank,
                    pieces: vec![(style, letter.to_string())],
                }),
            }
        }
    }
    tokens
}

fn append(pieces: &mut Vec<Piece>, style: Style, letter: char) {
    match pieces.last_mut() {
        Some((last, text)) if *last == style => text.push(letter),
        _ => pieces.push((style, letter.to_string())),
    }
}

fn columns(pieces: &[Piece]) -> usize {
    pieces.iter().map(|(_, text)| text.width()).sum()
}

fn painted(line: &[Piece], paint: Paint) -> String {
    let mut out = String::new();
    for (style, text) in line {
        let escape = match paint {
            Paint::Colour => style.escape(),
            Paint::Plain => String::new(),
        };
        out.push_str(&escape);
        out.push_str(text);
        if !escape.is_empty() {
            out.push_str("\u{1b}[0m");
        }
    }
    out
}

/// Rows and rules that follow each other. Where the columns do not fit beside each other, cells are shown below
/// each other.
fn table(rows: &[Line<'_>], width: usize) -> Vec<Vec<Piece>> {
    let cells = rows.iter().map(|line| match line {
        Line::TableRow(row) => row.cells.len(),
        Line::TableRule(rule) => rule.cells.len(),
        _ => 0,
    });
    let count = cells.max().unwrap_or(0);
    // Each column has a border and a space on either side.
    let room = width.saturating_sub(3 * count + 1);
    if room < MIN_COLUMN * count {
        return cell_below_cell(rows, width);
    }
    let widths = column_widths(rows, count, room);
    let alignments = rows.iter().find_map(|line| match line {
        Line::TableRule(rule) => Some(rule.cells.as_slice()),
        _ => None,
    });
    let mut shown = Vec::new();
    for line in rows {
        match line {
            Line::TableRow(row) => {
                shown.extend(table_row(row, &widths, alignments.unwrap_or_default()));
            }
            _ => {
                let bars: Vec<_> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
                shown.push(vec![(MARK, format!("├{}┤", bars.join("┼")))]);
            }
        }
    }
    shown
}

fn cell_below_cell(rows: &[Line<'_>], width: usize) -> Vec<Vec<Piece>> {
    let mut shown = Vec::new();
    for line in rows {
        if let Line::TableRow(row) = line {
            let cells = row.cells.iter();
            shown.extend(cells.flat_map(|cell| wrapped(cell, width)));
            shown.push(vec![rule(width)]);
        }
    }
    shown
}

/// Widths of columns: as their content needs, the widest narrowed until all fit.
fn column_widths(rows: &[Line<'_>], count: usize, room: usize) -> Vec<usize> {
    let mut widths = vec![1; count];
    for line in rows {
        if let Line::TableRow(row) = line {
            for (cell, widest) in row.cells.iter().zip(&mut widths) {
                let compounds = cell.compounds.iter();
                let text: usize = compounds.map(|compound| compound.as_str().width()).sum();
                *widest = (marks(cell.style).0.width() + text).max(*widest);
            }
        }
    }
    while widths.iter().sum::<usize>() > room {
        let widest = widths.iter_mut().max();
        let Some(widest) = widest.filter(|widest| **widest > MIN_COLUMN) else {
            break;
        };
        *widest -= 1;
    }
    widths
}

fn table_row(row: &TableRow<'_>, widths: &[usize], alignments: &[Alignment]) -> Vec<Vec<Piece>> {
    let cells: Vec<_> = widths
        .iter()
        .enumerate()
        .map(|(at, width)| {
            let cell = row.cells.get(at);
            cell.map_or_else(Vec::new, |cell| wrapped(cell, *width))
        })
        .collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let line = |number: usize| {
        let mut line = Vec::new();
        for (at, (cell, width)) in cells.iter().zip(widths).enumerate() {
            let content = cell.get(number).cloned().unwrap_or_default();
            let room = width.saturating_sub(columns(&content));
            let before = match alignments.get(at) {
                Some(Alignment::Right) => room,
                Some(Alignment::Center) => room / 2,
                _ => 0,
            };
            line.push((MARK, "│".to_owned()));
            line.push(plain(" ".repeat(before + 1)));
            line.extend(content);
            line.push(plain(" ".repeat(room - before + 1)));
        }
        line.push((MARK, "│".to_owned()));
        line
    };
    (0..height).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, width: usize, expected: &[&str]) {
        assert_eq!(lines(text, Paint::Plain, width), expected, "{text}");
    }

    #[test]
    fn blocks_are_marked_and_wrapped() {
        check("# Title\ntext", 40, &["Title", "text"]);
        check(
            "- one two three\n  - four",
            12,
            &["• one two", "  three", "  • four"],
        );
        check("1. a\n1. b", 40, &["1. a", "2. b"]);
        check("> quoted words", 10, &["▐ quoted", "▐ words"]);
        check("---", 4, &["――――"]);
        check("a\n\nb", 40, &["a", "", "b"]);
        check("abcdefghij kl", 4, &["abcd", "efgh", "ij", "kl"]);
        check("日本語", 4, &["日本", "語"]);
    }

    #[test]
    fn code_keeps_its_spaces_and_fits_the_width() {
        check("    if  a", 40, &["if  a"]);
        check("    abcd ef", 4, &["abcd", " ef"]);
        check("run `a  b`.", 40, &["run a  b."]);
        check("one two `a b`", 10, &["one two", "a b"]);
    }

    #[test]
    fn tables_fit_the_width_and_align_their_columns() {
        check(
            "| a | long |\n|---|--:|\n| 1 | 2 |",
            40,
            &["│ a │ long │", "├───┼──────┤", "│ 1 │    2 │"],
        );
        check(
            "| a | one two three |\n| 1 |",
            13,
            &[
                "│ a │ one   │",
                "│   │ two   │",
                "│   │ three │",
                "│ 1 │       │",
            ],
        );
    }

    #[test]
    fn table_with_too_many_columns_is_shown_cell_below_cell() {
        check(
            "| a | b | c |\n|---|---|---|\n| 1 | 2 | 3 |",
            12,
            &["a", "b", "c", "――――――――――――", "1", "2", "3", "――――――――――――"],
        );
    }

    #[test]
    fn emphasis_is_painted_without_gaps() {
        let painted = lines("a **b c**, *d* `e f`", Paint::Colour, 40);
        assert_eq!(
            painted,
            ["a \u{1b}[1mb c\u{1b}[0m, \u{1b}[3md\u{1b}[0m \u{1b}[36me f\u{1b}[0m"]
        );
    }
}
