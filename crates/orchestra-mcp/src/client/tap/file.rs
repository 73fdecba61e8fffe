//! The file of a recording, which is put aside when it is long.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use orchestra_fs::Access;

/// Where a recording is written, and how large it may become. It is its owner's alone (0600): a
/// recording holds all that was said.
#[derive(Debug, Clone)]
pub struct TapFile {
    /// The file, which is appended to; older ones stand beside it as `NAME.1`, `NAME.2`, ….
    pub path: PathBuf,
    /// Size at which the file is put aside, in bytes.
    pub max_bytes: u64,
    /// How many older files are kept.
    pub keep: usize,
}

impl TapFile {
    /// A file with the usual bounds: 64 MiB, and three older ones.
    #[must_use]
    pub const fn at(path: PathBuf) -> Self {
        Self {
            path,
            max_bytes: 64 * 1024 * 1024,
            keep: 3,
        }
    }
}

/// The file while it is written.
pub(super) struct Rotating {
    config: TapFile,
    file: File,
    length: u64,
}

impl Rotating {
    pub(super) fn open(config: TapFile) -> io::Result<Self> {
        let file = orchestra_fs::append(&config.path, Access::Private)?;
        let length = file.metadata()?.len();
        Ok(Self {
            config,
            file,
            length,
        })
    }

    /// Appends whole lines.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.length > 0 && self.length + lines.len() as u64 > self.config.max_bytes {
            self.rotate()?;
        }
        self.length += lines.len() as u64;
        self.file.write_all(lines)
    }

    fn rotate(&mut self) -> io::Result<()> {
        let path = &self.config.path;
        for number in (1..self.config.keep).rev() {
            rename_if_there(&numbered(path, number), &numbered(path, number + 1))?;
        }
        match self.config.keep {
            0 => fs::remove_file(path)?,
            _ => rename_if_there(path, &numbered(path, 1))?,
        }
        self.file = orchestra_fs::append(path, Access::Private)?;
        self.length = 0;
        Ok(())
    }
}

fn numbered(path: &Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
