//! Registration, merging and routing.

use std::sync::Arc;

use orchestra_hub::{
    CompletionRef, Cx, Hub, HubConfig, ListKind, Provider, ProviderError, ProviderId,
    RegisterError, Request, Target, Toolset,
};
use orchestra_wire::Revision;

use crate::provider::{call, call_of, caller, hub, provider, resources, text, tools};

fn names(hub: &Hub) -> Vec<String> {
    hub.tools(&Toolset::All)
        .into_iter()
        .map(|tool| tool.name)
        .collect()
}

#[tokio::test]
async fn tools_are_listed_in_the_order_of_registration() {
    let (first, second) = (
        provider("zz", tools(&["z", "b"])),
        provider("aa", tools(&["a", "c"])),
    );
    let hub = hub(&[&first, &second]);
    assert_eq!(names(&hub), ["z", "b", "a", "c"]);
    let attachment = hub.attach(caller(), Toolset::All);
    let one = attachment
        .list(ListKind::Tools, Revision::NEWEST)
        .page(0, usize::MAX);
    let two = attachment
        .list(ListKind::Tools, Revision::NEWEST)
        .page(0, usize::MAX);
    assert_eq!(one.0.as_ptr(), two.0.as_ptr(), "written once");
    assert_eq!(call(&hub, "a").await.unwrap(), "aa a {}");
}

#[tokio::test]
async fn a_collision_is_refused_with_both_owners_named() {
    let first = provider("first", tools(&["same"]));
    let hub = hub(&[&first]);
    let error = hub
        .register(provider("second", tools(&["other", "same"])))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "tool same of provider second is already offered by provider first"
    );
    assert_eq!(names(&hub), ["same"]);
    let error = hub.register(provider("first", tools(&[]))).unwrap_err();
    assert!(matches!(error, RegisterError::Registered(_)));
    let error = hub
        .register(provider("twice", tools(&["x", "x"])))
        .unwrap_err();
    assert!(matches!(error, RegisterError::Collision(_)));
}

#[test]
fn registration_needs_a_runtime() {
    let hub = Hub::new(HubConfig::default());
    let error = hub.register(provider("p", tools(&[]))).unwrap_err();
    assert!(matches!(error, RegisterError::NoRuntime(_)));
}

#[tokio::test]
async fn a_change_shows_at_once_and_a_later_collision_hides_the_newcomer() {
    let (first, second) = (
        provider("first", tools(&["a"])),
        provider("second", tools(&["b"])),
    );
    let hub = hub(&[&first, &second]);
    second
        .catalog
        .send_replace(Arc::new(tools(&["b", "c", "a"])));
    assert_eq!(names(&hub), ["a", "b", "c"]);
    assert_eq!(call(&hub, "a").await.unwrap(), "first a {}");
    assert_eq!(call(&hub, "c").await.unwrap(), "second c {}");
}

#[tokio::test]
async fn first_of_an_order_has_a_name_whenever_it_was_registered() {
    let (board, first, second) = (
        provider("board", tools(&["b"])),
        provider("first", tools(&["same", "one"])),
        provider("second", tools(&["same", "two"])),
    );
    let hub = hub(&[&second, &board]);
    assert_eq!(call(&hub, "same").await.unwrap(), "second same {}");
    hub.register_beside(first.clone()).unwrap();
    assert_eq!(call(&hub, "same").await.unwrap(), "second same {}");
    let order = [first.id().clone(), second.id().clone()];
    hub.arrange(&order);
    assert_eq!(call(&hub, "same").await.unwrap(), "first same {}");
    assert_eq!(names(&hub), ["same", "one", "b", "two"]);
    hub.remove(first.id());
    assert_eq!(call(&hub, "same").await.unwrap(), "second same {}");
    hub.register_beside(first.clone()).unwrap();
    hub.arrange(&order);
    assert_eq!(call(&hub, "same").await.unwrap(), "first same {}");
}

#[tokio::test]
async fn a_removed_provider_is_gone() {
    let (first, second) = (
        provider("first", tools(&["a"])),
        provider("second", tools(&["b"])),
    );
    let hub = hub(&[&first, &second]);
    assert!(hub.remove(first.id()));
    assert!(!hub.remove(first.id()));
    assert_eq!(names(&hub), ["b"]);
    let error = call(&hub, "a").await.unwrap_err();
    assert_eq!(error.to_string(), "unknown tool: a");
}

/// Not even a caller who was there and does nothing any more.
#[tokio::test]
async fn nobody_keeps_a_removed_provider() {
    let (stays, leaves) = (
        provider("stays", tools(&["a"])),
        provider("leaves", tools(&["b"])),
    );
    let hub = hub(&[&stays, &leaves]);
    let idle = hub.attach(caller(), Toolset::All);
    let answer = idle.call(call_of("b", &serde_json::json!({}))).await;
    assert_eq!(text(answer.unwrap()), "leaves b {}");
    let gone = Arc::downgrade(&leaves);
    assert!(hub.remove(leaves.id()));
    drop(leaves);
    let dropped = async {
        while gone.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    };
    let patience = std::time::Duration::from_secs(60);
    tokio::time::timeout(patience, dropped).await.expect("gone");
    drop(idle);
}

/// Whoever comes and goes leaves no counters behind.
#[tokio::test]
async fn tools_that_nobody_offers_are_not_counted_any_more() {
    let (stays, leaves) = (
        provider("stays", tools(&["a"])),
        provider("leaves", tools(&["b"])),
    );
    let hub = hub(&[&stays, &leaves]);
    let counted = || {
        let reports = hub.tool_metrics().into_iter();
        let counted = reports.map(|report| (report.name, report.calls));
        counted.collect::<Vec<_>>()
    };
    for name in ["a", "b"] {
        call(&hub, name).await.unwrap();
    }
    assert_eq!(counted(), [("a".to_owned(), 1), ("b".to_owned(), 1)]);
    assert!(hub.remove(leaves.id()));
    assert_eq!(counted(), [("a".to_owned(), 1)]);
}

#[tokio::test]
async fn providers_are_told_with_whether_they_know_what_they_offer() {
    let hub = hub(&[&provider("p", tools(&["a"])), &provider("q", tools(&[]))]);
    let told = hub.providers();
    let told: Vec<(&str, bool)> = told
        .iter()
        .map(|(id, ready)| (id.as_str(), *ready))
        .collect();
    assert_eq!(told, [("p", true), ("q", true)]);
}

#[tokio::test]
async fn requests_go_to_who_offers_what_they_name() {
    let (first, second) = (
        provider("first", tools(&["a"])),
        provider("second", resources()),
    );
    let hub = hub(&[&first, &second]);
    let attachment = hub.attach(caller(), Toolset::All);
    let ask = async |target| {
        let answer = attachment
            .call(Request {
                target,
                cx: Cx::default(),
            })
            .await;
        answer.map(|outcome| text(outcome).split(' ').next().unwrap().to_owned())
    };
    for uri in ["test://one", "test://many/7"] {
        assert_eq!(
            ask(Target::Resource { uri: uri.into() }).await.unwrap(),
            "second"
        );
    }
    let complete = |reference| Target::Complete {
        reference,
        argument: "id".into(),
        value: String::new(),
        context: [].into(),
    };
    let template = CompletionRef::Resource("test://many/{id}".into());
    assert_eq!(ask(complete(template)).await.unwrap(), "second");
    let unknown = ask(complete(CompletionRef::Prompt("nope".into()))).await;
    assert!(matches!(
        unknown,
        Err(ProviderError::Unknown { kind: "prompt", .. })
    ));
    let raw = || Target::Raw {
        method: "x/y".into(),
        params: None,
    };
    assert!(matches!(
        ask(raw()).await,
        Err(ProviderError::Unknown { kind: "method", .. })
    ));
    hub.forward_unknown_methods_to(ProviderId::parse("first"));
    assert_eq!(ask(raw()).await.unwrap(), "first");
}
