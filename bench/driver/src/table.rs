//! Tables on stdout.

use std::io::Write as _;

/// Writes one line. A reader that went away is no error.
pub(crate) fn say(text: &str) {
    drop(writeln!(std::io::stdout(), "{text}"));
}

/// Writes the title of a section.
pub(crate) fn heading(text: &str) {
    say(&format!("\n## {text}\n"));
}

/// Rows of text, in Markdown.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub(crate) fn new(columns: &[&str]) -> Self {
        let head = columns.iter().map(|&name| name.to_owned()).collect();
        Self { rows: vec![head] }
    }

    /// Adds a row.
    pub(crate) fn row<S: AsRef<str>>(&mut self, cells: &[S]) {
        let cells = cells.iter().map(|cell| cell.as_ref().to_owned());
        self.rows.push(cells.collect());
    }

    /// Prints it, columns aligned.
    pub(crate) fn print(&self) {
        let columns = self.rows[0].len();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::from("|");
            for (cell, &width) in row.iter().zip(&widths) {
                let padding = width - cell.chars().count();
                line.push_str(&format!(" {cell}{} |", " ".repeat(padding)));
            }
            say(&line);
            if number == 0 {
                let rule: String = widths.iter().map(|&w| "-".repeat(w + 2) + "|").collect();
                say(&format!("|{rule}"));
            }
        }
    }
}
