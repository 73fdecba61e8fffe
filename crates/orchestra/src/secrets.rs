//! The secrets that this process knows: the secret values of its environment.

use orchestra_secret::Masker;

/// Makes every masker of this process mask the secret values of its environment.
pub(crate) fn install() {
    let variables = std::env::vars_os();
    let variables = variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Masker::default().environment(variables).install();
}
