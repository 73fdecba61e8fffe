//! Plans, hook events and the status page.

use orchestra_board::{
    AgentName, Body, IssueId, Label, PlanId, Refusal, Slug, Source, Timestamp, Title,
};
use rusqlite::params;

use super::{Write, Writing};
use crate::files::owner::Owner;
use crate::reader::README;
use crate::{
    ActionError, HookEventRecord, Made, NewHookEvent, PlanRecord, Receipt, readme, redact,
};

/// The most hook events that are kept.
pub(super) const MAX_HOOK_EVENTS: i64 = 1_000;
/// The most plans of a project.
const MAX_PLANS: u64 = 10_000;
/// How many names are tried for a plan whose title is like that of another.
const MAX_SAME_NAMES: u64 = 1_000;

/// A plan that is to be saved.
pub(super) struct NewPlan<'a> {
    pub(super) project: &'a Slug,
    pub(super) title: &'a Title,
    pub(super) content: &'a Body,
    pub(super) issue: Option<&'a IssueId>,
    /// Whether a plan of the same title may be replaced.
    pub(super) replace: bool,
}

impl Writing<'_> {
    pub(super) fn save_plan(
        &mut self,
        agent: Option<&AgentName>,
        source: Source,
        plan: NewPlan<'_>,
    ) -> Write<Receipt> {
        let NewPlan {
            project,
            title,
            content,
            issue,
            replace,
        } = plan;
        let row = self.reader().project_id(project)?;
        let issue = match issue {
            None => None,
            Some(id) => {
                let missing = || Refusal::NoIssue {
                    kind: "issue",
                    id: id.clone(),
                    project: project.clone(),
                };
                Some(
                    self.reader()
                        .find_issue(project, id)?
                        .ok_or_else(missing)?
                        .record
                        .issue
                        .id,
                )
            }
        };
        let (id, before) = self.plan_name(row, project, title)?;
        if before.is_some() && !replace {
            return Err(ActionError::Invalid(format!(
                "project `{project}` already has a plan with this title, `{id}.md`. Pass replace: true to replace it, or choose another title."
            )));
        }
        let issue = issue.or_else(|| before.as_ref()?.issue.clone());
        let now = self.now();
        let plan = PlanRecord {
            project: project.clone(),
            id,
            title: title.clone(),
            issue,
            created_at: before.as_ref().map_or(now, |before| before.created_at),
            updated_at: before.map(|_| now),
        };
        self.put_plan(row, &plan, Some(content.as_str()))?;
        self.log_side("plan", agent, source, project, plan.id.as_str())?;
        Ok(Receipt {
            made: Made::Plan(plan),
            ..Receipt::default()
        })
    }

    /// The name for a plan: that of the plan of the same title, else one that is free.
    fn plan_name(
        &self,
        row: i64,
        project: &Slug,
        title: &Title,
    ) -> Write<(PlanId, Option<PlanRecord>)> {
        let reader = self.reader();
        let kept = reader.count("SELECT count(*) FROM plan WHERE project = ?1", [row])?;
        let first = PlanId::of_title(title.as_str());
        for number in 1..=MAX_SAME_NAMES {
            let id = match &first {
                Some(id) if number == 1 => id.clone(),
                Some(id) => {
                    // The number must fit into the length of a name.
                    let cut = &id.as_str()[..id.as_str().len().min(Slug::MAX_BYTES - 5)];
                    let name = format!("{}-{number}", cut.trim_end_matches('-'));
                    PlanId::parse(&name).map_err(|error| ActionError::Invalid(error.to_string()))?
                }
                None => PlanId::numbered(number),
            };
            match reader.plan(project, &id)? {
                Some((plan, _)) if plan.title == *title => return Ok((id, Some(plan))),
                Some(_) => {}
                None if kept >= MAX_PLANS => break,
                None => return Ok((id, None)),
            }
        }
        Err(ActionError::Invalid(
            "too many plans like this one; choose another title".to_owned(),
        ))
    }

    /// Writes a plan, or removes it.
    pub(super) fn put_plan(
        &mut self,
        project: i64,
        plan: &PlanRecord,
        content: Option<&str>,
    ) -> Write<()> {
        match content {
            Some(content) => self.execute(
                "INSERT OR REPLACE INTO plan (project, name, title, issue, created_at, updated_at, content) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    project,
                    plan.id.as_str(),
                    plan.title.as_str(),
                    plan.issue.as_ref().map(IssueId::to_string),
                    plan.created_at.unix_seconds(),
                    plan.updated_at.map(Timestamp::unix_seconds),
                    content,
                ],
            )?,
            None => self.execute("DELETE FROM plan WHERE project = ?1 AND name = ?2", params![project, plan.id.as_str()])?,
        };
        self.dirty(&Owner::Plan(plan.project.clone(), plan.id.clone()))
    }

    pub(super) fn hook_event(&mut self, new: &NewHookEvent) -> Write<Receipt> {
        let mut event = HookEventRecord {
            number: 0,
            event_type: new.event_type.clone(),
            session_id: new.session_id.clone(),
            tool_name: new.tool_name.clone(),
            agent_type: new.agent_type.clone(),
            data: new.data.as_ref().map(redact::event),
            at: self.now(),
        };
        event.number = self.insert_hook_event(&event)?;
        self.execute(
            "DELETE FROM hook_event WHERE number <= ?1",
            [i64::try_from(event.number).unwrap_or(i64::MAX) - MAX_HOOK_EVENTS],
        )?;
        self.dirty(&Owner::HookEvents)?;
        self.sum_session_up(&event)?;
        Ok(Receipt {
            made: Made::HookEvent(event),
            ..Receipt::default()
        })
    }

    fn insert_hook_event(&self, event: &HookEventRecord) -> Write<u64> {
        self.execute(
            "INSERT INTO hook_event (at, event_type, session_id, tool_name, agent_type, data) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                event.at.unix_seconds(),
                event.event_type.as_str(),
                event.session_id.as_ref().map(Label::as_str),
                event.tool_name.as_ref().map(Label::as_str),
                event.agent_type.as_ref().map(Label::as_str),
                event.data.as_ref().map(serde_json::Value::to_string),
            ],
        )?;
        Ok(u64::try_from(self.connection.last_insert_rowid()).unwrap_or_default())
    }

    /// Puts all hook events there, newest first as they are read.
    pub(super) fn put_hook_events(&mut self, events: &[HookEventRecord]) -> Write<()> {
        self.execute("DELETE FROM hook_event", [])?;
        let mut events: Vec<&HookEventRecord> = events.iter().collect();
        orchestra_sort::sort_by_key(&mut events, |event| event.number);
        let surplus = events
            .len()
            .saturating_sub(usize::try_from(MAX_HOOK_EVENTS).unwrap_or(usize::MAX));
        for event in &events[surplus..] {
            let number = self.insert_hook_event(event)?;
            self.execute(
                "UPDATE hook_event SET number = ?2 WHERE number = ?1 AND ?2 > 0",
                params![number, event.number],
            )?;
        }
        self.dirty(&Owner::HookEvents)
    }

    pub(super) fn write_readme(
        &mut self,
        agent: Option<&AgentName>,
        source: Source,
        project: &Slug,
        overwrite: bool,
    ) -> Write<Receipt> {
        let row = self.reader().project_id(project)?;
        let present = self.reader().readme(project)?;
        if !overwrite && present.is_some_and(|text| !readme::is_generated(&text)) {
            return Err(ActionError::Invalid(
                "README.md was not generated by Orchestra, or was edited since, and would be replaced; pass overwrite to replace it"
                    .to_owned(),
            ));
        }
        let text = readme::render(&self.reader(), project)?;
        self.put_document(row, README, Some(&text))?;
        self.log_side("readme", agent, source, project, README)?;
        self.dirty(&Owner::Readme(project.clone()))?;
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        Ok(Receipt {
            made: Made::Readme { bytes },
            ..Receipt::default()
        })
    }
}
