//! Where the jobs of a drawing stand: in layers from left to right, each job right of all that it
//! depends on, in an order in which few lines cross, at heights at which most lines are straight.
//!
//! A line that goes past a layer gets a lane there, one for all lines to the same job. The work is
//! bounded: a graph that would need too many lanes is drawn without, and a large one is not improved
//! for as long as a small one. Whole numbers only, so that every machine draws the same.

mod sketch;

use super::Graph;
use sketch::Sketch;

/// Where everything stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    layers: Vec<Vec<Slot>>,
    links: Vec<Link>,
    has_lanes: bool,
}

/// A job or a lane, and how far down it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// What it is.
    pub what: What,
    /// The steps from the top of the drawing; a job takes two of them, and a lane one.
    pub top: usize,
}

/// What stands in a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    /// The job at this place in the graph.
    Job(usize),
    /// Where lines go past to the job at this place in the graph.
    Lane(usize),
}

/// A layer, and a place in it from the top.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The layer, from the left.
    pub layer: usize,
    /// The place in it, from the top.
    pub row: usize,
}

/// A line, or the part of one between two layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Link {
    /// Where it starts.
    pub from: Place,
    /// Where it ends; in the next layer, if there are lanes.
    pub to: Place,
}

impl Layout {
    /// Lays out a graph.
    #[must_use]
    pub fn of(graph: &Graph<'_>) -> Self {
        let mut sketch = Sketch::of(graph);
        sketch.untangle();
        sketch.straighten();
        sketch.finish()
    }

    /// The layers from left to right, and in each what stands there from the top.
    #[must_use]
    pub fn layers(&self) -> &[Vec<Slot>] {
        &self.layers
    }

    /// The lines, in the order of where they start.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// What stands at a place.
    #[must_use]
    pub fn slot(&self, place: Place) -> Slot {
        self.layers[place.layer][place.row]
    }

    /// Whether lines that go past a layer have lanes there; if not, they go straight through.
    #[must_use]
    pub const fn has_lanes(&self) -> bool {
        self.has_lanes
    }

    /// How many steps high it is.
    #[must_use]
    pub fn height(&self) -> usize {
        let bottom = |slot: &Slot| slot.top + What::steps(slot.what);
        let bottoms = self.layers.iter().flatten().map(bottom);
        bottoms.max().unwrap_or_default()
    }
}

impl What {
    /// How many steps it takes.
    #[must_use]
    pub const fn steps(self) -> usize {
        match self {
            Self::Job(_) => 2,
            Self::Lane(_) => 1,
        }
    }
}
