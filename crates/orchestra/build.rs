//! Has the linker pack the addresses that the loader adjusts at each start (`DT_RELR`), where the C library of this
//! machine reads that form: the program is smaller, and a start reads less of it. glibc reads it from 2.36 on
//! (<https://sourceware.org/glibc/wiki/Release/2.36>), and refuses to load it before. A program that is built for
//! another machine gets the form that every version reads.
//!
//! In the profile `dist`, the linker merges functions with equal code (`--icf=all`), if it is the linker that Rust
//! contains for Linux on x86-64 (<https://blog.rust-lang.org/2025/09/18/Rust-1.90.0/>). Another linker may not have the
//! option.

use std::{env, ffi::OsStr, path::PathBuf, process::Command};

/// First version of glibc that reads packed addresses.
const FIRST: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_for_this_machine = env::var("HOST").is_ok_and(|host| env::var("TARGET") == Ok(host));
    if is_for_this_machine && glibc().is_some_and(|version| version >= FIRST) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    if is_shipped() && has_own_linker() {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}

/// Whether the profile is `dist`: Cargo names it only in the path of this script's output, `dist/build/NAME/out`.
fn is_shipped() -> bool {
    let output = env::var_os("OUT_DIR").map(PathBuf::from);
    output.is_some_and(|path| path.iter().nth_back(3) == Some(OsStr::new("dist")))
}

/// Whether Rust links with the linker that it brings along: nothing selects another one.
fn has_own_linker() -> bool {
    let target = env::var("TARGET").is_ok_and(|target| target == "x86_64-unknown-linux-gnu");
    let is_unset = |name| env::var_os(name).is_none_or(|value| value.is_empty());
    target
        && ["RUSTC_LINKER", "CARGO_ENCODED_RUSTFLAGS"]
            .into_iter()
            .all(is_unset)
}

/// Version of this machine's glibc, if its C library is glibc.
fn glibc() -> Option<(u32, u32)> {
    // direct: a build script has none of our crates, and the program belongs to glibc itself.
    let output = Command::new("getconf")
        .arg("GNU_LIBC_VERSION")
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
