//! A server that is stopped and started again, and begins with the routes that it had: how long
//! until it answers. It has to be told where to keep them, see `benches/scale`.

use crate::caller::Caller;
use crate::failure::{Failure, run_failure};
use crate::table::Target as Bound;

use super::startup::is_complete;
use super::{Stage, fleet};

/// Topics on four brokers each, and the longest that a start may take, in ms.
const SIZES: [(u32, Option<f64>); 3] =
    [(0, Some(100.0)), (100_000, Some(2000.0)), (1_000_000, None)];
/// Topics whose routes must be there.
const SAMPLES: u32 = 50;

pub(super) fn measure(stage: &mut Stage<'_>) -> Result<(), Failure> {
    for (topics, most_ms) in SIZES {
        if topics > stage.args.most_topics {
            continue;
        }
        let (mut starts, mut stops) = (Vec::new(), Vec::new());
        stage.rounds(stage.args.bench.rounds, |stage| {
            let (stop_ms, start_ms) = restart(stage, topics)?;
            println!("{topics} topics: stopped in {stop_ms:.0} ms, answers after {start_ms:.0} ms");
            stops.push(stop_ms);
            starts.push(start_ms);
            Ok(())
        });
        let bound = most_ms.map(Bound::AtMost);
        stage.find(format!("restart with {topics} topics: first answer after, ms"), starts, bound);
        stage.find(format!("restart with {topics} topics: the stop before it, ms"), stops, None);
    }
    Ok(())
}

/// How long the stop took, and the start until its first answer, in ms.
fn restart(stage: &Stage<'_>, topics: u32) -> Result<(f64, f64), Failure> {
    stage.go_on()?;
    let server = stage.start(0)?;
    let mut brokers = Vec::new();
    let full = (topics > 0).then(|| fleet(4, topics, 4)).transpose()?;
    if let Some(fleet) = &full {
        brokers = stage.fill(&server, fleet, None)?;
    }
    let stop_ms = server.stop()?.as_secs_f64() * 1e3;
    drop(brokers);
    let server = stage.start(0)?;
    let mut caller = Caller::connect(server.address).map_err(run_failure)?;
    if let Some(fleet) = &full {
        let step = usize::try_from(topics / SAMPLES).unwrap_or(1).max(1);
        for topic in (0..topics).step_by(step) {
            if !is_complete(&mut caller, fleet, topic)? {
                return Err(run_failure(
                    "routes are not there after the restart: the server's command has to say where \
                     it keeps them (--route-snapshot FILE)",
                ));
            }
        }
    } else if is_complete(&mut caller, &*fleet(4, 1, 4)?, 0)? {
        return Err(run_failure(
            "the server began with routes of an earlier run: remove its --route-snapshot FILE",
        ));
    }
    Ok((stop_ms, server.first_answer.as_secs_f64() * 1e3))
}
