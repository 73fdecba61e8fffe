//! Commands of people and programs.

use orchestra_plan::{
    command::{Command, Cx, Decision, NewPlan, Refusal},
    decide::{create, repeats},
    ids::PlanId,
    plan::Plan,
};
use serde_json::value::to_raw_value;

use super::Engine;
use crate::{
    holder::Refused,
    journal::{Once, OnceKey},
    plans::{Answer, Order, now, refused},
    runner::{
        host::new_job_id,
        turn::{AnswerTo, Turn},
    },
};

impl Engine {
    /// Does what is asked. The answer goes out when it is durable.
    pub(super) fn asked(
        &mut self,
        order: Order,
        once: Option<OnceKey>,
        answer: AnswerTo,
        turn: &mut Turn,
    ) {
        // It may have been asked on another connection, and done since the journal was looked at.
        let before = |key| turn.once.get(key).or_else(|| self.answered.find(key));
        if let Some(before) = once.as_ref().and_then(before) {
            let before = Ok(before.clone());
            turn.answers.push((answer, before));
            return;
        }
        if let Some(id) = self.shelved(&order) {
            self.take_down(id, order, once, answer);
            return;
        }
        // The settings were read for it.
        self.policy = self.host.policy();
        let key = once.clone();
        let done = match order {
            Order::Create { new, by } => self.make(*new, by, once, turn),
            Order::Change { plan, request } => {
                let resumes = matches!(request.command, Command::Resume);
                let decided = self.decide(plan, *request);
                let done = decided
                    .map_err(|refusal| of(&refusal))
                    .and_then(|decision| self.decided(plan, decision, once, turn));
                if resumes && done.as_ref().is_ok_and(|answer| answer.changed) {
                    self.fetching.insert(plan);
                }
                done
            }
        };
        let value =
            done.and_then(|answer| serde_json::to_value(answer).map_err(|error| internal(&error)));
        if let (Some(key), Ok(value)) = (key, &value) {
            turn.once.insert(key, value.clone());
        }
        turn.answers.push((answer, value));
    }

    /// Takes a decision in, with the answer that is kept beside it.
    fn decided(
        &mut self,
        id: PlanId,
        decision: Decision,
        once: Option<OnceKey>,
        turn: &mut Turn,
    ) -> Result<Answer, Refused> {
        let Some(plan) = self.plans.get(&id) else {
            return Err(refused("plan-unknown", "the plan no longer exists"));
        };
        if decision.events.is_empty() {
            return Ok(Answer::of(plan, decision));
        }
        // What it will be then is what is answered, now and when it is asked again.
        let mut after = plan.clone();
        for event in &decision.events {
            if let Some(misfit) = after.apply(event).refused {
                return Err(refused("internal", &misfit.to_string()));
            }
        }
        let events = decision.events.clone();
        let answer = Answer::of(&after, decision);
        let once = once_of(once, &answer)?;
        self.take_in(id, &events, once, turn)?;
        Ok(answer)
    }

    /// Makes a plan, unless one was made with the same key before.
    fn make(
        &mut self,
        new: NewPlan,
        by: Option<String>,
        once: Option<OnceKey>,
        turn: &mut Turn,
    ) -> Result<Answer, Refused> {
        let key = new.settings.idempotency_key.as_ref();
        let same = |plan: &&Plan| key.is_some() && plan.settings().idempotency_key.as_ref() == key;
        let mut plans = self.plans.values().filter(|plan| !plan.is_deleted());
        if let Some(before) = plans.find(same) {
            repeats(before, &new).map_err(|refusal| of(&refusal))?;
            let repeated = Decision {
                repeated: true,
                ..Decision::default()
            };
            return Ok(Answer::of(before, repeated));
        }
        let id = new.id;
        if self.plans.contains_key(&id) || self.shelf.contains_key(&id) {
            return Err(refused(
                "plan-exists",
                "there is a plan with this id already",
            ));
        }
        let event = {
            let others = |id: &PlanId| self.other(id);
            let mut cx = Cx {
                now: now(),
                policy: &self.policy,
                ids: &mut new_job_id,
                others: &others,
            };
            create(new, by, &mut cx).map_err(|refusal| of(&refusal))?
        };
        let plan = Plan::start(&event).map_err(|error| internal(&error))?;
        let events = vec![event];
        let answer = Answer::of(
            &plan,
            Decision {
                events: events.clone(),
                ..Decision::default()
            },
        );
        let once = once_of(once, &answer)?;
        turn.keep(id, 0, &events, once)?;
        turn.touched.insert(id);
        turn.moved.insert(id);
        self.scheduler.load(&plan);
        self.plans.insert(id, plan);
        Ok(answer)
    }
}

fn of(refusal: &Refusal) -> Refused {
    refused(refusal.code().name(), refusal.message())
}

fn internal(error: &dyn std::error::Error) -> Refused {
    refused("internal", &error.to_string())
}

fn once_of(key: Option<OnceKey>, answer: &Answer) -> Result<Option<Once>, Refused> {
    let Some(key) = key else { return Ok(None) };
    let answer = to_raw_value(answer).map_err(|error| internal(&error))?;
    Ok(Some(Once { key, answer }))
}
