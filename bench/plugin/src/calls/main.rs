//! The load that the plugin and its peer over gRPC are put under, and that peer.
//!
//! - `bench-calls certs DIR` makes an authority and the certificates of both sides;
//! - `bench-calls serve DIR` serves gRPC, says `READY ADDRESS` on standard error and ends with its
//!   standard input;
//! - `bench-calls load grpc|quic ADDRESS DIR SMALL LARGE WINDOW` calls whoever is at the address,
//!   with so many bytes and so many calls in flight, and prints one line of JSON with its figures.

mod certs;
mod echo;
mod grpc;
mod load;
mod quic;

use std::{io::Write as _, path::Path};

use anyhow::{Context as _, Result, bail};

use crate::load::Sizes;

/// Threads, at most: as many as a plugin has.
const THREADS: usize = 4;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.min(THREADS))
        .enable_all()
        .build()?;
    match words.as_slice() {
        ["certs", directory] => certs::make(Path::new(directory)),
        ["serve", directory] => runtime.block_on(grpc::serve(Path::new(directory))),
        ["load", way, address, directory, small, large, window] => {
            let sizes = Sizes {
                small: small.parse()?,
                large: large.parse()?,
                window: window.parse()?,
            };
            let (address, directory) = (address.parse()?, Path::new(directory));
            let loaded = async {
                match *way {
                    "grpc" => load::run(grpc::Way::new(address, directory)?, sizes).await,
                    "quic" => load::run(quic::Way::new(address, directory)?, sizes).await,
                    _ => bail!("no way {way}"),
                }
            };
            let figures = runtime.block_on(loaded)?;
            writeln!(std::io::stdout(), "{figures}").context("telling the figures")
        }
        _ => bail!("see the head of bench/plugin/src/calls/main.rs for what there is"),
    }
}
