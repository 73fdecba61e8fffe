//! The lines between two layers of boxes.
//!
//! Jobs that lead to the same jobs share one upright line. Each such line has a column in which it
//! meets no other, and the columns stand in an order in which no two lines run over each other: where
//! a line starts in the row in which another ends, the first stands left of the second. Where that
//! would go round in a circle, a line starts one row lower, at which none ends. Lines that end at the
//! same job join in front of it, those that lead to this job alone last, so that who follows one of
//! them does not come to another job.

use std::collections::{BTreeMap, BTreeSet};

use super::{DOWN, LEFT, Picture, RIGHT, UP};
use crate::draw::{Layout, Slot, What};

/// The lines between a layer and the next.
pub(super) struct Gap {
    nets: Vec<Net>,
    columns: usize,
    /// For each row of the layer, in which row of characters its line starts.
    exits: BTreeMap<usize, usize>,
    /// The rows of characters at which lines end in a box.
    tips: BTreeSet<usize>,
}

/// Places of a layer that lead to the same places of the next.
struct Net {
    /// Places in the layer, and the rows of characters of their lines.
    from: Vec<(usize, usize)>,
    /// Rows of characters at which its lines end.
    to: Vec<usize>,
    column: Option<usize>,
}

impl Net {
    fn rows(&self) -> impl Iterator<Item = usize> {
        let from = self.from.iter().map(|(_, y)| *y);
        from.chain(self.to.iter().copied())
    }

    fn span(&self) -> (usize, usize) {
        let first = self.rows().min().unwrap_or_default();
        (first, self.rows().max().unwrap_or_default())
    }
}

/// Which rows of each column have a line.
#[derive(Default)]
struct Columns {
    taken: Vec<Vec<(usize, usize)>>,
}

impl Columns {
    /// Takes these rows of the first column, from a given one on, in which they are free.
    fn take(&mut self, first: usize, (top, bottom): (usize, usize)) -> usize {
        let meets = |(above, below): &(usize, usize)| *above <= bottom && top <= *below;
        let free = (first..self.taken.len()).find(|at| !self.taken[*at].iter().any(meets));
        let column = free.unwrap_or_else(|| self.taken.len().max(first));
        if column >= self.taken.len() {
            self.taken.resize(column + 1, Vec::new());
        }
        self.taken[column].push((top, bottom));
        column
    }
}

/// The row of characters in which lines meet a job or a lane.
const fn row_of(slot: Slot) -> usize {
    2 * slot.top + 1
}

impl Gap {
    /// The lines between a layer and the next.
    pub(super) fn behind(layout: &Layout, layer: usize) -> Self {
        let (here, next) = (&layout.layers()[layer], &layout.layers()[layer + 1]);
        let mut to: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for link in layout
            .links()
            .iter()
            .filter(|link| link.from.layer == layer)
        {
            to.entry(link.from.row)
                .or_default()
                .push(row_of(next[link.to.row]));
        }
        let mut sources: BTreeMap<Vec<usize>, Vec<(usize, usize)>> = BTreeMap::new();
        for (row, to) in to {
            sources
                .entry(to)
                .or_default()
                .push((row, row_of(here[row])));
        }
        let nets: Vec<Net> = sources
            .into_iter()
            .map(|(to, from)| Net {
                from,
                to,
                column: None,
            })
            .collect();
        let mut gap = Self {
            nets,
            columns: 0,
            exits: BTreeMap::new(),
            tips: next
                .iter()
                .filter(|slot| matches!(slot.what, What::Job(_)))
                .map(|slot| row_of(*slot))
                .collect(),
        };
        gap.place(here);
        gap.exits = gap
            .nets
            .iter()
            .flat_map(|net| net.from.iter().copied())
            .collect();
        gap
    }

    /// Gives each net that is not straight a column.
    fn place(&mut self, here: &[Slot]) {
        let mut columns = Columns::default();
        let mut moved = BTreeSet::new();
        let mut open = Vec::new();
        for net in 0..self.nets.len() {
            let straight = self.is_level(net);
            if straight && self.shares_its_end(net) {
                self.move_aside(net, here);
                moved.insert(net);
            }
            if !straight || moved.contains(&net) {
                open.push(net);
            }
        }
        while !open.is_empty() {
            // A net is free when none that must stand left of it is still without a column.
            let free = open.iter().position(|net| {
                let waits_for = |other: &usize| other != net && self.left_of(*other, *net);
                !open.iter().any(waits_for)
            });
            let stuck = open.iter().find(|net| !moved.contains(*net)).copied();
            let at = match (free, stuck) {
                (Some(at), _) => at,
                (None, Some(net)) => {
                    self.move_aside(net, here);
                    moved.insert(net);
                    continue;
                }
                (None, None) => 0,
            };
            let net = open.remove(at);
            let first = (0..self.nets.len())
                .filter(|other| *other != net && self.left_of(*other, net))
                .filter_map(|other| self.nets[other].column)
                .map(|column| column + 1)
                .max()
                .unwrap_or_default();
            self.nets[net].column = Some(columns.take(first, self.nets[net].span()));
        }
        self.columns = columns.taken.len();
    }

    /// Whether a net is one line that goes neither up nor down.
    fn is_level(&self, net: usize) -> bool {
        let net = &self.nets[net];
        matches!((net.from.as_slice(), net.to.as_slice()), ([(_, from)], [to]) if from == to)
    }

    /// Whether another net ends where this one does.
    fn shares_its_end(&self, net: usize) -> bool {
        let ends = &self.nets[net].to;
        let others = self
            .nets
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != net);
        let mut ends_of_others = others.flat_map(|(_, other)| &other.to);
        ends_of_others.any(|end| ends.contains(end))
    }

    /// Starts a net's lines where no line ends.
    fn move_aside(&mut self, net: usize, here: &[Slot]) {
        for (row, y) in &mut self.nets[net].from {
            *y = aside(here[*row]);
        }
    }

    /// Whether one net must stand left of the other: it starts in a row in which the other ends, or
    /// it ends where the other does and elsewhere too.
    fn left_of(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.nets[one], &self.nets[other]);
        let starts_in_its_way = one.from.iter().any(|(_, y)| other.to.contains(y));
        let joins = match other.to.as_slice() {
            [end] => one.to.len() > 1 && one.to.contains(end),
            _ => false,
        };
        starts_in_its_way || joins
    }

    /// How many characters it is wide: a line's start, the columns, a line's end and its tip.
    pub(super) const fn width(&self) -> usize {
        self.columns + 3
    }

    /// The row of characters in which the line of a place starts.
    pub(super) fn exit(&self, row: usize) -> Option<usize> {
        self.exits.get(&row).copied()
    }

    /// Draws the lines, from the first column of the gap on.
    pub(super) fn draw(&self, picture: &mut Picture, x: usize) {
        let end = x + self.width() - 1;
        for net in &self.nets {
            let Some(column) = net.column else {
                for to in &net.to {
                    picture.across(*to, x, end);
                }
                continue;
            };
            let at = x + 1 + column;
            let (top, bottom) = net.span();
            for y in top..=bottom {
                let up = if y > top { UP } else { 0 };
                let down = if y < bottom { DOWN } else { 0 };
                picture.join(y, at, up | down, 0);
            }
            for (_, y) in &net.from {
                picture.across(*y, x, at - 1);
                picture.join(*y, at, LEFT, 0);
            }
            for y in &net.to {
                picture.join(*y, at, RIGHT, 0);
                picture.across(*y, at + 1, end);
            }
        }
        for net in &self.nets {
            for y in net.to.iter().filter(|y| self.tips.contains(y)) {
                picture.tip(*y, end);
            }
        }
    }
}

/// The row of characters beside the one in which lines meet a job or a lane: no line ends there.
const fn aside(slot: Slot) -> usize {
    match slot.what {
        What::Job(_) => 2 * slot.top + 2,
        What::Lane(_) => 2 * slot.top,
    }
}
