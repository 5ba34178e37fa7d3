//! Registers a fleet and keeps it registered: a NameServer forgets a broker as soon as its
//! connection closes, or when it was silent for two minutes.

use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::failure::{Failure, run_failure};
use crate::fleet::{Asked, Fleet};
use crate::registrar::{Prepared, Registrar};
use crate::stop::Stop;
use crate::wire::{ROUTE_BY_TOPIC, SUCCESS};

/// How often real brokers tell that they are alive.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(30);

/// What filling took.
#[derive(Debug, Clone, Serialize)]
pub struct FillReport {
    /// Registrations sent.
    pub calls: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// From the first connection to the last acknowledgement.
    pub seconds: f64,
}

/// A registered fleet. Its brokers are unregistered when this is dropped.
pub struct HeldFleet {
    /// What filling took.
    pub report: FillReport,
    hold: Option<Hold>,
}

/// Dropping the sender asks the thread to end.
type Hold = (mpsc::Sender<()>, JoinHandle<Result<(), Failure>>);

/// Registers all brokers of the fleet, checks the first and the last topic, and keeps the brokers
/// alive in the background.
///
/// # Errors
/// When the server refuses a connection or a registration, or answers a route wrongly.
pub fn fill(target: SocketAddr, fleet: &Fleet, stop: &Stop) -> Result<HeldFleet, Failure> {
    let (report, brokers) = register_brokers(target, fleet, |_| None, stop)?;
    let (stop_holding, asked_to_stop) = mpsc::channel();
    let hold = std::thread::Builder::new()
        .name("hold".into())
        .spawn(move || hold(brokers, &asked_to_stop))
        .map_err(|e| run_failure(format!("cannot start a thread: {e}")))?;
    Ok(HeldFleet { report, hold: Some((stop_holding, hold)) })
}

/// A registered broker for somebody else to drive on.
pub struct Registered {
    /// Its connection, non-blocking.
    pub socket: TcpStream,
    /// The counter of its last registration.
    pub data_version: u64,
}

/// Registers all brokers of the fleet, in zones if they have any, and hands them over.
///
/// # Errors
/// As [`fill`].
pub fn register(
    target: SocketAddr,
    fleet: &Fleet,
    zone: impl Fn(u32) -> Option<&'static str>,
    stop: &Stop,
) -> Result<(FillReport, Vec<Registered>), Failure> {
    let (report, brokers) = register_brokers(target, fleet, zone, stop)?;
    let handed_over = |broker: Registrar| {
        let data_version = broker.data_version();
        let socket = broker.into_caller().into_socket();
        socket.set_nonblocking(true).map(|()| Registered { socket, data_version })
    };
    let brokers: Result<Vec<Registered>, _> = brokers.into_iter().map(handed_over).collect();
    Ok((report, brokers.map_err(|e| run_failure(format!("setting up a socket: {e}")))?))
}

fn register_brokers(
    target: SocketAddr,
    fleet: &Fleet,
    zone: impl Fn(u32) -> Option<&'static str>,
    stop: &Stop,
) -> Result<(FillReport, Vec<Registrar>), Failure> {
    let start = Instant::now();
    let mut report = FillReport { calls: 0, body_bytes: 0, seconds: 0.0 };
    let mut brokers = Vec::new();
    for number in 0..fleet.brokers {
        if stop.asked() {
            return Err(run_failure("stopped while filling"));
        }
        let broker = Prepared::new(fleet, number, None).in_zone(zone(number));
        let mut broker = broker.connect(target)?;
        let topics: Vec<u32> = fleet.topics_of(number).collect();
        let (calls, bytes) = broker.register_all(fleet, &topics)?;
        report.calls += calls;
        report.body_bytes += bytes;
        brokers.push(broker);
    }
    report.seconds = start.elapsed().as_secs_f64();
    if let Some(broker) = brokers.first_mut() {
        check_route(broker, fleet, 0)?;
        check_route(broker, fleet, fleet.topics - 1)?;
    }
    Ok((report, brokers))
}

fn hold(mut brokers: Vec<Registrar>, stop: &mpsc::Receiver<()>) -> Result<(), Failure> {
    while stop.recv_timeout(HEARTBEAT_EVERY) == Err(RecvTimeoutError::Timeout) {
        brokers.iter_mut().try_for_each(Registrar::heartbeat)?;
    }
    Ok(())
}

impl HeldFleet {
    /// Unregisters the fleet.
    ///
    /// # Errors
    /// When a broker was lost meanwhile, which makes the measurement worthless.
    pub fn release(mut self) -> Result<(), Failure> {
        self.end()
    }

    /// Whether a broker was lost; [`Self::release`] says why.
    pub fn is_lost(&self) -> bool {
        self.hold.as_ref().is_some_and(|(_, thread)| thread.is_finished())
    }

    fn end(&mut self) -> Result<(), Failure> {
        let Some((stop, hold)) = self.hold.take() else { return Ok(()) };
        drop(stop);
        hold.join().unwrap_or_else(|_| Err(run_failure("the thread that held the fleet crashed")))
    }
}

impl Drop for HeldFleet {
    fn drop(&mut self) {
        // Whoever wants to know calls `release`.
        let _ = self.end();
    }
}

/// Asks whether the route of a topic is what was registered.
fn check_route(broker: &mut Registrar, fleet: &Fleet, topic: u32) -> Result<(), Failure> {
    let name = String::from_utf8_lossy(&Asked::Topic(topic).name()).into_owned();
    let checked = broker.caller().call(ROUTE_BY_TOPIC, &[("topic", &name)], b"", |frame| {
        if frame.code != SUCCESS {
            return Err(String::from_utf8_lossy(frame.header).into_owned());
        }
        fleet.check_route(topic, frame.body)
    });
    checked
        .and_then(|route| route)
        .map_err(|why| run_failure(format!("the route of {name} after filling: {why}")))
}
