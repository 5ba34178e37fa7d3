//! Much mail is delivered in pieces.

use super::*;

const ANSWERS: usize = 40;
const ANSWER: &[u8] = &[7; 1 << 20];

/// Answers to one connection, all posted while the shard was held up, and a query that came
/// meanwhile.
fn posted(server: &Server, client: &mut TcpStream, other: &mut TcpStream) {
    client.write_all(&frame(b"L", b"ist").repeat(ANSWERS)).unwrap();
    let keys: Vec<ConnKey> = (0..ANSWERS).map(|_| server.asked()).collect();
    let held_up = server.gate.lock().unwrap();
    other.write_all(&frame(b"W", b"ait")).unwrap();
    read_of(server, b'W');
    for key in keys {
        server.answer(key, ANSWER);
    }
    other.write_all(&frame(b"query", b"")).unwrap();
    drop(held_up);
}

/// Waits until a frame with this header is being served.
fn read_of(server: &Server, header: u8) {
    server.until("served", |_| server.order.lock().unwrap().contains(&header));
}

#[test]
fn a_query_does_not_wait_for_all_answers_of_the_writer() {
    let server = serve(|_| {});
    let (mut client, mut other) = (server.connect(), server.connect());
    posted(&server, &mut client, &mut other);
    let sent = frame(b"W", b"ait").len() + frame(b"query", b"").len();
    read(&mut other, sent);
    read(&mut client, ANSWERS * ANSWER.len());
    let order = server.order.lock().unwrap();
    let query = order.iter().position(|event| *event == b'q').unwrap();
    let before = order[..query].iter().filter(|event| **event == b'+').count();
    assert!(before < ANSWERS / 2, "{before} answers came before the query");
}

#[test]
fn a_shard_does_not_sleep_on_mail() {
    let server = serve(|_| {});
    let (mut client, mut other) = (server.connect(), server.connect());
    posted(&server, &mut client, &mut other);
    // Nobody reads, so that nothing but the mail itself keeps the shard awake.
    let began = Instant::now();
    let delivered = || server.order.lock().unwrap().iter().filter(|at| **at == b'+').count();
    server.until("delivered", |_| delivered() == ANSWERS);
    // The shard's timer would bring a piece more every ten seconds.
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
}
