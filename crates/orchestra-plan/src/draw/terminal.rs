//! A graph as text for a terminal: boxes and lines from left to right where they fit, else a line for
//! each job. No line is wider than asked for.

mod gap;

use std::fmt::Write;

use super::{
    Graph, Layout, Look, What,
    label::{columns_of, cut, width},
};
use gap::Gap;

/// Whether a terminal is told of colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// Text and nothing else.
    Plain,
    /// States have colours.
    Colour,
}

/// Boxes are never narrower, and never wider.
const BOX: std::ops::RangeInclusive<usize> = 16..=34;
/// No list is narrower, whatever is asked for.
const MIN_WIDTH: usize = 20;
/// A picture with more rows than this says less than a list.
const MAX_ROWS: usize = 4_000;

/// The graph as text of at most so many columns (and at least 20): boxes and lines from left to right
/// where they fit, else a list in an order in which each job stands behind what it depends on.
#[must_use]
pub fn terminal(graph: &Graph<'_>, columns: usize, paint: Paint) -> String {
    let columns = columns.max(MIN_WIDTH);
    let mut text = cut(graph.title(), columns);
    text.push('\n');
    match Picture::of(graph, columns) {
        Some(picture) => picture.write(paint, &mut text),
        None => list(graph, columns, paint, &mut text),
    }
    text
}

/// A line for each job: its mark, its name, its state and what it waits for.
fn list(graph: &Graph<'_>, columns: usize, paint: Paint, text: &mut String) {
    let nodes = graph.nodes();
    let names = nodes.iter().map(|node| width(&cut(node.name, columns / 2)));
    let name_width = names.max().unwrap_or_default();
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    orchestra_sort::sort_by_key(&mut order, |node| graph.layer(*node));
    for place in order {
        let (node, look) = (&nodes[place], graph.look(place));
        let name = cut(node.name, columns / 2);
        let mut line = format!("{} {name}", look.mark());
        let gap = (name_width + 3).saturating_sub(width(&name));
        let _ = write!(line, "{:gap$}{}", "", node.status);
        let on = graph.dependencies(place).iter();
        for (at, on) in on.take(columns).enumerate() {
            line.push_str(if at == 0 { "  ← " } else { ", " });
            line.push_str(nodes[*on].producer_id);
        }
        let line = cut(&line, columns);
        match paint {
            Paint::Plain => text.push_str(&line),
            Paint::Colour => {
                let _ = write!(text, "\u{1b}[{}m{line}\u{1b}[0m", look.terminal());
            }
        }
        text.push('\n');
    }
}

/// Boxes and lines on a grid of characters.
struct Picture {
    cells: Vec<Vec<Cell>>,
}

#[derive(Clone, Copy)]
enum Cell {
    Blank,
    /// A character of a box, with its look; a wide one is followed by [`Cell::Taken`].
    Of(char, Look),
    Taken,
    /// Where a line goes from here, as a sum of [`UP`] and the like.
    Line(u8),
    Tip,
}

const UP: u8 = 1;
const DOWN: u8 = 2;
const LEFT: u8 = 4;
const RIGHT: u8 = 8;

impl Picture {
    /// The picture, if it fits.
    fn of(graph: &Graph<'_>, columns: usize) -> Option<Self> {
        let layout = Layout::of(graph);
        let rows = 2 * layout.height();
        let layers = layout.layers().len();
        if layers == 0 || rows > MAX_ROWS || !layout.has_lanes() || layers * *BOX.start() > columns
        {
            return None;
        }
        let gaps: Vec<Gap> = (0..layers - 1)
            .map(|layer| Gap::behind(&layout, layer))
            .collect();
        let between: usize = gaps.iter().map(Gap::width).sum();
        let room = columns.checked_sub(between)? / layers;
        if room < *BOX.start() {
            return None;
        }
        let box_width = room.min(*BOX.end());
        let mut picture = Self {
            cells: vec![vec![Cell::Blank; layers * box_width + between]; rows],
        };
        let mut x = 0;
        for (layer, slots) in layout.layers().iter().enumerate() {
            let gap = gaps.get(layer);
            for (row, slot) in slots.iter().enumerate() {
                let leaves = gap.and_then(|gap| gap.exit(row));
                match slot.what {
                    What::Job(job) => {
                        picture.put_box(graph, job, x, 2 * slot.top, box_width);
                        if let Some(y) = leaves {
                            let look = graph.look(job);
                            picture.cells[y][x + box_width - 1] = Cell::Of('├', look);
                        }
                    }
                    What::Lane(_) => {
                        let y = 2 * slot.top + 1;
                        picture.across(y, x, x + box_width - 1);
                        if let Some(exit) = leaves.filter(|exit| *exit != y) {
                            let end = x + box_width - 1;
                            picture.join(y, end, LEFT | UP, RIGHT);
                            picture.join(exit, end, DOWN | RIGHT, 0);
                        }
                    }
                }
            }
            if let Some(gap) = gap {
                gap.draw(&mut picture, x + box_width);
                x += box_width + gap.width();
            }
        }
        Some(picture)
    }

    fn put_box(&mut self, graph: &Graph<'_>, job: usize, x: usize, y: usize, box_width: usize) {
        let (node, look) = (&graph.nodes()[job], graph.look(job));
        let inner = box_width - 2;
        let bar: String = "─".repeat(inner);
        let name = format!(" {} {}", look.mark(), cut(node.name, inner - 4));
        let below = match node.group {
            Some(group) => format!("{} · {group}", node.status),
            None => node.status.to_owned(),
        };
        let below = format!("   {}", cut(&below, inner - 4));
        let lines = [
            ("┌", bar.as_str(), "┐"),
            ("│", name.as_str(), "│"),
            ("│", below.as_str(), "│"),
            ("└", bar.as_str(), "┘"),
        ];
        for (row, (left, text, right)) in lines.into_iter().enumerate() {
            let pad = " ".repeat(inner.saturating_sub(width(text)));
            let chars = left
                .chars()
                .chain(text.chars())
                .chain(pad.chars())
                .chain(right.chars());
            self.write_chars(y + row, x, chars, look);
        }
    }

    fn write_chars(&mut self, y: usize, x: usize, chars: impl Iterator<Item = char>, look: Look) {
        let mut at = x;
        for c in chars {
            // Marks that combine with what stands before them have no cell of their own.
            let wide = columns_of(c);
            if wide > 0 {
                self.cells[y][at] = Cell::Of(c, look);
            }
            if wide > 1 {
                self.cells[y][at + 1] = Cell::Taken;
            }
            at += wide;
        }
    }

    /// Draws a line in a row, both ends included.
    fn across(&mut self, y: usize, from: usize, to: usize) {
        for x in from..=to {
            self.join(y, x, LEFT | RIGHT, 0);
        }
    }

    /// Adds to where the line in a cell goes, and takes away.
    fn join(&mut self, y: usize, x: usize, more: u8, less: u8) {
        let cell = &mut self.cells[y][x];
        let so_far = match cell {
            Cell::Line(ways) => *ways,
            _ => 0,
        };
        *cell = Cell::Line((so_far | more) & !less);
    }

    fn tip(&mut self, y: usize, x: usize) {
        self.cells[y][x] = Cell::Tip;
    }

    fn write(&self, paint: Paint, text: &mut String) {
        for row in &self.cells {
            let mut line = String::new();
            let mut colour = None;
            for cell in row {
                let (c, look) = match cell {
                    Cell::Taken => continue,
                    Cell::Blank => (' ', None),
                    Cell::Of(c, look) => (*c, Some(*look)),
                    Cell::Line(ways) => (line_char(*ways), None),
                    Cell::Tip => ('▶', None),
                };
                if paint == Paint::Colour && look != colour && c != ' ' {
                    let number = look.map_or(0, Look::terminal);
                    let _ = write!(line, "\u{1b}[{number}m");
                    colour = look;
                }
                line.push(c);
            }
            text.push_str(line.trim_end());
            if colour.is_some() {
                text.push_str("\u{1b}[0m");
            }
            text.push('\n');
        }
    }
}

const fn line_char(ways: u8) -> char {
    const UP_DOWN: u8 = UP | DOWN;
    const LEFT_RIGHT: u8 = LEFT | RIGHT;
    match (ways & UP_DOWN, ways & LEFT_RIGHT) {
        (0, _) => '─',
        (_, 0) => '│',
        (UP, LEFT) => '┘',
        (UP, RIGHT) => '└',
        (UP, _) => '┴',
        (DOWN, LEFT) => '┐',
        (DOWN, RIGHT) => '┌',
        (DOWN, _) => '┬',
        (_, LEFT) => '┤',
        (_, RIGHT) => '├',
        _ => '┼',
    }
}
