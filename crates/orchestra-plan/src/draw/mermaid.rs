//! A graph as a flowchart of Mermaid, left to right.

use std::fmt::Write;

use super::{
    Graph, Look,
    label::{cut, mermaid as escaped},
};

/// The most columns of a name in a box.
const NAME_COLUMNS: usize = 80;

/// The graph as a flowchart of Mermaid: left to right, a subgraph for each group, a mark and a class
/// for each state.
#[must_use]
pub fn mermaid(graph: &Graph<'_>) -> String {
    let mut text = String::from("flowchart LR\n");
    let node = |text: &mut String, node: usize, depth: usize| {
        let (mark, name) = (graph.look(node).mark(), graph.nodes()[node].name);
        let label = escaped(&cut(name, NAME_COLUMNS));
        let _ = writeln!(
            text,
            "{:depth$}n{node}[\"{mark} {label}\"]",
            "",
            depth = depth * 2
        );
    };
    super::dot::grouped(graph, &mut text, &node, &|text, group, depth| match group {
        Some((number, name)) => {
            // A label without a character is no label to Mermaid.
            let name = if name.is_empty() { "·" } else { name };
            let label = escaped(&cut(name, NAME_COLUMNS));
            let _ = writeln!(
                text,
                "{:depth$}subgraph g{number}[\"{label}\"]",
                "",
                depth = depth * 2
            );
        }
        None => {
            let _ = writeln!(text, "{:depth$}end", "", depth = depth * 2);
        }
    });
    for node in 0..graph.nodes().len() {
        for on in graph.dependencies(node) {
            let _ = writeln!(text, "  n{on} --> n{node}");
        }
    }
    for look in Look::ALL {
        let of_look = |node: &usize| graph.look(*node) == look;
        let names: Vec<String> = (0..graph.nodes().len())
            .filter(of_look)
            .map(|node| format!("n{node}"))
            .collect();
        if !names.is_empty() {
            let (fill, line) = look.paper();
            let class = look.class();
            let _ = writeln!(
                text,
                "  classDef {class} fill:{fill},stroke:{line},color:#000000"
            );
            let _ = writeln!(text, "  class {} {class}", names.join(","));
        }
    }
    text
}
