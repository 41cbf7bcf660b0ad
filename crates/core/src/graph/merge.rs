//! Graphs that belong together since a node of one has a parent in another.
//!
//! Merging moves nothing: nodes stay counted where they were made, and a group knows its graphs.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::graph::Payload;
use crate::graph::cell::GraphCell;
use crate::graph::report::Counts;

/// A graph of any payload, as its group sees it.
pub(super) trait Member: Send + Sync {
    fn membership(&self) -> &Membership;
    fn counts(&self) -> Counts;
}

/// The group of a graph; none while it is alone.
#[derive(Default)]
pub(super) struct Membership(Mutex<Option<Arc<Group>>>);

/// Graphs that belong together.
#[derive(Default)]
pub(super) struct Group(Mutex<Vec<Weak<dyn Member>>>);

/// One merge at a time. Nothing that may be modelled or is the user's runs under it or under the locks of groups.
static MERGING: Mutex<()> = Mutex::new(());

impl Membership {
    fn group(&self) -> Option<Arc<Group>> {
        self.0.lock().clone()
    }

    /// The other graphs of the group that are still there.
    pub(super) fn others<N: Payload>(&self, own: &Arc<GraphCell<N>>) -> Vec<Arc<dyn Member>> {
        let Some(group) = self.group() else { return Vec::new() };
        let own = Arc::as_ptr(own).addr();
        let members = group.0.lock();
        let others = members.iter().filter(|member| Weak::as_ptr(member).addr() != own);
        others.filter_map(Weak::upgrade).collect()
    }
}

/// Merges the groups of two graphs. Nothing if they are in one already.
pub(super) fn merge<N: Payload>(a: &Arc<GraphCell<N>>, b: &Arc<GraphCell<N>>) {
    if let (Some(of_a), Some(of_b)) = (a.membership.group(), b.membership.group())
        && Arc::ptr_eq(&of_a, &of_b)
    {
        return;
    }
    let _merging = MERGING.lock();
    let target = group_of(a);
    let source = group_of(b);
    if Arc::ptr_eq(&target, &source) {
        return;
    }
    // Graphs that are gone are forgotten here, so that a group does not grow with them.
    let moved: Vec<Arc<dyn Member>> =
        std::mem::take(&mut *source.0.lock()).iter().filter_map(Weak::upgrade).collect();
    let mut members = target.0.lock();
    members.retain(|member| member.strong_count() > 0);
    for member in &moved {
        *member.membership().0.lock() = Some(target.clone());
        members.push(Arc::downgrade(member));
    }
    drop(members);
}

/// The group of a graph, made if it has none. The caller merges.
fn group_of<N: Payload>(graph: &Arc<GraphCell<N>>) -> Arc<Group> {
    let mut group = graph.membership.0.lock();
    let group = group.get_or_insert_with(|| {
        let member: Weak<GraphCell<N>> = Arc::downgrade(graph);
        Arc::new(Group(Mutex::new(vec![member])))
    });
    group.clone()
}
