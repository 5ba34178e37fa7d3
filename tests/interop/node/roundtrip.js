// What both JavaScript clients do here: each gives its own way to send and to receive.
'use strict';

/**
 * Sends `count` messages, waits until all have come back or `seconds` are over, and prints
 * "sent=N received=N strangers=N". A stranger is a message that was not sent.
 *
 * @param {(body: string) => Promise<string>} send stores a message, resolves to its id
 * @param {(take: (id: string, body: Buffer) => void, open: () => boolean) => Promise<void>}
 *   receive gives messages to `take`, as long as `open`
 */
async function roundTrip(count, seconds, send, receive) {
  const sent = new Set();
  for (let i = 0; i < count; i++) {
    const body = `message ${i}`;
    sent.add(`${await send(body)} ${body}`);
  }
  const received = new Set();
  let strangers = 0;
  await new Promise((resolve, reject) => {
    let open = true;
    const finish = () => {
      open = false;
      resolve();
    };
    setTimeout(finish, seconds * 1000);
    const take = (id, body) => {
      const seen = `${id} ${body}`;
      if (sent.has(seen)) received.add(seen);
      else strangers++;
      if (received.size === sent.size) finish();
    };
    receive(take, () => open).catch(reject);
  });
  console.log(`sent=${sent.size} received=${received.size} strangers=${strangers}`);
}

/** Runs a program, and ends the process whatever its clients still do. */
function main(program) {
  program(...process.argv.slice(2)).then(
    () => process.exit(0),
    error => {
      console.error(error);
      process.exit(1);
    });
}

/** For clients that would write log files: only what went wrong, to standard error. */
const logger = { info() {}, debug() {}, warn() {}, error: console.error };

module.exports = { roundTrip, main, logger };
