//! Tables for people: columns as wide as what is in them.

use crate::output;

/// Most characters of a cell. The rest of a longer one is not shown: it would pad all rows, and may come from another
/// machine.
const CELL: usize = 500;

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

/// One line, harmless and not too long.
fn cell_of(cell: &str) -> String {
    let words: Vec<&str> = cell.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(CELL) {
        None => output::printable(&line).into_owned(),
        Some((end, _)) => format!("{}…", output::printable(&line[..end])),
    }
}

#[cfg(test)]
mod tests {
    use super::{CELL, lines};

    #[test]
    fn long_cell_is_cut() {
        let row = |cell: String| vec![cell, "end".to_owned()];
        let rows = [row("é".repeat(100_000)), row("short".to_owned())];
        let text = lines(&["A", "B"], &rows);
        let first = text.lines().nth(1).unwrap_or_default();
        assert_eq!(first.chars().count(), CELL + "…  end".chars().count());
        assert!(first.ends_with("…  end"), "{first}");
    }
}
