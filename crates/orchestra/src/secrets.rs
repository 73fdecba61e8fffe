//! The secrets that this process knows: the secret values of its environment, and the tokens that it reads.

use orchestra_secret::Masker;

use crate::access;

/// Makes every masker of this process mask the secret values of its environment, and the user's own token.
pub(crate) fn install() {
    let variables = std::env::vars_os();
    let variables = variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let token = access::stored_token();
    Masker::default()
        .environment(variables)
        .values(token.as_deref())
        .install();
}

/// Makes every masker that this process creates from now on mask these values as well.
pub(crate) fn know<'v>(values: impl IntoIterator<Item = &'v str>) {
    let masker = Masker::default();
    let is_new = |value: &&str| masker.known_values(value) == *value;
    let new: Vec<&str> = values.into_iter().filter(is_new).collect();
    if !new.is_empty() {
        masker.values(new).install();
    }
}
