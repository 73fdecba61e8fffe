//! Reads what is kept, in any process, also while it is written.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rusqlite::{Connection, OptionalExtension as _};
use serde_json::value::RawValue;

use super::{
    Fault, Identity, Kept, OnceKey, PlanKey,
    copy::{self, Version},
    entry::check,
    schema,
};

/// The most plans or events of one page.
const MAX_PAGE: u32 = 1_000;
/// The most text of one page, save where one event has more.
const MAX_PAGE_BYTES: usize = 8 * 1024 * 1024;

/// What the journal knows of a plan without reading its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanRow {
    /// Its id.
    pub plan: PlanKey,
    /// How many events it has.
    pub number: u64,
    /// The place of its last event among all events of the workspace.
    pub seq: u64,
    /// When its first event happened, in milliseconds since the Unix epoch.
    pub began: u64,
    /// When its last event happened.
    pub changed: u64,
    /// Whether it was deleted: of its events the last alone is sure to be there.
    pub is_deleted: bool,
    /// Whether nothing more of it is to be removed.
    pub is_swept: bool,
}

/// Some events, in their order.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// They.
    pub events: Vec<Kept>,
    /// Whether more came after them already.
    pub is_more: bool,
    /// Why they end where they do, when what comes next is damaged: what could be read is here.
    pub damage: Option<Fault>,
}

/// A reader with a connection of its own. Its calls block while the disk works. Clones share the
/// connection, and wait for each other.
#[derive(Debug, Clone)]
pub struct Reader {
    root: PathBuf,
    open: Arc<Mutex<Option<Open>>>,
    /// Whether the files stay as they are. SQLite itself changes them when a database is read.
    leaves_files: bool,
}

#[derive(Debug)]
struct Open {
    connection: Connection,
    file: Seen,
}

/// The file of a database as it was when it was opened.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    device: u64,
    inode: u64,
    /// The contents that were copied, where the files stay as they are.
    copied: Option<Version>,
}

const EVENT: &str = r#"SELECT e.seq, p.name, e.number, e.at, e.json, e."check" FROM event e JOIN plan p ON p.id = e.plan"#;

impl Reader {
    /// A reader of the journal below a storage root, which is opened when it is read first. A journal
    /// that is not there yet has no plans.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            open: Arc::default(),
            leaves_files: false,
        }
    }

    /// A reader that leaves the files as they are, for a directory whose files another program may have put there.
    #[must_use]
    pub fn untouched(root: &Path) -> Self {
        Self {
            leaves_files: true,
            ..Self::new(root)
        }
    }

    /// The plans whose ids come after one, in the order of their ids, up to 1 000; deleted ones too.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn plans(&self, after: Option<&PlanKey>) -> Result<Vec<PlanRow>, Fault> {
        self.with(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT name, number, seq, began, changed, state FROM plan WHERE name > ?1 ORDER BY name LIMIT ?2",
            )?;
            let mut rows = statement.query((after.map_or("", PlanKey::as_str), MAX_PAGE))?;
            let mut plans = Vec::new();
            while let Some(row) = rows.next()? {
                let name: String = row.get(0)?;
                let state: u8 = row.get(5)?;
                plans.push(PlanRow {
                    plan: PlanKey::parse(&name).map_err(|_| Fault::Damaged)?,
                    number: row.get(1)?,
                    seq: row.get(2)?,
                    began: row.get(3)?,
                    changed: row.get(4)?,
                    is_deleted: state > 0,
                    is_swept: state > 1,
                });
            }
            Ok(plans)
        })
    }

    /// The events of a plan after a number, in their order.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn events(&self, plan: &PlanKey, after: u64, limit: u32) -> Result<Page, Fault> {
        self.with(|connection| {
            // All of it as it was at one moment.
            let _moment = connection.unchecked_transaction()?;
            let Some((id, number, is_deleted)) = find(connection, plan)? else {
                return Ok(Page::default());
            };
            let sql =
                format!("{EVENT} WHERE e.plan = ?1 AND e.number > ?2 ORDER BY e.number LIMIT ?3");
            let mut statement = connection.prepare_cached(&sql)?;
            let limit = limit.clamp(1, MAX_PAGE);
            let mut page = read_page(statement.query((id, after, limit + 1))?, limit)?;
            // Of a deleted plan the last event alone may be left; of others none is missing.
            let mut numbers = (after + 1..).zip(&page.events);
            let hole = numbers.position(|(number, event)| event.number != number);
            let whole = hole.unwrap_or(page.events.len());
            let last = after + u64::try_from(whole).unwrap_or(0);
            let is_cut = hole.is_some() || (!page.is_more && last < number);
            if is_cut && !is_deleted {
                page.events.truncate(whole);
                page.is_more = true;
                page.damage = Some(Fault::DamagedEvent {
                    plan: plan.clone(),
                    number: last + 1,
                });
            }
            Ok(page)
        })
    }

    /// The events of all plans after a place, in their order.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn all_events(&self, after: u64, limit: u32) -> Result<Page, Fault> {
        self.with(|connection| {
            let sql = format!("{EVENT} WHERE e.seq > ?1 ORDER BY e.seq LIMIT ?2");
            let mut statement = connection.prepare_cached(&sql)?;
            let limit = limit.clamp(1, MAX_PAGE);
            read_page(statement.query((after, limit + 1))?, limit)
        })
    }

    /// The place of the last event.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn last(&self) -> Result<u64, Fault> {
        self.with(|connection| {
            let sql = "SELECT value FROM fact WHERE name = 'seq'";
            let found = connection
                .prepare_cached(sql)?
                .query_row([], |row| row.get(0));
            Ok(found?)
        })
    }

    /// Returns the id of the database.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn identity(&self) -> Result<Identity, Fault> {
        self.with(schema::identity)
    }

    /// What was answered to a request with this key.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn answer(&self, key: &OnceKey) -> Result<Option<Box<RawValue>>, Fault> {
        self.with(|connection| {
            let json: Option<String> = connection
                .prepare_cached("SELECT json FROM answer WHERE key = ?1")?
                .query_row([key.as_str()], |row| row.get(0))
                .optional()?;
            Ok(json.and_then(|json| RawValue::from_string(json).ok()))
        })
    }

    /// Looks whether the database is whole, which takes the longer the larger it is.
    ///
    /// # Errors
    /// When it is damaged or cannot be read.
    pub fn check(&self) -> Result<(), Fault> {
        self.with(|connection| {
            let found: String =
                connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
            if found == "ok" {
                Ok(())
            } else {
                Err(Fault::Damaged)
            }
        })
    }

    /// Closes the database until it is read again: whoever closes it last puts it in order and removes what
    /// is kept beside it.
    pub fn close(&self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Reads from the database that is there now; where there is none, nothing is found.
    fn with<T: Default>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let there = std::fs::symlink_metadata(self.root.join(schema::DATABASE)).ok();
        let file = there.map(|found| Seen {
            device: found.dev(),
            inode: found.ino(),
            copied: self.leaves_files.then(|| Version::of(&self.root)),
        });
        if open.as_ref().map(|open| &open.file) != file.as_ref() {
            *open = None;
        }
        if open.is_none() {
            let opened = match self.leaves_files {
                true => copy::open(&self.root)?,
                false => schema::open_reader(&self.root)?,
            };
            let (Some(connection), Some(file)) = (opened, file) else {
                return Ok(T::default());
            };
            *open = Some(Open { connection, file });
        }
        let Some(connection) = open.as_ref().map(|open| &open.connection) else {
            return Ok(T::default());
        };
        let result = read(connection);
        if matches!(
            result,
            Err(Fault::Unsure(_) | Fault::Database(_) | Fault::Damaged)
        ) {
            // The next one begins anew: it may be another file by then.
            *open = None;
        }
        result
    }
}

/// The row of a plan, how many events it has, and whether it was deleted.
fn find(connection: &Connection, plan: &PlanKey) -> Result<Option<(i64, u64, bool)>, Fault> {
    let sql = "SELECT id, number, state > 0 FROM plan WHERE name = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row([plan.as_str()], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    });
    Ok(found.optional()?)
}

fn read_page(mut rows: rusqlite::Rows<'_>, limit: u32) -> Result<Page, Fault> {
    let mut page = Page::default();
    let mut bytes = 0;
    loop {
        let row = match rows.next() {
            Ok(Some(row)) => row,
            Ok(None) => return Ok(page),
            // What was read before stays read.
            Err(error) if !page.events.is_empty() => {
                page.damage = Some(error.into());
                page.is_more = true;
                return Ok(page);
            }
            Err(error) => return Err(error.into()),
        };
        if bytes >= MAX_PAGE_BYTES || page.events.len() >= limit as usize {
            page.is_more = true;
            return Ok(page);
        }
        match read_event(row) {
            Ok(event) => {
                bytes += event.body.get().len();
                page.events.push(event);
            }
            Err(fault) => {
                page.damage = Some(fault);
                page.is_more = true;
                return Ok(page);
            }
        }
    }
}

fn read_event(row: &rusqlite::Row<'_>) -> Result<Kept, Fault> {
    let (name, number): (String, u64) = (row.get(1)?, row.get(2)?);
    let plan = PlanKey::parse(&name).map_err(|_| Fault::Damaged)?;
    let damaged = || Fault::DamagedEvent {
        plan: plan.clone(),
        number,
    };
    // A value of another type is damage as well.
    let at: u64 = row.get(3).map_err(|_| damaged())?;
    let json: String = row.get(4).map_err(|_| damaged())?;
    let kept: Vec<u8> = row.get(5).map_err(|_| damaged())?;
    if check("event", &name, number, at, &json)[..] != kept {
        return Err(damaged());
    }
    Ok(Kept {
        seq: row.get(0)?,
        body: RawValue::from_string(json).map_err(|_| damaged())?,
        plan,
        number,
        at,
    })
}
