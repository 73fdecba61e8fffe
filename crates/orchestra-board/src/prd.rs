//! The PRD questionnaire: twelve fixed questions, a session that walks them, and the document.

use crate::{Body, Slug, Title};

/// One question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// Its key.
    pub key: &'static str,
    /// The section of the document it belongs to.
    pub section: &'static str,
    /// Its heading in the document.
    pub label: &'static str,
    /// The question itself.
    pub text: &'static str,
    /// Whether it must be answered.
    pub required: bool,
    /// Suggestions; any text is allowed.
    pub options: &'static [&'static str],
}

const fn question(
    section: &'static str,
    key: &'static str,
    label: &'static str,
    text: &'static str,
    required: bool,
    options: &'static [&'static str],
) -> Question {
    Question {
        key,
        section,
        label,
        text,
        required,
        options,
    }
}

const MUST: bool = true;
const MAY: bool = false;

/// The questions, in order. Source: document 001's questionnaire.
pub const QUESTIONS: [Question; 12] = [
    question(
        "Overview",
        "project_name",
        "Project Name",
        "What is the project called?",
        MUST,
        &[],
    ),
    question(
        "Overview",
        "project_description",
        "Description",
        "What does it do, in two or three sentences?",
        MUST,
        &[],
    ),
    question(
        "Overview",
        "target_audience",
        "Target Audience",
        "Who is it for?",
        MUST,
        &[
            "Developers",
            "End users",
            "Enterprise teams",
            "Internal team",
        ],
    ),
    question(
        "Goals",
        "primary_goals",
        "Primary Goals",
        "What must it achieve?",
        MUST,
        &[],
    ),
    question(
        "Goals",
        "success_metrics",
        "Success Metrics",
        "How will success be measured?",
        MAY,
        &[
            "User adoption rate",
            "Performance benchmarks",
            "Revenue targets",
            "User satisfaction score",
        ],
    ),
    question(
        "Requirements",
        "functional_requirements",
        "Functional Requirements",
        "What must it be able to do?",
        MUST,
        &[],
    ),
    question(
        "Requirements",
        "non_functional_requirements",
        "Non-Functional Requirements",
        "How well must it do it?",
        MAY,
        &[
            "High availability (99.9%)",
            "Sub-100ms latency",
            "GDPR compliance",
            "Offline support",
        ],
    ),
    question(
        "Requirements",
        "constraints",
        "Constraints",
        "What limits the solution?",
        MAY,
        &[],
    ),
    question(
        "Technical",
        "tech_stack",
        "Tech Stack",
        "What will it be built with?",
        MAY,
        &[
            "Go + React",
            "Python + React",
            "Node.js + React",
            "Rust + React",
        ],
    ),
    question(
        "Technical",
        "integrations",
        "Integrations",
        "What must it work together with?",
        MAY,
        &[],
    ),
    question(
        "Timeline",
        "milestones",
        "Milestones",
        "What are the milestones?",
        MAY,
        &[],
    ),
    question(
        "Timeline",
        "deadline",
        "Deadline",
        "When must it be finished?",
        MAY,
        &["1 month", "3 months", "6 months", "1 year"],
    ),
];

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PrdStatus {
    /// Questions are left.
    InProgress,
    /// All questions were passed and the document was written.
    Complete,
    /// The session of a phase that nobody has begun.
    Pending,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Index into [`QUESTIONS`].
    pub question: usize,
    /// The text.
    pub text: Body,
}

/// A walk through the questionnaire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrdSession {
    /// The project's slug.
    pub slug: Slug,
    /// The project's name.
    pub project_name: Title,
    /// Where it stands.
    pub status: PrdStatus,
    /// Index of the current question, 0 to 12; 12 when all were passed.
    pub current: usize,
    /// The answers, at most one a question, in the order of the questions.
    pub answers: Vec<Answer>,
    /// The slugs of the phases this PRD was split into.
    pub phases: Vec<Slug>,
}

impl PrdStatus {
    /// The status's name on the wire and in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Complete => "complete",
            Self::Pending => "pending",
        }
    }

    /// Parses a status's name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::InProgress, Self::Complete, Self::Pending]
            .into_iter()
            .find(|status| status.as_str() == text)
    }
}

impl PrdSession {
    /// A session before its first question.
    #[must_use]
    pub const fn new(slug: Slug, project_name: Title, status: PrdStatus) -> Self {
        Self {
            slug,
            project_name,
            status,
            current: 0,
            answers: Vec::new(),
            phases: Vec::new(),
        }
    }

    /// The current question; `None` when all were passed.
    #[must_use]
    pub fn question(&self) -> Option<&'static Question> {
        QUESTIONS.get(self.current)
    }

    /// The answer to the question at `index`.
    #[must_use]
    pub fn answer(&self, index: usize) -> Option<&Body> {
        self.answers
            .iter()
            .find(|answer| answer.question == index)
            .map(|answer| &answer.text)
    }
}

/// The document as far as there are answers. Its heading is the answer to the first question, or
/// the project's name.
#[must_use]
pub fn document(session: &PrdSession) -> String {
    let title = session
        .answer(0)
        .filter(|text| !text.is_empty())
        .map_or_else(
            || session.project_name.as_str(),
            |text| text.as_str().lines().next().unwrap_or_default(),
        );
    let mut text = format!("# {title}\n");
    let mut section = "";
    for (index, question) in QUESTIONS.iter().enumerate() {
        let Some(answer) = session
            .answer(index)
            .filter(|answer| !answer.as_str().trim().is_empty())
        else {
            continue;
        };
        if question.section != section {
            section = question.section;
            text.push_str(&format!("\n## {section}\n"));
        }
        text.push_str(&format!("\n### {}\n\n{answer}\n", question.label));
    }
    text
}
