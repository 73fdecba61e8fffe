//! The log of the database (<https://sqlite.org/fileformat2.html#the_write_ahead_log>).

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;

use super::{FileId, Paths, empty_log};
use crate::{Fault, FileIo};

/// Zeros that are added to the log when less than half of them are left.
const ROOM_BYTES: usize = 256 * 1024;
/// Header of the log, of which bytes 8 to 11 are the size of a page.
const HEADER_BYTES: usize = 32;
/// Header of each frame, before its page.
const FRAME_HEADER_BYTES: u64 = 24;
/// Salt of the log's generation in its header, and that of a frame in the frame's.
const SALT_OF_LOG: Range<usize> = 16..24;
const SALT_OF_FRAME: Range<usize> = 8..16;

/// Makes commits durable.
///
/// SQLite would do so by `synchronous = FULL` inside of the commit, while all other processes wait.
/// What it syncs then is the log's file and nothing else, and so it can be done here, behind the
/// lock: a sync makes durable whatever was committed before it, and commits of several processes
/// share the disk's work. A change is answered and told of only after it.
///
/// After a failure the system may report the same pages as kept although they are not. So the log
/// stays in doubt until all of it was moved into the database, which writes and syncs it anew, and
/// was cut off: what came behind a gap in it would be lost with the gap.
#[derive(Debug)]
pub(crate) struct LogSync {
    files: Arc<dyn FileIo>,
    /// Kept open, for of a failure the system tells every file that was open then, and maybe none
    /// that is opened later: another process may have heard of it first.
    opened: Option<(File, FileId)>,
    in_doubt: bool,
}

impl LogSync {
    pub(crate) fn new(files: &Arc<dyn FileIo>) -> Self {
        Self {
            files: Arc::clone(files),
            opened: None,
            in_doubt: false,
        }
    }

    /// Opens the log before anything is written to it, so that a failure to keep it is heard of.
    pub(crate) fn watch(&mut self, paths: &Paths) {
        // A log that cannot be opened cannot be synced either, which says so.
        let _ = self.file(&paths.log);
    }

    /// Makes everything durable that is committed. Closing this file is harmless: SQLite keeps no
    /// locks on the log.
    ///
    /// # Errors
    /// [`Fault::NotDurable`]: what is committed can be seen, but may not survive a power cut.
    pub(crate) fn sync(&mut self, paths: &Paths) -> Result<(), Fault> {
        let synced = self.try_sync(&paths.log);
        self.in_doubt |= synced.is_err();
        synced.map_err(|error| Fault::NotDurable(Arc::new(error)))
    }

    fn try_sync(&mut self, log: &Path) -> std::io::Result<()> {
        self.file(log)?;
        let (file, _) = self.opened.as_ref().expect("opened above");
        self.files.sync_open(file, log)
    }

    /// Opens the log that is there now, unless it is open.
    fn file(&mut self, log: &Path) -> std::io::Result<()> {
        let now = FileId::of_metadata(&fs::metadata(log)?);
        if self
            .opened
            .as_ref()
            .is_none_or(|(_, opened)| *opened != now)
        {
            self.opened = Some((File::open(log)?, now));
        }
        Ok(())
    }

    /// Makes room at the end of the log, inside of a transaction: no other program writes the log meanwhile. A commit
    /// that overwrites zeros changes no size, which the file system would have to make durable as well; that takes as
    /// long again, and longer beside other writers of the disk. SQLite reads a log up to the first frame that is not
    /// of its generation, so zeros behind the frames mean nothing to it.
    pub(crate) fn make_room(&mut self, paths: &Paths) {
        // Without room commits take longer. A disk that is full is reported by the commit.
        let _ = self.try_make_room(&paths.log);
    }

    fn try_make_room(&mut self, log: &Path) -> std::io::Result<()> {
        self.file(log)?;
        let (file, id) = self.opened.as_mut().expect("opened above");
        let length = file.metadata()?.len();
        let mut header = [0; HEADER_BYTES];
        if length < header.len() as u64 {
            // SQLite writes the header with the first commit.
            return Ok(());
        }
        file.seek(SeekFrom::Start(0))?;
        file.read_exact(&mut header)?;
        let page_bytes = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
        let frame_bytes = FRAME_HEADER_BYTES + u64::from(page_bytes);
        let frames = (length - HEADER_BYTES as u64) / frame_bytes;
        let Some(looked_at) = frames.checked_sub(ROOM_BYTES as u64 / 2 / frame_bytes) else {
            return add_room(log, *id, length);
        };
        let mut frame = [0; FRAME_HEADER_BYTES as usize];
        let at = HEADER_BYTES as u64 + looked_at * frame_bytes;
        if at + FRAME_HEADER_BYTES <= length {
            file.seek(SeekFrom::Start(at))?;
            file.read_exact(&mut frame)?;
        }
        match frame[SALT_OF_FRAME] == header[SALT_OF_LOG] {
            true => add_room(log, *id, length),
            false => Ok(()),
        }
    }

    /// Takes the doubt away that an earlier failure left, before anything more is written.
    ///
    /// # Errors
    /// [`Fault::LogInDoubt`] where that is not possible now.
    pub(crate) fn settle_doubt(&mut self, connection: &Connection) -> Result<(), Fault> {
        if self.in_doubt {
            // SQLite hears of the failure only now, and says so once.
            if !empty_log(connection).unwrap_or(false) {
                return Err(Fault::LogInDoubt);
            }
            self.in_doubt = false;
        }
        Ok(())
    }
}

fn add_room(log: &Path, id: FileId, length: u64) -> std::io::Result<()> {
    // direct: SQLite's own file, behind what SQLite has written.
    let mut file = OpenOptions::new().write(true).open(log)?;
    if FileId::of_metadata(&file.metadata()?) != id {
        return Ok(());
    }
    file.seek(SeekFrom::Start(length))?;
    file.write_all(&vec![0; ROOM_BYTES])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Home;
    use crate::db::{self, move_log};
    use crate::io::RealFs;

    /// Rows in a copy of the database and its log, as a crash would leave them.
    fn rows_after_crash(paths: &Paths) -> i64 {
        let copy = tempfile::tempdir().expect("directory");
        let database = copy.path().join("copy.db");
        fs::copy(&paths.database, &database).expect("database copied");
        fs::copy(&paths.log, copy.path().join("copy.db-wal")).expect("log copied");
        let connection = Connection::open(database).expect("copy opened");
        let count = connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0));
        count.expect("rows counted")
    }

    #[test]
    fn room_at_the_end_of_the_log_hides_no_commit_and_is_used_again() {
        let workspace = tempfile::tempdir().unwrap();
        let paths = Paths::of(workspace.path(), &Home::Checkout);
        paths.make_directories().unwrap();
        Connection::open(&paths.database).unwrap();
        let connection = db::open_writer(&paths.database).unwrap();
        connection.execute_batch("CREATE TABLE t (x)").unwrap();
        let files: Arc<dyn FileIo> = Arc::new(RealFs);
        let mut log = LogSync::new(&files);
        let commit = |log: &mut LogSync| {
            connection.execute_batch("BEGIN IMMEDIATE").unwrap();
            log.make_room(&paths);
            let row = "INSERT INTO t VALUES (randomblob(12000)); COMMIT";
            connection.execute_batch(row).unwrap();
        };
        let length = || fs::metadata(&paths.log).unwrap().len();

        let mut grown = 0;
        for rows in 1..=200 {
            let before = length();
            commit(&mut log);
            grown += u64::from(length() != before);
            assert_eq!(rows_after_crash(&paths), rows);
        }
        assert!((2..60).contains(&grown), "the log grew {grown} times");

        // From its beginning on, the log is overwritten.
        move_log(&connection).unwrap();
        let full = length();
        for rows in 201..=260 {
            commit(&mut log);
            assert_eq!(rows_after_crash(&paths), rows);
        }
        assert!(
            length() <= full + ROOM_BYTES as u64,
            "{} of {full}",
            length()
        );
    }
}
