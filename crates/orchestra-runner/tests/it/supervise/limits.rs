//! What a run may take, and how it ends that takes more.

use std::time::Duration;

use orchestra_process::Limits;
use orchestra_runner::{
    logs::Bounds,
    supervise::{Ending, How, JobLimits, LogBounds, Order},
};
use tokio::time::Instant;

use super::rig::{PATIENCE, Rig, all_bytes, run, start, wait};

fn limited(order: Order, limits: JobLimits) -> Order {
    Order { limits, ..order }
}

fn limits() -> JobLimits {
    JobLimits {
        grace: Duration::from_millis(100),
        ..JobLimits::default()
    }
}

async fn ends(order: Order) -> Ending {
    let begin = Instant::now();
    let ending = run(&order).await;
    assert!(begin.elapsed() < PATIENCE);
    assert!(ending.detail.is_some(), "{ending:?}");
    ending
}

#[tokio::test]
async fn time_and_silence_end_also_those_that_do_not_mind() {
    let line = "trap '' TERM; echo ready; while :; do sleep 0.02; done";
    let short = Some(Duration::from_millis(300));
    let rig = Rig::new();
    let ending = ends(limited(
        rig.shell(line),
        JobLimits {
            timeout: short,
            ..limits()
        },
    ))
    .await;
    assert_eq!((ending.how, ending.signal), (How::Timeout, Some(9)));

    let rig = Rig::new();
    let ending = ends(limited(
        // All in all longer than it may be silent, and each time for a sixth of that.
        rig.shell("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.5; done; sleep 1000"),
        JobLimits {
            idle: Some(Duration::from_secs(3)),
            ..limits()
        },
    ))
    .await;
    assert_eq!((ending.how, ending.signal), (How::Idle, Some(15)));
    // It was not silent for long before.
    assert_eq!(rig.texts().len(), 8);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn memory_of_all_processes_together_is_limited() {
    let rig = Rig::new();
    let ending = ends(limited(
        rig.shell(&format!(
            "{0} memory 48 & {0} memory 48 & wait",
            super::rig::program().display()
        )),
        JobLimits {
            memory_bytes: Some(64 * 1024 * 1024),
            ..limits()
        },
    ))
    .await;
    assert_eq!(ending.how, How::Memory);
    assert!(ending.peak_memory > 64 * 1024 * 1024);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn processes_are_limited_and_the_limit_is_named() {
    let rig = Rig::new();
    let ending = ends(limited(
        rig.shell("for i in 1 2 3 4 5 6 7 8 9; do sleep 100 & done; wait"),
        JobLimits {
            system: Limits {
                processes: Some(5),
                ..Limits::default()
            },
            ..limits()
        },
    ))
    .await;
    assert_eq!(ending.how, How::Limit);
    assert!(ending.detail.unwrap().contains("processes"));
}

/// What a supervisor has taken of memory at most.
#[cfg(target_os = "linux")]
fn peak(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_flood_is_bounded_on_disk_and_in_memory() {
    // More with the time for it.
    let mebibytes: u64 = match std::env::var_os("ORCHESTRA_SOAK") {
        Some(_) => 4_096,
        None => 48,
    };
    let rig = Rig::new();
    let mut order = rig.example(&["flood", &mebibytes.to_string()]);
    order.limits.output_bytes = None;
    order.limits.timeout = None;
    let bounds = Bounds {
        head: 1024 * 1024,
        tail: 1024 * 1024,
    };
    order.logs = LogBounds {
        raw: bounds,
        lines: bounds,
    };
    let flood = start(&order).await;
    let supervisor = flood.supervisor().id();
    let mut most = 0;
    let mut ended = Box::pin(flood.wait());
    let ending = loop {
        tokio::select! {
            ending = &mut ended => break ending.unwrap(),
            () = tokio::time::sleep(Duration::from_millis(20)) => {
                most = most.max(peak(supervisor).unwrap_or(0));
            }
        }
        let on_disk = all_bytes(&rig.attempt()).len();
        assert!(on_disk < 8 * 1024 * 1024, "{on_disk} bytes on disk");
    };
    assert!(ending.is_success(), "{ending}");
    assert!(ending.out_bytes >= mebibytes * 1024 * 1024);
    assert!(most < 64 * 1024, "{most} KiB of memory");
    let content =
        orchestra_runner::logs::raw_content(&rig.attempt(), "work.1", bounds, 1 << 20).unwrap();
    assert_eq!(content.total, ending.out_bytes);
    assert!(content.head.starts_with(b"line 0 of a flood"));
    assert!(
        content
            .tail
            .ends_with(b" of a flood that does not want to end\n")
    );
    assert_eq!(
        content.omitted,
        content.total - (content.head.len() + content.tail.len()) as u64
    );
    assert!(content.tail.len() >= 512 * 1024);
}

#[tokio::test]
async fn output_is_limited() {
    let rig = Rig::new();
    let ending = ends(limited(
        rig.shell("yes"),
        JobLimits {
            output_bytes: Some(1024 * 1024),
            ..limits()
        },
    ))
    .await;
    assert_eq!(ending.how, How::Output);
    let run = start(&{
        let mut order = rig.shell("echo enough");
        order.id = rig.id(2);
        order
    })
    .await;
    assert!(wait(&run).await.is_success());
}
