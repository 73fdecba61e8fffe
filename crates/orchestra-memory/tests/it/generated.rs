//! The messages and methods in `src/engine/generated.rs` are what the schema says.

use std::{fmt::Write as _, fs, path::Path};

use prost_types::FileDescriptorSet;
use protox::prost::Message as _;

const PROTO: &str = "orchestra/memory/v1/memory.proto";

const HEADER: &str = "\
// @generated from `proto/orchestra/memory/v1/memory.proto`: do not edit.
//! The messages and methods of `orchestra.memory.v1`. `cargo xtask codegen` writes this file anew when
//! the schema has changed.

";

/// Generated code is checked in, so that a build needs no compiler of schemas.
#[test]
fn the_messages_are_made_from_the_schema() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let schema = protox::compile([PROTO], [root.join("proto")]).expect("the schema compiles");
    let made = tempfile::tempdir().unwrap();
    tonic_prost_build::configure()
        .out_dir(made.path())
        .compile_fds(schema.clone())
        .expect("code can be made from the schema");
    let code = fs::read_to_string(made.path().join("orchestra.memory.v1.rs")).unwrap();
    let wanted = format!("{HEADER}{code}{}", described(schema));

    let path = root.join("src/engine/generated.rs");
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        fs::write(&path, &wanted).expect("the file can be written");
    }
    let found = fs::read_to_string(&path).expect("the file can be read");
    assert!(
        found == wanted,
        "src/engine/generated.rs is not what the schema says: run `cargo xtask codegen`"
    );
}

/// The schema as programs ask for it by reflection, without what people read.
fn described(mut schema: FileDescriptorSet) -> String {
    for file in &mut schema.file {
        file.source_code_info = None;
    }
    let mut text =
        "/// The schema, for whoever asks by reflection.\npub const SCHEMA: &[u8] = &[".to_owned();
    for (place, byte) in schema.encode_to_vec().into_iter().enumerate() {
        let before = if place % 24 == 0 { "\n    " } else { " " };
        write!(text, "{before}{byte},").unwrap();
    }
    text.push_str("\n];\n");
    text
}
