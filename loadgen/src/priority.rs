//! Who goes first when the generator shares a CPU with work that it measures beside.

use std::process::{Command, Stdio};

use rustix::process::setpriority_process;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

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

/// Goes [`first`] while it works, whatever comes of it: a server that is started afterwards would
/// inherit it.
pub fn first_while<T>(work: impl FnOnce() -> T) -> T {
    first();
    let done = work();
    usual();
    done
}

/// Lets the calling thread have its CPU the moment it wants it. What goes [`first`] may still wait
/// for as long as the kernel lets a thread run before it looks for another, some milliseconds.
/// Returns whether that was allowed: it takes root, or `CAP_SYS_NICE`, and real-time budget in the
/// control group.
///
/// Only for a thread that sleeps between its pieces of work and starts no other: one that does not
/// would take the CPU from all others, and the kernel takes it away for a twentieth of each second.
pub fn at_once() -> bool {
    let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, fifo).is_ok()
}

/// Whether threads of ours may go [`at_once`], tried with one.
pub fn may_go_at_once() -> bool {
    std::thread::spawn(at_once).join().unwrap_or(false)
}

/// [`at_once`] for those threads of a process whose names begin so: what else the machine does on
/// their CPU then waits, as it would run elsewhere on a machine with more of them. Goes through
/// `chrt` (util-linux). Returns whether there are such threads, and it was allowed for all of them.
pub fn at_once_for(pid: u32, name: &str) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let named = tasks.filter(|task| {
        let found = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        found.starts_with(name)
    });
    let mut found = 0;
    let mut chrt = named.inspect(|_| found += 1).map(|task| {
        let mut command = Command::new("chrt");
        command.args(["--fifo", "--pid", "1"]).arg(task.file_name()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    });
    chrt.all(|allowed| allowed) && found > 0
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

    #[test]
    fn a_thread_goes_at_once_exactly_when_it_is_said_to() {
        // Not the same permission as going first: a thread may have either without the other.
        let policy = || thread_priority::thread_schedule_policy().unwrap();
        let in_thread = std::thread::spawn(move || (at_once(), policy()));
        let (at_once, policy) = in_thread.join().unwrap();
        let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
        assert_eq!(policy == fifo, at_once);
    }

    #[test]
    fn a_thread_of_a_process_is_found_by_its_name() {
        let (told, tell) = std::sync::mpsc::channel();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let body = move || {
            told.send(()).unwrap();
            let _ = wait.recv();
            thread_priority::thread_schedule_policy().unwrap()
        };
        let thread = std::thread::Builder::new().name("at-once-77".into()).spawn(body).unwrap();
        tell.recv().unwrap();
        let allowed = at_once_for(std::process::id(), "at-once-7");
        assert!(!at_once_for(std::process::id(), "nobody-"), "nothing is done for nobody");
        drop(done);
        let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
        assert_eq!(thread.join().unwrap() == fifo, allowed);
    }
}
