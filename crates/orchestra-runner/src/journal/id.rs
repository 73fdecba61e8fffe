//! The id of a database of plans.

pub use orchestra_place::DatabaseId;

/// Id of the database below a storage root.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Identity {
    /// There is no database, or it is empty.
    #[default]
    Absent,
    /// The database has no id: an earlier version created it.
    Unidentified,
    /// The database has this id.
    Id(DatabaseId),
}
