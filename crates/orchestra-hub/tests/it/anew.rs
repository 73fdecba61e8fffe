//! Providers that are asked for each list anew.

use std::sync::{Arc, Mutex};

use orchestra_hub::{
    Attachment, BoxFuture, Catalog, Cx, HubNotice, ListKind, Notice, Outcome, Provider,
    ProviderError, ProviderId, Request, Target, Toolset,
};
use orchestra_wire::Revision;
use tokio::sync::{mpsc, watch};

use crate::provider::{TestProvider, caller, hub, provider, tools};

/// A provider that asks for its catalog when it is asked for a list.
struct Anew {
    inner: Arc<TestProvider>,
    /// What it learns at the next list, or why it does not.
    next: Mutex<Result<Vec<&'static str>, String>>,
}

impl Anew {
    fn next(&self, next: Result<&[&'static str], &str>) {
        *self.next.lock().unwrap() = next.map(<[_]>::to_vec).map_err(str::to_owned);
    }
}

impl Provider for Anew {
    fn id(&self) -> &ProviderId {
        self.inner.id()
    }

    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.inner.catalog()
    }

    fn lists_anew(&self) -> bool {
        true
    }

    fn relist(&self, kind: ListKind) -> BoxFuture<Result<(), ProviderError>> {
        assert_eq!(kind, ListKind::Tools);
        let next = self.next.lock().unwrap().clone();
        let catalog = self.inner.catalog.clone();
        Box::pin(async move {
            catalog.send_replace(Arc::new(tools(&next.map_err(ProviderError::Unreachable)?)));
            Ok(())
        })
    }

    fn serve(&self, request: Request) -> BoxFuture<Result<Outcome, ProviderError>> {
        self.inner.serve(request)
    }

    fn notices(&self) -> Option<mpsc::Receiver<Notice>> {
        self.inner.notices()
    }
}

async fn listed(attachment: &Attachment) -> Result<String, ProviderError> {
    let target = Target::List {
        kind: ListKind::Tools,
        revision: Revision::NEWEST,
        start: 0,
        limit: 10,
    };
    let cx = Cx::default();
    match attachment.call(Request { target, cx }).await? {
        Outcome::List { items, .. } => Ok(String::from_utf8(items.to_vec()).unwrap()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_list_is_as_it_is_now_or_an_error_and_changes_are_told_by_the_provider() {
    let anew = Arc::new(Anew {
        inner: provider("anew", Catalog::default()),
        next: Mutex::new(Ok(vec!["one"])),
    });
    let hub = hub(&[&provider("here", tools(&["a"]))]);
    hub.register(anew.clone()).unwrap();
    let attachment = hub.attach(caller(), Toolset::All);
    let mut notices = attachment.take_notices().unwrap();
    assert!(!attachment.is_settled(), "a list is better a call");
    let list = listed(&attachment).await.unwrap();
    assert!(list.contains("\"a\"") && list.contains("\"one\""), "{list}");
    anew.next(Ok(&["one", "two"]));
    assert!(listed(&attachment).await.unwrap().contains("\"two\""));
    anew.next(Err("nobody is there"));
    let error = listed(&attachment).await.unwrap_err();
    assert!(
        matches!(&error, ProviderError::Unreachable(why) if why == "nobody is there"),
        "{error:?}"
    );
    // Nobody was told anything of its catalogs: who has listed knows, and nobody else has.
    let changed = Notice::ListChanged(ListKind::Tools);
    anew.inner.notices.send(changed).await.unwrap();
    let told = notices.next().await.unwrap();
    assert!(
        matches!(
            told,
            HubNotice::CatalogChanged {
                tools: true,
                prompts: false,
                resources: false
            }
        ),
        "{told:?}"
    );
}
