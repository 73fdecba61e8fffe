//! Follows one provider: its catalog and its notices, for as long as hub and provider live.

use std::sync::{Arc, Weak};

use tokio::{select, sync::mpsc};

use crate::{Notice, hub::Inner, slot::Slot};

/// Runs until the hub is gone or the provider has closed both of its channels.
pub(crate) async fn follow(hub: Weak<Inner>, slot: Arc<Slot>) {
    let mut catalog = slot.catalog.clone();
    let mut notices = slot.provider.notices();
    let mut follow_catalog = true;
    // A change between registration and here.
    catalog.mark_changed();
    while follow_catalog || notices.is_some() {
        // Both futures lose nothing when the other one wins.
        select! {
            changed = catalog.changed(), if follow_catalog => {
                follow_catalog = changed.is_ok();
                let Some(hub) = hub.upgrade() else { return };
                hub.merged();
            }
            notice = next(&mut notices), if notices.is_some() => {
                let Some(hub) = hub.upgrade() else { return };
                match notice {
                    Some(notice) => hub.attachments().tell(notice),
                    None => notices = None,
                }
            }
        }
    }
}

async fn next(notices: &mut Option<mpsc::Receiver<Notice>>) -> Option<Notice> {
    match notices {
        Some(receiver) => receiver.recv().await,
        None => None,
    }
}
