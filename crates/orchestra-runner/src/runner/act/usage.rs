//! What agents used, as budgets count it, and what budgets cannot count.

use orchestra_plan::budget;

use super::Cx;
use crate::agents::{Chosen, Tokens, Usage};

/// Says on the log of the attempt what is not known of an agent's use, so that no budget bounds it.
pub(super) async fn warn(cx: &Cx<'_>, chosen: &Chosen) {
    let tells = chosen.profile.tells();
    let budgets = [&cx.assignment.job.budget, &cx.assignment.settings.budget];
    let has_tokens = budgets.iter().any(|budget| budget.tokens.is_some());
    let has_cost = budgets.iter().any(|budget| budget.cost.is_some());
    let unknown = match (tells.tokens, tells.cost) {
        (false, false) => "neither tokens nor money: no budget of these bounds it",
        (false, true) if has_tokens => "no tokens: the budget of tokens does not bound it",
        (true, false) if has_cost => "no money: the budget of money does not bound it",
        _ => return,
    };
    let words = format!("what agent {} prints tells {unknown}", chosen.name);
    cx.say(&words).await;
}

/// What an agent said it used, as budgets count it.
pub(super) fn usage_of(usage: &Usage) -> budget::Usage {
    let sum = |of: fn(&Tokens) -> u64| {
        let all = usage.models.values().map(of);
        all.fold(0_u64, u64::saturating_add)
    };
    budget::Usage {
        input_tokens: sum(|tokens| {
            tokens
                .input
                .saturating_add(tokens.cache_read)
                .saturating_add(tokens.cache_write)
                .saturating_add(tokens.unsplit)
        }),
        output_tokens: sum(|tokens| tokens.output),
        cached_tokens: sum(|tokens| tokens.cache_read),
        cost_micros: usage.cost_micros.unwrap_or_default(),
        premium_millis: usage.premium_milli.unwrap_or_default(),
        turns: usage.turns.unwrap_or_default(),
        api_ms: usage.api_ms.unwrap_or_default(),
    }
}
