//! All that is known of one thing, as facts with names. Pure.

use super::{clock::lasted, model::Model, wire::Card};

/// Something that is known; without a name it is what the rest is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) name: &'static str,
    pub(super) text: String,
}

/// Facts in their order; those without a text are none.
#[derive(Default)]
struct Facts(Vec<Fact>);

impl Facts {
    fn add(&mut self, name: &'static str, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.0.push(Fact { name, text });
        }
    }
}

/// A card of the board.
pub(super) fn of_card(model: &Model, id: Option<&str>) -> Vec<Fact> {
    let mut facts = Facts::default();
    let board = model.board.as_ref();
    let card = board.zip(id).and_then(|(board, id)| board.cards.get(id));
    let (Some(board), Some(card)) = (board, card) else {
        facts.add("", "It no longer exists.");
        return facts.0;
    };
    let named = |id: &String| match board.cards.get(id) {
        Some(Card { title, status, .. }) => format!("{id} {title} ({status})"),
        None => id.clone(),
    };
    let all = |ids: &[String]| ids.iter().map(named).collect::<Vec<_>>().join("; ");
    facts.add("", format!("{} {}", card.id, card.title));
    facts.add("state", card.status.clone());
    facts.add("type", card.kind.clone());
    facts.add("priority", card.priority.clone().unwrap_or_default());
    facts.add("epic", card.epic_id.as_ref().map(named).unwrap_or_default());
    facts.add(
        "story",
        card.story_id.as_ref().map(named).unwrap_or_default(),
    );
    if let Some(count) = card.child_count {
        facts.add("below it", count.to_string());
    }
    facts.add("assigned to", card.assignees.join(", "));
    if let Some(claim) = &card.claim {
        facts.add(
            "claimed by",
            format!("{} until {}", claim.agent, claim.until),
        );
    }
    facts.add("labels", card.labels.join(", "));
    facts.add("depends on", all(&card.depends_on));
    let waiting = board.cards.values();
    let waiting = waiting.filter(|other| other.depends_on.contains(&card.id));
    let mut waiting: Vec<String> = waiting.map(|other| other.id.clone()).collect();
    waiting.sort_unstable();
    facts.add("waited for", all(&waiting));
    facts.add("changed", card.updated_at.clone());
    let column = board
        .states
        .iter()
        .find(|column| column.state == card.status);
    let exits = column.into_iter().flat_map(|column| &column.exits);
    let exits = exits.map(|exit| match &exit.asks {
        Some(asks) => format!("{} (evidence: {asks})", exit.to),
        None => exit.to.clone(),
    });
    let exits = match card.kind.as_str() {
        // The others follow from what is below it.
        "epic" | "story" => "cancelled; otherwise its state follows from its children".to_owned(),
        _ => exits.collect::<Vec<_>>().join(", "),
    };
    facts.add("may go to", exits);
    facts.0
}

/// A plan, without its jobs.
pub(super) fn of_plan(model: &Model, id: Option<&str>, now: u64) -> Vec<Fact> {
    let mut facts = Facts::default();
    let plan = id.and_then(|id| model.plans.iter().find(|plan| plan.id == id));
    let Some(plan) = plan else {
        facts.add("", "It no longer exists.");
        return facts.0;
    };
    facts.add("", plan.name.clone());
    facts.add("state", plan.status.replace('_', " "));
    facts.add("id", plan.id.clone());
    facts.add("ended", format!("{} %", plan.progress));
    let counts = plan.counts.iter().filter(|(_, count)| **count > 0);
    let counts = counts.map(|(status, count)| format!("{count} {}", status.replace('_', " ")));
    facts.add("jobs", counts.collect::<Vec<_>>().join(", "));
    facts.add("time", plan.seconds(now).map(lasted).unwrap_or_default());
    facts.add("from", plan.base_branch.clone().unwrap_or_default());
    facts.add("into", plan.target_branch.clone().unwrap_or_default());
    facts.0
}

/// A server of others.
pub(super) fn of_server(model: &Model, name: Option<&str>) -> Vec<Fact> {
    let mut facts = Facts::default();
    let server = name.and_then(|name| model.servers.iter().find(|server| server.name == name));
    let Some(server) = server else {
        facts.add("", "It no longer exists.");
        return facts.0;
    };
    facts.add("", server.name.clone());
    facts.add("state", server.status.replace('_', " "));
    facts.add("because", server.reason.clone().unwrap_or_default());
    facts.add("reached by", server.transport.clone().unwrap_or_default());
    facts.add("speaks", server.protocol.clone().unwrap_or_default());
    facts.add("processes", server.processes.to_string());
    let calls = &server.calls;
    facts.add(
        "calls",
        format!(
            "{} answered, {} refused, {} failed, {} running",
            calls.answered, calls.refused, calls.failed, calls.in_flight
        ),
    );
    if calls.ended() > 0 {
        let times = &server.latency_ms;
        facts.add(
            "latency",
            format!(
                "mean {:.1} ms; half within {:.1}, nine of ten within {:.1}, 99 of 100 within {:.1}",
                times.mean, times.p50, times.p90, times.p99
            ),
        );
    }
    facts.add(
        "starts",
        format!(
            "{} restarts, {} failed",
            server.restarts, server.failed_starts
        ),
    );
    let last = server.last_error.as_ref();
    facts.add(
        "last error",
        last.map(|error| error.text.clone()).unwrap_or_default(),
    );
    let name = &server.name;
    let hint = match server.status.as_str() {
        "needs_approval" => format!("`orchestra mcp approve {name}` shows and approves it"),
        "needs_auth" => format!("`orchestra mcp login {name}` signs in"),
        "disabled" => format!("`orchestra mcp enable {name}` enables it"),
        "offline" | "degraded" => format!("`orchestra mcp logs {name}` shows what it wrote"),
        _ => String::new(),
    };
    facts.add("try", hint);
    facts.0
}
