//! The program `orchestra-engine`: the memory engine of a workspace, with its embedding models.

mod install;

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use orchestra::engine::{EngineParts, Exit, Failure, InstallModel};
use orchestra_engine::{Indexed, model};
use orchestra_memory::{engine::Meaning, model::Wishes};

struct Program;

impl EngineParts for Program {
    fn meaning(&self, wishes: Wishes) -> Arc<dyn Meaning> {
        Arc::new(Indexed::new(wishes))
    }

    fn check(&self, directory: PathBuf) -> Result<Exit, Failure> {
        match model::open(&directory) {
            Ok(_) => Ok(Exit::Ok),
            Err(error) => Err(Failure::Refused(error.into())),
        }
    }

    fn install(&self, model: InstallModel) -> Result<Exit, Failure> {
        install::run(model)
    }
}

fn main() -> ExitCode {
    orchestra::engine::main(&Program)
}
