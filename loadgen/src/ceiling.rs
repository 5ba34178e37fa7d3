//! How much this generator can ask at all: the same load, as a closed loop, against a server that
//! does nothing but answer with as many bytes. A result near that says more about the generator
//! than about the server.

use std::path::Path;

use crate::check::{Expect, FloorBytes};
use crate::failure::Failure;
use crate::floor::{FloorChild, answer_bytes};
use crate::live::Nobody;
use crate::measure::whole;
use crate::process::Process;
use crate::record::Run;
use crate::run::{Load, Target, run};
use crate::stop::Stop;

const SECONDS: f64 = 1.0;
const WARMUP_SECONDS: f64 = 0.3;
/// A run at more than this share of the ceiling is near it.
pub const NEAR_SHARE: f64 = 0.8;
/// Under this name the ceiling is among the counts of a run.
pub const COUNT: &str = "generator ceiling per second";

/// Answers per second, with answers as long as those of the run.
///
/// # Errors
/// When the floor server cannot be started.
pub fn ceiling(
    load: &Load,
    of: &Run,
    program: &Path,
    floor_cpu: Option<usize>,
    stop: &Stop,
) -> Result<f64, Failure> {
    let bytes = |kind| answer_bytes(of.answer_bytes(kind));
    let bytes = FloorBytes { hit: bytes("hit"), miss: bytes("miss") };
    let child = FloorChild::spawn(program, bytes, floor_cpu)?;
    let target = Target {
        label: "floor".into(),
        address: child.address,
        expect: Expect::Floor(bytes),
        process: Process::new(child.pid()).ok(),
    };
    let load = Load {
        rate: None,
        seconds: SECONDS,
        warmup_seconds: WARMUP_SECONDS,
        cooldown_seconds: 0.0,
        connect_rate: None,
        ..load.clone()
    };
    Ok(run(&load, &target, stop, &mut Nobody)?.totals.rate)
}

/// The same in words, and whether the run was near it.
pub fn words(ceiling: f64, rate: f64) -> (String, bool) {
    let share = rate / ceiling.max(1.0);
    let near = share > NEAR_SHARE;
    let mark = if near {
        "; NEAR CEILING: this says more about the generator than about the server; give it more \
         --threads and CPUs"
    } else {
        ""
    };
    let text = format!(
        "ceiling       {ceiling:.0}/s is what this generator makes of a server that does nothing; \
         the run is at {:.0} % of it{mark}",
        share * 100.0
    );
    (text, near)
}

/// Keeps the ceiling with a run.
pub fn note(run: &mut Run, ceiling: f64) {
    run.totals.counts.insert(COUNT.to_owned(), whole(ceiling));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_near_the_ceiling_is_marked() {
        let (text, near) = words(100_000.0, 90_000.0);
        assert!(near && text.contains("NEAR CEILING") && text.contains("90 %"), "{text}");
        let (text, near) = words(100_000.0, 50_000.0);
        assert!(!near && !text.contains("NEAR"), "{text}");
    }
}
