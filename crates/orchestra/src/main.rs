//! The program `orchestra`. Everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    orchestra::main()
}
