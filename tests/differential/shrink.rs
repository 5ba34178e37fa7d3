//! Makes a failing sequence small: leaves out steps as long as what is left still fails
//! (Zeller's delta debugging).

/// The smallest part of `steps`, in order, that `fails`; `steps` itself must. At most `tries` runs.
pub fn shrink<T: Clone>(
    steps: &[T],
    mut tries: usize,
    mut fails: impl FnMut(&[T]) -> bool,
) -> Vec<T> {
    let mut steps = steps.to_vec();
    let mut pieces = 2;
    while steps.len() > 1 && tries > 0 {
        let size = steps.len().div_ceil(pieces);
        let mut smaller = None;
        for start in (0..steps.len()).step_by(size) {
            if tries == 0 {
                break;
            }
            tries -= 1;
            let end = (start + size).min(steps.len());
            let rest = [&steps[..start], &steps[end..]].concat();
            if fails(&rest) {
                smaller = Some(rest);
                break;
            }
        }
        match smaller {
            Some(rest) => {
                steps = rest;
                pieces = (pieces - 1).max(2);
            }
            None if size == 1 => break,
            None => pieces = (pieces * 2).min(steps.len()),
        }
    }
    steps
}
