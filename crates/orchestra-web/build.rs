//! Compresses the files of the dashboard. A build with debug assertions reads them from their directory instead.

use std::{
    env, fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};

const DIRECTORY: &str = "assets";

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var_os("CARGO_CFG_DEBUG_ASSERTIONS").is_some() {
        return Ok(());
    }
    println!("cargo:rerun-if-changed={DIRECTORY}");
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    compress(Path::new(DIRECTORY), &PathBuf::from(out).join(DIRECTORY))
}

fn compress(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            compress(&path, &target)?;
            continue;
        }
        let mut encoder = GzEncoder::new(fs::File::create(target)?, Compression::best());
        encoder.write_all(&fs::read(path)?)?;
        encoder.finish()?;
    }
    Ok(())
}
