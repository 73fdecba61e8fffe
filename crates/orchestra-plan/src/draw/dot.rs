//! A graph in the language of Graphviz, and the order in which groups and their jobs are written.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
};

use super::{
    Graph,
    label::{cut, dot as escaped},
};

/// The most columns of a name in a box.
const NAME_COLUMNS: usize = 80;

/// The graph in the language of Graphviz: left to right, a cluster for each group, colours for
/// states.
#[must_use]
pub fn dot(graph: &Graph<'_>) -> String {
    let mut text = String::from("digraph plan {\n  rankdir=LR;\n");
    let title = escaped(&cut(graph.title(), NAME_COLUMNS));
    let _ = writeln!(
        text,
        "  label=\"{title}\";\n  labelloc=t;\n  fontname=\"sans-serif\";"
    );
    text.push_str("  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\"];\n");
    let node = |text: &mut String, node: usize, depth: usize| {
        let look = graph.look(node);
        let (fill, line) = look.paper();
        let label = escaped(&cut(graph.nodes()[node].name, NAME_COLUMNS));
        let tip = escaped(&cut(graph.nodes()[node].producer_id, NAME_COLUMNS));
        let status = escaped(&cut(graph.nodes()[node].status, NAME_COLUMNS));
        let _ = writeln!(
            text,
            "{:depth$}n{node} [label=\"{} {label}\", tooltip=\"{tip}: {status}\", \
             fillcolor=\"{fill}\", color=\"{line}\"];",
            "",
            look.mark(),
            depth = depth * 2,
        );
    };
    grouped(graph, &mut text, &node, &|text, group, depth| match group {
        Some((number, name)) => {
            let label = escaped(&cut(name, NAME_COLUMNS));
            let _ = writeln!(
                text,
                "{:depth$}subgraph cluster_{number} {{\n{:inner$}label=\"{label}\";",
                "",
                "",
                depth = depth * 2,
                inner = depth * 2 + 2,
            );
        }
        None => {
            let _ = writeln!(text, "{:depth$}}}", "", depth = depth * 2);
        }
    });
    for node in 0..graph.nodes().len() {
        for on in graph.dependencies(node) {
            let _ = writeln!(text, "  n{on} -> n{node};");
        }
    }
    text.push_str("}\n");
    text
}

/// The most groups that are drawn inside each other; deeper ones are drawn in the last of these.
const MAX_DEPTH: usize = 16;

/// Where a group starts, with its number and its name, and where it ends.
pub(super) type Bracket<'f> = dyn Fn(&mut String, Option<(usize, &str)>, usize) + 'f;

#[derive(Default)]
struct Group<'a> {
    nodes: Vec<usize>,
    children: BTreeMap<usize, Self>,
    places: HashMap<&'a str, usize>,
    names: Vec<&'a str>,
}

/// Writes every job, inside the groups that it is in; groups come in the order of their first job.
pub(super) fn grouped(
    graph: &Graph<'_>,
    text: &mut String,
    node: &dyn Fn(&mut String, usize, usize),
    bracket: &Bracket<'_>,
) {
    let mut top = Group::default();
    for (place, job) in graph.nodes().iter().enumerate() {
        let mut group = &mut top;
        let names = job
            .group
            .into_iter()
            .flat_map(|path| path.splitn(MAX_DEPTH, '/'));
        for name in names {
            let next = group.names.len();
            let child = *group.places.entry(name).or_insert(next);
            if child == next {
                group.names.push(name);
            }
            group = group.children.entry(child).or_default();
        }
        group.nodes.push(place);
    }
    write_group(&top, text, node, bracket, 1, &mut 0);
}

fn write_group(
    group: &Group<'_>,
    text: &mut String,
    node: &dyn Fn(&mut String, usize, usize),
    bracket: &Bracket<'_>,
    depth: usize,
    number: &mut usize,
) {
    for place in &group.nodes {
        node(text, *place, depth);
    }
    for (place, child) in &group.children {
        bracket(text, Some((*number, group.names[*place])), depth);
        *number += 1;
        write_group(child, text, node, bracket, depth + 1, number);
        bracket(text, None, depth);
    }
}
