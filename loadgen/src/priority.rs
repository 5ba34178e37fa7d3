//! Who goes first when the generator shares a CPU with work that it measures beside.

use rustix::process::setpriority_process;

/// As `nice` counts: the generator's threads go first, what runs beside them does not.
const FIRST: i32 = -15;
const USUAL: i32 = 0;

/// Lets the calling thread, and those it starts, go before everything of the usual priority.
/// Returns whether that was allowed (it takes root, or `CAP_SYS_NICE`): without it, latency
/// includes waiting for the CPU, which the lateness of the generator shows.
pub fn first() -> bool {
    // On Linux this is about the calling thread alone.
    setpriority_process(None, FIRST).is_ok()
}

/// The usual priority again, for a thread started by one that goes [`first`]. Always allowed.
pub fn usual() {
    // Refused only where raising was refused as well, and then nothing has to be undone.
    let _ = setpriority_process(None, USUAL);
}

#[cfg(test)]
mod tests {
    use rustix::process::getpriority_process;

    use super::*;

    #[test]
    fn a_thread_goes_first_and_its_child_can_step_back() {
        let priority = || getpriority_process(None).unwrap();
        let in_thread = std::thread::spawn(move || {
            let before = priority();
            let first = if first() { FIRST } else { before };
            let inherited = std::thread::spawn(priority).join().unwrap();
            usual();
            (first == inherited, priority() == 0 || first == before)
        });
        assert_eq!(in_thread.join().unwrap(), (true, true));
    }
}
