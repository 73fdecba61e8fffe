//! Where the database of a board is, and whether this user's programs created it.
//!
//! A database outside of the working tree can still be planted: an archive may contain a git directory. So each has a
//! random id, and the list of known databases in the user's state directory has the ids that count.

mod outside;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use orchestra_board::CLAIM_LEASE_SECONDS;
use orchestra_fs::{Access, Directory, Lock};
use orchestra_place::{DatabaseId, KnownDatabases, ListError, Listing, Place, PlaceError};
use rusqlite::{Connection, OptionalExtension as _};
use sha2::{Digest as _, Sha256};

use crate::db::{self, FileId, Paths};
use crate::files::{Owner, ledger};
use crate::{Fault, Options, exchange, shared};

/// Directory of the board in a place.
const BOARD: &str = "board";
/// Directory of the state directory with the locks of boards that are open.
const LOCKS: &str = "boards";
/// Maximum time that a program with an open board needs to put a removed database back, and the interval of looks.
pub(crate) const RESCUE_PATIENCE: Duration = Duration::from_secs(5);
pub(crate) const RESCUE_LOOK: Duration = Duration::from_millis(20);
/// Maximum time to wait for programs that have the board open before they are reported: hooks and single commands end
/// soon.
pub(crate) const ALONE_PATIENCE: Duration = Duration::from_secs(2);
/// Numbers of a project that are listed as given beyond those that are: the list is written once for so many.
const AHEAD: u64 = 256;
/// Numbers that are still listed as given when a transaction begins, so that few of them need the list.
pub(crate) const SPARE: u64 = AHEAD / 2;
/// Maximum time that the writer waits for the list, while other writers wait for it.
const LIST_PATIENCE: Duration = Duration::from_millis(250);

/// Where the database of a board is, and what the readable files are.
#[derive(Debug, Clone, Default)]
#[expect(
    clippy::large_enum_variant,
    reason = "a program has one for each open board"
)]
pub enum Home {
    /// In `.projects/.store/` of the workspace. A readable file that is removed removes its issue.
    #[default]
    Checkout,
    /// Outside of the working tree, for all checkouts. The readable files are a mirror in the main checkout, and one
    /// that is missing removes nothing.
    Shared(SharedHome),
}

/// The directory of a board that all checkouts share.
#[derive(Debug, Clone)]
pub struct SharedHome {
    place: Place,
    /// The user's state directory, with the list of known databases.
    state: PathBuf,
}

impl SharedHome {
    /// The directory in a place, with the list in a state directory.
    #[must_use]
    pub const fn new(place: Place, state: PathBuf) -> Self {
        Self { place, state }
    }

    /// The place that the directory is in.
    #[must_use]
    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// Path of the directory, which may not exist.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.place.shared().join(BOARD)
    }

    /// Returns whether there is a board: its database, or a program that puts the removed database back. The stub that
    /// a move into the checkout leaves is none.
    #[must_use]
    pub fn has_board(&self) -> bool {
        let database = self.directory().join(db::DATABASE);
        shared::is_board(&database) || (!database.exists() && self.is_open())
    }

    /// Returns whether a program has the board open to change it, also this one.
    pub(crate) fn is_open(&self) -> bool {
        orchestra_fs::is_shared(&self.alive()).unwrap_or(false)
    }

    /// Directory with the mirror of the board; `None` where the repository has no main checkout.
    #[must_use]
    pub fn mirror(&self) -> Option<&Path> {
        self.place.main().filter(|main| main.is_dir())
    }

    /// Returns the directory of the workspace in each linked worktree of the repository that is wanted.
    #[must_use]
    pub fn in_linked(&self, is_wanted: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
        self.place.in_linked(is_wanted)
    }

    /// Returns whether the board may still be there: its repository or workspace is.
    pub(crate) fn is_there(&self) -> bool {
        self.anchor().is_dir()
    }

    /// Refuses a board whose git directory was removed.
    ///
    /// # Errors
    /// [`Fault::RepositoryRemoved`].
    pub(crate) fn check_git_directory(&self) -> Result<(), Fault> {
        match self.place.is_in_repository() && !self.is_there() {
            true => Err(Fault::RepositoryRemoved(self.anchor().to_owned())),
            false => Ok(()),
        }
    }

    /// Refuses a second board of a workspace while programs have its board in a removed git directory open. These put
    /// it back once there is a git directory again.
    ///
    /// # Errors
    /// [`Fault::RepositoryRemoved`].
    pub(crate) fn check_only_board(&self) -> Result<(), Fault> {
        let places = self.place.without_git().into_iter();
        let mut homes = places.map(|place| Self::new(place, self.state.clone()));
        match homes.find(Self::is_open) {
            Some(home) => Err(Fault::RepositoryRemoved(home.anchor().to_owned())),
            None => Ok(()),
        }
    }

    /// Creates the directory for its owner alone.
    pub(crate) fn make(&self) -> Result<(), Fault> {
        match self.place.make_shared(BOARD) {
            Ok(_) => Ok(()),
            Err(PlaceError::Unusable { source, .. }) => Err(source.into()),
            Err(error) => Err(Fault::io(
                "create the directory of the board",
                std::io::Error::other(error.to_string()),
            )),
        }
    }

    /// Lock that each program shares that has the board open to change it.
    fn alive(&self) -> PathBuf {
        self.lock("lock")
    }

    /// Lock that each program with the board open shares, also one that only reads. A program that only reads does not
    /// put a removed database back.
    fn attached(&self) -> PathBuf {
        self.lock("open.lock")
    }

    /// Path of a lock outside of what commands in the repository remove.
    fn lock(&self, end: &str) -> PathBuf {
        let digest = Sha256::digest(self.directory().as_os_str().as_encoded_bytes());
        let number = digest
            .iter()
            .take(8)
            .fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
        self.state.join(LOCKS).join(format!("{number:016x}.{end}"))
    }

    fn make_locks(&self) -> orchestra_fs::Result<Directory> {
        Directory::private(&self.state)?.make_below(LOCKS.as_ref(), Access::Private)
    }

    /// Shows other programs that this one has the board open to change it, until the lock is dropped.
    pub(crate) fn share(&self) -> Option<Lock> {
        let shared = self.make_locks().and_then(|_| Lock::share(&self.alive()));
        shared
            .inspect_err(
                |error| tracing::warn!(%error, "cannot mark the board as open for other programs"),
            )
            .ok()
    }

    /// Has moves of the board wait for this program, which may only read, until the lock is dropped.
    pub(crate) fn attach(&self) -> Option<Lock> {
        let attached = self
            .make_locks()
            .and_then(|_| Lock::share(&self.attached()));
        attached
            .inspect_err(|error| tracing::debug!(%error, "cannot lock the board against moves"))
            .ok()
    }

    /// Shows the program that puts this database back after a removal that this one still has it open, until the lock is
    /// [released](release). The lock is that of one database file.
    pub(crate) fn hold(&self, file: FileId) -> Option<Lock> {
        let path = self.lock(&format!("{:x}.lock", file.number()));
        let held = self.make_locks().and_then(|_| Lock::share(&path));
        held.inspect_err(|error| tracing::debug!(%error, "cannot mark the database as open"))
            .ok()
    }

    /// Takes the locks that programs with the board open share: none has it open, and none opens it meanwhile.
    pub(crate) fn alone(&self) -> Result<[Lock; 2], Fault> {
        self.make_locks()?;
        let take = |path: PathBuf| {
            let lock = Lock::wait_for(&path, ALONE_PATIENCE)?;
            lock.ok_or_else(|| Fault::held(self.directory(), &path))
        };
        Ok([take(self.attached())?, take(self.alive())?])
    }

    /// Returns whether a program has the board open, also one that only reads.
    fn is_attached(&self) -> bool {
        self.is_open() || orchestra_fs::is_shared(&self.attached()).unwrap_or(false)
    }

    /// Waits for the database of a board whose directory was removed while another program has it open: that program
    /// puts it back. Takes no lock.
    pub(crate) fn wait_for_database(&self, paths: &Paths) -> Result<(), Fault> {
        let start = Instant::now();
        while self.awaits_database(paths)? {
            if start.elapsed() > RESCUE_PATIENCE {
                return Err(Fault::Removed(self.directory()));
            }
            thread::sleep(RESCUE_LOOK);
        }
        Ok(())
    }

    /// Returns whether the database is not there while another program has it open.
    pub(crate) fn awaits_database(&self, paths: &Paths) -> Result<bool, Fault> {
        Ok(!db::is_there(&paths.database)? && orchestra_fs::is_shared(&self.alive())?)
    }

    /// Directory without which the board is another one: the git directory, or the workspace.
    #[must_use]
    pub fn anchor(&self) -> &Path {
        let main = self.place.main().filter(|_| !self.place.is_in_repository());
        main.unwrap_or_else(|| self.place.base())
    }

    fn list(&self) -> KnownDatabases {
        KnownDatabases::new(&self.state)
    }

    /// Returns how the list has the database of a connection.
    pub(crate) fn listing(&self, connection: &Connection) -> Result<Listing, Fault> {
        let Some(id) = id_of(connection)? else {
            return Ok(Listing::Unlisted);
        };
        let is_gone = |directory: &Path| {
            let path = directory.join(db::DATABASE);
            let found = path.is_file().then(|| db::open_ready_reader(&path));
            // A database that cannot be looked at may still be the one.
            match found {
                None => true,
                Some(Ok(Some(other))) => id_of(&other).is_ok_and(|other| other != Some(id)),
                Some(_) => false,
            }
        };
        let list = self.list().read().map_err(listless)?;
        let found = list.listing(id, &self.directory(), self.anchor(), is_gone);
        found.map_err(listless)
    }

    /// Refuses a database that this user's programs did not create. Changes nothing.
    pub(crate) fn check(&self, paths: &Paths) -> Result<(), Fault> {
        let Some(connection) = db::open_any_reader(&paths.database)? else {
            return Ok(());
        };
        match self.listing(&connection)? {
            Listing::Here | Listing::Moved | Listing::Copy => Ok(()),
            Listing::Foreign | Listing::Unlisted => Err(Fault::Untrusted(self.directory())),
        }
    }

    /// Lists a database that passed [`SharedHome::check`] where it is now. A copy is [renewed](Self::renew). The caller
    /// holds the writers' lock.
    pub(crate) fn settle(&self, connection: &Connection) -> Result<(), Fault> {
        match self.listing(connection)? {
            Listing::Here => Ok(()),
            Listing::Moved => self.keep(connection),
            Listing::Copy => self.renew(connection),
            Listing::Foreign | Listing::Unlisted => Err(Fault::Untrusted(self.directory())),
        }
    }

    /// Gives a database a new id, which is listed, and drops its claims. It counts as never exchanged. The caller
    /// holds the writers' lock.
    pub(crate) fn renew(&self, connection: &Connection) -> Result<(), Fault> {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let renewed = self
            .identify(connection)
            .and_then(|()| drop_claims(connection))
            .and_then(|()| Ok(exchange::disown(connection)?));
        match renewed {
            Ok(()) => Ok(connection.execute_batch("COMMIT")?),
            Err(fault) => {
                connection.execute_batch("ROLLBACK")?;
                Err(fault)
            }
        }
    }

    /// Gives a database a new id, which is listed before it is committed, and counters above all ids that were given
    /// in this directory.
    pub(crate) fn identify(&self, connection: &Connection) -> Result<(), Fault> {
        let id = DatabaseId::random()
            .map_err(|error| Fault::io("create a random id", std::io::Error::other(error)))?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS home (id BLOB NOT NULL); \
             DELETE FROM home",
        )?;
        connection.execute("INSERT INTO home (id) VALUES (?1)", [&id.as_bytes()[..]])?;
        self.raise_all(connection)?;
        self.record(id)
    }

    /// Raises the counters of a database above all ids that were given in this directory.
    pub(crate) fn raise_all(&self, connection: &Connection) -> Result<(), Fault> {
        let list = self.list().read().map_err(listless)?;
        let given = list.next_at(&self.directory()).map_err(listless)?;
        for (slug, least) in given {
            for (name, least) in LEAST.iter().zip(least) {
                connection.execute(
                    "INSERT OR REPLACE INTO counter (name, value) VALUES (?1 || ?2, ?3)",
                    (name, &slug, least),
                )?;
            }
            raise(connection, &slug)?;
        }
        Ok(())
    }

    /// Returns where a copy of an open database belongs when another database is in its place; `None` when that is the
    /// same board.
    pub(crate) fn place_beside(
        &self,
        removed: &Connection,
        paths: &Paths,
    ) -> Result<Option<PathBuf>, Fault> {
        let Some(found) = db::open_any_reader(&paths.database)? else {
            return Ok(None);
        };
        let id = id_of(removed)?;
        if id == id_of(&found)? {
            return Ok(None);
        }
        let digits: String = id
            .iter()
            .flat_map(|id| id.as_bytes())
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Ok(Some(paths.store.join(format!("replaced-{digits}.db"))))
    }

    /// Lists a copy of the open database with the directory that is there now. It is the same board.
    pub(crate) fn keep(&self, connection: &Connection) -> Result<(), Fault> {
        match id_of(connection)? {
            Some(id) => self.record(id),
            None => Err(Fault::Untrusted(self.directory())),
        }
    }

    /// Drops the claims of a new database, unless this user's programs had one in its directory before: files that
    /// came along with a workspace give nobody a claim.
    pub(crate) fn drop_first_claims(&self, connection: &Connection) -> Result<(), Fault> {
        let list = self.list().read().map_err(listless)?;
        let given = list.next_at(&self.directory()).map_err(listless)?;
        if given.is_empty() {
            drop_claims(connection)?;
        }
        Ok(())
    }

    fn record(&self, id: DatabaseId) -> Result<(), Fault> {
        let (directory, anchor) = (self.directory(), self.anchor());
        let recorded = self
            .list()
            .change(|list| list.record(id, &directory, anchor));
        recorded.map_err(listless)
    }

    /// Lists the ids that the projects of a database give next as given, before they are, and `spare` more of each kind.
    /// Returns whether fewer than [`SPARE`] may be listed beyond them now.
    ///
    /// # Errors
    /// When the list cannot be read or written. [`ListError::Busy`] if another program keeps it locked.
    pub(crate) fn reserve(
        &self,
        connection: &Connection,
        reserved: &mut BTreeMap<String, [u64; 3]>,
        spare: u64,
    ) -> Result<bool, Fault> {
        let mut statement = connection
            .prepare_cached("SELECT slug, next_issue, next_bug, next_request FROM project")?;
        let mut rows = statement.query([])?;
        let mut needed = BTreeMap::new();
        let mut is_short = false;
        while let Some(row) = rows.next()? {
            let next: [u64; 3] = [row.get(1)?, row.get(2)?, row.get(3)?];
            let slug = row.get(0)?;
            let with = |spare| next.map(|next: u64| next.saturating_add(spare));
            let is_listed = |spare| {
                let held: Option<&[u64; 3]> = reserved.get(&slug);
                held.is_some_and(|held| covers(held, &with(spare)))
            };
            is_short |= !is_listed(SPARE);
            if !is_listed(spare) {
                needed.insert(slug, with(spare));
            }
        }
        if needed.is_empty() {
            return Ok(is_short);
        }
        let Some(id) = id_of(connection)? else {
            return Ok(false);
        };
        let list = self.list().read().map_err(listless)?;
        let mut listed = list.next_at(&self.directory()).map_err(listless)?;
        needed.retain(|slug, next| !listed.get(slug).is_some_and(|held| covers(held, next)));
        if !needed.is_empty() {
            for next in needed.values_mut().flatten() {
                *next = next.saturating_add(AHEAD);
            }
            let raised = self.list().change_within(LIST_PATIENCE, |list| {
                list.raise_next(id, &needed);
                Ok(())
            });
            raised.map_err(listless)?;
            listed.append(&mut needed);
        }
        *reserved = listed;
        Ok(is_short && spare < SPARE)
    }
}

/// Gives back a lock of [`SharedHome::hold`], and removes its file unless another program has the database open. Returns
/// whether none has. A file that has replaced it stays.
pub(crate) fn release(lock: &Lock) -> bool {
    let is_last = lock.file().try_lock().is_ok();
    if is_last
        && lock.is_current()
        && let Err(error) = orchestra_fs::remove(lock.path())
    {
        tracing::debug!(%error, "cannot remove the lock of a database");
    }
    // A lock that cannot be given back goes with the file.
    let _ = lock.file().unlock();
    is_last
}

/// Names of the counters with the least numbers of a project, before its slug.
const LEAST: [&str; 3] = ["least/issue/", "least/bug/", "least/request/"];

/// Raises the counters of a project above all ids that were given before the database was created.
pub(crate) fn raise(connection: &Connection, slug: &str) -> Result<(), Fault> {
    let mut statement = connection.prepare_cached(
        "UPDATE project SET \
         next_issue = max(next_issue, coalesce((SELECT value FROM counter WHERE name = 'least/issue/' || ?1), 0)), \
         next_bug = max(next_bug, coalesce((SELECT value FROM counter WHERE name = 'least/bug/' || ?1), 0)), \
         next_request = max(next_request, coalesce((SELECT value FROM counter WHERE name = 'least/request/' || ?1), 0)) \
         WHERE slug = ?1",
    )?;
    statement.execute([slug])?;
    Ok(())
}

fn covers(held: &[u64; 3], next: &[u64; 3]) -> bool {
    held.iter().zip(next).all(|(held, next)| next <= held)
}

/// Returns the id of a database; `None` for one without.
fn id_of(connection: &Connection) -> Result<Option<DatabaseId>, Fault> {
    if !has_table(connection)? {
        return Ok(None);
    }
    let mut statement = connection.prepare("SELECT id FROM home")?;
    let bytes: Option<Vec<u8>> = statement.query_row([], |row| row.get(0)).optional()?;
    Ok(bytes.and_then(|bytes| DatabaseId::from_bytes(&bytes)))
}

fn has_table(connection: &Connection) -> Result<bool, Fault> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'home')";
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
}

/// Marks a removed database whose copy is in its place: other programs that have it open do not see changes of the
/// copy.
pub(crate) fn supersede(removed: &Connection) {
    let mark = "INSERT OR REPLACE INTO counter (name, value) VALUES ('superseded', 1)";
    if let Err(error) = removed.execute(mark, []) {
        tracing::warn!(%error, "cannot mark the removed database of the board");
    }
}

/// Returns whether another program has put a copy of this database in its place, after its removal.
pub(crate) fn is_superseded(connection: &Connection) -> bool {
    let sql = "SELECT EXISTS (SELECT 1 FROM counter WHERE name = 'superseded')";
    connection
        .query_row(sql, [], |row| row.get(0))
        .unwrap_or(false)
}

/// Shortens claims to what they could be if they began now.
pub(crate) fn shorten_claims(connection: &Connection) -> Result<(), Fault> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    });
    connection.execute(
        "UPDATE issue SET claim_until = ?1 WHERE claim_until > ?1",
        [now.saturating_add(CLAIM_LEASE_SECONDS)],
    )?;
    Ok(())
}

/// Drops all claims.
pub(crate) fn drop_claims(connection: &Connection) -> Result<(), Fault> {
    let mut statement = connection.prepare(
        "SELECT p.slug, i.prefix || '-' || i.number FROM issue i JOIN project p ON p.id = i.project \
         WHERE i.claim_agent IS NOT NULL",
    )?;
    let mut rows = statement.query([])?;
    let mut owners = Vec::new();
    while let Some(row) = rows.next()? {
        let key = format!(
            "issue/{}/{}",
            row.get::<_, String>(0)?,
            row.get::<_, String>(1)?
        );
        owners.extend(Owner::parse(&key));
    }
    connection.execute(
        "UPDATE issue SET claim_agent = NULL, claim_until = NULL",
        [],
    )?;
    for owner in owners {
        ledger::make_due(connection, &owner).map_err(|error| match error {
            crate::ReadError::Fault(fault) => fault,
            crate::ReadError::Refused(_) | crate::ReadError::Cursor(_) => Fault::Corrupt,
        })?;
    }
    Ok(())
}

fn listless(error: ListError) -> Fault {
    Fault::Unlisted(Arc::new(error))
}

impl Home {
    /// Adapts options: without a mirror no files are watched or written.
    pub(crate) fn adapt(&self, mut options: Options) -> Options {
        if matches!(self, Self::Shared(home) if home.mirror().is_none()) {
            (options.watch, options.sweep, options.flush) = (false, false, false);
        }
        options
    }

    /// Returns whether a readable file that is removed removes what it is about.
    pub(crate) const fn removes(&self) -> bool {
        matches!(self, Self::Checkout)
    }
}
