//! Models that are read from files: what they make of texts, and what is said of files that are none.

use std::fs;

use orchestra_engine::model::{self, Embedder, ModelError, ModelKind, Purpose};
use safetensors::Dtype;
use serde_json::json;

use crate::tiny::{MEANINGS, WORDS, floats, model, table, tensors, tokenizer, write};

fn embed(model: &dyn Embedder, text: &str) -> Vec<f32> {
    let mut vectors = model.embed(&[text], Purpose::Text).expect("a vector");
    vectors.pop().expect("one")
}

fn close(one: &[f32], other: &[f32]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(x, y)| (x - y).abs() < 0.02)
}

#[test]
fn a_text_is_the_mean_of_its_words() {
    let model = model();
    assert_eq!(model.kind(), ModelKind::Static);
    assert_eq!(model.dimensions(), 3);
    let one = embed(model.as_ref(), "the LOCK");
    let length = one.iter().map(|x| x * x).sum::<f32>();
    assert!((length - 1.0).abs() < 1e-5, "{one:?}");
    assert!(one[0] > 0.99, "{one:?}");
    // The tokenizer's own limit of two words does not hold, and what is not known weighs nothing.
    let far = embed(model.as_ref(), "nothing known here but apple");
    assert!(close(&far, &[0.0, 1.0, 0.0]), "{far:?}");
    assert_eq!(embed(model.as_ref(), "?"), [0.0; 3]);
    assert_eq!(embed(model.as_ref(), ""), [0.0; 3]);
    let many = model
        .embed(&["lock", "apple"], Purpose::Query)
        .expect("two");
    assert_eq!(many.len(), 2);
    // A long one is cut, and takes no longer for it.
    let long = format!("lock {}", "apple ".repeat(2_000_000));
    assert!(embed(model.as_ref(), &long)[1] > 0.9);
}

#[test]
fn tables_of_every_kind_say_the_same() {
    let all = MEANINGS.concat();
    let shape = [WORDS.len(), 3];
    let bytes: Vec<u8> = all
        .iter()
        .map(|x| ((x * 14.0).round() as i8) as u8)
        .collect();
    let half: Vec<u8> = all
        .iter()
        .flat_map(|x| half::f16::from_f32(*x).to_le_bytes())
        .collect();
    let brain: Vec<u8> = all
        .iter()
        .flat_map(|x| half::bf16::from_f32(*x).to_le_bytes())
        .collect();
    // Two rows in another order, and words that point to them and weigh something.
    let rows = floats(&[[0.0, 0.0, 1.0], [0.0, 0.5, 0.0], [0.5, 0.0, 0.0]].concat());
    let places: Vec<u8> = [0_i64, 2, 2, 1, 1, 0]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let weights: Vec<u8> = [0.0_f64, 2.0, 2.0, 2.0, 2.0, 0.01]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let plain = floats(&all);
    let small: &[usize] = &[WORDS.len()];
    let files = [
        tensors(&[("embedding.weight", Dtype::F32, &shape, &plain)]),
        tensors(&[("0", Dtype::F16, &shape, &half)]),
        tensors(&[("embeddings", Dtype::BF16, &shape, &brain)]),
        tensors(&[("embeddings", Dtype::I8, &shape, &bytes)]),
        tensors(&[
            ("embeddings", Dtype::F32, &[3, 3], &rows),
            ("mapping", Dtype::I64, small, &places),
            ("weights", Dtype::F64, small, &weights),
        ]),
    ];
    for file in files {
        let directory = tempfile::tempdir().expect("a directory");
        write(directory.path(), &tokenizer(WORDS), &file);
        let model = model::open(directory.path()).expect("a model");
        let found = embed(model.as_ref(), "the lock, the apple");
        let half = 0.5_f32.sqrt();
        assert!(close(&found, &[half, half, 0.01]), "{found:?}");
    }
}

#[test]
fn a_fingerprint_is_of_all_that_counts() {
    let one = model();
    assert_eq!(one.id(), model().id());
    let other = |words: &[&str], table: &[u8]| {
        let directory = tempfile::tempdir().expect("a directory");
        write(directory.path(), &tokenizer(words), table);
        model::open(directory.path()).expect("a model").id().clone()
    };
    let mut words = WORDS.to_vec();
    words.swap(1, 2);
    assert_ne!(one.id(), &other(&words, &table()));
    let mut numbers = MEANINGS.concat();
    numbers[4] += 0.5;
    let changed = tensors(&[("embeddings", Dtype::F32, &[6, 3], &floats(&numbers))]);
    assert_ne!(one.id(), &other(WORDS, &changed));
}

#[test]
fn packages_are_known_by_their_layout() {
    for (weights, tokens) in [
        (
            "weights/l2_supercat_256.safetensors",
            "tokenizers/l2_supercat_tokenizer_config.json",
        ),
        (
            "0_StaticEmbedding/model.safetensors",
            "0_StaticEmbedding/tokenizer.json",
        ),
        ("model.safetensors", "tokenizer.json"),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        for (path, content) in [
            (weights, table()),
            (tokens, tokenizer(WORDS).to_string().into_bytes()),
            // Settings that others keep beside a model are not taken for a tokenizer.
            ("tokenizer_config.json", b"{}".to_vec()),
        ] {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, content).expect("it is written");
        }
        let model = model::open(directory.path()).expect("a model");
        assert_eq!(model.id(), crate::tiny::model().id());
    }
}

/// A network in ONNX form that hands out its first input, of whole numbers.
fn network(inputs: &[&str]) -> Vec<u8> {
    let part = |number: u8, content: &[u8]| {
        let length = u8::try_from(content.len()).expect("it is short");
        assert!(length < 128);
        [&[number << 3 | 2, length], content].concat()
    };
    let value = |name: &str| [part(1, name.as_bytes()), part(2, &part(1, &[8, 7]))].concat();
    let node = [
        part(1, inputs[0].as_bytes()),
        part(2, b"out"),
        part(4, b"Identity"),
    ];
    let mut graph = [part(1, &node.concat()), part(2, b"g")].concat();
    for name in inputs {
        graph.extend(part(11, &value(name)));
    }
    graph.extend(part(12, &value("out")));
    [vec![8, 8], part(7, &graph), part(8, &[16, 13])].concat()
}

/// As model2vec writes them: its network adds up a table, and takes other inputs than one that reads.
#[test]
fn a_table_that_lies_beside_itself_as_a_network_is_taken() {
    let directory = tempfile::tempdir().expect("a directory");
    write(directory.path(), &tokenizer(WORDS), &table());
    fs::create_dir(directory.path().join("onnx")).expect("a directory");
    let path = directory.path().join("onnx/model.onnx");
    fs::write(&path, network(&["input_ids", "offsets"])).expect("it is written");
    let model = model::open(directory.path()).expect("a model");
    assert_eq!(model.id(), crate::tiny::model().id());
    // Where what lies there is no table either, the network is what was meant.
    fs::write(directory.path().join("model.safetensors"), b"").expect("it is written");
    let error = model::open(directory.path()).expect_err("no model");
    let error = error.to_string();
    assert!(
        error.contains("model.onnx") && error.contains("attention_mask"),
        "{error}"
    );
}

#[test]
fn a_file_that_is_none_is_told_with_what_was_expected() {
    let check = |name: &str, content: Option<&[u8]>, expected: &[&str]| {
        let directory = tempfile::tempdir().expect("a directory");
        write(directory.path(), &tokenizer(WORDS), &table());
        let path = directory.path().join(name);
        match content {
            Some(content) => fs::write(&path, content).expect("it is written"),
            None => fs::remove_file(&path).expect("it is removed"),
        }
        let error = model::open(directory.path())
            .expect_err("no model")
            .to_string();
        for expected in expected {
            assert!(error.contains(expected), "{name}: {error}");
        }
    };
    let plain = floats(&MEANINGS.concat());
    let table = "model.safetensors";
    check(table, None, &["contains no model", "model.onnx"]);
    check("tokenizer.json", None, &["tokenizer.json is missing"]);
    check(table, Some(b""), &["cannot be used", "safetensors form"]);
    check(table, Some(&[0xff; 100]), &["safetensors form"]);
    check(
        "tokenizer.json",
        Some(b"{}"),
        &["expected is a tokenizer.json"],
    );
    check(
        "tokenizer.json",
        Some(b"\xff\xfe"),
        &["expected is a tokenizer.json"],
    );
    let mut odd = tokenizer(WORDS);
    odd["model"]["vocab"] = json!({});
    check(
        "tokenizer.json",
        Some(odd.to_string().as_bytes()),
        &["tokenizer.json"],
    );
    let named = tensors(&[("weight", Dtype::F32, &[6, 3], &plain)]);
    check(table, Some(&named), &["[\"weight\"]", "`embeddings`"]);
    let flat = tensors(&[("embeddings", Dtype::F32, &[18], &plain)]);
    check(table, Some(&flat), &["the shape [18]", "rows and columns"]);
    let none = tensors(&[("embeddings", Dtype::F32, &[6, 0], &[])]);
    check(table, Some(&none), &["6 rows of 0 numbers"]);
    let short = tensors(&[("embeddings", Dtype::F32, &[3, 6], &plain)]);
    check(
        table,
        Some(&short),
        &["3 rows", "6 tokens", "not of one model"],
    );
    let whole = tensors(&[("embeddings", Dtype::I32, &[6, 3], &plain)]);
    check(table, Some(&whole), &["I32", "F16"]);
    let mut broken = MEANINGS.concat();
    broken[5] = f32::NAN;
    let broken = floats(&broken);
    let broken = tensors(&[("embeddings", Dtype::F32, &[6, 3], &broken)]);
    check(table, Some(&broken), &["number 5 is not finite"]);
    let places: Vec<u8> = [0_i64, 1, 2, -3, 4, 5]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let astray = tensors(&[
        ("embeddings", Dtype::F32, &[6, 3], &plain),
        ("mapping", Dtype::I64, &[6], &places),
    ]);
    check(table, Some(&astray), &["token 3", "not there"]);
    check(
        "model.onnx",
        Some(b"\x08\x07garbage"),
        &["model.onnx", "ONNX form"],
    );
    check("other.onnx", Some(b""), &["ONNX form"]);
}

#[test]
fn what_is_no_directory_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let missing = directory.path().join("nowhere");
    let error = model::open(&missing).expect_err("no model");
    assert!(matches!(error, ModelError::Read { .. }), "{error}");
    assert!(error.to_string().contains("nowhere"));
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let directory = tempfile::tempdir().expect("a directory");
    write(directory.path(), &tokenizer(WORDS), &table());
    let file = fs::File::create(directory.path().join("tokenizer.json")).expect("a file");
    file.set_len(1 << 40).expect("it is long");
    let error = model::open(directory.path()).expect_err("no model");
    assert!(matches!(error, ModelError::TooLarge { .. }), "{error}");
}
