//! Who may depend on whom: the table of `docs/architecture.md`, and the purity of the cores.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata, PackageId};

use crate::tree;

/// Crates that see no runtime, socket, file, clock or command line.
const PURE: &[&str] = &[
    "orchestra-wire",
    "orchestra-board",
    "orchestra-plan",
    "orchestra-secret",
    "orchestra-sort",
];

/// What must be nowhere below a pure crate.
const IMPURE: &[&str] = &[
    "axum", "clap", "hyper", "mio", "notify", "quinn", "reqwest", "rusqlite", "rustix", "tokio",
];

type Edges = BTreeMap<String, BTreeSet<String>>;

#[test]
fn every_edge_stands_in_the_table() {
    let allowed = table();
    let metadata = tree::metadata();
    let actual = edges(&metadata);
    for (from, targets) in &actual {
        let row = allowed.get(from);
        let row = row.unwrap_or_else(|| panic!("{from} has no row in docs/architecture.md"));
        let more: Vec<_> = targets.difference(row).collect();
        assert!(
            more.is_empty(),
            "{from} depends on {more:?}, which the table does not allow"
        );
    }
    let gone: Vec<_> = allowed
        .keys()
        .filter(|name| !actual.contains_key(*name))
        .collect();
    assert!(
        gone.is_empty(),
        "the table lists {gone:?}, which are no crates"
    );
}

#[test]
fn the_table_has_no_cycle() {
    let mut rest = table();
    while !rest.is_empty() {
        let leaves: Vec<_> = rest
            .iter()
            .filter(|(_, targets)| targets.iter().all(|target| !rest.contains_key(target)))
            .map(|(name, _)| name.clone())
            .collect();
        assert!(!leaves.is_empty(), "a cycle among {:?}", rest.keys());
        for leaf in leaves {
            rest.remove(&leaf);
        }
    }
}

#[test]
fn pure_crates_depend_on_nothing_impure() {
    let metadata = tree::metadata();
    for name in PURE {
        let below = below(&metadata, name);
        let impure: Vec<_> = IMPURE
            .iter()
            .filter(|name| below.contains(**name))
            .collect();
        assert!(impure.is_empty(), "{name} has {impure:?} in its tree");
    }
}

/// Rows `| crate | may depend on |` below the heading "Dependency edges".
fn table() -> Edges {
    let path = tree::root().join("docs/architecture.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, section) = text
        .split_once("## Dependency edges\n")
        .expect("docs/architecture.md has a section \"Dependency edges\"");
    let section = section.split("\n## ").next().unwrap_or(section);
    let mut edges = Edges::new();
    for line in section.lines().filter(|line| line.starts_with('|')).skip(2) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(clean).collect();
        let targets = cells[1].split(',').map(clean);
        let targets = targets.filter(|name| !name.is_empty() && !name.starts_with("nothing"));
        edges.insert(cells[0].to_owned(), targets.map(str::to_owned).collect());
    }
    assert!(!edges.is_empty());
    edges
}

fn clean(cell: &str) -> &str {
    cell.trim().trim_matches('`')
}

/// The edges between members, those of tests left aside.
fn edges(metadata: &Metadata) -> Edges {
    let members = metadata.workspace_packages();
    let names: BTreeSet<&str> = members
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    let targets = |package: &cargo_metadata::Package| {
        let real = |kind| kind != DependencyKind::Development;
        let dependencies = package.dependencies.iter().filter(|d| real(d.kind));
        let inner = dependencies.filter(|d| names.contains(d.name.as_str()));
        inner.map(|d| d.name.clone()).collect()
    };
    let edges = members
        .iter()
        .map(|package| (package.name.to_string(), targets(package)));
    edges.collect()
}

/// The names of every crate a member is built from, on any platform.
fn below(metadata: &Metadata, name: &str) -> BTreeSet<String> {
    let resolve = metadata.resolve.as_ref().unwrap();
    let root = metadata
        .workspace_packages()
        .into_iter()
        .find(|p| p.name == name);
    let mut open: Vec<&PackageId> = vec![&root.unwrap().id];
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let node = resolve.nodes.iter().find(|node| node.id == *id).unwrap();
        let normal = node.deps.iter().filter(|dependency| {
            let mut kinds = dependency.dep_kinds.iter();
            kinds.any(|kind| kind.kind == DependencyKind::Normal)
        });
        open.extend(normal.map(|dependency| &dependency.pkg));
    }
    let names = metadata
        .packages
        .iter()
        .filter(|package| seen.contains(&package.id));
    names.map(|package| package.name.to_string()).collect()
}

#[test]
fn what_is_run_without_a_name_is_the_program() {
    let metadata = tree::metadata();
    let run: Vec<&str> = metadata
        .workspace_default_packages()
        .into_iter()
        .filter_map(|package| package.default_run.as_deref())
        .collect();
    assert_eq!(run, ["orchestra"]);
}
