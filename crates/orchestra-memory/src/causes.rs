//! Errors as people are told of them.

use std::{error, iter::successors};

/// An error with what caused it.
pub(crate) fn with_causes(error: &(dyn error::Error + 'static)) -> String {
    let causes = successors(Some(error), |error| error.source());
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    causes.join(": ")
}
