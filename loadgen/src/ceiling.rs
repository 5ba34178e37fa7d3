//! How much this generator can ask at all: the same load, as a closed loop, against a server that
//! does nothing but answer with as many bytes. A result near that says more about the generator
//! than about the server.

use std::path::Path;

use crate::check::{Expect, FloorBytes};
use crate::failure::Failure;
use crate::floor::{FloorChild, answer_bytes, is_full};
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

/// What this generator made of a server that does nothing.
#[derive(Debug, Clone, Copy)]
pub struct Ceiling {
    /// Answers per second.
    pub rate: f64,
    /// That server, which is one thread, had no CPU left: the generator could have asked for more.
    pub floor_is_full: bool,
}

/// Measures it, with answers as long as those of the run.
///
/// # Errors
/// When the floor server cannot be started.
pub fn ceiling(
    load: &Load,
    of: &Run,
    program: &Path,
    floor_cpu: Option<usize>,
    stop: &Stop,
) -> Result<Ceiling, Failure> {
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
    let result = run(&load, &target, stop, &mut Nobody)?;
    Ok(Ceiling { rate: result.totals.rate, floor_is_full: is_full(&result) })
}

/// The same in words, and whether the run was near it.
pub fn words(ceiling: Ceiling, rate: f64) -> (String, bool) {
    let Ceiling { rate: most, floor_is_full } = ceiling;
    let share = rate / most.max(1.0);
    let near = share > NEAR_SHARE && !floor_is_full;
    let mark = if floor_is_full {
        "; that server had no CPU left, so the generator could ask for more"
    } else if near {
        "; NEAR CEILING: this says more about the generator than about the server; give it more \
         --threads and CPUs"
    } else {
        ""
    };
    let text = format!(
        "ceiling       {most:.0}/s is what this generator makes of a server that does nothing; \
         the run is at {:.0} % of it{mark}",
        share * 100.0
    );
    (text, near)
}

/// Keeps the ceiling with a run.
pub fn note(run: &mut Run, ceiling: Ceiling) {
    run.totals.counts.insert(COUNT.to_owned(), whole(ceiling.rate));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_near_the_ceiling_is_marked() {
        let ceiling = Ceiling { rate: 100_000.0, floor_is_full: false };
        let (text, near) = words(ceiling, 90_000.0);
        assert!(near && text.contains("NEAR CEILING") && text.contains("90 %"), "{text}");
        let (text, near) = words(ceiling, 50_000.0);
        assert!(!near && !text.contains("NEAR"), "{text}");
    }

    #[test]
    fn a_ceiling_that_is_that_of_the_floor_says_nothing_about_the_generator() {
        let ceiling = Ceiling { rate: 100_000.0, floor_is_full: true };
        let (text, near) = words(ceiling, 99_000.0);
        assert!(!near && !text.contains("NEAR") && text.contains("could ask for more"), "{text}");
    }
}
