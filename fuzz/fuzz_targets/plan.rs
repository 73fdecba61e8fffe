//! Plan files in all their languages, and work in its string form, from arbitrary bytes: nothing panics,
//! what is understood is understood again as it is written, and its jobs are a graph or are refused.

#![cfg_attr(feature = "link", no_main)]

use libfuzzer_sys::fuzz_target;
use orchestra_plan::{
    definition::{Draft, SnapshotValidation},
    ids::JobId,
    spec::{JobSpec, PlanSpec},
    work::WorkSpec,
};
use serde_json::Value;

fuzz_target!(|input: (u8, &[u8])| {
    let (language, bytes) = input;
    let Ok(text) = std::str::from_utf8(bytes) else {
        // The languages are of text; JSON is asked for bytes elsewhere.
        let _ = serde_json::from_slice::<PlanSpec>(bytes).is_ok();
        return;
    };
    let plan = match language % 5 {
        0 => serde_norway::from_str(text).ok(),
        1 => toml::from_str(text).ok(),
        2 => toon_format::decode_default::<Value>(text)
            .ok()
            .and_then(|value| serde_json::from_value(value).ok()),
        3 => serde_json::from_str(text).ok(),
        _ => return work(text),
    };
    if let Some(plan) = plan {
        graph(plan);
    }
});

/// Work in its string form, which is written as an object.
fn work(text: &str) {
    let Ok(spec) = WorkSpec::parse(text) else {
        return;
    };
    let written = serde_json::to_value(&spec).expect("JSON");
    let again: WorkSpec = serde_json::from_value(written).expect("what was written");
    assert_eq!(again, spec);
}

/// The jobs of a plan, which are a graph or are refused with words.
fn graph(plan: PlanSpec) {
    let jobs: Vec<JobSpec> = plan.jobs.into_vec();
    let ids = (1_u128..).map(|number| JobId::of_random(number.to_be_bytes()));
    let mut draft = Draft::new();
    if draft.add_all(ids.zip(jobs)).is_err() {
        return;
    }
    let id = JobId::of_random([0; 16]);
    let verify = plan.settings.verify_ri;
    if let Ok(definition) = draft.finish(SnapshotValidation { id, verify }) {
        let _ = definition.warnings();
    }
}

#[cfg(not(feature = "link"))]
fn main() {}
