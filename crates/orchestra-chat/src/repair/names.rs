//! Which tool a model means by a name.

use std::sync::Arc;

use crate::tool::Tool;

/// What models put before the names of tools.
const BEFORE: [&str; 9] = [
    "functions.",
    "function.",
    "tools.",
    "tool.",
    "default_api.",
    "namespace.",
    "mcp__",
    "functions/",
    "api.",
];

/// The tool that a name is of: as it is written, or but for a prefix, signs and case.
pub(super) fn meant<'t>(name: &str, tools: &'t [Arc<Tool>]) -> Option<&'t Arc<Tool>> {
    let bare = bare(name);
    let is = |tool: &&Arc<Tool>| {
        [tool.name(), tool.shown()]
            .iter()
            .any(|own| *own == name || *own == bare)
    };
    if let Some(tool) = tools.iter().find(is) {
        return Some(tool);
    }
    let wanted = folded(bare);
    if wanted.is_empty() {
        return None;
    }
    only(tools, |tool| folded(tool.shown()) == wanted).or_else(|| {
        only(tools, |tool| {
            own_name(tool).is_some_and(|own| folded(own) == wanted)
        })
    })
}

/// As [`meant`], or the tool whose name has the same words in another order. A name with a slip may be half of another
/// one: the model receives similar names.
pub(super) fn nearly<'t>(name: &str, tools: &'t [Arc<Tool>]) -> Option<&'t Arc<Tool>> {
    meant(name, tools).or_else(|| same_words(name, tools))
}

/// The names that are most like one, for whoever is told that there is none such.
pub(super) fn like<'t>(name: &str, tools: &'t [Arc<Tool>], many: usize) -> Vec<&'t str> {
    let wanted = folded(bare(name));
    let mut ranked: Vec<(usize, &str)> = tools
        .iter()
        .map(|tool| (distance(&folded(tool.shown()), &wanted), tool.shown()))
        .collect();
    ranked.sort_unstable();
    ranked
        .into_iter()
        .take(many)
        .map(|(_, name)| name)
        .collect()
}

/// The tool whose name has the same words in another order.
fn same_words<'t>(name: &str, tools: &'t [Arc<Tool>]) -> Option<&'t Arc<Tool>> {
    let words = |text: &str| {
        let mut words: Vec<String> = text
            .split(['_', '-', '.', '/', ' '])
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect();
        words.sort_unstable();
        words
    };
    let asked = words(bare(name));
    if asked.len() < 2 {
        return None;
    }
    only(tools, |tool| {
        words(tool.shown()) == asked || own_name(tool).is_some_and(|own| words(own) == asked)
    })
}

fn only(tools: &[Arc<Tool>], is: impl Fn(&Arc<Tool>) -> bool) -> Option<&Arc<Tool>> {
    let mut found = tools.iter().filter(|tool| is(tool));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// The name that its server gave it.
fn own_name(tool: &Tool) -> Option<&str> {
    let server = tool.server()?;
    let own = tool.name().strip_prefix(server)?;
    own.strip_prefix("__")
}

/// A name without what models put around it.
fn bare(name: &str) -> &str {
    let mut bare = name.trim().trim_matches(['"', '\'', '`', '*']).trim();
    for before in BEFORE {
        bare = bare.strip_prefix(before).unwrap_or(bare);
    }
    // `functions.get_weather:0`, `get_weather()`.
    let bare = bare.split_once(':').map_or(bare, |(name, number)| {
        match !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()) {
            true => name,
            false => bare,
        }
    });
    bare.strip_suffix("()").unwrap_or(bare)
}

/// A name without case and what separates its words.
fn folded(name: &str) -> String {
    let letters = name.chars().filter(|c| !matches!(c, '_' | '-' | '.' | '/'));
    letters.flat_map(char::to_lowercase).collect()
}

/// How many letters have to be changed (Levenshtein), where names are short; much otherwise.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().take(128).collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (at, l) in left.chars().take(128).enumerate() {
        let mut before = row[0];
        row[0] = at + 1;
        for (place, r) in right.iter().enumerate() {
            let above = row[place + 1];
            let changed = before + usize::from(l != *r);
            row[place + 1] = changed.min(above + 1).min(row[place] + 1);
            before = above;
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::{Described, Nature, Tools};
    use serde_json::json;

    fn tools() -> Tools {
        let described = |name: &str, server: Option<&str>| Described {
            name: name.to_owned(),
            description: String::new(),
            schema: json!({"type": "object"}),
            lean: None,
            server: server.map(str::to_owned),
            nature: Nature::Reads,
        };
        Tools::new([
            described("get_weather", None),
            described("weather__get-alerts", Some("weather")),
            described("create_task", None),
            described("create_tasks", None),
            described("a__read", Some("a")),
            described("b__read", Some("b")),
        ])
    }

    #[test]
    fn a_name_is_found_however_it_is_written() {
        let tools = tools();
        for (said, found) in [
            ("get_weather", Some("get_weather")),
            ("getWeather", Some("get_weather")),
            ("Get-Weather", Some("get_weather")),
            ("functions.get_weather", Some("get_weather")),
            ("functions.get_weather:0", Some("get_weather")),
            ("`get_weather()`", Some("get_weather")),
            ("get_alerts", Some("weather__get-alerts")),
            ("weather.get-alerts", Some("weather__get-alerts")),
            ("create_task", Some("create_task")),
            ("read", None),
            ("", None),
            ("weather", None),
        ] {
            let meant = meant(said, tools.all()).map(|tool| tool.name());
            assert_eq!(meant, found, "{said}");
        }
    }

    #[test]
    fn words_in_another_order_are_understood_and_a_slip_is_not() {
        let tools = tools();
        for (said, found) in [
            ("weather_get", Some("get_weather")),
            ("get_wether", None),
            ("get_weath", None),
            ("{get_weather", None),
            ("create_taskz", None),
            ("delete_everything", None),
            ("x", None),
        ] {
            let nearly = nearly(said, tools.all()).map(|tool| tool.name());
            assert_eq!(nearly, found, "{said}");
        }
        assert_eq!(like("get_whether", tools.all(), 1), ["get_weather"]);
    }
}
