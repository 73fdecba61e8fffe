//! Orders of plugins that were made by hand, and of any.

use proptest::prelude::*;

use super::*;

fn id(text: &str) -> PluginId {
    text.parse().unwrap()
}

/// `a: b c; d` are `a`, which depends on `b` and `c`, and `d`.
fn order(text: &str) -> (String, String, String) {
    let plugins: Vec<(PluginId, Vec<PluginId>)> = text
        .split(';')
        .map(|plugin| {
            let (name, needs) = plugin.split_once(':').unwrap_or((plugin, ""));
            (id(name.trim()), needs.split_whitespace().map(id).collect())
        })
        .collect();
    let order = Order::of(&plugins);
    let all = |lists: &[Vec<PluginId>]| {
        let lists = lists.iter().map(|ids| {
            let ids: Vec<&str> = ids.iter().map(PluginId::as_str).collect();
            ids.join(" ")
        });
        lists.collect::<Vec<_>>().join(" | ")
    };
    let missing = order.missing.iter();
    let missing: Vec<String> = missing
        .map(|(one, other)| format!("{one}>{other}"))
        .collect();
    (all(&order.levels), all(&order.cycles), missing.join(" "))
}

#[test]
fn each_stands_after_what_it_depends_on_and_the_others_side_by_side() {
    for (plugins, levels, cycles, missing) in [
        ("a", "a", "", ""),
        ("c; a; b", "c a b", "", ""),
        ("a: b; b: c; c; d", "c d | b | a", "", ""),
        ("a: b c; b: d; c: d; d", "d | b c | a", "", ""),
        ("a: b b x; b: x y", "b | a", "", "a>x b>x b>y"),
        ("a: a; b: a", "a | b", "a", ""),
        ("x: b; b: c; c: b; z", "b c z | x", "b c", ""),
        ("a: b; b: a; c: d b; d: c", "a b | c d", "a b | c d", ""),
        ("a: b; b; a: c", "b | a", "", ""),
    ] {
        let expected = (levels.to_owned(), cycles.to_owned(), missing.to_owned());
        assert_eq!(order(plugins), expected, "{plugins}");
    }
    assert_eq!(Order::of(&[]), Order::default());
}

#[test]
fn a_long_chain_needs_no_stack() {
    let name = |number: usize| id(&format!("p{number}"));
    let plugins: Vec<_> = (0..100_000).map(|n| (name(n), vec![name(n + 1)])).collect();
    let order = Order::of(&plugins);
    assert_eq!(order.levels.len(), 100_000);
    assert_eq!(order.missing, [(name(99_999), name(100_000))]);
}

proptest! {
    #[test]
    fn every_plugin_is_there_once_and_every_arrow_leads_down(
        edges in proptest::collection::vec((0_usize..12, 0_usize..14), 0..40),
    ) {
        let name = |number: usize| id(&format!("p{number}"));
        let plugins: Vec<(PluginId, Vec<PluginId>)> = (0..12)
            .map(|place| {
                let own = edges.iter().filter(|(from, _)| *from == place);
                (name(place), own.map(|(_, to)| name(*to)).collect())
            })
            .collect();
        let order = Order::of(&plugins);
        let mut all: Vec<&PluginId> = order.levels.iter().flatten().collect();
        prop_assert_eq!(all.len(), 12);
        all.sort();
        all.dedup();
        prop_assert_eq!(all.len(), 12);
        let level = |id: &PluginId| order.levels.iter().position(|level| level.contains(id));
        let in_one_cycle = |one, other| {
            order.cycles.iter().any(|cycle| cycle.contains(one) && cycle.contains(other))
        };
        for (one, needs) in &plugins {
            for needed in needs {
                match level(needed) {
                    None => prop_assert!(order.missing.contains(&(one.clone(), needed.clone()))),
                    below => prop_assert!(below < level(one) || in_one_cycle(one, needed)),
                }
            }
        }
        // Every member of a cycle leads back to itself.
        for cycle in &order.cycles {
            for one in cycle {
                let mut reached: Vec<&PluginId> = vec![one];
                let mut at = 0;
                let mut is_back = false;
                while let Some(from) = reached.get(at).copied() {
                    at += 1;
                    let needs = plugins.iter().find(|(id, _)| id == from).map(|(_, needs)| needs);
                    for needed in needs.into_iter().flatten() {
                        is_back |= needed == one;
                        if !reached.contains(&needed) {
                            reached.push(needed);
                        }
                    }
                }
                prop_assert!(is_back);
            }
        }
    }
}
