//! Models in archives: zip (a wheel of Python is one) and tar, packed or not.
//!
//! Of an archive only files are read that may be part of a model, as streams and bounded; its paths are
//! looked at and never written to. Links are not followed.

use std::{
    fs::File,
    io::{BufReader, Read, Seek},
    path::Path,
};

use anyhow::Context as _;
use flate2::read::MultiGzDecoder;

use super::parts::{Parts, Role};
use orchestra::engine::Failure;

/// The most entries that are looked at.
const MAX_ENTRIES: usize = 100_000;
/// The most bytes that are unpacked, whether anything is made of them or not.
const MAX_UNPACKED: u64 = 8 << 30;

/// How a file is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    Zip,
    Tar,
    TarGz,
}

impl Packing {
    /// By how a file is called.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let endings = [
            (".zip", Self::Zip),
            (".whl", Self::Zip),
            (".tar", Self::Tar),
            (".tar.gz", Self::TarGz),
            (".tgz", Self::TarGz),
        ];
        let found = endings
            .into_iter()
            .find(|(ending, _)| name.ends_with(ending));
        found.map(|(_, packing)| packing)
    }
}

/// Takes what an archive has of a model.
///
/// # Errors
/// When it is damaged, or larger than any model.
pub(super) fn take(path: &Path, packing: Packing, parts: &mut Parts) -> Result<(), Failure> {
    let reading = || format!("read {}", path.display());
    let file = BufReader::new(File::open(path).with_context(reading)?);
    match packing {
        Packing::Zip => zip(file, parts),
        Packing::Tar => tar(file, parts),
        Packing::TarGz => tar(MultiGzDecoder::new(file), parts),
    }
}

fn zip(file: impl Read + Seek, parts: &mut Parts) -> Result<(), Failure> {
    let mut archive = zip::ZipArchive::new(file).map_err(damaged)?;
    if archive.len() > MAX_ENTRIES {
        return Err(too_many());
    }
    for place in 0..archive.len() {
        let mut entry = archive.by_index(place).map_err(damaged)?;
        let name = entry.name().map_err(damaged)?.into_owned();
        if Role::of(&name).is_none() {
            continue;
        }
        if entry.is_symlink() || !entry.is_file() {
            return Err(link(&name));
        }
        parts.take(&name, &mut entry)?;
    }
    Ok(())
}

fn tar(stream: impl Read, parts: &mut Parts) -> Result<(), Failure> {
    let mut archive = tar::Archive::new(stream.take(MAX_UNPACKED));
    for (place, entry) in archive.entries().map_err(damaged)?.enumerate() {
        if place >= MAX_ENTRIES {
            return Err(too_many());
        }
        let entry = entry.map_err(damaged)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if Role::of(&name).is_none() {
            continue;
        }
        if !entry.header().entry_type().is_file() {
            return Err(link(&name));
        }
        parts.take(&name, entry)?;
    }
    Ok(())
}

fn damaged(error: impl Into<anyhow::Error>) -> Failure {
    Failure::Refused(error.into().context("the archive is damaged, or none"))
}

fn too_many() -> Failure {
    Failure::refused(format!(
        "the archive has more than {MAX_ENTRIES} entries; pack the files of the model alone"
    ))
}

fn link(name: &str) -> Failure {
    Failure::refused(format!(
        "{} is not a regular file; pack regular files only",
        orchestra::engine::in_a_line(name)
    ))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// What is taken of an archive, or why nothing is.
    fn taken(packing: Packing, bytes: &[u8]) -> Result<usize, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("archive");
        std::fs::write(&path, bytes).unwrap();
        let below = directory.path().join("parts");
        std::fs::create_dir(&below).unwrap();
        let mut parts = Parts::new(&below);
        take(&path, packing, &mut parts).map_err(|failure| failure.text())?;
        // Nothing is anywhere else, whatever its paths say.
        let all = std::fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(all, 2);
        Ok(std::fs::read_dir(&below).unwrap().count())
    }

    fn tarred(entries: &[(&str, tar::EntryType)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, kind) in entries {
            let mut header = tar::Header::new_old();
            // As a hostile one: the library would refuse to write it.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(if kind.is_file() { 2 } else { 0 });
            header.set_cksum();
            let content: &[u8] = if kind.is_file() { b"{}" } else { b"" };
            builder.append(&header, content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn zipped(names: &[&str]) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for name in names {
            let options = zip::write::SimpleFileOptions::default();
            writer.start_file(*name, options).unwrap();
            writer.write_all(b"{}").unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    #[test]
    fn no_archive_leads_anywhere() {
        let file = tar::EntryType::Regular;
        let paths = [
            "../tokenizer.json",
            "/tmp/tokenizer.json",
            "a/../../config.json",
        ];
        let entries: Vec<_> = paths.iter().map(|path| (*path, file)).collect();
        assert_eq!(taken(Packing::Tar, &tarred(&entries)), Ok(3));
        assert_eq!(taken(Packing::Zip, &zipped(&paths)), Ok(3));
        for kind in [
            tar::EntryType::Symlink,
            tar::EntryType::Link,
            tar::EntryType::Fifo,
        ] {
            let error = taken(Packing::Tar, &tarred(&[("model.onnx", kind)])).unwrap_err();
            assert!(error.contains("is not a regular file"), "{error}");
        }
    }

    #[test]
    fn what_is_no_model_is_not_unpacked() {
        let names = [
            "a.py",
            "tokenizer_config.json",
            ".model.onnx",
            "__MACOSX/x.onnx",
            "a.onnx",
        ];
        assert_eq!(taken(Packing::Zip, &zipped(&names)), Ok(1));
    }

    #[test]
    fn an_archive_that_is_none_or_too_much_is_refused() {
        for packing in [Packing::Zip, Packing::Tar, Packing::TarGz] {
            let error = taken(packing, b"no archive, and long enough to be looked at").unwrap_err();
            assert!(error.contains("damaged, or none"), "{packing:?}: {error}");
        }
        let many: Vec<String> = (0..40).map(|n| format!("{n}.onnx")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let error = taken(Packing::Zip, &zipped(&many)).unwrap_err();
        assert!(error.contains("more than 32 files"), "{error}");
        let mut cut = zipped(&["tokenizer.json"]);
        cut.truncate(cut.len() / 2);
        assert!(taken(Packing::Zip, &cut).is_err());
    }
}
