//! The skills: one with directories and another skill inside, one that is a single file.

use orchestra_hub::{ResourceDescriptor, SkillDescriptor, SkillFile};
use serde_json::{Value, json};

/// A file: its URI, its media type and its contents.
type File = (&'static str, &'static str, &'static str);

const FILES: [File; 5] = [
    (
        "skill://test/test-skill/SKILL.md",
        "text/markdown",
        "---\nname: test-skill\ndescription: Shows all that a skill can have.\nlicense: MIT\nmetadata:\n  version: \"1.0\"\n---\n\nFill in a template of `templates/`.\n",
    ),
    (
        "skill://test/test-skill/inner-skill/SKILL.md",
        "text/markdown",
        "---\nname: inner-skill\ndescription: Lies inside of another skill.\n---\n\nNothing to do.\n",
    ),
    (
        "skill://test/test-skill/templates/letter.md",
        "text/markdown",
        "Dear NAME,\n",
    ),
    (
        "skill://test/test-skill/templates/short/note.txt",
        "text/plain",
        "NAME!\n",
    ),
    (
        "skill://test/single-skill/SKILL.md",
        "text/markdown",
        "---\nname: single-skill\ndescription: Is a single file.\n---\n",
    ),
];

pub(crate) fn all() -> Vec<SkillDescriptor> {
    let front = |name: &str, description: &str| json!({"name": name, "description": description});
    let mut whole = front("test-skill", "Shows all that a skill can have.");
    whole["license"] = json!("MIT");
    whole["metadata"] = json!({"version": "1.0"});
    vec![
        skill("skill://test/test-skill", &whole),
        skill(
            "skill://test/test-skill/inner-skill",
            &front("inner-skill", "Lies inside of another skill."),
        ),
        skill(
            "skill://test/single-skill",
            &front("single-skill", "Is a single file."),
        ),
    ]
}

/// The `SKILL.md` of each.
pub(crate) fn resources() -> impl Iterator<Item = ResourceDescriptor> {
    all().into_iter().map(|skill| ResourceDescriptor {
        uri: skill.uri().to_owned(),
        name: skill.name().to_owned(),
        title: None,
        description: Some(skill.description().to_owned()),
        mime_type: Some("text/markdown".to_owned()),
        definition: None,
    })
}

/// The media type and contents of a file.
pub(crate) fn read(uri: &str) -> Option<(&'static str, &'static str)> {
    let (_, mime_type, text) = FILES.iter().find(|file| file.0 == uri)?;
    Some((mime_type, text))
}

fn skill(root: &str, front: &Value) -> SkillDescriptor {
    let below = |uri: &str| {
        uri.strip_prefix(root)
            .is_some_and(|path| path.starts_with('/'))
    };
    let files = FILES.iter().filter(|file| below(file.0));
    let files = files
        .map(|(uri, mime_type, text)| {
            SkillFile::of(
                (*uri).to_owned(),
                Some((*mime_type).to_owned()),
                text.as_bytes(),
            )
        })
        .collect();
    let front = front.as_object().expect("an object");
    SkillDescriptor::new(root, front, files).expect("a skill by the rules")
}
