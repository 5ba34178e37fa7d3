//! Log lines that peers can cause: so many in a time, with a count of those left out.

use crate::clock::Tick;

/// Decides which lines are written. Lives: with whoever writes them, one for each kind.
#[derive(Clone, Debug)]
pub struct Complaints {
    /// Lines that may be written within `pause_ms` of the first one.
    lines_max: u32,
    pause_ms: u64,
    first: Option<Tick>,
    lines: u32,
    left_out: u64,
}

impl Default for Complaints {
    /// One line a second.
    fn default() -> Complaints {
        Complaints::new(1, 1000)
    }
}

impl Complaints {
    /// At most `lines_max` lines in `pause_ms` milliseconds.
    #[must_use]
    pub fn new(lines_max: u32, pause_ms: u64) -> Complaints {
        Complaints { lines_max, pause_ms, first: None, lines: 0, left_out: 0 }
    }

    /// `Some` if a line may be written now: the number of lines left out since the last one.
    pub fn may_write(&mut self, now: Tick) -> Option<u64> {
        if self.first.is_none_or(|first| now.since_ms(first) >= self.pause_ms) {
            (self.first, self.lines) = (Some(now), 0);
        }
        if self.lines == self.lines_max {
            self.left_out += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_and_the_next_tells_how_many_were_left_out() {
        let mut complaints = Complaints::default();
        assert_eq!(complaints.may_write(Tick(5)), Some(0));
        for ms in 6..1005 {
            assert_eq!(complaints.may_write(Tick(ms)), None);
        }
        assert_eq!(complaints.may_write(Tick(1005)), Some(999));
        assert_eq!(complaints.may_write(Tick(9000)), Some(0));
    }

    #[test]
    fn many_lines_at_once_are_written_up_to_the_bound() {
        let mut complaints = Complaints::new(3, 100);
        let written: Vec<_> = [0, 0, 50, 99, 99, 100, 100].map(Tick).into();
        let written: Vec<_> = written.into_iter().map(|now| complaints.may_write(now)).collect();
        assert_eq!(written, [Some(0), Some(0), Some(0), None, None, Some(2), Some(0)]);
    }
}
