//! Is there an io_uring that a shard can use? Asked once at start, so that the answer comes with
//! its cure.

use std::fmt;
use std::fs;
use std::io;

use io_uring::IoUring;

/// First kernel with all that a shard's ring uses: multishot receive (6.0) and deferred task work
/// (6.1).
const KERNEL_MIN: (u32, u32) = (6, 1);
/// Locked memory that one executor insists on, in bytes (glommio checks it before it sets up its
/// rings).
const LOCKED_BYTES_MIN: u64 = 512 << 10;

/// There is no usable io_uring; the text is one line for the operator and names the cure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RingUnavailable(String);

impl fmt::Display for RingUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RingUnavailable {}

/// Checks that rings can be set up here.
///
/// # Errors
/// Says what is missing and what to do about it.
pub fn probe() -> Result<(), RingUnavailable> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    check_kernel(release.trim())?;
    check_locked(&fs::read_to_string("/proc/self/limits").unwrap_or_default())?;
    match super::builder(8).build(8) {
        Ok(ring) => drop::<IoUring>(ring),
        Err(refusal) => return Err(explain(&refusal, release.trim(), disabled_setting())),
    }
    Ok(())
}

/// The text for a ring that could not be set up, also when that happens later than at start.
pub(super) fn refused(refusal: &io::Error) -> RingUnavailable {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    explain(refusal, release.trim(), disabled_setting())
}

/// `kernel.io_uring_disabled`, absent before 6.6.
fn disabled_setting() -> Option<u8> {
    fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok()?.trim().parse().ok()
}

fn check_kernel(release: &str) -> Result<(), RingUnavailable> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    // An unreadable release proves nothing; setting up the ring will.
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        return Ok(());
    };
    if (major, minor) >= KERNEL_MIN {
        return Ok(());
    }
    let (major_min, minor_min) = KERNEL_MIN;
    let message = format!(
        "kernel {release} is too old: Guidepost needs Linux {major_min}.{minor_min} or newer \
         (io_uring with multishot receive and deferred task work); upgrade the kernel"
    );
    Err(RingUnavailable(message))
}

fn check_locked(limits: &str) -> Result<(), RingUnavailable> {
    let soft = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    // "unlimited" does not parse: no limit.
    match soft {
        Some(bytes) if bytes < LOCKED_BYTES_MIN => {
            let kib = LOCKED_BYTES_MIN >> 10;
            let message = format!(
                "the locked-memory limit is {} KiB, {kib} KiB are needed: raise it \
                 (ulimit -l {kib}, LimitMEMLOCK={LOCKED_BYTES_MIN} in the unit, --ulimit \
                 memlock={LOCKED_BYTES_MIN} for a container)",
                bytes >> 10
            );
            Err(RingUnavailable(message))
        }
        _ => Ok(()),
    }
}

fn explain(refusal: &io::Error, release: &str, disabled: Option<u8>) -> RingUnavailable {
    let cure = match (refusal.raw_os_error(), disabled) {
        (Some(libc::EPERM), Some(setting @ 2..)) => {
            &format!("kernel.io_uring_disabled is {setting}: run sysctl kernel.io_uring_disabled=0")
        }
        (Some(libc::EPERM), Some(1)) => {
            "kernel.io_uring_disabled is 1: run sysctl kernel.io_uring_disabled=0, or add the \
             user's group to kernel.io_uring_group"
        }
        (Some(libc::EPERM | libc::EACCES), _) => {
            "a seccomp or container profile forbids it: allow io_uring_setup, io_uring_enter and \
             io_uring_register in the profile"
        }
        (Some(libc::ENOSYS), _) => {
            "the kernel was built without CONFIG_IO_URING, or a seccomp profile hides it: use \
             another kernel, or allow io_uring_setup, io_uring_enter and io_uring_register"
        }
        (Some(libc::EINVAL), _) => {
            &format!("kernel {release} lacks a feature: use Linux 6.1 or newer")
        }
        (Some(libc::ENOMEM), _) => {
            "not enough memory, or the locked-memory limit is too low: raise it (ulimit -l, \
             LimitMEMLOCK=)"
        }
        (Some(libc::EMFILE | libc::ENFILE), _) => {
            "no file descriptor left: raise the open-files limit (ulimit -n, LimitNOFILE=)"
        }
        _ => "no known cure",
    };
    RingUnavailable(format!("io_uring is refused ({refusal}): {cure}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_will_do() {
        probe().unwrap();
    }

    #[test]
    fn an_old_kernel_is_named_with_what_is_needed() {
        for old in ["5.15.0-generic", "6.0.19", "4.18.0-553.el8.x86_64"] {
            let refusal = check_kernel(old).unwrap_err();
            let text = refusal.to_string();
            assert!(text.contains(old) && text.contains("6.1"), "{text}");
        }
        for new in ["6.1.0", "6.18.44-custom", "7.0", "unreadable"] {
            check_kernel(new).unwrap();
        }
    }

    #[test]
    fn each_refusal_names_its_cure() {
        let text = |errno, disabled| {
            explain(&io::Error::from_raw_os_error(errno), "6.8.0", disabled).to_string()
        };
        assert!(text(libc::EPERM, Some(2)).contains("io_uring_disabled=0"));
        assert!(text(libc::EPERM, Some(1)).contains("io_uring_group"));
        assert!(text(libc::EPERM, Some(0)).contains("seccomp"));
        assert!(text(libc::ENOSYS, None).contains("seccomp"));
        assert!(text(libc::ENOMEM, None).contains("ulimit -l"));
        assert!(text(libc::EMFILE, None).contains("ulimit -n"));
        assert!(!text(libc::EPERM, Some(2)).contains('\n'));
    }

    #[test]
    fn a_small_locked_memory_limit_is_refused_with_the_needed_size() {
        let limits =
            |soft| format!("Limit  Soft  Hard  Units\nMax locked memory  {soft}  {soft}  bytes\n");
        let refusal = check_locked(&limits("65536")).unwrap_err();
        assert!(refusal.to_string().contains("ulimit -l 512"), "{refusal}");
        check_locked(&limits("8388608")).unwrap();
        check_locked(&limits("unlimited")).unwrap();
    }
}
