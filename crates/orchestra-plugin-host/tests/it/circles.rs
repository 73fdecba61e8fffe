//! Orchestrators that reach for each other: one of them stays, and the other one comes to its turn when
//! that goes.

use orchestra_mcp::client::{ClientError, Connector as _};
use tokio::{join, time::timeout};

use crate::face_rig::{PATIENCE, Rig};

/// How often they reach for each other at once; who is first differs from time to time.
const ROUNDS: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_reach_for_each_other_one_stays() {
    let (left, right) = (Rig::new(), Rig::new());
    let (to_right, to_left) = (right.from(&left), left.from(&right));
    for _ in 0..ROUNDS {
        let both = async { join!(to_right.connect(), to_left.connect()) };
        let (there, back) = timeout(PATIENCE, both).await.unwrap();
        let (stays, refused, other) = match (there, back) {
            (Ok(stays), Err(refused)) => (stays, refused, &to_left),
            (Err(refused), Ok(stays)) => (stays, refused, &to_right),
            (there, back) => panic!("both or none: {:?} {:?}", there.err(), back.err()),
        };
        let is_tried_again = matches!(&refused, ClientError::Unreachable { what }
            if what.contains("reaches this program already"));
        assert!(is_tried_again, "{refused:?}");
        // As long as the one stays, the other does not come in.
        assert!(other.connect().await.is_err());
        stays.link.close().await;
        drop(stays);
        let connected = other.connect().await.unwrap();
        connected.link.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_reaches_itself_has_to_be_configured_otherwise() {
    let rig = Rig::new();
    let refused = rig.from(&rig).connect().await.err().unwrap();
    assert!(
        matches!(refused, ClientError::InvalidConfig { .. }),
        "{refused:?}"
    );
}
