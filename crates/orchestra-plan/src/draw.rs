//! Drawings of a plan's graph: Mermaid, DOT, SVG, and text for a terminal. The same graph always
//! gives the same drawing.
//!
//! A [`Graph`] is made of what is to be shown and of nothing else, so that it can be drawn of a plan
//! that runs, one that is put together, and one that is long gone. Names may come from anywhere: in
//! no drawing can they be more than text.

mod dot;
mod label;
mod layout;
mod look;
mod mermaid;
mod svg;
mod terminal;

use std::collections::HashMap;

use crate::definition::{Definition, JobIx};

pub use dot::dot;
pub use label::{cut, width};
pub use layout::{Layout, Link, Place, Slot, What};
pub use look::Look;
pub use mermaid::mermaid;
pub use svg::svg;
pub use terminal::{Paint, terminal};

/// A job as it is drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node<'a> {
    /// The name that others depend on it by.
    pub producer_id: &'a str,
    /// What it is called.
    pub name: &'a str,
    /// The word for its state, such as `running`.
    pub status: &'a str,
    /// The group that it is in; `/` nests.
    pub group: Option<&'a str>,
    /// The producer ids of the jobs that it depends on.
    pub dependencies: Vec<&'a str>,
}

/// A graph to be drawn: a title, and jobs, of which none waits for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph<'a> {
    title: &'a str,
    nodes: Vec<Node<'a>>,
    /// What each node depends on, each once.
    links: Vec<Vec<usize>>,
    /// How many layers stand before each node's.
    layers: Vec<usize>,
}

impl<'a> Graph<'a> {
    /// The graph of these jobs. What cannot be drawn is left out: a second job of the same name, a
    /// dependency that is no job, and one that would close a circle.
    #[must_use]
    pub fn new(title: &'a str, nodes: Vec<Node<'a>>) -> Self {
        let mut places = HashMap::new();
        let mut kept: Vec<Node<'a>> = Vec::with_capacity(nodes.len());
        for node in nodes {
            if !places.contains_key(node.producer_id) {
                places.insert(node.producer_id, kept.len());
                kept.push(node);
            }
        }
        let links = kept
            .iter()
            .enumerate()
            .map(|(place, node)| {
                let on = node.dependencies.iter();
                let mut on: Vec<usize> = on.filter_map(|on| places.get(on).copied()).collect();
                on.sort_unstable();
                on.dedup();
                on.retain(|on| *on != place);
                on
            })
            .collect();
        let (links, layers) = layered(links);
        Self {
            title,
            nodes: kept,
            links,
            layers,
        }
    }

    /// The graph of a definition; `status` says the word for a job's state.
    #[must_use]
    pub fn of(
        title: &'a str,
        definition: &'a Definition,
        status: impl Fn(JobIx) -> &'a str,
    ) -> Self {
        let node = |place: JobIx| {
            let job = definition.job(place);
            let on = definition.dependencies(place).iter();
            Node {
                producer_id: job.producer_id.as_str(),
                name: job.name.as_str(),
                status: status(place),
                group: job.group.as_ref().map(|group| group.as_str()),
                dependencies: on
                    .map(|on| definition.job(*on).producer_id.as_str())
                    .collect(),
            }
        };
        Self::new(title, definition.all().map(node).collect())
    }

    /// What is drawn.
    #[must_use]
    pub const fn title(&self) -> &'a str {
        self.title
    }

    /// The jobs.
    #[must_use]
    pub fn nodes(&self) -> &[Node<'a>] {
        &self.nodes
    }

    /// The places of the jobs that the one at a place depends on.
    #[must_use]
    pub fn dependencies(&self, node: usize) -> &[usize] {
        &self.links[node]
    }

    /// How many layers stand before the one of the node at a place: the longest way to it.
    #[must_use]
    pub fn layer(&self, node: usize) -> usize {
        self.layers[node]
    }

    fn look(&self, node: usize) -> Look {
        Look::of(self.nodes[node].status)
    }
}

/// Drops links that close a circle, and says how long the longest way to each node is.
fn layered(mut links: Vec<Vec<usize>>) -> (Vec<Vec<usize>>, Vec<usize>) {
    let count = links.len();
    let mut next = vec![Vec::new(); count];
    for (node, on) in links.iter().enumerate() {
        for on in on {
            next[*on].push(node);
        }
    }
    let mut waits_for: Vec<usize> = links.iter().map(Vec::len).collect();
    let mut done = vec![false; count];
    let mut layers = vec![0; count];
    let mut ready: Vec<usize> = (0..count).filter(|node| waits_for[*node] == 0).collect();
    ready.reverse();
    let mut stuck = 0..count;
    loop {
        let Some(node) = ready.pop() else {
            // Whoever still waits stands in a circle or behind one: the first goes on regardless.
            let Some(node) = stuck.find(|node| !done[*node]) else {
                return (links, layers);
            };
            links[node].retain(|on| done[*on]);
            waits_for[node] = 0;
            ready.push(node);
            continue;
        };
        if std::mem::replace(&mut done[node], true) {
            continue;
        }
        layers[node] = links[node]
            .iter()
            .map(|on| layers[*on] + 1)
            .max()
            .unwrap_or_default();
        for dependent in &next[node] {
            if !done[*dependent] && waits_for[*dependent] > 0 {
                waits_for[*dependent] -= 1;
                if waits_for[*dependent] == 0 {
                    ready.push(*dependent);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
