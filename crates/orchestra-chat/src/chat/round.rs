//! What a model has answered: words that end the turn, or calls, after which it is asked again.

use std::{sync::Arc, time::Duration};

use super::{Chat, End, Note, Spent, Want};
use crate::{
    context::Kept,
    message::{Call, Message},
    repair::{self, Fault, Repaired},
    request::Reply,
    thinking::Split,
    tool::{Tool, Tools},
    untrusted::guarded,
};

/// Calls of one answer of a model that are made; more are refused.
const MAX_CALLS: usize = 32;

/// Arguments of a tool that a refusal names.
const TOLD_ARGUMENTS: usize = 20;

/// Refusal of a call beside a call of a tool that does not exist.
const BESIDE_UNKNOWN: &str = "Not called: another call of the same answer names a tool that does not exist. Make the calls again without it.";

/// Returns the reason to make no call of an answer: it is not whole, and a call may depend on one that is not.
fn left_out(reply: &Reply, faults: &[Option<Fault>]) -> Option<&'static str> {
    if reply.is_cut {
        return Some(
            "Not called: the answer was cut off in the middle. Make the calls again, and shorter.",
        );
    }
    if reply.is_broken {
        return Some(
            "Not called: the answer broke off before its end was reported. Make the calls again.",
        );
    }
    // The calls behind the thinking do not depend on a call in it.
    let mut faults = faults.iter().flatten();
    let has_fault = faults.any(|fault| *fault != Fault::Thought);
    has_fault.then_some(
        "Not called: another call of the same answer is incomplete or cannot be read. Make all calls again.",
    )
}

impl Chat {
    pub(super) fn replied(&mut self, reply: Reply, now: Duration) {
        let offered = self.offer().tools;
        let Some(turn) = &mut self.turn else { return };
        turn.usage = turn.usage.plus(reply.usage);
        turn.retries = 0;
        self.scale.learn(turn.estimate, reply.usage.input);
        let Understood {
            text,
            calls,
            repaired,
        } = understood(&reply, &offered, &self.tools);
        if reply.is_cut {
            self.wants.push_back(Want::Tell(Note::Cut));
        }
        for tool in repaired {
            self.wants.push_back(Want::Tell(Note::Repaired { tool }));
        }
        let says_nothing = text.trim().is_empty() && calls.is_empty();
        let is_last = turn.concludes && turn.rounds >= self.settings.budget.rounds;
        if says_nothing && !turn.is_nudged && !is_last {
            // Small models do that when they have seen much; without tools they answer.
            turn.is_nudged = true;
            turn.concludes = turn.rounds > 0 || turn.concludes;
            return self.ask();
        }
        let (calls, faults): (Vec<Call>, Vec<Option<Fault>>) = calls
            .into_iter()
            .map(|found| {
                self.next_call += 1;
                let call = Call {
                    id: format!("call_{}", self.next_call),
                    tool: found.tool,
                    arguments: found.arguments,
                };
                (call, found.fault)
            })
            .unzip();
        let message = Message::Assistant {
            text: text.clone(),
            calls: calls.clone(),
        };
        if !says_nothing {
            self.conversation.push(Kept::new(message));
        }
        if calls.is_empty() {
            let how = match (is_last, says_nothing, reply.is_cut) {
                (true, ..) => End::Spent(Spent::Rounds),
                (_, true, _) => End::Empty,
                (_, _, true) => End::Cut,
                _ => End::Answered,
            };
            return self.finish(how);
        }
        self.take_up(calls, &faults, left_out(&reply, &faults));
        self.advance(now);
    }

    /// Takes up calls: those that cannot be made are answered at once, all of them where there is a reason to make
    /// none.
    fn take_up(&mut self, calls: Vec<Call>, faults: &[Option<Fault>], none: Option<&str>) {
        let mut whole = calls
            .iter()
            .zip(faults)
            .filter(|(_, fault)| fault.is_none());
        let has_unknown = whole.any(|(call, _)| self.is_unknown(call));
        for (place, call) in calls.into_iter().enumerate() {
            let refusal = match place < MAX_CALLS {
                true => match (&faults[place], none) {
                    (Some(fault), _) => Some(self.refusal_of_fault(&call, fault)),
                    (None, Some(why)) => Some(why.to_owned()),
                    (None, None) => self
                        .refusal(&call)
                        .or_else(|| has_unknown.then(|| BESIDE_UNKNOWN.to_owned())),
                },
                false => Some(format!(
                    "Not called: at most {MAX_CALLS} calls are made at once. Call again what is still needed."
                )),
            };
            let found = match refusal {
                Some(_) => None,
                None => self.found_tools(&call),
            };
            let tool = self.tools.named(&call.tool).cloned();
            if tool.is_some() {
                self.used.insert(call.tool.clone());
            }
            let is_agreed = self.agreed.contains(&call.tool);
            let Some(turn) = &mut self.turn else { return };
            match (found, refusal) {
                (Some(text), _) => turn.calls.push_answered(call, text, false),
                // It may repeat names of the server and text of the model.
                (None, Some(text)) => turn.calls.push_answered(call, guarded(&text), true),
                (None, None) => turn.calls.push(call, tool, is_agreed),
            }
        }
    }

    /// Error result of a call whose text has a fault.
    fn refusal_of_fault(&self, call: &Call, fault: &Fault) -> String {
        let takes = match self.tools.named(&call.tool) {
            Some(tool) => {
                let names: Vec<&str> = tool.arguments().take(TOLD_ARGUMENTS).collect();
                format!(" `{}` takes: {}.", tool.shown(), names.join(", "))
            }
            None => String::new(),
        };
        format!(
            "Not called: {fault}. Nothing was run.{takes} Make the call again, complete, with its arguments as one \
             JSON object."
        )
    }

    /// Returns whether there is no tool of a call.
    fn is_unknown(&self, call: &Call) -> bool {
        call.tool != self.finder() && self.tools.named(&call.tool).is_none()
    }

    /// Why a call cannot be made, for the model.
    fn refusal(&self, call: &Call) -> Option<String> {
        if self.is_unknown(call) {
            return Some(repair::no_such_tool(&call.tool, &self.offer().tools));
        }
        let tool = self.tools.named(&call.tool)?;
        let mistakes = tool.mistakes(&call.arguments)?;
        let takes: Vec<&str> = tool.arguments().take(TOLD_ARGUMENTS).collect();
        Some(format!(
            "Not called: the arguments are not as `{}` takes them: {mistakes}. It takes: {}. Call it again with other \
             arguments.",
            tool.shown(),
            takes.join(", ")
        ))
    }

    /// Goes on with calls, or asks the model again when all of them have come to an end.
    pub(super) fn advance(&mut self, now: Duration) {
        let approval = self.settings.approval;
        let Some(turn) = &mut self.turn else { return };
        if turn.waits_since.is_some() {
            return;
        }
        let wants = turn.calls.next(approval);
        if wants.iter().any(|want| matches!(want, Want::Approve(_))) {
            turn.waits_since = Some(now);
        }
        self.wants.extend(wants);
        if !turn.calls.are_over() {
            return;
        }
        let done = turn.calls.take();
        turn.rounds += 1;
        turn.made.extend(done.made);
        let loops = done.loops;
        for answer in done.answers {
            self.conversation.push(Kept::new(Message::Tool(answer)));
        }
        if let Some((tool, times)) = loops {
            return self.finish(End::Loops { tool, times });
        }
        if let Some(spent) = self.spent(now) {
            return self.finish(End::Spent(spent));
        }
        if let Some(turn) = &mut self.turn
            && turn.rounds >= self.settings.budget.rounds
        {
            turn.concludes = true;
            self.wants.push_back(Want::Tell(Note::Concludes));
        }
        self.ask();
    }

    /// What of the budget is used up.
    fn spent(&self, now: Duration) -> Option<Spent> {
        let (turn, budget) = (self.turn.as_ref()?, &self.settings.budget);
        let usage = turn.usage;
        let tokens = usage.input.saturating_add(usage.output);
        if budget.tokens.is_some_and(|most| tokens >= most) {
            return Some(Spent::Tokens);
        }
        let cost = self
            .settings
            .price
            .map(|price| price.of(usage.input, usage.output));
        if cost
            .zip(budget.cost)
            .is_some_and(|(cost, most)| cost >= most)
        {
            return Some(Spent::Money);
        }
        let passed = now.saturating_sub(turn.started).saturating_sub(turn.waited);
        budget
            .time
            .is_some_and(|most| passed >= most)
            .then_some(Spent::Time)
    }
}

/// An answer of a model.
struct Understood {
    /// The text without thinking and calls.
    text: String,
    calls: Vec<Repaired>,
    /// The tools of the calls that were put right.
    repaired: Vec<String>,
}

fn understood(reply: &Reply, offered: &[Arc<Tool>], tools: &Tools) -> Understood {
    let answer = || Split::of(&reply.text).answer();
    // Who is offered nothing can call nothing.
    if offered.is_empty() {
        return Understood {
            text: answer(),
            calls: Vec::new(),
            repaired: Vec::new(),
        };
    }
    if reply.calls.is_empty() {
        let found = reply.printed(offered);
        let (text, calls) = match found {
            Some(found) => (found.text, found.calls),
            None => (answer(), Vec::new()),
        };
        let repaired = calls.iter().filter(|call| call.fault.is_none());
        let repaired = repaired.map(|call| call.tool.clone()).collect();
        return Understood {
            text,
            calls,
            repaired,
        };
    }
    let mut repaired = Vec::new();
    let calls = reply.calls.iter().map(|call| {
        // A tool that is there and was not shown is meant by its name all the same.
        let exact = tools.named(&call.name).or_else(|| tools.shown(&call.name));
        let among = exact.map_or(offered, std::slice::from_ref);
        let found = repair::repaired(&call.name, &call.arguments, among);
        if call.is_thought {
            return found.thought();
        }
        let shown = tools.named(&found.tool).map(|tool| tool.shown());
        let has_other_name = shown.is_some_and(|shown| shown != call.name);
        let own = call.arguments.as_object();
        let has_other_arguments = own.is_some_and(|own| *own != found.arguments);
        if found.fault.is_none() && (has_other_name || has_other_arguments) {
            repaired.push(found.tool.clone());
        }
        found
    });
    Understood {
        text: answer(),
        calls: calls.collect(),
        repaired,
    }
}
