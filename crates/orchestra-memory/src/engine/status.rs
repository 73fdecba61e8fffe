//! The one place where an error becomes a gRPC status.

use std::error::Error;

use orchestra_board::Refusal;
use orchestra_remote::with_causes;
use orchestra_store::{ActionError, Fault, ReadError};
use tonic::{Code, Status};

/// A status with an error and what caused it.
fn status(code: Code, error: &(dyn Error + 'static)) -> Status {
    Status::new(code, with_causes(error))
}

/// An argument that cannot be understood.
pub(crate) fn argument(name: &str, error: &dyn Error) -> Status {
    Status::invalid_argument(format!("{name}: {error}"))
}

/// Why a change was not made.
pub(crate) fn of_action(error: &ActionError) -> Status {
    match error {
        ActionError::Refused(refusal) => of_refusal(refusal),
        ActionError::Invalid(_) | ActionError::Document(_) => status(Code::InvalidArgument, error),
        ActionError::Fault(fault) => of_fault(fault),
    }
}

/// Why something was not read.
pub(crate) fn of_read(error: &ReadError) -> Status {
    match error {
        ReadError::Refused(refusal) => of_refusal(refusal),
        ReadError::Cursor(_) => status(Code::InvalidArgument, error),
        ReadError::Fault(fault) => of_fault(fault),
    }
}

fn of_refusal(refusal: &Refusal) -> Status {
    match refusal {
        Refusal::NoProject { .. } => status(Code::NotFound, refusal),
        _ => status(Code::FailedPrecondition, refusal),
    }
}

fn of_fault(fault: &Fault) -> Status {
    let code = match fault {
        Fault::DiskFull => Code::ResourceExhausted,
        Fault::ReadOnly
        | Fault::Sandboxed(_)
        | Fault::Untrusted(_)
        | Fault::Unlisted(_)
        | Fault::Held { .. }
        | Fault::MovedAway(_)
        | Fault::DirectoryMoved { .. }
        | Fault::Reconfigured(_)
        | Fault::NoLog(_)
        | Fault::Removed(_)
        | Fault::RepositoryRemoved(_)
        | Fault::Replaced(_)
        | Fault::Moved
        | Fault::Misplaced(_)
        | Fault::Newer { .. } => Code::FailedPrecondition,
        Fault::Locked
        | Fault::Overloaded
        | Fault::Closed
        | Fault::LogInDoubt
        | Fault::IndexDamaged => Code::Unavailable,
        Fault::Corrupt | Fault::Unknown { .. } => Code::DataLoss,
        // The change was made, and must not be made again.
        Fault::NotDurable(_) => Code::Unknown,
        Fault::Io { .. } | Fault::Database(_) | Fault::Panicked => Code::Internal,
    };
    status(code, fault)
}
