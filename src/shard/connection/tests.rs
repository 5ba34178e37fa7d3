use super::super::access::Access;
use super::*;
use crate::ids::ShardId;

/// Echoes frames. A header of `L` leaves the answer to the writer, `B` makes the connection a
/// broker's, `X` cannot be read, `H` answers with the high-water mark and a byte.
#[derive(Default)]
struct Echo {
    frames: Vec<Vec<u8>>,
    rights: Vec<Rights>,
    shared: usize,
}

impl Requests for Echo {
    fn request(
        &mut self,
        _conn: ConnKey,
        rights: Rights,
        head: &FrameHead,
        frame: &[u8],
        owner: Option<&Bytes>,
        out: &mut Vec<u8>,
    ) -> Result<Served, WireError> {
        assert_eq!(head.total_bytes, frame.len());
        if let Some(owner) = owner {
            assert_eq!(owner.as_ptr(), frame.as_ptr());
            self.shared += 1;
        }
        self.frames.push(frame.to_vec());
        self.rights.push(rights);
        match frame[8] {
            b'X' => return Err(WireError::Kind { kind: 9 }),
            b'L' => return Ok(Served { owed: true, ..Served::default() }),
            b'B' => return Ok(Served { tell_close: true, ..Served::default() }),
            b'H' => out.extend(std::iter::repeat_n(1, OUTPUT_HIGH_WATER_BYTES + 1)),
            _ => out.extend_from_slice(frame),
        }
        Ok(Served::default())
    }
}

fn frame(header: &[u8], body_bytes: usize) -> Vec<u8> {
    let length = u32::try_from(4 + header.len() + body_bytes).unwrap();
    let mut frame = length.to_be_bytes().to_vec();
    frame.push(0);
    frame.extend(&u32::try_from(header.len()).unwrap().to_be_bytes()[1..]);
    frame.extend(header);
    frame.resize(frame.len() + body_bytes, b'b');
    frame
}

fn connection() -> Connection {
    connection_in(Mode::Disabled)
}

fn connection_in(mode: Mode) -> Connection {
    Connection::new(ConnKey { shard: ShardId(0), slot: 3, generation: 9 }, mode, Rights::ALL)
}

fn named(network: &str) -> Access {
    Access { proxies: vec![network.parse().unwrap()], ..Access::default() }
}

/// As [`feed`], for bytes that must be acceptable.
fn feed_well(connection: &mut Connection, bytes: &[u8]) -> Echo {
    let (echo, result) = feed(connection, bytes, 4096);
    assert_eq!(result, Ok(()));
    echo
}

/// Feeds `bytes` in pieces of `piece`.
fn feed(connection: &mut Connection, bytes: &[u8], piece: usize) -> (Echo, Result<(), Fault>) {
    let mut echo = Echo::default();
    let anybody = Door { access: &Access::default(), peer: &|| None };
    for piece in bytes.chunks(piece) {
        if let Err(fault) = connection.received(piece, &anybody, &mut echo) {
            return (echo, Err(fault));
        }
    }
    (echo, Ok(()))
}

#[test]
fn frames_are_served_whatever_pieces_they_come_in() {
    let frames = [frame(b"one", 20), frame(b"two", 0), frame(b"three", 9000), frame(b"four", 1)];
    let bytes = frames.concat();
    for piece in [1, 2, 7, 8, 11, 12, 13, 100, 4096, bytes.len()] {
        let mut connection = connection();
        let (echo, result) = feed(&mut connection, &bytes, piece);
        assert_eq!(result, Ok(()));
        assert_eq!(echo.frames, frames, "in pieces of {piece}");
        assert_eq!(connection.take_output().unwrap(), bytes);
        assert_eq!(connection.take_served(), 4);
        assert_eq!((connection.input.capacity(), connection.output.capacity()), (0, 0));
    }
}

#[test]
fn nothing_is_looked_at_before_the_twelfth_byte() {
    let mut connection = connection();
    // A length field that no frame may have.
    let (echo, result) = feed(&mut connection, &[0xff; 11], 1);
    assert!(result.is_ok() && echo.frames.is_empty() && !connection.unused());
    let (_, result) = feed(&mut connection, &[0xff], 1);
    assert!(matches!(result, Err(Fault::Malformed(WireError::Length { length: u32::MAX, .. }))));
}

#[test]
fn a_whole_frame_in_one_piece_is_not_copied_and_a_large_one_is_shared() {
    let mut connection = connection();
    feed_well(&mut connection, &frame(b"first", 100));
    let (echo, _) = feed(&mut connection, &frame(b"in place", 3000), 4096);
    assert_eq!((echo.shared, connection.input.capacity()), (0, 0));
    let (echo, _) = feed(&mut connection, &frame(b"in two pieces", 4200), 4096);
    assert_eq!((echo.shared, connection.input.capacity()), (1, 0));
}

#[test]
fn the_announced_length_sizes_nothing() {
    let mut connection = connection();
    let huge = (16u32 << 20) - 4;
    feed_well(
        &mut connection,
        &[&huge.to_be_bytes()[..], &[0, 0, 0, 2, b'{', b'}', 0, 0]].concat(),
    );
    assert!(connection.in_large_frame());
    assert!(connection.input.capacity() < 256, "{}", connection.input.capacity());
    feed_well(&mut connection, &[0; 100_000]);
    assert!(connection.input.capacity() <= 2 * 100_012);
}

#[test]
fn a_connection_that_does_not_read_is_served_no_more_until_it_does() {
    let mut connection = connection();
    let mut bytes = frame(b"H", 0);
    let small = frame(b"small", 10);
    bytes.extend(small.repeat(1000));
    let (echo, _) = feed(&mut connection, &bytes, bytes.len());
    assert_eq!(echo.frames.len(), 1);
    assert!(connection.stalled());
    let first = connection.take_output().unwrap();
    assert!(connection.stalled(), "bytes under way count");
    assert!(connection.take_output().is_none(), "one send at a time");
    let mut echo = Echo::default();
    connection.proceed(&mut echo).unwrap();
    assert!(echo.frames.is_empty());
    connection.sent();
    connection.proceed(&mut echo).unwrap();
    assert_eq!(echo.frames.len(), 1000);
    assert_eq!(
        first.len() + connection.take_output().unwrap().len(),
        OUTPUT_HIGH_WATER_BYTES + 1 + 1000 * small.len()
    );
    connection.sent();
    assert!(connection.quiet() && connection.input.capacity() == 0);
}

#[test]
fn output_never_exceeds_the_mark_by_more_than_one_answer() {
    let mut connection = connection();
    let one = frame(b"question", 1000);
    let bytes = one.repeat(10_000);
    feed_well(&mut connection, &bytes);
    assert!(connection.output.len() <= OUTPUT_HIGH_WATER_BYTES + one.len());
    let mut answered = 0;
    while let Some(output) = connection.take_output() {
        answered += output.len();
        connection.sent();
        connection.proceed(&mut Echo::default()).unwrap();
        assert!(connection.output.len() <= OUTPUT_HIGH_WATER_BYTES + one.len());
    }
    assert_eq!(answered, bytes.len());
}

#[test]
fn a_connection_that_is_owed_too_much_waits_for_the_writer() {
    let mut connection = connection();
    let bytes = frame(b"L", 0).repeat(OWED_PER_CONNECTION_MAX + 5);
    let (echo, _) = feed(&mut connection, &bytes, 4096);
    assert_eq!(echo.frames.len(), OWED_PER_CONNECTION_MAX);
    assert!(connection.stalled() && !connection.quiet() && connection.flushed());
    let mut echo = Echo::default();
    for _ in 0..5 {
        connection.answered(|out| out.push(b'a'));
        connection.proceed(&mut echo).unwrap();
    }
    assert_eq!(echo.frames.len(), 5);
    for _ in 0..OWED_PER_CONNECTION_MAX {
        connection.answered(|out| out.push(b'a'));
    }
    assert_eq!(connection.take_output().unwrap().len(), OWED_PER_CONNECTION_MAX + 5);
}

#[test]
fn what_was_answered_before_a_malformed_frame_is_kept() {
    let mut connection = connection();
    let good = frame(b"good", 5);
    let bytes = [&good[..], &frame(b"X", 0), &good].concat();
    for piece in [1, 4096] {
        let mut connection = self::connection();
        let (echo, result) = feed(&mut connection, &bytes, piece);
        assert_eq!(result, Err(Fault::Malformed(WireError::Kind { kind: 9 })));
        assert_eq!(echo.frames.len(), 2, "what follows is discarded");
        assert_eq!(connection.take_output().unwrap(), good);
    }
    let (_, result) = feed(&mut connection, &[&good[..], &[0, 0, 0, 3]].concat(), 4096);
    assert!(matches!(result, Err(Fault::Malformed(WireError::Length { length: 3, .. }))));
}

#[test]
fn a_broker_connection_is_remembered() {
    let mut connection = connection();
    feed_well(&mut connection, &frame(b"question", 0));
    assert!(!connection.tell_close());
    feed_well(&mut connection, &frame(b"B", 0));
    feed_well(&mut connection, &frame(b"question", 0));
    assert!(connection.tell_close());
}

#[test]
fn a_proxy_header_is_consumed_once_in_any_pieces() {
    let line = b"PROXY TCP4 10.1.2.3 10.9.9.9 8080 9876\r\n";
    let question = frame(b"question", 3);
    let bytes = [&line[..], &question].concat();
    for piece in [1, 5, 12, line.len(), bytes.len()] {
        let mut connection = connection();
        let (echo, result) = feed(&mut connection, &bytes, piece);
        assert_eq!((result, echo.frames), (Ok(()), vec![question.clone()]));
        assert_eq!(connection.source(), Some("10.1.2.3:8080".parse().unwrap()));
    }
    // A small frame right behind the header needs no twelve bytes of its own.
    let mut connection = connection();
    let (echo, _) = feed(&mut connection, &[&line[..], &frame(b"q", 0)].concat(), 4096);
    assert_eq!(echo.frames.len(), 1);
    let (_, result) = feed(&mut self::connection(), &[&line[..], line].concat(), 4096);
    assert!(matches!(result, Err(Fault::Malformed(_))), "a second header is no frame");
    let late = [&question[..], line].concat();
    assert!(feed(&mut self::connection(), &late, 4096).1.is_err(), "nor is one behind a frame");
}

#[test]
fn a_proxy_header_from_a_stranger_is_refused_and_a_frame_is_not() {
    let mut echo = Echo::default();
    let access = named("10.0.0.0/8");
    let stranger = Door { access: &access, peer: &|| "127.0.0.1".parse().ok() };
    let line = b"PROXY UNKNOWN\r\n";
    let result = connection().received(line, &stranger, &mut echo);
    assert_eq!(result, Err(Fault::ProxyNotAllowed));
    connection().received(&frame(b"question", 9), &stranger, &mut echo).unwrap();
    assert_eq!(echo.frames.len(), 1);
}

#[test]
fn rights_are_those_of_the_one_a_named_proxy_speaks_for() {
    let admins = vec!["10.1.0.0/16".parse().unwrap()];
    let access = Access { admins, ..named("127.0.0.1") };
    let door = Door { access: &access, peer: &|| "127.0.0.1".parse().ok() };
    let none = Rights { broker: true, admin: false };
    for (header, rights) in [
        ("PROXY TCP4 10.1.2.3 10.9.9.9 8080 9876\r\n", Rights::ALL),
        ("PROXY TCP4 10.2.2.3 10.9.9.9 8080 9876\r\n", none),
        ("PROXY UNKNOWN\r\n", none),
        ("", none),
    ] {
        let key = ConnKey { shard: ShardId(0), slot: 3, generation: 9 };
        let mut connection = Connection::new(key, Mode::Disabled, none);
        let mut echo = Echo::default();
        let bytes = [header.as_bytes(), &frame(b"question", 3)].concat();
        connection.received(&bytes, &door, &mut echo).unwrap();
        assert_eq!(echo.rights, [rights], "{header}");
    }
}

#[test]
fn tls_is_recognised_also_behind_a_proxy_header() {
    let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0, 0, 0];
    assert_eq!(feed(&mut connection(), &hello, 1).1, Err(Fault::Tls));
    let behind = [&b"PROXY UNKNOWN\r\n"[..], &hello].concat();
    assert_eq!(feed(&mut connection(), &behind, 1).1, Err(Fault::Tls));
    assert!(matches!(feed(&mut connection(), b"PROXY NONSENSE\r\n", 99).1, Err(Fault::Proxy(_))));
}

#[test]
fn where_tls_is_served_its_hello_comes_out_whole_and_frames_are_expected_behind_it() {
    let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0, 0, 0];
    for mode in [Mode::Permissive, Mode::Enforcing] {
        for before in [&b""[..], b"PROXY UNKNOWN\r\n"] {
            let mut connection = connection_in(mode);
            let bytes = [before, &hello].concat();
            let (echo, result) = feed(&mut connection, &bytes, bytes.len());
            assert_eq!((result, echo.frames.len()), (Ok(()), 0));
            assert!(connection.in_hello());
            assert_eq!(connection.take_hello().as_deref(), Some(&hello[..]));
            assert_eq!(connection.take_hello(), None);
            assert_eq!(feed_well(&mut connection, &frame(b"one", 0)).frames.len(), 1);
        }
    }
}

#[test]
fn where_tls_is_enforced_nothing_plain_is_served() {
    let request = frame(b"one", 20);
    for bytes in [request.clone(), [b"PROXY UNKNOWN\r\n", &request[..]].concat()] {
        for piece in [1, 12, bytes.len()] {
            let (echo, result) = feed(&mut connection_in(Mode::Enforcing), &bytes, piece);
            assert_eq!((result, echo.frames.len()), (Err(Fault::Plain), 0));
        }
    }
    let (echo, result) = feed(&mut connection_in(Mode::Permissive), &request, 4096);
    assert_eq!((result, echo.frames.len()), (Ok(()), 1));
}

#[test]
fn an_idle_connection_is_small() {
    // With its box and its slots in ring, table and wheel: see design target of 2 KiB.
    assert!(size_of::<Connection>() <= 256, "{}", size_of::<Connection>());
}

#[test]
fn a_buffer_that_is_mostly_room_is_let_go_of() {
    let mut connection = connection();
    // Stalled by its first frame, it keeps a megabyte of frames, and the begin of another.
    let frames = frame(b"small", 1000).repeat(1000);
    feed_well(&mut connection, &[&frame(b"H", 0)[..], &frames, &frame(b"last", 0)[..9]].concat());
    assert!(connection.input_bytes() >= frames.len());
    let mut echo = Echo::default();
    while connection.input_bytes() > 1000 {
        assert!(connection.take_output().is_some(), "it goes on");
        connection.sent();
        connection.proceed(&mut echo).unwrap();
    }
    assert_eq!((echo.frames.len(), connection.input_bytes()), (1000, 9));
}

#[test]
fn when_output_is_scarce_any_of_it_stalls() {
    let mut connection = connection();
    connection.tighten(true);
    let echo = feed_well(&mut connection, &frame(b"one", 0).repeat(3));
    assert_eq!((echo.frames.len(), connection.stalled()), (1, true));
    connection.take_output();
    connection.sent();
    let mut echo = Echo::default();
    connection.tighten(false);
    connection.proceed(&mut echo).unwrap();
    assert_eq!(echo.frames.len(), 2);
}

#[test]
fn a_stranger_is_closed_for_the_begin_of_a_proxy_header() {
    let signature = b"\r\n\r\n\0\r\nQUIT\n";
    for begin in [&signature[..], b"PROXY TCP4 1"] {
        let mut connection = connection();
        let access = named("10.0.0.0/8");
        let stranger = Door { access: &access, peer: &|| "127.0.0.1".parse().ok() };
        let mut echo = Echo::default();
        assert_eq!(connection.received(&begin[..11], &stranger, &mut echo), Ok(()));
        let result = connection.received(&begin[11..], &stranger, &mut echo);
        assert_eq!(result, Err(Fault::ProxyNotAllowed));
    }
}
