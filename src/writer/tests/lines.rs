//! How many lines of the log peers can cause.

use std::sync::atomic::AtomicUsize;

use tracing::{Event, Subscriber, subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use super::*;

/// Counts events.
struct Count(Arc<AtomicUsize>);

impl<S: Subscriber> Layer<S> for Count {
    fn on_event(&self, _event: &Event<'_>, _context: Context<'_, S>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Lines that `work` causes.
fn lines(work: impl FnOnce()) -> usize {
    let count = Arc::<AtomicUsize>::default();
    let layer = Count(Arc::clone(&count)).with_filter(tracing::level_filters::LevelFilter::INFO);
    subscriber::with_default(tracing_subscriber::registry().with(layer), work);
    count.load(Ordering::Relaxed)
}

#[test]
fn a_broker_that_is_refused_again_and_again_is_one_line_a_second() {
    let mut stage = stage();
    let broken = || match register("b", 2, None) {
        WriteOp::Register(request) => {
            WriteOp::Register(Box::new(RegisterRequest { body_crc32: 1, ..*request }))
        }
        other => other,
    };
    let written = lines(|| {
        for number in 0..300 {
            stage.send(1, Some(number), broken());
            stage.settle(10);
        }
    });
    assert_eq!(written, 1);
    assert_eq!(
        lines(|| {
            stage.send(1, Some(300), broken());
            stage.settle(1_010);
        }),
        1
    );
}

#[test]
fn a_broker_that_comes_and_goes_all_the_time_fills_no_log() {
    let mut stage = stage();
    let written = lines(|| {
        for number in 0..i32::try_from(NEWS_MAX).unwrap() {
            stage.send(1, Some(2 * number), register("b", 2, None));
            let (cluster, addr, broker) = ("C".into(), "b:1".into(), "b".into());
            let op = WriteOp::Unregister { cluster, addr, broker, id: BrokerId::MASTER };
            stage.send(1, Some(2 * number + 1), op);
            stage.settle(10);
            stage.letters();
        }
    });
    assert_eq!(written, usize::try_from(NEWS_MAX).unwrap());
}
