//! One run of a hook: sync or async, its panics caught (L13).
//!
//! Not here: when it runs and in which order (`engine/finish.rs`), and what a scope keeps of its hooks
//! (`engine/registrations.rs`).

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use crate::cleanup::{CleanupContext, CleanupHook, HookBody};
use crate::engine::execution::ExecutionCell;
use crate::engine::frames;
use crate::engine::quiet::{panic_text, quietly};
use crate::error::{BoxError, SharedError};
use crate::report::CleanupErrorKind;

/// How one run ended.
pub(crate) enum RunEnd {
    Ok,
    Failed(SharedError),
    Panicked(SharedError),
}

/// How a future's run ended: the hook, if it can run again, and its answer, or the panic.
type Ended = (Option<HookBody>, std::thread::Result<Result<(), BoxError>>);

type Running = Pin<Box<dyn Future<Output = Ended> + Send>>;

/// One run of one hook.
pub(crate) struct HookRun {
    /// The hook's place among the registrations of the scope.
    pub place: usize,
    pub execution: Option<Arc<ExecutionCell>>,
    pub started: Instant,
    context: CleanupContext,
    stage: Stage,
}

enum Stage {
    Body(HookBody),
    Future(Running),
    Done,
}

impl HookRun {
    pub(crate) fn new(
        place: usize,
        execution: Option<Arc<ExecutionCell>>,
        body: HookBody,
        context: CleanupContext,
    ) -> Self {
        HookRun { place, execution, started: Instant::now(), context, stage: Stage::Body(body) }
    }

    /// The hook's place and the execution, after its end.
    pub(crate) fn into_parts(self) -> (usize, Option<Arc<ExecutionCell>>) {
        (self.place, self.execution)
    }

    /// Whether it may be pending, and then wants to be woken.
    pub(crate) fn may_wait(&self) -> bool {
        !matches!(self.stage, Stage::Body(HookBody::Once(_) | HookBody::Each(_)))
    }

    /// Ready for its next run, if there is one.
    fn put_back(&self, body: HookBody) {
        let spent = self.context.scope.inner.lock().registrations.put_back(self.place, body);
        if spent.is_some() {
            // The scope has finished without it. What it captured is dropped without the lock (L15).
            quietly(|| drop(spent));
        }
    }

    /// Runs or polls the hook. No lock is held (L15); a panic is an end like another (L13).
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<RunEnd> {
        let _inside = frames::enter_hook(
            &self.context.scope,
            self.execution.as_ref().map(|execution| execution.number),
        );
        match catch_unwind(AssertUnwindSafe(|| self.advance(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(Ok(()))) => Poll::Ready(RunEnd::Ok),
            Ok(Poll::Ready(Err(error))) => Poll::Ready(RunEnd::Failed(error.into())),
            Err(panic) => {
                let stage = std::mem::replace(&mut self.stage, Stage::Done);
                // The destructor of what the hook captured can panic too.
                quietly(|| drop(stage));
                Poll::Ready(RunEnd::Panicked(Arc::new(PanicMessage::new(panic))))
            }
        }
    }

    fn advance(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        loop {
            match std::mem::replace(&mut self.stage, Stage::Done) {
                Stage::Body(HookBody::Once(run)) => return Poll::Ready(run(&self.context)),
                Stage::Body(HookBody::Each(mut run)) => {
                    // An execution hook that panics is as good as before for the next execution.
                    let answer = catch_unwind(AssertUnwindSafe(|| run(&self.context)));
                    self.put_back(HookBody::Each(run));
                    return match answer {
                        Ok(result) => Poll::Ready(result),
                        Err(panic) => std::panic::resume_unwind(panic),
                    };
                }
                Stage::Body(HookBody::Future(make)) => {
                    let future = make(self.context.clone());
                    self.stage = Stage::Future(Box::pin(async move { (None, Ok(future.await)) }));
                }
                Stage::Body(HookBody::Custom(hook)) => {
                    self.stage = Stage::Future(Box::pin(run_custom(hook, self.context.clone())));
                }
                Stage::Future(mut future) => match future.as_mut().poll(context) {
                    Poll::Pending => {
                        self.stage = Stage::Future(future);
                        return Poll::Pending;
                    }
                    Poll::Ready((body, result)) => {
                        if let Some(body) = body {
                            self.put_back(body);
                        }
                        return match result {
                            Ok(result) => Poll::Ready(result),
                            Err(panic) => std::panic::resume_unwind(panic),
                        };
                    }
                },
                Stage::Done => unreachable!("a hook's run is polled after its end"),
            }
        }
    }
}

/// Runs a hook of the user's own type. It survives its panics: the next execution runs it again (L11).
async fn run_custom(mut hook: Box<dyn CleanupHook>, context: CleanupContext) -> Ended {
    let result = {
        let mut running = hook.run(&context);
        std::future::poll_fn(move |context| {
            match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(context))) {
                Ok(poll) => poll.map(Ok),
                Err(panic) => Poll::Ready(Err(panic)),
            }
        })
        .await
    };
    (Some(HookBody::Custom(hook)), result)
}

impl RunEnd {
    /// The error, if it is one, and its kind.
    pub(crate) fn into_error(self) -> Option<(CleanupErrorKind, SharedError)> {
        match self {
            RunEnd::Ok => None,
            RunEnd::Failed(error) => Some((CleanupErrorKind::Failed, error)),
            RunEnd::Panicked(error) => Some((CleanupErrorKind::Panicked, error)),
        }
    }
}

/// The message of a panic, as an error.
#[derive(Debug)]
struct PanicMessage(String);

impl PanicMessage {
    fn new(panic: Box<dyn Any + Send>) -> Self {
        PanicMessage(panic_text(panic))
    }
}

impl std::fmt::Display for PanicMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PanicMessage {}
