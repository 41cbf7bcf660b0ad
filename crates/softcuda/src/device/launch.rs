//! Launching a graph: its nodes become one task of a stream, and each has its own place in the order.
//!
//! Nodes that are not ordered among themselves run one after the other, in an order that the seed chooses; the checker
//! still sees that nothing orders them. Not here: making graphs ready (`executable.rs`).

use std::sync::Arc;

use super::completion::Completion;
use super::driver;
use super::event::Recorded;
use super::graph::{Action, Node};
use super::operation::Prepared;
use super::perform::{complete, perform};
use super::state::State;
use super::stream::Last;
use crate::code::{Answer, Code};
use crate::memory::Handle;
use crate::modes::random::Random;
use crate::order::{Clock, Label, Ticket};

/// One node of a launch.
struct Step {
    work: Prepared,
    ticket: Arc<Ticket>,
    after: Vec<usize>,
    /// For a wait of an event.
    waits: Option<Arc<Completion>>,
    /// For a record of an event.
    records: Option<Arc<Completion>>,
}

impl State {
    /// Launches a graph on a stream that is there.
    ///
    /// # Errors
    /// `INVALID_VALUE` for no graph; what resolving its operations answers. Nothing runs then.
    pub fn launch_graph(&mut self, handle: Handle, stream: Handle) -> Answer {
        const FUNCTION: &str = "cuGraphLaunch";
        let executable = self.executables.get(&handle).ok_or(Code::INVALID_VALUE)?;
        if let Some(capture) = self.capture_of(stream)? {
            let graph = super::graph::Graph { nodes: executable.nodes.clone() };
            return self.capture_action(capture, stream, Action::Child(graph));
        }
        self.forbid_implied_capture(stream)?;
        let executable = self.executables.get(&handle).ok_or(Code::INVALID_VALUE)?;
        let (nodes, lanes, before) =
            (executable.nodes.clone(), executable.lanes.clone(), executable.last.clone());
        let resolved = self.resolve_nodes(&nodes, stream, FUNCTION)?;
        let mut after = self.begin(stream)?;
        if let Some((last, clock)) = before {
            self.stream_mut(stream)?.clock.join(&clock);
            after.push(last.done);
        }
        let begin = self.ticket(stream, Label::on(stream, FUNCTION))?;
        let mut clocks: Vec<Clock> = Vec::new();
        let mut steps: Vec<Step> = Vec::new();
        for (index, (node, resolved)) in nodes.iter().zip(resolved).enumerate() {
            let mut clock = begin.clock.clone();
            node.after.iter().for_each(|earlier| clock.join(&clocks[*earlier]));
            let mut waits = None;
            if let Action::Wait(event) = node.action
                && let Some(Recorded::Stream { done, clock: recorded }) =
                    self.events.get(&event).map(|event| event.recorded.clone())
            {
                clock.join(&recorded);
                waits = Some(done);
            }
            let label = match &node.action {
                Action::Operation(operation) => operation.label(stream, FUNCTION),
                _ => Label::on(stream, FUNCTION),
            };
            let ticket = self.order.ticket(lanes[index], &mut clock, label);
            self.touch(&resolved, &ticket);
            let mut records = None;
            if let Action::Record(event) = node.action {
                let done = Completion::new();
                records = Some(done.clone());
                if let Some(event) = self.events.get_mut(&event) {
                    event.recorded = Recorded::Stream { done, clock: clock.clone() };
                }
            }
            clocks.push(clock);
            steps.push(Step { work: resolved.work, ticket, after: node.after.clone(), waits, records });
        }
        let owner = self.stream_mut(stream)?;
        clocks.iter().for_each(|clock| owner.clock.join(clock));
        let end = self.ticket(stream, Label::on(stream, FUNCTION))?;
        let clock = end.clock.clone();
        let seed = driver().settings.seed();
        let work = {
            let end = end.clone();
            Box::new(move || {
                complete(&begin);
                run(steps, seed, end.serial);
                complete(&end);
            })
        };
        let last: Last = self.push(stream, end, after, work)?;
        if let Some(executable) = self.executables.get_mut(&handle) {
            executable.last = Some((last, clock));
        }
        Ok(())
    }

    fn resolve_nodes(
        &mut self,
        nodes: &[Node],
        stream: Handle,
        function: &'static str,
    ) -> Answer<Vec<super::operation::Resolved>> {
        let nothing = super::operation::Operation::Nothing;
        let mut resolved = Vec::new();
        for node in nodes {
            let operation = match &node.action {
                Action::Operation(operation) => operation,
                Action::Record(event) | Action::Wait(event) if !self.events.contains_key(event) => {
                    return Err(Code::INVALID_VALUE);
                }
                _ => &nothing,
            };
            resolved.push(self.resolve(operation, &operation.label(stream, function))?);
        }
        Ok(resolved)
    }
}

/// Runs the steps, each after those that it depends on. With a seed, it chooses among those that can run.
fn run(steps: Vec<Step>, seed: u64, number: u64) {
    let mut random = (seed != 0).then(|| Random::new(seed, number));
    let mut missing: Vec<usize> = steps.iter().map(|step| step.after.len()).collect();
    let mut later: Vec<Vec<usize>> = vec![Vec::new(); steps.len()];
    for (index, step) in steps.iter().enumerate() {
        step.after.iter().for_each(|earlier| later[*earlier].push(index));
    }
    let mut ready: Vec<usize> = (0..steps.len()).rev().filter(|index| missing[*index] == 0).collect();
    while !ready.is_empty() {
        let choice =
            random.as_mut().map_or(ready.len() - 1, |random| random.below(ready.len() as u64) as usize);
        let index = ready.swap_remove(choice);
        let step = &steps[index];
        if let Some(waits) = &step.waits {
            waits.wait();
        }
        perform(&step.work, &step.ticket);
        if let Some(records) = &step.records {
            records.finish();
        }
        for next in &later[index] {
            missing[*next] -= 1;
            if missing[*next] == 0 {
                ready.push(*next);
            }
        }
    }
}
