//! The areas that alerts are asked for.

use serde::Deserialize;

/// What the National Weather Service knows as areas: states and the District of Columbia,
/// territories and freely associated states, and waters.
const AREAS: [&str; 74] = [
    // States and the District of Columbia.
    "AK", "AL", "AR", "AZ", "CA", "CO", "CT", "DC", "DE", "FL", "GA", "HI", "IA", "ID", "IL", "IN",
    "KS", "KY", "LA", "MA", "MD", "ME", "MI", "MN", "MO", "MS", "MT", "NC", "ND", "NE", "NH", "NJ",
    "NM", "NV", "NY", "OH", "OK", "OR", "PA", "RI", "SC", "SD", "TN", "TX", "UT", "VA", "VT", "WA",
    "WI", "WV", "WY", // Territories and freely associated states.
    "AS", "FM", "GU", "MH", "MP", "PR", "PW", "VI", // Waters: oceans, gulfs and great lakes.
    "AM", "AN", "GM", "LC", "LE", "LH", "LM", "LO", "LS", "PH", "PK", "PM", "PS", "PZ", "SL",
];

/// The two letters of an area that exists, in upper case.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Area(String);

/// Text that names no area.
#[derive(Debug, thiserror::Error)]
#[error("expected the two letters of a US state, territory or marine area, for instance CA")]
pub(crate) struct NoArea;

impl Area {
    /// Its two letters.
    pub(crate) fn letters(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Area {
    type Error = NoArea;

    fn try_from(text: String) -> Result<Self, NoArea> {
        let letters = text.to_ascii_uppercase();
        let exists = AREAS.contains(&letters.as_str());
        exists.then_some(Self(letters)).ok_or(NoArea)
    }
}
