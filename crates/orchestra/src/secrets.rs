//! The masker of this process: the table of secrets, and the secret values of its environment.

use std::sync::LazyLock;

use orchestra_secret::Masker;

static MASKER: LazyLock<Masker> = LazyLock::new(|| {
    let variables = std::env::vars_os();
    let variables = variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Masker::default().environment(variables)
});

/// Masker for everything that this process writes about itself.
pub(crate) fn masker() -> &'static Masker {
    &MASKER
}
