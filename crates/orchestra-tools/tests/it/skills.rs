//! Skills of a workspace as the provider tells them without being asked.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orchestra_hub::{Catalog, Notice, Provider, SkillDescriptor};
use orchestra_store::Store;
use orchestra_tools::{Builtin, Options};
use tokio::sync::watch::Receiver;
use tokio::time::timeout;

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn provider(workspace: &Path) -> Builtin {
    let options = orchestra_store::Options {
        watch: false,
        ..orchestra_store::Options::default()
    };
    let store = Store::open(workspace, options).unwrap();
    Builtin::new(store, Options::default())
}

fn skills(catalog: &Catalog) -> Vec<&str> {
    let skills = catalog.skills.as_ref().expect("skills are served");
    skills.iter().map(SkillDescriptor::name).collect()
}

/// Waits until these skills are told, and as many resources.
async fn until(catalog: &mut Receiver<Arc<Catalog>>, expected: &[&str]) {
    let there = |catalog: &Arc<Catalog>| {
        let resources = catalog.resources.iter();
        let of_skills = resources.filter(|resource| resource.uri.starts_with("skill://"));
        skills(catalog) == expected && of_skills.count() == expected.len()
    };
    let told = timeout(PATIENCE, catalog.wait_for(there)).await;
    let Ok(told) = told else {
        panic!("{expected:?} are not told");
    };
    told.unwrap();
}

fn write(workspace: &Path, path: &str, text: &str) {
    let path = workspace.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn front(name: &str) -> String {
    format!("---\nname: {name}\ndescription: Does {name}.\n---\n")
}

/// Nobody asks here: what is told is told by itself.
#[tokio::test(flavor = "multi_thread")]
async fn changes_are_told_without_a_question() {
    let directory = tempfile::tempdir().unwrap();
    let workspace = directory.path();
    let builtin = provider(workspace);
    let mut catalog = builtin.catalog();
    assert!(skills(&catalog.borrow()).is_empty());
    let mut notices = builtin.notices().unwrap();

    // Not even the directory of the clients is there yet.
    write(workspace, ".claude/skills/a/SKILL.md", &front("a"));
    until(&mut catalog, &["a"]).await;
    write(workspace, ".claude/skills/b/deep/er/x.md", "one");
    write(workspace, ".claude/skills/b/SKILL.md", &front("b"));
    until(&mut catalog, &["a", "b"]).await;

    builtin.watch("skill://b/deep/er/x.md");
    write(workspace, ".claude/skills/b/deep/er/x.md", "two");
    let updated = async {
        loop {
            // A look in the middle of a write may have found something wrong.
            match notices.recv().await {
                Some(Notice::ResourceUpdated(uri)) => break uri,
                Some(_) => {}
                None => panic!("no notices any more"),
            }
        }
    };
    let updated = timeout(PATIENCE, updated).await.expect("told in time");
    assert_eq!(updated, "skill://b/deep/er/x.md");

    // Another directory of the same name is watched as well.
    fs::rename(workspace.join(".claude"), workspace.join("aside")).unwrap();
    until(&mut catalog, &[]).await;
    write(workspace, ".claude/skills/c/SKILL.md", &front("c"));
    until(&mut catalog, &["c"]).await;
    fs::remove_dir_all(workspace.join(".claude/skills/c")).unwrap();
    until(&mut catalog, &[]).await;
    write(workspace, ".claude/skills/c/SKILL.md", &front("c"));
    until(&mut catalog, &["c"]).await;
    write(workspace, ".claude/skills/c/SKILL.md", "broken");
    until(&mut catalog, &[]).await;
    let problem = builtin.skill_problem("skill://c/SKILL.md");
    assert!(problem.is_some_and(|problem| problem.contains("front matter")));
}

/// However much there is to read, the provider is there soon, and says from the beginning that it
/// serves skills.
#[tokio::test(flavor = "multi_thread")]
async fn what_takes_long_to_read_is_told_later() {
    const SKILLS: usize = 12;
    let directory = tempfile::tempdir().unwrap();
    let names: Vec<String> = (10..10 + SKILLS)
        .map(|number| format!("s{number}"))
        .collect();
    for name in &names {
        let path = format!(".claude/skills/{name}/SKILL.md");
        write(directory.path(), &path, &front(name));
        let data = directory.path().join(path).with_file_name("data");
        let data = fs::File::create(data).unwrap();
        data.set_len(8 * 1024 * 1024).unwrap();
    }
    let builtin = provider(directory.path());
    let mut catalog = builtin.catalog();
    let at_first = skills(&catalog.borrow()).len();
    assert!(at_first < SKILLS, "{at_first}");
    let _notices = builtin.notices().unwrap();
    let expected: Vec<&str> = names.iter().map(String::as_str).collect();
    until(&mut catalog, &expected).await;
}
