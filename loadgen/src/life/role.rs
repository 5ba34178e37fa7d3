//! Who is at the other end of a connection.

use crate::life::admin::Admin;
use crate::life::broker::Broker;
use crate::life::client::Client;
use crate::life::desk::{Kick, Timer, Turn};
use crate::life::hostile::Hostile;
use crate::life::line::Pending;
use crate::life::passer::Passer;
use crate::life::probe::Probe;
use crate::wire::Frame;

/// One of them. All are told the same things.
#[expect(missing_docs, reason = "the types say it")]
pub enum Role {
    Client(Client),
    Broker(Broker),
    Admin(Admin),
    Probe(Probe),
    Passer(Passer),
    Hostile(Hostile),
}

impl Role {
    /// The run begins. Its socket may be open already.
    pub fn start(&mut self, turn: &mut Turn<'_>) {
        match self {
            Role::Client(client) => client.start(turn),
            Role::Broker(broker) => broker.start(turn),
            Role::Admin(admin) => admin.start(turn),
            Role::Probe(_) => {}
            Role::Passer(passer) => passer.start(turn),
            Role::Hostile(hostile) => hostile.start(turn),
        }
    }

    /// A time it asked for has come.
    pub fn due(&mut self, timer: Timer, at_ns: u64, turn: &mut Turn<'_>) {
        match self {
            Role::Client(client) => client.due(timer, at_ns, turn),
            Role::Broker(broker) => broker.due(timer, at_ns, turn),
            Role::Admin(admin) => admin.due(timer, at_ns, turn),
            Role::Probe(probe) => probe.due(timer, turn),
            Role::Passer(passer) => passer.due(timer, at_ns, turn),
            Role::Hostile(hostile) => hostile.due(timer, turn),
        }
    }

    /// Its socket is open.
    pub fn opened(&mut self, turn: &mut Turn<'_>) {
        match self {
            Role::Client(client) => client.opened(),
            Role::Broker(broker) => broker.opened(turn),
            Role::Passer(passer) => passer.opened(turn),
            Role::Hostile(hostile) => hostile.opened(turn),
            Role::Admin(_) | Role::Probe(_) => {}
        }
    }

    /// An answer came.
    pub fn answered(&mut self, pending: &Pending, frame: &Frame<'_>, turn: &mut Turn<'_>) {
        match self {
            Role::Client(client) => client.answered(pending, frame, turn),
            Role::Broker(broker) => broker.answered(pending, frame, turn),
            Role::Admin(admin) => admin.answered(pending, frame, turn),
            Role::Probe(probe) => probe.answered(pending, frame, turn),
            Role::Passer(_) | Role::Hostile(_) => {}
        }
    }

    /// A request was given up.
    pub fn given_up(&mut self, turn: &mut Turn<'_>) {
        match self {
            Role::Admin(admin) => admin.idle(),
            Role::Probe(probe) => probe.idle(),
            Role::Broker(broker) => broker.begins_anew(turn),
            Role::Client(_) | Role::Passer(_) | Role::Hostile(_) => {}
        }
    }

    /// Its socket is gone, by its own wish or not.
    pub fn lost(&mut self, wished: bool, turn: &mut Turn<'_>) {
        match self {
            Role::Client(client) => client.lost(),
            Role::Broker(broker) => broker.lost(turn),
            Role::Admin(admin) => admin.idle(),
            Role::Probe(probe) => probe.idle(),
            Role::Passer(passer) => passer.lost(wished, turn),
            Role::Hostile(hostile) => hostile.lost(turn),
        }
    }

    /// A version was acknowledged.
    pub fn kicked(&mut self, kick: Kick, turn: &mut Turn<'_>) {
        if let Role::Probe(probe) = self {
            probe.kicked(kick, turn);
        }
    }

    /// Whether losing its connection is a fault of the server. A hostile one is cut off rightly,
    /// and so is one that never says a word.
    pub fn expects_to_stay(&self) -> bool {
        !matches!(self, Role::Hostile(_) | Role::Passer(_))
    }
}
