//! The messages in `src/generated.rs` are what the schema says.

use std::{fmt::Write as _, path::Path};

use prost::Message as _;
use prost_build::Module;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FileDescriptorProto};

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
    // What the schema imports is looked at too, but not made here.
    let requests = files.file.into_iter().map(|mut file| {
        if file.name() == PROTO {
            keep_structs_as_bytes(&mut file);
        }
        (Module::from_protobuf_package_name(file.package()), file)
    });
    let made = prost_build::Config::new()
        .bytes(["."])
        .btree_map(["."])
        .extern_path(".google.protobuf.Timestamp", "crate::timestamp::Timestamp")
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

/// The one that the example in Python has is what protoc makes of the schema: it holds the schema as
/// protoc writes it down, and everything else in it follows from that.
#[test]
fn the_messages_for_python_are_made_from_the_schema() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = protox::compile([PROTO], [root.join("proto")]).unwrap();
    let mut file = files.file.into_iter().find(|file| file.name() == PROTO);
    let file = file.as_mut().expect("the schema is compiled");
    file.name = Some("plugin.proto".to_owned());
    file.source_code_info = None;
    for message in &mut file.message_type {
        forget_json_names(message);
    }
    let wanted = format!(
        "AddSerializedFile(b'{}')",
        python_bytes(&file.encode_to_vec())
    );
    let python = root.join("../../examples/plugins/python/plugin_pb2.py");
    let found = std::fs::read_to_string(python).expect("the file can be read");
    assert!(
        found.contains(&wanted),
        "plugin_pb2.py is not what the schema says: docs/plugins.md has the command that makes it"
    );
}

/// They follow from the names, and protoc does not write them down.
fn forget_json_names(message: &mut DescriptorProto) {
    for field in &mut message.field {
        field.json_name = None;
    }
    message.nested_type.iter_mut().for_each(forget_json_names);
}

/// Bytes as protoc writes them for Python: what is not to be printed in hexadecimal, and a digit
/// after that as well, which would be read as part of it.
fn python_bytes(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut is_after_hex = false;
    for &byte in bytes {
        let is_digit_after_hex = is_after_hex && byte.is_ascii_hexdigit();
        is_after_hex = false;
        match byte {
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            b'"' | b'\'' | b'\\' => text.extend(['\\', char::from(byte)]),
            b' '..=b'~' if !is_digit_after_hex => text.push(char::from(byte)),
            _ => {
                write!(text, "\\x{byte:02x}").expect("texts can be written to");
                is_after_hex = true;
            }
        }
    }
    text
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
