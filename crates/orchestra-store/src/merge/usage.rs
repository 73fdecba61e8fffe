//! Usage of models, whose counters are added, and hook events.

use std::collections::BTreeMap;

use orchestra_board::{Cost, Slug, UsageOf, UsageTotals};

use super::HookEvent;
use super::identity::Identities;
use crate::{UsageDay, UsageOfRecord, UsageRecord, UsageSessionRecord, UsageSums};

/// Rule for a counter that both sides have.
#[derive(Debug, Clone, Copy)]
enum Rule {
    /// The other side's is added, without its part that both had before.
    Add,
    /// The larger one holds: an unknown part of both is the same.
    Maximum,
}

/// Merges the other side's usage into ours. Without a base, sides with a session in common have an unknown part of
/// their counters in common, and the larger ones hold.
pub(super) fn merge(
    base: Option<&UsageRecord>,
    ours: &UsageRecord,
    theirs: &UsageRecord,
    is_repeated: bool,
) -> UsageRecord {
    let has_ours = |record: &UsageSessionRecord| {
        let mut ours = ours.sessions.iter();
        ours.any(|ours| is_same_session(ours, record))
    };
    let is_related = is_repeated || theirs.sessions.iter().any(has_ours);
    let base = base.filter(|_| !is_repeated);
    let rule = match base.is_some() || !is_related {
        true => Rule::Add,
        false => Rule::Maximum,
    };
    let none = UsageRecord::default();
    let base = base.unwrap_or(&none);
    UsageRecord {
        totals: rule.totals(&base.totals, &ours.totals, &theirs.totals),
        sessions: merge_sessions(&ours.sessions, &theirs.sessions),
        of: merge_of(rule, base, ours, theirs),
        days: merge_days(rule, base, ours, theirs),
    }
}

impl Rule {
    fn number(self, base: u64, ours: u64, theirs: u64) -> u64 {
        match self {
            Self::Add => ours.saturating_add(theirs.saturating_sub(base)),
            Self::Maximum => ours.max(theirs),
        }
    }

    fn totals(self, base: &UsageTotals, ours: &UsageTotals, theirs: &UsageTotals) -> UsageTotals {
        let cost = self.number(
            base.cost.billionths(),
            ours.cost.billionths(),
            theirs.cost.billionths(),
        );
        UsageTotals {
            input: self.number(base.input, ours.input, theirs.input),
            output: self.number(base.output, ours.output, theirs.output),
            cost: Cost::from_billionths(cost),
        }
    }

    /// Merges sums that both sides have under the same key.
    fn sums<K: Ord + Clone>(
        self,
        base: &BTreeMap<K, UsageSums>,
        ours: &BTreeMap<K, UsageSums>,
        theirs: &BTreeMap<K, UsageSums>,
    ) -> BTreeMap<K, UsageSums> {
        let mut merged = ours.clone();
        let none = UsageSums::default();
        for (key, theirs) in theirs {
            let base = base.get(key).unwrap_or(&none);
            let ours = merged.entry(key.clone()).or_default();
            *ours = UsageSums {
                requests: self.number(base.requests, ours.requests, theirs.requests),
                totals: self.totals(&base.totals, &ours.totals, &theirs.totals),
            };
        }
        merged
    }
}

fn is_same_session(one: &UsageSessionRecord, other: &UsageSessionRecord) -> bool {
    let key = |record: &UsageSessionRecord| {
        let session = &record.session;
        let (provider, model) = (session.provider.clone(), session.model.clone());
        (provider, model, session.started_at)
    };
    key(one) == key(other)
}

/// The sessions of both sides, newest first. Of two versions of a session, the longer one is used.
fn merge_sessions(
    ours: &[UsageSessionRecord],
    theirs: &[UsageSessionRecord],
) -> Vec<UsageSessionRecord> {
    let mut merged = ours.to_vec();
    for theirs in theirs {
        let mut known = merged.iter_mut();
        match known.find(|ours| is_same_session(ours, theirs)) {
            Some(ours) if theirs.requests.len() > ours.requests.len() => ours.clone_from(theirs),
            Some(_) => {}
            None => {
                let mut arrived = theirs.clone();
                // Of two open sessions, ours continues.
                let last = arrived.requests.last().map(|request| request.at);
                let session = &mut arrived.session;
                session.ended_at = session.ended_at.or(last).or(Some(session.started_at));
                merged.push(arrived);
            }
        }
    }
    let age = |record: &UsageSessionRecord| {
        let session = &record.session;
        (session.ended_at.is_none(), session.started_at)
    };
    orchestra_sort::sort_by_key(&mut merged, |record| std::cmp::Reverse(age(record)));
    merged
}

fn merge_of(
    rule: Rule,
    base: &UsageRecord,
    ours: &UsageRecord,
    theirs: &UsageRecord,
) -> Vec<UsageOfRecord> {
    let sums = |usage: &UsageRecord| -> BTreeMap<UsageOf, UsageSums> {
        let all = usage.of.iter();
        all.map(|record| (record.of.clone(), record.sums)).collect()
    };
    let merged = rule.sums(&sums(base), &sums(ours), &sums(theirs));
    merged
        .into_iter()
        .map(|(of, sums)| UsageOfRecord { of, sums })
        .collect()
}

fn merge_days(
    rule: Rule,
    base: &UsageRecord,
    ours: &UsageRecord,
    theirs: &UsageRecord,
) -> Vec<UsageDay> {
    type Key = (String, String, String, Option<Slug>);
    let sums = |usage: &UsageRecord| -> BTreeMap<Key, UsageSums> {
        let key = |day: &UsageDay| {
            let (provider, model) = (day.provider.clone(), day.model.clone());
            (day.day.clone(), provider, model, day.project.clone())
        };
        usage.days.iter().map(|day| (key(day), day.sums)).collect()
    };
    let merged = rule.sums(&sums(base), &sums(ours), &sums(theirs));
    merged
        .into_iter()
        .map(|((day, provider, model, project), sums)| UsageDay {
            day,
            provider,
            model,
            project,
            sums,
        })
        .collect()
}

/// Renames the issues of a project that usage was recorded for. That of an issue that is gone counts for the project
/// alone.
pub(super) fn rename(usage: &mut UsageRecord, slug: &Slug, identities: &Identities) {
    let mut sums: BTreeMap<UsageOf, UsageSums> = BTreeMap::new();
    for record in usage.of.drain(..) {
        let mut of = record.of;
        if of.project == *slug
            && let Some(id) = &of.issue
        {
            let Some(new) = identities.id_for(id) else {
                continue;
            };
            of.issue = Some(new);
        }
        sums.entry(of).or_default().add(&record.sums);
    }
    usage.of = sums
        .into_iter()
        .map(|(of, sums)| UsageOfRecord { of, sums })
        .collect();
}

/// Hook events of both sides in the order of their times, numbered from the first number on.
pub(super) fn merge_hook_events(ours: &[HookEvent], theirs: &[HookEvent]) -> Vec<HookEvent> {
    let news = theirs.iter().filter(|event| !ours.contains(event));
    let news: Vec<HookEvent> = news.cloned().collect();
    if news.is_empty() {
        return ours.to_vec();
    }
    let numbers = ours.iter().map(|event| event.0.number);
    let first = numbers.min().unwrap_or(1).max(1);
    let mut merged: Vec<HookEvent> = ours.iter().cloned().chain(news).collect();
    orchestra_sort::sort_by_key(&mut merged, |event| event.0.at);
    for (number, event) in (first..).zip(&mut merged) {
        event.0.number = number;
    }
    merged
}
