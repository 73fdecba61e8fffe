//! What a provider wants to know of the client, and what the client must be able to do for that.

use orchestra_wire::{ErrorCode, RawJson, RpcError};
use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;

use crate::told::Ask;

/// What is said of a call whose provider asks in a way nobody understands.
pub(crate) const UNKNOWN_FORM: &str = "the provider asks for input in a form that is not known";

/// What is said of a call whose provider asks, and not for anything.
pub(crate) const NOTHING_ASKED: &str = "the provider asks for nothing";

/// What is said of a call of a kind whose result cannot ask for anything.
pub(crate) const NOTHING_CAN_BE_ASKED: &str =
    "the provider asks for input, which only tools, prompts and resources may do";

/// What is said of a call whose provider never has enough.
pub(crate) const TOO_OFTEN: &str = "the call asks for more input than is allowed";

/// What a provider wants to know, in its order.
pub(crate) struct Wanted<'a>(pub(crate) Vec<(String, WantedRequest<'a>)>);

#[derive(Deserialize)]
pub(crate) struct WantedRequest<'a> {
    pub(crate) method: String,
    #[serde(borrow)]
    pub(crate) params: Option<&'a RawValue>,
}

/// The questions of a provider and what each needs of the client.
pub(crate) fn understand(requests: &RawJson) -> Option<(Wanted<'_>, Vec<Ask>)> {
    let wanted: Wanted<'_> = requests.parse().ok()?;
    let asks = wanted
        .0
        .iter()
        .map(|(_, request)| Ask::of(&request.method, request.params));
    let asks = asks.collect::<Option<Vec<Ask>>>()?;
    Some((wanted, asks))
}

/// The error for a client that cannot be asked for what is missing.
pub(crate) fn lacking(missing: &[Ask]) -> RpcError {
    let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let text = format!(
        "the client lacks a capability this needs: {}",
        names.join(", ")
    );
    let required = Ask::required(missing).as_str().to_owned();
    let data = format!("{{\"requiredCapabilities\":{required}}}");
    let data = serde_json::from_str::<&RawValue>(&data).map(RawJson::from_raw);
    RpcError {
        data: data.ok(),
        ..RpcError::new(ErrorCode::MISSING_CLIENT_CAPABILITY, text)
    }
}

impl<'de> Deserialize<'de> for Wanted<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> de::Visitor<'de> for Entries {
            type Value = Wanted<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of requests")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Wanted(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}
