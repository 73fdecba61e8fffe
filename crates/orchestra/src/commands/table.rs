//! Tables for people: columns as wide as what is in them.

use crate::output;

/// The lines of a table. What is in it is made harmless for a terminal.
pub(in crate::commands) fn lines(head: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    let all: Vec<Vec<String>> = std::iter::once(&head)
        .chain(rows)
        .map(|row| row.iter().map(|cell| cell_of(cell)).collect())
        .collect();
    let widths: Vec<usize> = (0..head.len())
        .map(|column| {
            let cells = all.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in &all {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// One line, harmless.
fn cell_of(cell: &str) -> String {
    let line: Vec<&str> = cell.split_whitespace().collect();
    output::printable(&line.join(" ")).into_owned()
}
