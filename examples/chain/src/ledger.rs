//! The ledger: what hooks and finished scopes write down, for the report.
//!
//! Not here: how it is shown (`report.rs`).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure::{Outcome, ScopeReport};

/// Counts that hooks of any thread add to.
#[derive(Debug)]
pub struct Ledger {
    counts: Mutex<Counts>,
}

/// What was counted.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// One for each node, in the chain's order.
    pub nodes: Vec<NodeCounts>,
    /// Scopes that finished.
    pub scopes: u64,
    /// Executions that were submitted in them.
    pub executions: u64,
    /// Runs of their hooks.
    pub hook_runs: u64,
    /// Runs that failed.
    pub hook_failures: u64,
}

/// What was counted of one node.
#[derive(Clone, Debug)]
pub struct NodeCounts {
    /// Its name.
    pub name: &'static str,
    /// Images that it began with.
    pub runs: u64,
    /// Runs of these that did not complete: failed or cancelled.
    pub broken: u64,
    /// Time of all runs.
    pub total: Duration,
    /// Time of the longest run.
    pub longest: Duration,
    /// The part of `total` between the submission of an execution and its end.
    pub device: Duration,
}

impl Ledger {
    /// An empty ledger for nodes of these names.
    pub fn new(names: impl IntoIterator<Item = &'static str>) -> Ledger {
        let node = |name| NodeCounts {
            name,
            runs: 0,
            broken: 0,
            total: Duration::ZERO,
            longest: Duration::ZERO,
            device: Duration::ZERO,
        };
        let nodes = names.into_iter().map(node).collect();
        Ledger { counts: Mutex::new(Counts { nodes, ..Counts::default() }) }
    }

    /// A run of node `index` has ended.
    pub fn node_ended(&self, index: usize, time: Duration, outcome: Option<Outcome>) {
        let mut counts = self.lock();
        let node = &mut counts.nodes[index];
        node.runs += 1;
        node.broken += u64::from(outcome != Some(Outcome::Completed));
        node.total += time;
        node.longest = node.longest.max(time);
    }

    /// An execution of node `index` has retired.
    pub fn execution_ended(&self, index: usize, time: Duration) {
        self.lock().nodes[index].device += time;
    }

    /// A scope has finished.
    pub fn scope_ended(&self, report: &ScopeReport) {
        let mut counts = self.lock();
        counts.scopes += 1;
        counts.executions += report.executions;
        counts.hook_runs += report.hooks.iter().map(|hook| hook.runs).sum::<u64>();
        counts.hook_failures += report.hooks.iter().map(|hook| hook.failed).sum::<u64>();
    }

    /// A copy of the counts as they are now.
    pub fn counts(&self) -> Counts {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        // Sums that lack a summand are better than none.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure::hook;

    #[test]
    fn runs_are_added_up_by_node() {
        let ledger = Ledger::new(["a", "b"]);
        let ms = Duration::from_millis;
        ledger.node_ended(1, ms(5), Some(Outcome::Completed));
        ledger.node_ended(1, ms(3), Some(Outcome::Failed));
        ledger.execution_ended(1, ms(2));
        let counts = ledger.counts();
        assert_eq!((counts.nodes[0].name, counts.nodes[0].runs), ("a", 0));
        let b = &counts.nodes[1];
        assert_eq!((b.runs, b.broken, b.total, b.longest, b.device), (2, 1, ms(8), ms(5), ms(2)));
    }

    #[test]
    fn scopes_are_added_up() {
        let ledger = Ledger::new([]);
        let manager = tenure::open("host").unwrap();
        for fails in [false, true] {
            let scope = manager.scope("scope").unwrap();
            scope.register(hook::once("good", |_| Ok(()))).unwrap();
            if fails {
                scope.register(hook::once("bad", |_| Err("no".into()))).unwrap();
            }
            match scope.finish_blocking() {
                Ok(report) => ledger.scope_ended(&report),
                Err(tenure::Error::Cleanup(failure)) => ledger.scope_ended(&failure.report),
                Err(error) => panic!("{error}"),
            }
        }
        let counts = ledger.counts();
        assert_eq!((counts.scopes, counts.hook_runs, counts.hook_failures), (2, 3, 1));
    }
}
