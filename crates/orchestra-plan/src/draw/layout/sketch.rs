//! How a layout is found: jobs and lanes are put into layers, each layer is put in order, and then
//! each slot at its height.

use std::{cmp::Ordering, collections::HashMap};

use super::{Layout, Link, Place, Slot, What};
use crate::draw::Graph;

/// More lanes than this are not drawn, nor looked for.
const MAX_LANES: usize = 4_000;
/// With more lines than this, the order is not improved for long.
const MANY_LINKS: usize = 10_000;
/// The parts of a step that heights are reckoned in.
const STEP: i64 = 1_000;

/// The room that something takes, in parts of a step.
const fn height(what: What) -> i64 {
    match what {
        What::Job(_) => 2 * STEP,
        What::Lane(_) => STEP,
    }
}

/// A layout in the making. Slots have numbers; a layer is a list of these.
pub(super) struct Sketch {
    what: Vec<What>,
    layer_of: Vec<usize>,
    layers: Vec<Vec<usize>>,
    /// For each slot, those that it is linked with to the left and to the right.
    left: Vec<Vec<usize>>,
    right: Vec<Vec<usize>>,
    /// For each slot, its place in its layer.
    row: Vec<usize>,
    /// For each slot, how far down it stands.
    top: Vec<i64>,
    has_lanes: bool,
}

impl Sketch {
    pub(super) fn of(graph: &Graph<'_>) -> Self {
        let jobs = graph.nodes().len();
        let depth = (0..jobs).map(|job| graph.layer(job) + 1).max();
        let mut sketch = Self {
            what: Vec::with_capacity(jobs),
            layer_of: Vec::with_capacity(jobs),
            layers: vec![Vec::new(); depth.unwrap_or_default()],
            left: Vec::new(),
            right: Vec::new(),
            row: Vec::new(),
            top: Vec::new(),
            has_lanes: lanes(graph) <= MAX_LANES,
        };
        for job in 0..jobs {
            sketch.add(What::Job(job), graph.layer(job));
        }
        for job in 0..jobs {
            sketch.link(graph, job);
        }
        for links in sketch.left.iter_mut().chain(&mut sketch.right) {
            links.sort_unstable();
            links.dedup();
        }
        sketch
    }

    fn add(&mut self, what: What, layer: usize) -> usize {
        let slot = self.what.len();
        self.what.push(what);
        self.layer_of.push(layer);
        self.row.push(self.layers[layer].len());
        self.layers[layer].push(slot);
        self.left.push(Vec::new());
        self.right.push(Vec::new());
        self.top.push(0);
        slot
    }

    /// Links a job with all that it depends on, through lanes where layers lie between.
    fn link(&mut self, graph: &Graph<'_>, job: usize) {
        let layer = graph.layer(job);
        let mut lanes: HashMap<usize, usize> = HashMap::new();
        for on in graph.dependencies(job) {
            let mut from = *on;
            if self.has_lanes {
                for between in graph.layer(*on) + 1..layer {
                    let known = lanes.get(&between).copied();
                    let lane = known.unwrap_or_else(|| self.add(What::Lane(job), between));
                    lanes.insert(between, lane);
                    self.connect(from, lane);
                    from = lane;
                    if known.is_some() {
                        break;
                    }
                }
            }
            if self.what[from] == What::Job(*on) || self.layer_of[from] + 1 == layer {
                self.connect(from, job);
            }
        }
    }

    fn connect(&mut self, from: usize, to: usize) {
        self.right[from].push(to);
        self.left[to].push(from);
    }

    /// Moves slots within their layers so that fewer lines cross, as long as that helps.
    pub(super) fn untangle(&mut self) {
        let links: usize = self.right.iter().map(Vec::len).sum();
        let rounds = if links > MANY_LINKS { 2 } else { 12 };
        let mut best = (self.crossings(), self.layers.clone());
        for round in 0..rounds {
            let forth = round % 2 == 0;
            for at in 0..self.layers.len() {
                let layer = if forth {
                    at
                } else {
                    self.layers.len() - 1 - at
                };
                self.sort_layer(layer, forth);
            }
            let crossings = self.crossings();
            if crossings < best.0 {
                best = (crossings, self.layers.clone());
            }
            if crossings == 0 {
                break;
            }
        }
        self.layers = best.1;
        for layer in 0..self.layers.len() {
            self.number(layer);
        }
    }

    /// Puts the slots of a layer in the order of the mean place of what they are linked with on one
    /// side; those without such links stay where they are.
    fn sort_layer(&mut self, layer: usize, forth: bool) {
        let links = if forth { &self.left } else { &self.right };
        let mut keyed: Vec<(usize, usize, usize)> = self.layers[layer]
            .iter()
            .map(|slot| match links[*slot].as_slice() {
                [] => (self.row[*slot], 1, *slot),
                linked => {
                    let sum = linked.iter().map(|other| self.row[*other]).sum();
                    (sum, linked.len(), *slot)
                }
            })
            .collect();
        orchestra_sort::sort_by(
            &mut keyed,
            |(sum, count, _), (other_sum, other_count, _)| {
                (sum * other_count).cmp(&(other_sum * count))
            },
        );
        self.layers[layer] = keyed.into_iter().map(|(_, _, slot)| slot).collect();
        self.number(layer);
    }

    fn number(&mut self, layer: usize) {
        for (row, slot) in self.layers[layer].iter().enumerate() {
            self.row[*slot] = row;
        }
    }

    /// How many lines between neighbouring layers cross.
    fn crossings(&self) -> usize {
        let mut crossings = 0;
        for (at, layer) in self.layers.iter().enumerate().skip(1) {
            // How many lines have ended so far at each place of this layer, as sums over ranges.
            let mut ended = vec![0_usize; layer.len() + 1];
            let mut total = 0;
            for from in &self.layers[at - 1] {
                let near = |to: &&usize| self.layer_of[**to] == at;
                let mut rows: Vec<usize> = self.right[*from]
                    .iter()
                    .filter(near)
                    .map(|to| self.row[*to])
                    .collect();
                rows.sort_unstable();
                for row in &rows {
                    let mut above = 0;
                    let mut place = row + 1;
                    while place > 0 {
                        above += ended[place];
                        place &= place - 1;
                    }
                    crossings += total - above;
                }
                for row in rows {
                    total += 1;
                    let mut place = row + 1;
                    while place < ended.len() {
                        ended[place] += 1;
                        place += place & place.wrapping_neg();
                    }
                }
            }
        }
        crossings
    }

    /// Moves slots up and down, never past each other, towards what they are linked with.
    pub(super) fn straighten(&mut self) {
        for layer in 0..self.layers.len() {
            let mut next = 0;
            for slot in &self.layers[layer] {
                self.top[*slot] = next;
                next += height(self.what[*slot]);
            }
        }
        for round in 0..6 {
            let forth = round % 2 == 0;
            for at in 0..self.layers.len() {
                let layer = if forth {
                    at
                } else {
                    self.layers.len() - 1 - at
                };
                self.straighten_layer(layer, forth);
            }
        }
        let highest = self.top.iter().copied().min().unwrap_or_default();
        let highest = highest.div_euclid(STEP) * STEP;
        for top in &mut self.top {
            *top = top.div_euclid(STEP) * STEP - highest;
        }
    }

    fn straighten_layer(&mut self, layer: usize, forth: bool) {
        let links = if forth { &self.left } else { &self.right };
        // Where each slot would stand by itself, less the room of those above it.
        let mut above = 0;
        let mut wanted = Vec::with_capacity(self.layers[layer].len());
        for slot in &self.layers[layer] {
            let top = match links[*slot].as_slice() {
                [] => self.top[*slot],
                linked => mean(
                    linked.iter().map(|other| self.top[*other]).sum(),
                    linked.len(),
                ),
            };
            wanted.push(top - above);
            above += height(self.what[*slot]);
        }
        let mut above = 0;
        for (slot, top) in self.layers[layer].iter().zip(rising(&wanted)) {
            self.top[*slot] = top + above;
            above += height(self.what[*slot]);
        }
    }

    pub(super) fn finish(self) -> Layout {
        let place = |slot: usize| Place {
            layer: self.layer_of[slot],
            row: self.row[slot],
        };
        let mut links: Vec<Link> = self
            .right
            .iter()
            .enumerate()
            .flat_map(|(from, to)| to.iter().map(move |to| (from, *to)))
            .map(|(from, to)| Link {
                from: place(from),
                to: place(to),
            })
            .collect();
        links.sort_unstable();
        let slot = |slot: &usize| Slot {
            what: self.what[*slot],
            top: usize::try_from(self.top[*slot] / STEP).unwrap_or_default(),
        };
        Layout {
            layers: self
                .layers
                .iter()
                .map(|layer| layer.iter().map(slot).collect())
                .collect(),
            links,
            has_lanes: self.has_lanes,
        }
    }
}

/// How many lanes a graph needs.
fn lanes(graph: &Graph<'_>) -> usize {
    (0..graph.nodes().len())
        .map(|job| {
            let on = graph.dependencies(job).iter();
            let first = on.map(|on| graph.layer(*on) + 1).min();
            first.map_or(0, |first| graph.layer(job) - first)
        })
        .sum()
}

fn mean(sum: i64, count: usize) -> i64 {
    i64::try_from(count).map_or(sum, |count| sum.div_euclid(count))
}

/// The numbers that never fall and are nearest to those that are wanted: where they would fall, all
/// that are in the way of each other become their mean.
fn rising(wanted: &[i64]) -> Vec<i64> {
    let mut blocks: Vec<(i64, usize)> = Vec::new();
    for number in wanted {
        let mut block = (*number, 1);
        while let Some(before) = blocks.pop_if(|(sum, count)| {
            mean(*sum, *count).cmp(&mean(block.0, block.1)) == Ordering::Greater
        }) {
            block = (block.0 + before.0, block.1 + before.1);
        }
        blocks.push(block);
    }
    let mut numbers = Vec::with_capacity(wanted.len());
    for (sum, count) in blocks {
        numbers.extend(std::iter::repeat_n(mean(sum, count), count));
    }
    numbers
}
