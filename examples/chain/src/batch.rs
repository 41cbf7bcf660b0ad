//! The batch: the loop over the images, and the scopes that hold what they need.
//!
//! The batch has a scope, each image a scope in that, and each node a scope in the image's. On every way out
//! (success, error, panic, cancellation) a scope finishes before the next one of its kind begins, so that there is
//! never more on the device than one image needs. Not here: what the nodes do (`nodes/`).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use tenure::{Error, ManagedScope, Manager, RunError, ScopeRef, ScopeReport, hook};

use crate::cancel::Cancel;
use crate::error::ImageError;
use crate::ledger::Ledger;
use crate::node::{Frame, Node, Step};
use crate::progress::{Progress, say};
use crate::weights::WeightCache;

/// Label of the hook that clears what the images share.
pub const CLEAR_WEIGHTS: &str = "clear weights";

/// Everything that a batch works with.
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    /// Owns the device.
    pub manager: &'a Manager,
    /// The chain.
    pub nodes: &'a [Box<dyn Node>],
    /// What the images share. The batch clears it when it ends.
    pub weights: &'a Arc<WeightCache>,
    /// Counts. It was made for these nodes.
    pub ledger: &'a Arc<Ledger>,
    /// Ends the batch early.
    pub cancel: &'a Cancel,
    /// Told of every image.
    pub progress: &'a Progress,
    /// Whether the first failure is the last.
    pub fail_fast: bool,
    /// After so many images, wait in the middle of the next one until the batch is cancelled.
    pub pause_after: Option<usize>,
}

/// One image: from which file to which.
#[derive(Clone, Debug)]
pub struct Job {
    /// The file to read.
    pub source: PathBuf,
    /// The file to write.
    pub target: PathBuf,
}

impl Job {
    /// The file's name, for labels and lines.
    pub fn name(&self) -> String {
        self.source.file_name().unwrap_or(self.source.as_os_str()).to_string_lossy().into_owned()
    }
}

/// How a batch ended.
#[derive(Debug)]
pub struct Ended {
    /// What became of the images.
    pub tally: Tally,
    /// The report of the batch's scope; none if there was no such scope.
    pub report: Option<ScopeReport>,
    /// What failed of the batch itself, apart from images.
    pub error: Option<Error>,
}

/// What became of the images.
#[derive(Debug, Default)]
pub struct Tally {
    /// All that there were.
    pub total: usize,
    /// Those that were written.
    pub done: usize,
    /// Those that failed, in their order.
    pub failures: Vec<Failure>,
}

impl Tally {
    /// Those that ended, well or badly.
    pub fn tried(&self) -> usize {
        self.done + self.failures.len()
    }
}

/// An image that failed.
#[derive(Debug)]
pub struct Failure {
    /// Its file.
    pub source: PathBuf,
    /// Why.
    pub error: ImageError,
}

/// Some images failed; the tally has them.
struct SomeFailed;

impl Batch<'_> {
    /// Runs all images through the chain.
    pub fn run(&self, jobs: &[Job]) -> Ended {
        let mut tally = Tally { total: jobs.len(), ..Tally::default() };
        let ended = self.manager.run("batch", |batch| {
            self.cancel.attach(batch);
            self.images(batch, jobs, &mut tally);
            if tally.failures.is_empty() { Ok(()) } else { Err(SomeFailed) }
        });
        let (report, error) = match ended {
            Ok(((), report)) => (Some(report), None),
            Err(RunError::Body { error: SomeFailed, report }) => (report.map(|report| *report), None),
            Err(RunError::Scope(Error::Cleanup(failure))) => {
                (Some(failure.report.clone()), Some(Error::Cleanup(failure)))
            }
            Err(RunError::Scope(error)) => (None, Some(error)),
        };
        if let Some(report) = &report {
            self.ledger.scope_ended(report);
        }
        self.progress.end();
        Ended { tally, report, error }
    }

    fn images(&self, batch: &ManagedScope, jobs: &[Job], tally: &mut Tally) {
        for (index, job) in jobs.iter().enumerate() {
            let begun = Instant::now();
            let name = job.name();
            self.progress.begun(&name);
            let pause = self.pause_after == Some(tally.tried());
            match self.image(batch, job, pause) {
                Ok(()) => {
                    tally.done += 1;
                    self.progress.done(index + 1, &name, begun.elapsed());
                }
                // Not the image's fault, and nothing of it is left.
                Err(ImageError::Cancelled) => break,
                Err(error) => {
                    self.progress.failed(index + 1, &name, &error);
                    let last = self.fail_fast || error.concerns_all();
                    tally.failures.push(Failure { source: job.source.clone(), error });
                    if last {
                        break;
                    }
                }
            }
        }
    }

    /// One image in a scope of its own: its tensors go when it is done, whatever comes of it.
    fn image(&self, batch: &ManagedScope, job: &Job, pause: bool) -> Result<(), ImageError> {
        let scope = batch.scope(job.name())?;
        let result = self.chain(batch, &scope, job, pause);
        self.settle(scope.finish_with(result))
    }

    fn chain(&self, batch: &ScopeRef, image: &ScopeRef, job: &Job, pause: bool) -> Result<(), ImageError> {
        // L12: every image asks for it, the key makes it one registration on the batch. L16: it runs after the
        // scope's tensors were given up, and before the trim, which so finds the weights' memory too.
        let weights = self.weights.clone();
        let clear = hook::after_release(CLEAR_WEIGHTS, move |_| {
            weights.clear();
            Ok(())
        });
        image.register_on(batch, clear.key(CLEAR_WEIGHTS))?;

        let mut frame = Frame::new(job.source.clone(), job.target.clone());
        for index in 0..self.nodes.len() {
            self.check_cancelled(batch)?;
            self.node(index, image, &mut frame)?;
            if pause && index == 0 {
                say(format_args!("paused in {}: waiting for Ctrl-C", job.name()));
                self.cancel.wait();
            }
        }
        Ok(())
    }

    /// One node in a scope of its own: its sequence and its scratch tensors go when it is done.
    fn node(&self, index: usize, image: &ScopeRef, frame: &mut Frame) -> Result<(), ImageError> {
        let scope = image.scope(self.nodes[index].name())?;
        let result = self.step(index, image, &scope, frame);
        self.settle(scope.finish_with(result))
    }

    fn step(
        &self,
        index: usize,
        image: &ScopeRef,
        scope: &ScopeRef,
        frame: &mut Frame,
    ) -> Result<(), ImageError> {
        let node = &self.nodes[index];
        // L11: once for the scope, whether the node completes or not.
        let begun = Instant::now();
        let ledger = self.ledger.clone();
        scope.register(hook::once(format!("time of {}", node.name()), move |context| {
            ledger.node_ended(index, begun.elapsed(), context.outcome());
            Ok(())
        }))?;

        let sequence = &scope.named(node.name())?;
        let weights = self.weights;
        node.record(&Step { manager: self.manager, image, node: scope, sequence, weights }, frame)?;

        // L11: once for each execution that is submitted from now on.
        let submitted = Instant::now();
        let ledger = self.ledger.clone();
        scope.register(hook::each(format!("device time of {}", node.name()), move |_| {
            ledger.execution_ended(index, submitted.elapsed());
            Ok(())
        }))?;
        sequence.run()?;
        node.complete(frame)
    }

    /// Cancels the scope here too: the thread that took the request may not have come so far.
    fn check_cancelled(&self, batch: &ScopeRef) -> Result<(), ImageError> {
        if self.cancel.is_requested() {
            batch.cancel();
            return Err(ImageError::Cancelled);
        }
        Ok(())
    }

    /// Counts a finished scope, and tells its body's result from its own.
    fn settle(&self, ended: Result<((), ScopeReport), RunError<ImageError>>) -> Result<(), ImageError> {
        match ended {
            Ok(((), report)) => {
                self.ledger.scope_ended(&report);
                Ok(())
            }
            Err(error) => {
                if let Some(report) = error.report() {
                    self.ledger.scope_ended(report);
                }
                Err(match error {
                    RunError::Body { error, .. } => error,
                    RunError::Scope(error) => error.into(),
                })
            }
        }
    }
}
