//! Has the linker pack the addresses that the loader adjusts at each start (`DT_RELR`), where the C library of this
//! machine reads that form: the program is smaller, and a start reads less of it. glibc reads it from 2.36 on
//! (<https://sourceware.org/glibc/wiki/Release/2.36>), and refuses to load it before. A program that is built for
//! another machine gets the form that every version reads.

use std::{env, process::Command};

/// First version of glibc that reads packed addresses.
const FIRST: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_for_this_machine = env::var("HOST").is_ok_and(|host| env::var("TARGET") == Ok(host));
    if is_for_this_machine && glibc().is_some_and(|version| version >= FIRST) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
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
