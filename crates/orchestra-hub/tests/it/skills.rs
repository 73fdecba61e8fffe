//! Skills of all providers: listed, looked up, their directories read, and kept apart.

use std::sync::Arc;

use orchestra_hub::{
    BoxFuture, Catalog, Hub, Outcome, Provider, ProviderError, ProviderId, Request, SkillAnswer,
    SkillDescriptor, SkillFile, SkillQuery, Target, Toolset,
};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::provider::{TestProvider, caller, hub, provider, text, tools};

fn skill(root: &str, paths: &[&str]) -> SkillDescriptor {
    let name = root.rsplit('/').next().unwrap();
    let front = json!({"name": name, "description": format!("Does {name}.")});
    let file = |path: &&str| SkillFile::of(format!("{root}/{path}"), None, path.as_bytes());
    let files = paths.iter().chain(&["SKILL.md"]).map(file).collect();
    SkillDescriptor::new(root, front.as_object().unwrap(), files).unwrap()
}

fn skills(skills: Vec<SkillDescriptor>) -> Catalog {
    Catalog {
        skills: Some(skills),
        ..Catalog::default()
    }
}

async fn ask(hub: &Hub, query: SkillQuery) -> Result<(Value, Option<usize>), ProviderError> {
    let request = Request {
        target: Target::Skills(query),
        cx: Default::default(),
    };
    let call = hub.attach(caller(), Toolset::All).call(request);
    let Outcome::Skills(answer) = call.await? else {
        panic!("an answer about skills")
    };
    let (text, next) = match answer {
        SkillAnswer::List(text, next) | SkillAnswer::Directory(text, next) => {
            (format!("[{}]", std::str::from_utf8(&text).unwrap()), next)
        }
        SkillAnswer::Entry(text) => (String::from_utf8(text.to_vec()).unwrap(), None),
    };
    Ok((serde_json::from_str(&text).unwrap(), next))
}

async fn uris(hub: &Hub) -> Vec<String> {
    let (start, limit) = (0, usize::MAX);
    let (skills, _) = ask(hub, SkillQuery::List { start, limit }).await.unwrap();
    let skills = skills.as_array().unwrap().iter();
    skills
        .map(|skill| skill["uri"].as_str().unwrap().to_owned())
        .collect()
}

fn directory(uri: &str) -> SkillQuery {
    SkillQuery::Directory {
        uri: uri.to_owned(),
        start: 0,
        limit: usize::MAX,
    }
}

#[tokio::test]
async fn skills_of_all_providers_are_listed_and_found() {
    let first = provider("first", skills(vec![skill("skill://b", &["x"])]));
    let second = provider(
        "second",
        skills(vec![skill("skill://p/a", &[]), skill("git://a", &[])]),
    );
    let hub = hub(&[&first, &second, &provider("third", tools(&["t"]))]);
    let all = [
        "skill://b/SKILL.md",
        "skill://p/a/SKILL.md",
        "git://a/SKILL.md",
    ];
    assert_eq!(uris(&hub).await, all);
    let list = |start| ask(&hub, SkillQuery::List { start, limit: 2 });
    let (page, next) = list(0).await.unwrap();
    assert_eq!((page.as_array().unwrap().len(), next), (2, Some(2)));
    let (page, next) = list(2).await.unwrap();
    assert_eq!((&page[0]["uri"], next), (&json!(all[2]), None));

    let get = |uri: &str| {
        ask(
            &hub,
            SkillQuery::Get {
                uri: uri.to_owned(),
            },
        )
    };
    let digest = |text: &str| orchestra_hub::Sha256Digest::of(text.as_bytes()).to_string();
    assert_eq!(
        get(all[0]).await.unwrap().0,
        json!({
            "uri": "skill://b/SKILL.md",
            "frontmatter": {"name": "b", "description": "Does b."},
            "resources": [
                {"uri": "skill://b/SKILL.md", "digest": digest("SKILL.md"), "size": 8},
                {"uri": "skill://b/x", "digest": digest("x"), "size": 1},
            ],
        })
    );
    for uri in ["skill://b", "skill://b/x", "skill://c/SKILL.md", ""] {
        let error = get(uri).await.unwrap_err();
        assert!(matches!(error, ProviderError::InvalidParams(_)), "{error}");
    }
}

#[tokio::test]
async fn a_skill_belongs_to_one_provider_with_all_below_it() {
    let first = provider(
        "first",
        skills(vec![skill("skill://a/b", &["b2/SKILL.md"])]),
    );
    let hub = hub(&[&first]);
    for root in ["skill://a/b", "skill://a/b/b2", "skill://a"] {
        let second = provider("second", skills(vec![skill(root, &[])]));
        assert_eq!(
            hub.register(second).unwrap_err().to_string(),
            format!(
                "skill {root}/SKILL.md of provider second is already offered by provider first"
            )
        );
    }
    // Beside it, and one's own inside of it.
    let second = provider("second", skills(vec![skill("skill://a/b-2", &[])]));
    hub.register(second.clone()).unwrap();
    let own = vec![
        skill("skill://a/b", &["b2/SKILL.md"]),
        skill("skill://a/b/b2", &[]),
    ];
    first.catalog.send_replace(Arc::new(skills(own)));
    assert_eq!(uris(&hub).await.len(), 3);
    // A later clash hides the newcomer.
    let clash = vec![skill("skill://a/b/b3", &[]), skill("skill://z", &[])];
    second.catalog.send_replace(Arc::new(skills(clash)));
    assert_eq!(uris(&hub).await.last().unwrap(), "skill://z/SKILL.md");
    assert_eq!(uris(&hub).await.len(), 3);
}

#[tokio::test]
async fn what_lies_in_a_skill_is_read_from_its_provider() {
    let first = provider("first", skills(vec![skill("skill://a", &[])]));
    let second = provider("second", skills(vec![skill("skill://a-b", &[])]));
    let hub = hub(&[&first, &second]);
    let attachment = hub.attach(caller(), Toolset::All);
    let read = async |uri: &str| {
        let target = Target::Resource {
            uri: uri.to_owned(),
        };
        let cx = Default::default();
        let outcome = attachment.call(Request { target, cx }).await;
        outcome.map(|outcome| text(outcome).split(' ').next().unwrap().to_owned())
    };
    for (uri, owner) in [
        ("skill://a/SKILL.md", "first"),
        ("skill://a/not/yet/listed", "first"),
        ("skill://a-b/SKILL.md", "second"),
    ] {
        assert_eq!(read(uri).await.unwrap(), owner, "{uri}");
    }
    for uri in ["skill://a", "skill://a-c/SKILL.md", "skill://"] {
        assert!(
            matches!(read(uri).await, Err(ProviderError::Unknown { .. })),
            "{uri}"
        );
    }
    assert!(attachment.subscribe("skill://a/SKILL.md").is_ok());
}

#[tokio::test]
async fn directories_show_what_lies_right_below_them() {
    let outer = skill(
        "skill://p/a",
        &["x.md", "t/one%20two.md", "t/u/v", "b/SKILL.md"],
    );
    let first = provider("first", skills(vec![outer, skill("skill://p/a/b", &[])]));
    let hub = hub(&[
        &first,
        &provider("second", skills(vec![skill("skill://p/c", &[])])),
    ]);
    let shown = async |uri: &str| {
        let (children, _) = ask(&hub, directory(uri)).await.unwrap();
        let children = children.as_array().unwrap().clone();
        let shown = children.iter().map(|child| {
            assert!(
                child["uri"]
                    .as_str()
                    .unwrap()
                    .starts_with(&format!("{uri}/"))
            );
            let is_directory = child["mimeType"] == "inode/directory";
            let end = if is_directory { "/" } else { "" };
            format!("{}{end}", child["name"].as_str().unwrap())
        });
        shown.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(shown("skill://p").await, "a/ c/");
    assert_eq!(shown("skill://p/a").await, "a x.md b/ t/");
    assert_eq!(shown("skill://p/a/t").await, "one two.md u/");
    assert_eq!(shown("skill://p/a/b").await, "b");
    for uri in [
        "skill://p/a/",
        "skill://",
        "skill:/",
        "skill:",
        "",
        "skill://p/a/none",
        "skill://p/a/x.md",
        "skill://p/a/SKILL.md",
    ] {
        let error = ask(&hub, directory(uri)).await.unwrap_err();
        assert!(
            matches!(error, ProviderError::InvalidParams(_)),
            "{uri} {error}"
        );
    }
    let paged = SkillQuery::Directory {
        uri: "skill://p/a".to_owned(),
        start: 1,
        limit: 2,
    };
    let (page, next) = ask(&hub, paged).await.unwrap();
    assert_eq!((&page[0]["name"], next), (&json!("x.md"), Some(3)));
}

/// A provider that looks at its skills in its own way.
struct Looking {
    inner: Arc<TestProvider>,
    look: fn(Arc<TestProvider>) -> BoxFuture<()>,
}

impl Provider for Looking {
    fn id(&self) -> &ProviderId {
        self.inner.id()
    }

    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.inner.catalog()
    }

    fn serve(&self, request: Request) -> BoxFuture<Result<Outcome, ProviderError>> {
        self.inner.serve(request)
    }

    fn refresh_skills(&self) -> Option<BoxFuture<()>> {
        Some((self.look)(Arc::clone(&self.inner)))
    }
}

fn looking(id: &str, look: fn(Arc<TestProvider>) -> BoxFuture<()>) -> Arc<dyn Provider> {
    let inner = provider(id, skills(vec![skill(&format!("skill://{id}"), &[])]));
    Arc::new(Looking { inner, look })
}

#[tokio::test(start_paused = true)]
async fn providers_look_before_they_are_asked_and_a_bad_one_harms_no_other() {
    let hub = hub(&[]);
    let providers = [
        looking("hangs", |_| Box::pin(std::future::pending())),
        looking("breaks", |_| Box::pin(async { panic!("as asked") })),
        looking("breaks-at-once", |_| panic!("as asked")),
        looking("finds", |provider| {
            Box::pin(async move {
                tokio::task::yield_now().await;
                let found = skills(vec![skill("skill://found", &[])]);
                provider.catalog.send_replace(Arc::new(found));
            })
        }),
    ];
    for provider in providers {
        hub.register(provider).unwrap();
    }
    assert_eq!(
        uris(&hub).await,
        [
            "skill://hangs/SKILL.md",
            "skill://breaks/SKILL.md",
            "skill://breaks-at-once/SKILL.md",
            "skill://found/SKILL.md",
        ]
    );
}

#[tokio::test]
async fn skills_make_resources_and_are_offered_while_there_is_none() {
    let hub = hub(&[&provider("first", tools(&["a"]))]);
    let offers = || hub.attach(caller(), Toolset::All).offers();
    assert!(!offers().skills && !offers().resources);
    hub.register(provider("second", skills(Vec::new())))
        .unwrap();
    assert!(offers().skills && offers().resources);
    assert_eq!(uris(&hub).await, [""; 0]);
}
