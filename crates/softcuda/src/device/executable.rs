//! Graphs that can be launched: nodes in the order in which they run, each in a lane of the checker's order.
//!
//! Nodes that come one after the other share a lane, so that clocks stay short. Not here: launching (`launch.rs`).

use std::collections::HashSet;

use super::graph::Node;
use super::state::State;
use super::stream::Last;
use crate::code::{Answer, Code};
use crate::memory::Handle;
use crate::order::{Clock, Lane};

/// A graph that can be launched.
#[derive(Debug)]
pub struct Executable {
    /// In the order in which they run.
    pub nodes: Vec<Node>,
    /// The lane of each.
    pub lanes: Vec<Lane>,
    /// As it was asked for.
    pub flags: u64,
    /// The last launch: the next one comes after it, on whatever stream.
    pub last: Option<(Last, Clock)>,
}

impl Executable {
    /// How many edges there are between its nodes.
    pub fn edges(&self) -> usize {
        self.nodes.iter().map(|node| node.after.len()).sum()
    }
}

impl State {
    /// Makes a graph ready to be launched.
    ///
    /// # Errors
    /// `INVALID_VALUE` for no graph, or one that goes in a circle.
    pub fn instantiate(&mut self, graph: Handle, flags: u64) -> Answer<Handle> {
        let nodes = self.graphs.get(&graph).ok_or(Code::INVALID_VALUE)?.flatten()?;
        let lanes = self.lanes_of(&nodes);
        let handle = self.new_handle();
        self.executables.insert(handle, Executable { nodes, lanes, flags, last: None });
        Ok(handle)
    }

    fn lanes_of(&mut self, nodes: &[Node]) -> Vec<Lane> {
        let mut lanes: Vec<Lane> = Vec::new();
        let mut continued = vec![false; nodes.len()];
        for node in nodes {
            let free = node.after.iter().copied().find(|earlier| !continued[*earlier]);
            lanes.push(match free {
                Some(earlier) => {
                    continued[earlier] = true;
                    lanes[earlier]
                }
                None => self.order.open_lane(),
            });
        }
        lanes
    }

    /// Takes an executable graph away. Launches that are under way run to their end.
    ///
    /// # Errors
    /// `INVALID_VALUE` for none.
    pub fn end_executable(&mut self, handle: Handle) -> Answer {
        let executable = self.executables.remove(&handle).ok_or(Code::INVALID_VALUE)?;
        let lanes: HashSet<Lane> = executable.lanes.into_iter().collect();
        lanes.into_iter().for_each(|lane| self.order.close_lane(lane));
        Ok(())
    }

    /// Puts the nodes of another graph, of the same shape, into an executable one.
    ///
    /// # Errors
    /// `GRAPH_EXEC_UPDATE_FAILURE` if the shapes differ, `INVALID_VALUE` for no graph.
    pub fn update_executable(&mut self, handle: Handle, graph: Handle) -> Answer {
        let nodes = self.graphs.get(&graph).ok_or(Code::INVALID_VALUE)?.flatten()?;
        let executable = self.executables.get_mut(&handle).ok_or(Code::INVALID_VALUE)?;
        let same = |one: &Node, other: &Node| {
            one.after == other.after
                && std::mem::discriminant(&one.action) == std::mem::discriminant(&other.action)
        };
        if nodes.len() != executable.nodes.len()
            || !nodes.iter().zip(&executable.nodes).all(|(one, other)| same(one, other))
        {
            return Err(Code::GRAPH_EXEC_UPDATE_FAILURE);
        }
        // Callers name the nodes of an executable by those of the graph that it was made from.
        for (node, new) in executable.nodes.iter_mut().zip(nodes) {
            node.action = new.action;
        }
        Ok(())
    }
}
