//! Requests that a peer has no right to.

use crate::wire::Command;
use crate::wire::code::{Sender, response};

use super::Desk;
use super::reply::Reply;

/// Answers a request that only others may send: nothing is done, and the remark says which setting
/// forbids it. (Java has no such limit.)
pub fn refuse(command: &Command<'_>, sender: Sender, desk: &mut Desk, out: &mut Vec<u8>) {
    let setting = match sender {
        Sender::Broker => "brokerFrom",
        Sender::Admin | Sender::Anybody => "adminFrom",
    };
    desk.count_forbidden();
    let mut reply = Reply::to(command, desk, out);
    let code = command.code;
    let remark = desk.text(format_args!(
        "request type {code} is not allowed from your address; {setting} of the name server says \
         from where it is"
    ));
    reply.fail(response::NO_PERMISSION, remark);
}
