//! Requests to storages. Their failures come in the form of their answers, whose known fields stay
//! empty: older peers take that as nothing found, and ours read the reason beside it.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use orchestra_plugin::{
    envelope::Response,
    generated::{
        StorageDeleteResponse, StorageListResponse, StorageProblem, StorageReadResponse,
        StorageWriteResponse,
    },
};
use tokio::time::timeout;

use super::{
    dispatch::{Turn, message},
    failure::Failure,
    permission::Need,
};
use crate::storage::{Answer, StorageError, named};

impl Turn<'_> {
    pub(super) async fn storage_read(&self) -> Result<Response, Failure> {
        let answer = self.stored(Effect::Looks, |storage| {
            Ok(storage.read(message(self.request)?))
        });
        let answer = answer.await?.unwrap_or_else(|error| StorageReadResponse {
            problem: Some(problem(&error)),
            ..StorageReadResponse::default()
        });
        Ok(Response::new(self.id(), &answer))
    }

    pub(super) async fn storage_write(&self) -> Result<Response, Failure> {
        let answer = self.stored(Effect::Changes, |storage| {
            Ok(storage.write(message(self.request)?))
        });
        let answer = answer.await?.unwrap_or_else(|error| StorageWriteResponse {
            error: error.to_string(),
            problem: Some(problem(&error)),
            ..StorageWriteResponse::default()
        });
        Ok(Response::new(self.id(), &answer))
    }

    pub(super) async fn storage_delete(&self) -> Result<Response, Failure> {
        let answer = self.stored(Effect::Changes, |storage| {
            Ok(storage.delete(message(self.request)?))
        });
        let answer = answer.await?.unwrap_or_else(|error| StorageDeleteResponse {
            problem: Some(problem(&error)),
            ..StorageDeleteResponse::default()
        });
        Ok(Response::new(self.id(), &answer))
    }

    pub(super) async fn storage_list(&self) -> Result<Response, Failure> {
        let answer = self.stored(Effect::Looks, |storage| {
            Ok(storage.list(message(self.request)?))
        });
        let answer = answer.await?.unwrap_or_else(|error| StorageListResponse {
            problem: Some(problem(&error)),
            ..StorageListResponse::default()
        });
        Ok(Response::new(self.id(), &answer))
    }

    /// Asks the storage, if the type may be used, for as long as it may take.
    async fn stored<'s, T>(
        &'s self,
        effect: Effect,
        ask: impl FnOnce(&'s dyn crate::storage::Storage) -> Result<Answer<'s, T>, Failure>,
    ) -> Result<Result<T, StorageError>, Failure> {
        let routing = self.request.routing();
        let routing = routing.map_err(|error| Failure::invalid(&error))?;
        let storage_type = named(routing.storage_type.unwrap_or_default());
        let keeper = self.face.storage.keeper(storage_type);
        if keeper.is_some() && keeper.as_ref() == self.connected.who.plugin() {
            // It would be asked for what it asks, without end.
            return Ok(Err(StorageError::NotPermitted(format!(
                "this plugin provides the storage {:?} itself and cannot request it",
                orchestra_wire::shown(storage_type)
            ))));
        }
        if !self.permissions.storage.allows(storage_type) {
            let refused = self.not_permitted(Need::Storage, storage_type);
            return Ok(Err(StorageError::NotPermitted(refused.message)));
        }
        // It may panic before it has a future to answer with.
        let answering = async { Ok(ask(&*self.face.storage)?.await) };
        let time = self.face.options.storage_time;
        let answer = timeout(time, AssertUnwindSafe(answering).catch_unwind()).await;
        match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                tracing::error!("a document storage panicked");
                Ok(Err(effect.failed("the storage broke".to_owned())))
            }
            Err(_) => Ok(Err(effect.failed(format!(
                "the storage did not answer within {} seconds",
                time.as_secs()
            )))),
        }
    }
}

/// What a request does to documents.
#[derive(Clone, Copy)]
enum Effect {
    Looks,
    Changes,
}

impl Effect {
    /// Why there is no answer to a request that was begun.
    fn failed(self, why: String) -> StorageError {
        match self {
            Self::Looks => StorageError::Failed(why),
            Self::Changes => StorageError::UnknownOutcome(why),
        }
    }
}

fn problem(error: &StorageError) -> StorageProblem {
    StorageProblem {
        code: error.code().to_owned(),
        message: error.to_string(),
    }
}
