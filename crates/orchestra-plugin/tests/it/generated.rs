//! The messages in `src/generated.rs` are what the schema says.

use std::path::Path;

use prost_build::Module;
use prost_types::FileDescriptorProto;
use prost_types::field_descriptor_proto::{Label, Type};

const PROTO: &str = "orchestra/plugin/v1/plugin.proto";

const HEADER: &str = "\
// @generated from `proto/orchestra/plugin/v1/plugin.proto`: do not edit.
//! The messages of `orchestra.plugin.v1`. `cargo xtask codegen` writes this file anew when the schema
//! has changed.
//!
//! Fields of the type `google.protobuf.Struct` are kept as the bytes that came, so that they can go
//! on as they are or become JSON in one pass: see `structs`.

";

/// Generated code is checked in, so that a build needs no compiler of schemas.
#[test]
fn the_messages_are_made_from_the_schema() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = protox::compile([PROTO], [root.join("proto")]).expect("the schema compiles");
    // What the schema imports is looked at too, but made by `prost-types` and not here.
    let requests = files.file.into_iter().map(|mut file| {
        if file.name() == PROTO {
            keep_structs_as_bytes(&mut file);
        }
        (Module::from_protobuf_package_name(file.package()), file)
    });
    let made = prost_build::Config::new()
        .bytes(["."])
        .btree_map(["."])
        .generate(requests.collect())
        .expect("code can be made from the schema");
    let module = Module::from_protobuf_package_name("orchestra.plugin.v1");
    let wanted = format!("{HEADER}{}", made[&module]);

    let path = root.join("src/generated.rs");
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(&path, &wanted).expect("the file can be written");
    }
    let found = std::fs::read_to_string(&path).expect("the file can be read");
    assert!(
        found == wanted,
        "src/generated.rs is not what the schema says: run `cargo xtask codegen`"
    );
}

/// Turns each field that holds a `Struct` into `optional bytes`, which is the same on the wire.
fn keep_structs_as_bytes(file: &mut FileDescriptorProto) {
    for field in file.message_type.iter_mut().flat_map(|m| &mut m.field) {
        if field.type_name() == ".google.protobuf.Struct" {
            assert_eq!(field.label(), Label::Optional, "{}", field.name());
            field.set_type(Type::Bytes);
            field.type_name = None;
            field.proto3_optional = Some(true);
        }
    }
}
