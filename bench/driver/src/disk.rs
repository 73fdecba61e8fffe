//! What the disk itself takes to make a small write durable.

use std::{
    fs::File,
    io::Write as _,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use crate::numbers::Samples;

/// The size of a database page, about what the smallest commit appends.
const WRITE: [u8; 4096] = [7; 4096];

/// Appends and syncs again and again for `time`, in a file of its own in `directory`.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn syncs(directory: &Path, time: Duration) -> Result<Samples> {
    let path = directory.join("bench-sync");
    let mut file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    let mut samples = Samples::default();
    let begun = Instant::now();
    while begun.elapsed() < time {
        let started = Instant::now();
        file.write_all(&WRITE).context("appending")?;
        file.sync_data().context("syncing")?;
        samples.push(started.elapsed());
    }
    std::fs::remove_file(&path).context("removing what was synced")?;
    Ok(samples)
}

/// Syncs in a second, one after the other.
pub(crate) fn rate(syncs: &Samples) -> f64 {
    let total: Duration = syncs.total();
    syncs.count() as f64 / total.as_secs_f64()
}
