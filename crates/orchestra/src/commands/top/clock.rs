//! Times, as they are shown.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// So many seconds, in at most six columns.
pub(super) fn lasted(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!(
            "{}d{:02}h",
            (seconds / 86_400).min(999),
            seconds / 3_600 % 24
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        for (seconds, shown) in [
            (0, "0s"),
            (59, "59s"),
            (62, "1m02s"),
            (3_600, "1h00m"),
            (90_000, "1d01h"),
        ] {
            assert_eq!(lasted(seconds), shown);
        }
        assert_eq!(lasted(u64::MAX).len(), 7);
    }
}
