//! Real models, where `cargo xtask test` has brought them: the same vectors as the runtimes that they
//! were made for. Elsewhere they are left out, and the test says so.
//!
//! `reference.json` holds what onnxruntime made of the network and numpy of the table.

use std::path::PathBuf;

use orchestra_engine::model::{self, ModelKind, Purpose};
use serde_json::Value;

use crate::skip::skip;

/// Where a real model lies: `tools/models/{name}` of the target directory.
fn place(name: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().expect("the test's own path");
    let target = test.ancestors().nth(3).expect("the target directory");
    let place = target.join("tools/models").join(name);
    if !place.is_dir() {
        skip(&format!(
            "no model in {}; `cargo xtask test` brings it",
            place.display()
        ));
        return None;
    }
    Some(place)
}

fn numbers(value: &Value) -> Vec<f32> {
    let all = value.as_array().expect("numbers");
    all.iter()
        .map(|x| x.as_f64().expect("a number") as f32)
        .collect()
}

#[track_caller]
fn check(name: &str, kind: ModelKind, dimensions: usize) {
    let Some(place) = place(name) else { return };
    let model = model::open(&place).expect("a model");
    assert_eq!((model.kind(), model.dimensions()), (kind, dimensions));
    let reference: Value = serde_json::from_str(include_str!("reference.json")).expect("JSON");
    let texts = reference["texts"].as_array().expect("texts");
    let texts: Vec<&str> = texts.iter().filter_map(Value::as_str).collect();
    let made = model.embed(&texts, Purpose::Text).expect("vectors");
    for (place, made) in made.iter().enumerate() {
        let expected = numbers(&reference[name][place]);
        let cosine: f32 = made.iter().zip(&expected).map(|(x, y)| x * y).sum();
        assert!(cosine > 0.999, "{}: {cosine}", texts[place]);
    }
    let one = |text: &str| {
        model
            .embed(&[text], Purpose::Query)
            .expect("a vector")
            .swap_remove(0)
    };
    let near =
        |one: &[f32], other: &[f32]| -> f32 { one.iter().zip(other).map(|(x, y)| x * y).sum() };
    let query = one("signing in fails without a password");
    assert!(near(&query, &made[0]) > near(&query, &made[1]));
    // However long it is, and whatever it is made of.
    for odd in [
        "",
        " ",
        "\0\u{7f}\u{1b}[0m",
        &"wörd ".repeat(100_000),
        &"x".repeat(100_000),
    ] {
        assert_eq!(one(odd).len(), dimensions);
    }
}

#[test]
fn a_table_of_a_package_makes_what_its_library_makes() {
    check("wordllama", ModelKind::Static, 256);
}

#[test]
fn a_network_makes_what_the_usual_runtime_makes() {
    check("minilm", ModelKind::Network, 384);
}
