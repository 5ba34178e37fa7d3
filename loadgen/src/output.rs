//! What becomes of a record when a command is done: files, and the verdicts of `--assert`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::assertion::Assertions;
use crate::failure::{Failure, run_failure, usage};
use crate::logs;
use crate::page::page;
use crate::record::{Record, Run};

/// Where results go besides standard output.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Results")]
pub struct OutputArgs {
    /// Name of the server in tables and plots
    #[arg(long, default_value = "server", value_name = "NAME", value_parser = label)]
    pub label: String,
    /// Write a page with plots: one file that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the whole record, which `loadgen report` reads
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a table with a row a second
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write an HdrHistogram log, one line a second
    #[arg(long, value_name = "FILE")]
    pub hlog: Option<PathBuf>,
    /// Write the percentile distribution of response times
    #[arg(long, value_name = "FILE")]
    pub hgrm: Option<PathBuf>,
    /// Demand something of the result, such as 'p99.9<2ms,errors==0'; exit code 4 if it fails
    #[arg(long, value_name = "DEMANDS", value_parser = str::parse::<Assertions>)]
    pub assert: Vec<Assertions>,
}

fn label(text: &str) -> Result<String, String> {
    match text.chars().count() {
        1..=40 if !text.contains(char::is_control) && text != "floor" => Ok(text.to_owned()),
        _ => Err("give 1 to 40 characters, and not the name `floor`".to_owned()),
    }
}

impl OutputArgs {
    fn files(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        let files = [
            ("--html", &self.html),
            ("--json", &self.json),
            ("--csv", &self.csv),
            ("--hlog", &self.hlog),
            ("--hgrm", &self.hgrm),
        ];
        files.into_iter().filter_map(|(flag, file)| Some((flag, file.as_ref()?)))
    }

    /// Finds out before a run, rather than after it, that a file cannot be written.
    ///
    /// # Errors
    /// [`Failure::Usage`] naming the flag.
    pub fn check(&self) -> Result<(), Failure> {
        for (flag, file) in self.files() {
            let opened = fs::OpenOptions::new().append(true).create(true).open(file);
            opened.map_err(|e| {
                usage(format!("{flag} {}: {e}; give a file that can be written", file.display()))
            })?;
        }
        Ok(())
    }

    /// Takes errors for no reason against a run where a demand allows for them.
    ///
    /// # Errors
    /// As [`Assertions::forgive`].
    pub fn forgive(&self, run: &mut Run) -> Result<(), Failure> {
        Assertions(self.assert.iter().flat_map(|demands| demands.0.clone()).collect()).forgive(run)
    }

    /// Judges the record and writes the files. Returns whether it meets all demands.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn finish(&self, record: &mut Record) -> Result<bool, Failure> {
        for assertion in self.assert.iter().flat_map(|assertions| &assertions.0) {
            let verdict = assertion.judge(record)?;
            println!("assert: {}", verdict.words);
            record.assertions.push(verdict);
        }
        if let Some(file) = &self.json {
            record.write_to(file)?;
        }
        if let Some(file) = &self.html {
            write(file, &page(std::slice::from_ref(record))?)?;
        }
        if let Some(file) = &self.csv {
            write(file, &logs::csv(record))?;
        }
        if let Some(file) = &self.hlog {
            write(file, &logs::hlog(record)?)?;
        }
        if let Some(file) = &self.hgrm {
            write(file, &logs::hgrm(record)?)?;
        }
        for (_, file) in self.files() {
            println!("written: {}", file.display());
        }
        Ok(record.assertions.iter().all(|verdict| verdict.holds))
    }
}

/// Writes a file as a whole.
///
/// # Errors
/// When it cannot be written.
pub fn write(file: &Path, text: &str) -> Result<(), Failure> {
    fs::write(file, text).map_err(|e| run_failure(format!("writing {}: {e}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_is_found_before_the_run() {
        let html = Some(PathBuf::from("/nowhere/at/all.html"));
        let refused = OutputArgs { html, ..OutputArgs::default() }.check().unwrap_err();
        assert!(refused.to_string().contains("--html /nowhere/at/all.html"), "{refused}");
        assert_eq!(refused.exit_code(), 2);
    }

    #[test]
    fn a_name_for_the_server_is_short_and_not_that_of_the_floor() {
        assert!(label("floor").is_err() && label("").is_err() && label("a\nb").is_err());
        assert_eq!(label("Java 5.5.0"), Ok("Java 5.5.0".to_owned()));
    }
}
