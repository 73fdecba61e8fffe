//! The order in which plugins are started: each after those that it depends on. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::PluginId;

/// An order of plugins, and what stands against it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Order {
    /// Every plugin once, in levels: one depends on nothing of its own level or a later one, save
    /// those of one cycle, which stand side by side. Within a level they keep the order that they
    /// came in.
    pub levels: Vec<Vec<PluginId>>,
    /// Plugins that depend on each other, or one on itself; each cycle once, its members in the
    /// order that they came in.
    pub cycles: Vec<Vec<PluginId>>,
    /// Dependencies that are not there: the plugin, and what it depends on.
    pub missing: Vec<(PluginId, PluginId)>,
}

impl Order {
    /// The order of these plugins with what they depend on. Of two of one id the first counts.
    /// Takes no longer than in proportion to plugins and dependencies.
    #[must_use]
    pub fn of(plugins: &[(PluginId, Vec<PluginId>)]) -> Self {
        let mut places: BTreeMap<&PluginId, usize> = BTreeMap::new();
        let mut firsts: Vec<&(PluginId, Vec<PluginId>)> = Vec::new();
        for plugin in plugins {
            places.entry(&plugin.0).or_insert_with(|| {
                firsts.push(plugin);
                firsts.len() - 1
            });
        }
        let mut missing = BTreeSet::new();
        let mut needs: Vec<Vec<usize>> = Vec::with_capacity(firsts.len());
        for (place, (_, depends_on)) in firsts.iter().enumerate() {
            let mut of_one = BTreeSet::new();
            for id in depends_on {
                match places.get(id) {
                    Some(needed) => drop(of_one.insert(*needed)),
                    None => drop(missing.insert((place, id))),
                }
            }
            needs.push(of_one.into_iter().collect());
        }
        let id = |place: usize| firsts[place].0.clone();
        let groups = groups(&needs);
        let mut levels: Vec<BTreeSet<usize>> = Vec::new();
        let mut level_of = vec![0; needs.len()];
        let mut cycles = Vec::new();
        for group in groups {
            let below = group.iter().flat_map(|place| &needs[*place]);
            let below = below.filter(|needed| !group.contains(needed));
            let level = below.map(|needed| level_of[*needed] + 1).max().unwrap_or(0);
            if levels.len() <= level {
                levels.resize_with(level + 1, BTreeSet::new);
            }
            for place in &group {
                level_of[*place] = level;
                levels[level].insert(*place);
            }
            let alone = group.len() == 1;
            if !alone || group.iter().any(|place| needs[*place].contains(place)) {
                cycles.push(group);
            }
        }
        cycles.sort();
        let named = |places: &BTreeSet<usize>| places.iter().map(|place| id(*place)).collect();
        Self {
            levels: levels.iter().map(named).collect(),
            cycles: cycles.iter().map(named).collect(),
            missing: missing
                .into_iter()
                .map(|(place, needed)| (id(place), needed.clone()))
                .collect(),
        }
    }
}

/// Groups of what needs each other, each after the groups that it needs (Kosaraju). On the heap: a
/// chain may be longer than the stack is deep.
fn groups(needs: &[Vec<usize>]) -> Vec<BTreeSet<usize>> {
    let mut needed_by = vec![Vec::new(); needs.len()];
    for (place, needed) in needs.iter().enumerate() {
        for needed in needed {
            needed_by[*needed].push(place);
        }
    }
    // What is finished last against the arrows stands first along them.
    let mut finished = Vec::with_capacity(needs.len());
    let mut seen = vec![false; needs.len()];
    for place in 0..needs.len() {
        visit(place, &needed_by, &mut seen, &mut |place| {
            finished.push(place)
        });
    }
    let mut groups = Vec::new();
    let mut seen = vec![false; needs.len()];
    for place in finished.into_iter().rev() {
        let mut group = BTreeSet::new();
        visit(place, needs, &mut seen, &mut |place| {
            group.insert(place);
        });
        if !group.is_empty() {
            groups.push(group);
        }
    }
    groups
}

/// Everything that can be reached and was not seen, each when all behind it is done.
fn visit(from: usize, edges: &[Vec<usize>], seen: &mut [bool], done: &mut dyn FnMut(usize)) {
    if std::mem::replace(&mut seen[from], true) {
        return;
    }
    let mut path = vec![(from, 0)];
    while let Some((place, next)) = path.last_mut() {
        match edges[*place].get(*next) {
            Some(to) => {
                *next += 1;
                if !std::mem::replace(&mut seen[*to], true) {
                    path.push((*to, 0));
                }
            }
            None => {
                done(*place);
                path.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests;
