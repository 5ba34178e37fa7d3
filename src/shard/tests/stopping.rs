//! What peers get while a shard ends.

use super::*;

#[test]
fn the_shutdown_sends_what_is_owed_and_ends() {
    let mut server = serve(|_| {});
    let mut idle = server.connect();
    let mut owed = server.connect();
    owed.write_all(&frame(b"L", b"ater")).unwrap();
    let conn = server.asked();
    server.until("both", |counted| counted.open == 2);
    server.stop.drain();
    assert!(read_to_close(&mut idle).is_empty());
    server.answer(conn, b"owed");
    assert_eq!(read_to_close(&mut owed), b"owed");
    drop(owed);
    server.ended().unwrap();
    assert!(server.closed.lock().unwrap().try_recv().is_err(), "the broker is not gone");
    assert!(TcpStream::connect(server.address).is_err());
}

#[test]
fn the_shutdown_waits_no_longer_than_its_deadline() {
    let mut server = serve(|options| options.drain_ms = 100);
    let mut owed = server.connect();
    owed.write_all(&frame(b"L", b"ater")).unwrap();
    server.asked();
    let began = Instant::now();
    server.stop.drain();
    server.ended().unwrap();
    assert!(began.elapsed() >= Duration::from_millis(100));
    assert!(read_to_close(&mut owed).is_empty());
}

#[test]
fn the_shutdown_resets_nobody_whose_answer_is_under_way() {
    const OWED: &[u8] = &[7; 16 << 10];
    let mut server = serve(|_| {});
    // With hardly any room for it here, the answer stays with the server's kernel.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(1).unwrap();
    socket.connect(&server.address.into()).unwrap();
    let mut client = TcpStream::from(socket);
    client.write_all(&frame(b"L", b"ater")).unwrap();
    let conn = server.asked();
    let mut idle = server.connect();
    server.until("both", |counted| counted.open == 2);
    server.stop.drain();
    assert!(read_to_close(&mut idle).is_empty(), "nothing is read from now on");
    // What the peer says next comes too late, and lies unread.
    client.write_all(&frame(b"heartbeat", b"")).unwrap();
    server.answer(conn, OWED);
    server.until("sent", |counted| counted.bytes_out == OWED.len() as u64);
    let began = Instant::now();
    while server.counted().closed_shutdown < 2 && began.elapsed() < Duration::from_millis(300) {
        thread::sleep(Duration::from_millis(2));
    }
    let mut all = Vec::new();
    client.read_to_end(&mut all).expect("not reset");
    assert_eq!(all.len(), OWED.len(), "to its last byte");
    drop(client);
    server.ended().unwrap();
    assert_eq!(server.counted().closed_shutdown, 2);
}

#[test]
fn a_peer_that_never_closes_delays_the_end_by_a_bounded_time() {
    let mut server = serve(|options| options.drain_ms = 60_000);
    let mut client = server.connect();
    let question = frame(b"question", b"");
    client.write_all(&question).unwrap();
    assert_eq!(read(&mut client, question.len()), question);
    let began = Instant::now();
    server.stop.drain();
    server.ended().unwrap();
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert!(read_to_close(&mut client).is_empty());
}
