//! The ring against real sockets on the loopback.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use glommio::LocalExecutorBuilder;
use socket2::SockRef;

use super::*;

fn options() -> RingOptions {
    RingOptions {
        submissions: 8,
        completions: 64,
        buffers: 4,
        buffer_bytes: 512,
        connections_max: 16,
    }
}

struct Server {
    ring: Ring,
    bell: Doorbell,
    address: SocketAddr,
}

impl Server {
    fn new(options: RingOptions) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let bell = Doorbell::new().unwrap();
        let mut ring = Ring::new(options, listener, bell.clone()).unwrap();
        ring.accept();
        Server { ring, bell, address }
    }

    async fn event(&mut self) -> Event {
        loop {
            if let Some(event) = self.ring.next_event() {
                return event;
            }
            if self.ring.turn().unwrap() == Turn::Idle {
                self.ring.sleep().unwrap();
            }
        }
    }

    async fn accepted(&mut self) -> Key {
        match self.event().await {
            Event::Accepted(key) => key,
            other => panic!("{other:?}"),
        }
    }

    /// Everything received from `key` until `wanted` bytes are there.
    async fn receive(&mut self, key: Key, wanted: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < wanted {
            match self.event().await {
                Event::Received(from, filled) => {
                    assert_eq!(from, key);
                    all.extend_from_slice(self.ring.bytes(&filled));
                    self.ring.give_back(filled);
                }
                other => panic!("{other:?}"),
            }
        }
        all
    }

    /// Turns until no connection is left.
    async fn emptied(&mut self) {
        while self.ring.connections() > 0 {
            // The last slot may be freed here, and then nothing would end the sleep.
            if self.ring.next_event().is_some() || self.ring.connections() == 0 {
                continue;
            }
            if self.ring.turn().unwrap() == Turn::Idle {
                self.ring.sleep().unwrap();
            }
        }
    }
}

fn run<F: Future<Output = ()>>(options: RingOptions, test: impl FnOnce(Server) -> F) {
    let executor =
        LocalExecutorBuilder::default().io_memory(64 << 10).ring_depth(32).make().unwrap();
    executor.run(async move { test(Server::new(options)).await });
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index % 251).to_le_bytes()[0]).collect()
}

#[test]
fn bytes_come_in_and_go_out_and_the_end_is_told() {
    run(options(), async |mut server| {
        let mut client = TcpStream::connect(server.address).unwrap();
        let key = server.accepted().await;
        assert_eq!(server.ring.peer(key), Some(client.local_addr().unwrap()));
        client.write_all(b"question").unwrap();
        assert_eq!(server.receive(key, 8).await, b"question");
        server.ring.send(key, b"answer".to_vec());
        assert!(
            matches!(server.event().await, Event::Sent(of, sent) if of == key && sent == b"answer")
        );
        let mut answer = [0; 6];
        client.read_exact(&mut answer).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert!(matches!(server.event().await, Event::Ended(of, None) if of == key));
        server.ring.send(key, b"still".to_vec());
        assert!(matches!(server.event().await, Event::Sent(..)));
        server.ring.close(key);
        server.emptied().await;
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).unwrap();
        assert_eq!((&answer, &rest[..]), (b"answer", &b"still"[..]));
    });
}

#[test]
fn running_out_of_buffers_delays_bytes_and_loses_none() {
    run(options(), async |mut server| {
        const EACH: usize = 100_000;
        let address = server.address;
        let clients = thread::spawn(move || {
            let streams: Vec<_> = (0..8).map(|_| TcpStream::connect(address).unwrap()).collect();
            for mut stream in &streams {
                stream.write_all(&pattern(EACH)).unwrap();
            }
            streams
        });
        let mut received = vec![Vec::new(); 16];
        let mut held = Vec::new();
        while received.iter().map(Vec::len).sum::<usize>() < 8 * EACH {
            match server.event().await {
                Event::Accepted(_) => {}
                Event::Received(key, filled) => {
                    received[key.slot as usize].extend_from_slice(server.ring.bytes(&filled));
                    // Holding all four starves every receive there is.
                    held.push(filled);
                    if held.len() == 4 {
                        server.ring.turn().unwrap();
                        held.drain(..).for_each(|filled| server.ring.give_back(filled));
                    }
                }
                other => panic!("{other:?}"),
            }
            if server.ring.uring.completion().is_empty() {
                held.drain(..).for_each(|filled| server.ring.give_back(filled));
            }
        }
        let expected = pattern(EACH);
        assert_eq!(received.iter().filter(|bytes| **bytes == expected).count(), 8);
        drop(clients.join().unwrap());
    });
}

#[test]
fn no_more_receives_start_again_than_buffers_came_back() {
    run(options(), async |mut server| {
        let mut clients: Vec<_> =
            (0..8).map(|_| TcpStream::connect(server.address).unwrap()).collect();
        for _ in &clients {
            server.accepted().await;
        }
        clients.iter_mut().for_each(|client| client.write_all(b"bytes").unwrap());
        let mut held = Vec::new();
        while held.len() < 4 || server.ring.starved.len() < 4 {
            match server.ring.next_event() {
                Some(Event::Received(_, filled)) => held.push(filled),
                Some(other) => panic!("{other:?}"),
                None => drop(server.ring.turn().unwrap()),
            }
        }
        assert_eq!(server.ring.turn().unwrap(), Turn::Idle, "no buffer is free");
        let mut served = held.len();
        for left in (0..4).rev() {
            server.ring.give_back(held.pop().unwrap());
            assert_eq!(server.ring.turn().unwrap(), Turn::Busy);
            assert_eq!(server.ring.starved.len(), left);
            let Some(Event::Received(_, filled)) = server.ring.next_event() else {
                panic!("the buffer was not used");
            };
            held.push(filled);
            served += 1;
        }
        assert_eq!(served, 8);
        held.into_iter().for_each(|filled| server.ring.give_back(filled));
    });
}

#[test]
fn a_reader_that_is_slow_gets_all_bytes_in_order() {
    run(options(), async |mut server| {
        const BYTES: usize = 32 << 20;
        let mut client = TcpStream::connect(server.address).unwrap();
        let key = server.accepted().await;
        server.ring.send(key, pattern(BYTES));
        assert_eq!(server.ring.turn().unwrap(), Turn::Busy, "the first part goes at once");
        assert!(matches!(server.event().await, Event::SentSome(_)));
        let reader = thread::spawn(move || {
            let mut all = vec![0; BYTES];
            client.read_exact(&mut all).unwrap();
            all
        });
        loop {
            match server.event().await {
                Event::SentSome(_) => {}
                Event::Sent(_, buffer) => break assert_eq!(buffer.len(), BYTES),
                other => panic!("{other:?}"),
            }
        }
        assert!(reader.join().unwrap() == pattern(BYTES));
    });
}

#[test]
fn closing_ends_a_send_that_nobody_reads_and_the_slot_is_used_again() {
    run(options(), async |mut server| {
        let mut client = TcpStream::connect(server.address).unwrap();
        let key = server.accepted().await;
        client.write_all(b"unread").unwrap();
        server.ring.send(key, vec![7; 32 << 20]);
        server.ring.turn().unwrap();
        server.ring.close(key);
        server.ring.close(key);
        assert!(server.ring.peer(key).is_none(), "its number may soon be another's");
        server.emptied().await;
        // The peer sees the end after what had gone.
        let mut sink = Vec::new();
        let _ = client.read_to_end(&mut sink);
        assert!(sink.len() < 32 << 20);
        let _next = TcpStream::connect(server.address).unwrap();
        let next = server.accepted().await;
        assert_eq!(next.slot, key.slot);
        assert_ne!(next.generation, key.generation);
        // The old name means nothing any more.
        server.ring.send(key, b"lost".to_vec());
        server.ring.close(key);
        assert_eq!(server.ring.connections(), 1);
        assert!(server.ring.peer(key).is_none());
    });
}

#[test]
fn one_connection_over_the_limit_is_closed_at_once() {
    run(RingOptions { connections_max: 2, ..options() }, async |mut server| {
        let _kept = [(); 2].map(|()| TcpStream::connect(server.address).unwrap());
        server.accepted().await;
        let second = server.accepted().await;
        let mut third = TcpStream::connect(server.address).unwrap();
        assert!(matches!(server.event().await, Event::Refused));
        server.ring.turn().unwrap();
        assert_eq!(third.read(&mut [0]).unwrap(), 0, "closed");
        server.ring.close(second);
        while server.ring.connections() == 2 {
            server.ring.turn().unwrap();
            assert!(server.ring.next_event().is_none());
        }
        let _fourth = TcpStream::connect(server.address).unwrap();
        assert_eq!(server.accepted().await.slot, second.slot);
    });
}

#[test]
fn a_paused_connection_is_not_read_from_until_it_is_resumed() {
    run(options(), async |mut server| {
        let mut client = TcpStream::connect(server.address).unwrap();
        let key = server.accepted().await;
        server.ring.pause(key);
        while server.ring.slots.get(key).unwrap().receive != Receive::Idle {
            server.ring.turn().unwrap();
            assert!(server.ring.next_event().is_none());
        }
        client.write_all(b"later").unwrap();
        assert!(server.ring.wake_in(30));
        assert!(matches!(server.event().await, Event::Timer), "no bytes while paused");
        server.ring.resume(key);
        assert_eq!(server.receive(key, 5).await, b"later");
        // Resumed before the cancel has come through.
        server.ring.pause(key);
        server.ring.resume(key);
        client.write_all(b"again").unwrap();
        assert_eq!(server.receive(key, 5).await, b"again");
    });
}

#[test]
fn asking_for_an_earlier_time_moves_the_timer() {
    run(options(), async |mut server| {
        let began = std::time::Instant::now();
        assert!(server.ring.wake_in(60_000));
        assert!(server.ring.wake_in(20));
        assert!(matches!(server.event().await, Event::Timer));
        assert!(began.elapsed() >= Duration::from_millis(20));
        assert!(server.ring.wake_in(60_000));
        server.ring.turn().unwrap();
        assert!(server.ring.wake_in(10));
        assert!(matches!(server.event().await, Event::Timer));
        assert!(server.ring.wake_in(0));
        assert!(matches!(server.event().await, Event::Timer));
        assert!(began.elapsed() < Duration::from_secs(30));
    });
}

#[test]
fn connections_that_are_reset_leave_nothing_behind() {
    run(options(), async |mut server| {
        let before = open_files();
        for _ in 0..200 {
            let client = TcpStream::connect(server.address).unwrap();
            SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
            let key = server.accepted().await;
            drop(client);
            assert!(matches!(server.event().await, Event::Ended(of, _) if of == key));
            server.ring.close(key);
            server.emptied().await;
        }
        // Other tests of this process open files, too.
        assert!(open_files() < before + 100, "{before} before, {} after", open_files());
    });
}

#[test]
fn dropping_a_ring_in_the_middle_of_everything_closes_its_sockets() {
    run(options(), async |mut server| {
        let mut clients = Vec::new();
        let mut keys = Vec::new();
        for _ in 0..8 {
            clients.push(TcpStream::connect(server.address).unwrap());
            keys.push(server.accepted().await);
        }
        for key in keys {
            server.ring.send(key, vec![1; 16 << 20]);
        }
        assert!(server.ring.wake_in(60_000));
        server.ring.turn().unwrap();
        drop(server);
        for mut client in clients {
            let mut sink = Vec::new();
            let _ = client.read_to_end(&mut sink);
            assert!(sink.len() < 16 << 20);
        }
    });
}

#[test]
fn after_the_stop_nobody_is_accepted() {
    run(options(), async |mut server| {
        let _client = TcpStream::connect(server.address).unwrap();
        server.accepted().await;
        server.ring.stop_accepting();
        server.ring.turn().unwrap();
        assert!(server.ring.next_event().is_none());
        // The listener's queue still takes it, and the ring does not.
        let _late = TcpStream::connect(server.address).unwrap();
        server.ring.accept();
        assert!(server.ring.wake_in(20));
        assert!(matches!(server.event().await, Event::Timer));
        assert_eq!(server.ring.connections(), 1);
    });
}

#[test]
fn the_bell_ends_a_sleep_however_often_it_has_rung() {
    const ROUNDS: u32 = 2000;
    run(options(), async |mut server| {
        let bell = server.bell.clone();
        let (told, tell) = std::sync::mpsc::channel::<bool>();
        let ringer = thread::spawn(move || {
            while let Ok(early) = tell.recv() {
                if !early {
                    // Long enough for the other thread to be in the kernel, most of the time.
                    thread::sleep(Duration::from_micros(50));
                }
                bell.ring();
            }
        });
        for round in 0..ROUNDS {
            while server.ring.next_event().is_some() {}
            assert_eq!(server.ring.turn().unwrap(), Turn::Idle);
            told.send(round % 2 == 0).unwrap();
            server.ring.sleep().unwrap();
        }
        drop(told);
        ringer.join().unwrap();
    });
}
