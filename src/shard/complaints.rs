//! Log lines that peers can cause: at most one a second, with a count of those left out.

use crate::clock::Tick;

/// Milliseconds between two lines.
const PAUSE_MS: u64 = 1000;

/// Decides which complaint is written. Lives: one per shard and kind of complaint.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    last: Option<Tick>,
    left_out: u64,
}

impl Complaints {
    /// `Some` if a line may be written now: the number of lines left out since the last one.
    pub(super) fn may_write(&mut self, now: Tick) -> Option<u64> {
        if self.last.is_some_and(|last| now.since_ms(last) < PAUSE_MS) {
            self.left_out += 1;
            return None;
        }
        self.last = Some(now);
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
}
