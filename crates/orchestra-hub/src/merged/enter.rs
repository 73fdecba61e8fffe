//! Who is entered under which name: the first who comes keeps it.

use std::collections::{BTreeMap, HashMap};

use super::{At, Collision, Source, owner_of};
use crate::{
    ProviderId, SkillDescriptor,
    reserved::{Reserved, is_server_uri},
};

/// Enters the items of one provider.
pub(super) struct Enter<'m> {
    pub(super) sources: &'m [Source],
    pub(super) source: usize,
    pub(super) reserved: &'m Reserved,
    pub(super) collisions: &'m mut Vec<Collision>,
}

impl Enter<'_> {
    /// Enters names that are free. A name of another provider, or in the form of the URIs of another server, is entered
    /// behind `prefix`.
    pub(super) fn all<'a>(
        &mut self,
        kind: &'static str,
        names: impl Iterator<Item = &'a String>,
        owners: &mut HashMap<String, At>,
        prefix: Option<&str>,
    ) -> Vec<At> {
        let mut entered = Vec::new();
        for (item, name) in names.enumerate() {
            let mut at = At {
                source: self.source,
                item,
                is_prefixed: false,
            };
            if let Some(owner) = self.reserved_by(kind, name) {
                self.collide(kind, name, owner);
                continue;
            }
            let owner = owners.get(name).map(|owner| owner.source);
            let is_foreign = prefix.is_some_and(|prefix| self.is_foreign(name, prefix));
            if owner.is_none() && !is_foreign {
                owners.insert(name.clone(), at);
                entered.push(at);
                continue;
            }
            let is_prefixed = is_foreign || owner != Some(self.source);
            let other = prefix.filter(|_| is_prefixed);
            let other = other.map(|prefix| format!("{prefix}{name}"));
            if let Some(other) = other.filter(|other| !owners.contains_key(other)) {
                at.is_prefixed = true;
                owners.insert(other, at);
                entered.push(at);
                continue;
            }
            let owner = owner.unwrap_or(self.source);
            let owner = self.sources[owner].slot.id.clone();
            self.collide(kind, name, owner);
        }
        entered
    }

    /// Returns whether a URI has the form of the URIs of another server. A relay shows those of its servers unchanged.
    fn is_foreign(&self, uri: &str, prefix: &str) -> bool {
        let is_relay = self.sources[self.source].slot.lists_anew;
        !is_relay && is_server_uri(uri) && !uri.starts_with(prefix)
    }

    /// Returns the owner of a name that the provider's server must not use.
    fn reserved_by(&self, kind: &str, name: &str) -> Option<ProviderId> {
        if !matches!(kind, "tool" | "prompt") {
            return None;
        }
        self.reserved.owner(&self.sources[self.source].slot, name)
    }

    fn collide(&mut self, kind: &'static str, name: &str, owner: ProviderId) {
        self.collisions.push(Collision {
            kind,
            name: name.to_owned(),
            owner,
            newcomer: self.sources[self.source].slot.id.clone(),
        });
    }

    /// As [`all`](Self::all), for skills: one provider's directory cannot lie inside another's.
    pub(super) fn skills<'a>(
        &mut self,
        skills: impl Iterator<Item = &'a SkillDescriptor>,
        owners: &mut BTreeMap<String, At>,
    ) -> Vec<At> {
        let mut entered = Vec::new();
        for (item, skill) in skills.enumerate() {
            let (source, root) = (self.source, skill.root());
            let others = |at: &&At| at.source != source;
            let inside = format!("{root}/");
            let clash = owners
                .get(root)
                .or_else(|| owner_of(owners, root).filter(others))
                .or_else(|| {
                    let (below, at) = owners.range(inside.clone()..).next()?;
                    Some(at)
                        .filter(others)
                        .filter(|_| below.starts_with(&inside))
                });
            if let Some(owner) = clash {
                self.collisions.push(Collision {
                    kind: "skill",
                    name: skill.uri().to_owned(),
                    owner: self.sources[owner.source].slot.id.clone(),
                    newcomer: self.sources[source].slot.id.clone(),
                });
            } else {
                let at = At {
                    source,
                    item,
                    is_prefixed: false,
                };
                owners.insert(root.to_owned(), at);
                entered.push(at);
            }
        }
        entered
    }
}
