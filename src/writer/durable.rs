//! What must be on disk before it is acknowledged: the KV table and the settings.
//!
//! One save is under way at a time. Changes that arrive meanwhile wait and are saved together with
//! the next one, so that many writers cost few syncs. A save that fails leaves the table as it was,
//! and each asker is told.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use tracing::{error, info};

use crate::config::settings::Settings;
use crate::kv::{KvChange, KvTable, KvView};
use crate::store::{Saved, StoreFile, StoreThread};
use crate::wire::code::response;

use super::lane::{BodyLease, Received};
use super::request::{ToShard, WriteOp, WriteRequest};
use super::{Answer, Asker, push_answer};

/// Where the durable tables are kept.
#[derive(Debug)]
pub struct DurableFiles {
    /// `kvConfigPath`.
    pub kv: PathBuf,
    /// `configStorePath`.
    pub settings: PathBuf,
    /// Writes them.
    pub store: StoreThread,
}

/// The KV table and the settings. Lives: writer core only. Shares: frozen copies.
#[derive(Debug)]
pub struct Durable {
    kv: KvTable,
    settings: Arc<Settings>,
    files: DurableFiles,
    waiting: VecDeque<Waiting>,
    saving: Option<Saving>,
    last_ticket: u64,
}

/// A change that waits for the disk. Holds its request's lease, so it counts against its shard's.
#[derive(Debug)]
struct Waiting {
    change: Change,
    asker: Asker,
    _lease: BodyLease,
}

#[derive(Debug)]
enum Change {
    Kv(KvChange),
    Settings(Bytes),
}

/// The save under way: what it makes true, and who waits for it.
#[derive(Debug)]
struct Saving {
    ticket: u64,
    outcome: Outcome,
    askers: Vec<Asker>,
}

#[derive(Debug)]
enum Outcome {
    Kv(KvTable),
    Settings(Arc<Settings>),
}

impl Durable {
    /// Tables as they were read from their files.
    #[must_use]
    pub fn new(kv: KvTable, settings: Arc<Settings>, files: DurableFiles) -> Durable {
        Durable { kv, settings, files, waiting: VecDeque::new(), saving: None, last_ticket: 0 }
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What readers see: nothing that is not on disk.
    pub(super) fn shown(&self) -> (KvView, Arc<Settings>) {
        (self.kv.view(), Arc::clone(&self.settings))
    }

    pub(super) fn is_saving(&self) -> bool {
        self.saving.is_some() || !self.waiting.is_empty()
    }

    /// Takes a request for a change of the KV table or the settings.
    pub(super) fn change(&mut self, received: Received) {
        let Received { request: WriteRequest { conn, reply_to, op }, lease, .. } = received;
        let change = match op {
            WriteOp::PutKv { namespace, key, value } => {
                Change::Kv(KvChange::Put { namespace, key, value })
            }
            WriteOp::DeleteKv { namespace, key } => Change::Kv(KvChange::Delete { namespace, key }),
            WriteOp::UpdateSettings { body } => Change::Settings(body),
            other => unreachable!("{other:?} changes nothing durable"),
        };
        let asker = Asker { conn, reply_to };
        self.waiting.push_back(Waiting { change, asker, _lease: lease });
    }

    /// Takes a finished save over, and begins the next one. Whether there is something new to show.
    pub(super) fn turn(&mut self, answers: &mut Vec<ToShard>) -> bool {
        let mut changed = false;
        while let Some(saved) = self.files.store.poll() {
            changed |= self.finish(saved, answers);
        }
        while self.saving.is_none() && !self.waiting.is_empty() {
            match &self.waiting[0].change {
                Change::Kv(_) => self.begin_kv(answers),
                Change::Settings(_) => self.begin_settings(answers),
            }
        }
        changed
    }

    /// Ends the store thread. Called when nothing is under way.
    pub(super) fn close(self) {
        let unpolled = self.files.store.stop();
        assert!(unpolled.is_empty(), "every save was waited for");
    }

    fn finish(&mut self, saved: Saved, answers: &mut Vec<ToShard>) -> bool {
        let Some(saving) = self.saving.take_if(|saving| saving.ticket == saved.ticket) else {
            return false;
        };
        let failed = saved.result.err().map(|reason| {
            error!(%reason, "a change was refused because it could not be saved");
            format!("could not be saved and is not in effect: {reason}")
        });
        for asker in saving.askers {
            let reply = match &failed {
                None => Answer::success(),
                Some(remark) => Answer::refused(response::SYSTEM_ERROR, remark.clone()),
            };
            push_answer(answers, asker, reply);
        }
        if failed.is_none() {
            match saving.outcome {
                Outcome::Kv(table) => self.kv = table,
                Outcome::Settings(settings) => {
                    info!("settings changed and saved");
                    self.settings = settings;
                }
            }
        }
        failed.is_none()
    }

    /// Saves all KV changes at the head of the queue together, but for those that the table has no
    /// room for.
    fn begin_kv(&mut self, answers: &mut Vec<ToShard>) {
        let is_kv = |waiting: &&Waiting| matches!(waiting.change, Change::Kv(_));
        let count = self.waiting.iter().take_while(is_kv).count();
        let mut draft = self.kv.draft();
        let mut askers = Vec::with_capacity(count);
        for Waiting { change, asker, .. } in self.waiting.drain(..count) {
            let Change::Kv(change) = change else {
                continue;
            };
            match draft.apply(&change) {
                Ok(()) => askers.push(asker),
                Err(refusal) => {
                    let remark = refusal.to_string();
                    push_answer(answers, asker, Answer::refused(response::SYSTEM_ERROR, remark));
                }
            }
        }
        match draft.finish() {
            Some(table) => {
                let bytes = table.file();
                let path = self.files.kv.clone();
                let saving = Saving { ticket: 0, outcome: Outcome::Kv(table), askers };
                self.begin(StoreFile::Kv, path, bytes, saving, answers);
            }
            None => {
                for asker in askers {
                    push_answer(answers, asker, Answer::success());
                }
            }
        }
    }

    fn begin_settings(&mut self, answers: &mut Vec<ToShard>) {
        let Some(Waiting { change: Change::Settings(body), asker, .. }) = self.waiting.pop_front()
        else {
            return;
        };
        match self.settings.update(&body) {
            Ok(settings) => {
                let bytes = settings.file_text().into_bytes();
                let path = self.files.settings.clone();
                let outcome = Outcome::Settings(Arc::new(settings));
                let saving = Saving { ticket: 0, outcome, askers: vec![asker] };
                self.begin(StoreFile::Settings, path, bytes, saving, answers);
            }
            Err(refused) => {
                push_answer(answers, asker, Answer::refused(refused.code, refused.remark));
            }
        }
    }

    fn begin(
        &mut self,
        what: StoreFile,
        path: PathBuf,
        bytes: Vec<u8>,
        saving: Saving,
        answers: &mut Vec<ToShard>,
    ) {
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        self.saving = Some(Saving { ticket, ..saving });
        if let Err(error) = self.files.store.save(what, path, move || bytes, ticket) {
            self.finish(Saved { what, ticket, result: Err(error) }, answers);
        }
    }
}
