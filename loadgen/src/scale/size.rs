//! Tables of all sizes side by side: one server each, measured in turns.

use std::sync::Arc;
use std::time::Instant;

use crate::compare::Spread;
use crate::failure::Failure;
use crate::fleet::Fleet;
use crate::launch::Server;
use crate::priority;
use crate::registrar::{Form, Registrar};
use crate::run::Target;
use crate::table::{self, Target as Bound};

use super::{Stage, fleet};

/// Topics, brokers, brokers of a topic.
const SIZES: [(u32, u32, u32); 7] = [
    (1_000, 4, 4),
    (10_000, 4, 4),
    (100_000, 4, 4),
    (1_000_000, 4, 4),
    (10_000, 1, 1),
    (10_000, 100, 4),
    (10_000, 1_000, 4),
];
/// New topics between two looks at the server.
const NEW_TOPICS: u32 = 100;
/// How much more a query, or a publication, may cost in the largest table than in the smallest one
/// with as wide routes.
const TIMES_SMALLEST: f64 = 2.0;

/// Resident bytes of a topic on one of its four brokers: 40, 5 for a quarter of the topic's name,
/// and a third more for what the allocator keeps.
const BYTES_A_PAIR: f64 = 60.0;

struct Sized {
    fleet: Arc<Fleet>,
    server: Server,
    target: Target,
    brokers: Vec<Registrar>,
    next_topic: u32,
    fill_seconds: f64,
    rss_bytes: f64,
    bytes_a_pair: f64,
    plain: Vec<f64>,
    deep: Vec<f64>,
    publish: Vec<f64>,
}

pub(super) fn measure(stage: &mut Stage<'_>) -> Result<(), Failure> {
    let mut all = Vec::new();
    for (number, (topics, brokers, width)) in (0..).zip(SIZES) {
        if topics <= stage.args.most_topics {
            all.push(start(stage, number, fleet(brokers, topics, width)?)?);
        }
    }
    priority::first();
    stage.rounds(stage.args.bench.rounds, |stage| {
        // All of them before each: the others wait for their turn meanwhile.
        let mut brokers = all.iter_mut().flat_map(|sized| &mut sized.brokers);
        brokers.try_for_each(Registrar::heartbeat)?;
        all.iter_mut().try_for_each(|sized| round(stage, sized))
    });
    print(&all);
    let square: Vec<&Sized> = all.iter().filter(|sized| sized.fleet.brokers == 4).collect();
    let (Some(least), Some(most)) = (square.first(), square.last()) else { return Ok(()) };
    let bound = Some(Bound::AtMost(TIMES_SMALLEST));
    let words = format!("{} : {} topics", most.fleet.topics, least.fleet.topics);
    let ratios = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a / b).collect::<Vec<_>>();
    stage.find(format!("{words}: CPU a query, 64 x 1"), ratios(&most.plain, &least.plain), bound);
    stage.find(format!("{words}: CPU a query, 64 x 16"), ratios(&most.deep, &least.deep), bound);
    stage.find(format!("{words}: CPU a new topic"), ratios(&most.publish, &least.publish), bound);
    // Between the two largest: what a server takes once does not count.
    if let [.., smaller, larger] = square[..] {
        let grown = (larger.rss_bytes - smaller.rss_bytes) / (larger.pairs() - smaller.pairs());
        let (from, to) = (smaller.fleet.topics, larger.fleet.topics);
        let bound = Some(Bound::AtMost(BYTES_A_PAIR));
        stage.find(format!("{from} to {to} topics: resident bytes a pair"), [grown], bound);
    }
    Ok(())
}

impl Sized {
    /// Pairs of a topic and a broker that has it.
    fn pairs(&self) -> f64 {
        f64::from(self.fleet.topics) * f64::from(self.fleet.route_width)
    }
}

fn start(stage: &Stage<'_>, number: u16, fleet: Arc<Fleet>) -> Result<Sized, Failure> {
    let server = stage.start(number)?;
    let empty = server.rss_bytes()?;
    let began = Instant::now();
    let brokers = stage.fill(&server, &fleet, None)?;
    let fill_seconds = began.elapsed().as_secs_f64();
    let rss_bytes = server.rss_bytes()? as f64;
    let pairs = f64::from(fleet.topics) * f64::from(fleet.route_width);
    let bytes_a_pair = (rss_bytes - empty as f64) / pairs;
    let target = stage.target(&server, &fleet);
    let (topics, brokers_count) = (fleet.topics, fleet.brokers);
    println!("{topics} topics on {brokers_count} brokers registered in {fill_seconds:.1} s");
    Ok(Sized {
        next_topic: topics,
        fleet,
        server,
        target,
        brokers,
        fill_seconds,
        rss_bytes,
        bytes_a_pair,
        plain: Vec::new(),
        deep: Vec::new(),
        publish: Vec::new(),
    })
}

fn round(stage: &mut Stage<'_>, sized: &mut Sized) -> Result<(), Failure> {
    let (fleet, target) = (&sized.fleet, &sized.target);
    let topics = fleet.topics;
    let what = format!("{topics} x {}", fleet.brokers);
    let plain =
        stage.run(&format!("{what}, 64 x 1"), &stage.closed(target, 64, 1, topics), target)?;
    sized.plain.extend(plain.server_us_per_answer());
    let deep =
        stage.run(&format!("{what}, 64 x 16"), &stage.closed(target, 64, 16, topics), target)?;
    sized.deep.extend(deep.server_us_per_answer());
    let Some(broker) = sized.brokers.first_mut() else { return Ok(()) };
    let before = sized.server.process.sample()?;
    for topic in sized.next_topic..sized.next_topic + NEW_TOPICS {
        broker.prepare(fleet, &[topic], Form::Raw);
        broker.change();
        broker.register()?;
    }
    sized.next_topic += NEW_TOPICS;
    let used = sized.server.process.sample()?.since(&before);
    sized.publish.push(used.cpu_ns as f64 / 1e3 / f64::from(NEW_TOPICS));
    Ok(())
}

fn print(all: &[Sized]) {
    println!("\nus are the server's CPU; MiB and B resident; fill is how long registering took");
    let names = ["Topics x brokers (width)", "64 x 1, us", "64 x 16, us"];
    let more = ["new topic, us", "MiB", "B a pair", "fill, s"];
    println!("{}", table::head(&[&names[..], &more].concat()));
    for sized in all {
        let Fleet { topics, brokers, route_width, .. } = *sized.fleet;
        let spread = |values: &[f64]| table::spread(Spread::of(values.iter().copied()));
        println!(
            "{}",
            table::row([
                format!("{topics} x {brokers} ({route_width})"),
                spread(&sized.plain),
                spread(&sized.deep),
                spread(&sized.publish),
                table::number(sized.rss_bytes / f64::from(1 << 20)),
                table::number(sized.bytes_a_pair),
                table::number(sized.fill_seconds),
            ])
        );
    }
}
