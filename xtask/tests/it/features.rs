//! Features of dependencies: one set, whichever packages a command selects.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use crate::tree;

/// Sets of features that the selected packages and everything below them are built with. A crate has
/// several when build scripts and macros use it too.
type Features = BTreeMap<String, BTreeSet<String>>;

/// The tests of `orchestra` alone use the dependencies that the tests of the workspace have built.
#[test]
fn orchestra_alone_selects_features_of_the_workspace() {
    compare(
        &features(&["--package", "orchestra"], "normal,build,dev"),
        "add them to the dev-dependencies of crates/orchestra",
    );
}

/// Documentation uses what clippy has checked, though dependencies of tests are left out there.
#[test]
fn workspace_selects_the_same_features_without_its_tests() {
    compare(
        &features(&["--workspace"], "normal,build"),
        "add them to the dependencies of judges/rmcp, those of crates of the workspace to eval",
    );
}

fn compare(selected: &Features, remedy: &str) {
    let workspace = features(&["--workspace"], "normal,build,dev");
    let mut missing = String::new();
    for (package, sets) in selected {
        for set in sets.difference(&workspace[package]) {
            missing.push_str(&format!(
                "{package}: selected {set:?}, the tests of the workspace {:?}\n",
                workspace[package]
            ));
        }
    }
    assert!(missing.is_empty(), "features differ, {remedy}:\n{missing}");
}

fn features(packages: &[&str], edges: &str) -> Features {
    let mut tree = Command::new(env!("CARGO"));
    tree.current_dir(tree::root());
    tree.args([
        "tree", "--locked", "--prefix", "none", "--format", "{p}|{f}",
    ]);
    let output = tree.args(["--edges", edges]).args(packages).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut features = Features::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        if let Some((package, set)) = line.trim_end_matches(" (*)").split_once('|') {
            let sets: &mut BTreeSet<String> = features.entry(package.to_owned()).or_default();
            sets.insert(set.to_owned());
        }
    }
    assert!(!features.is_empty());
    features
}
