//! Graphs as they are built: nodes and what each comes after.
//!
//! Not here: launching them (`executable.rs`, `launch.rs`).

use super::operation::Operation;
use crate::code::{Answer, Code};
use crate::memory::Handle;

/// A graph.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// In the order in which they were added, so that each comes after what it depends on, unless dependencies were
    /// added later.
    pub nodes: Vec<Node>,
}

/// A node of a graph.
#[derive(Clone, Debug)]
pub struct Node {
    /// What callers name it by.
    pub handle: Handle,
    /// What it does.
    pub action: Action,
    /// Indices of the nodes that it comes after.
    pub after: Vec<usize>,
}

/// What a node does.
#[derive(Clone, Debug)]
pub enum Action {
    /// An operation.
    Operation(Operation),
    /// Records an event.
    Record(Handle),
    /// Waits for what an event was recorded in last when the graph is launched.
    Wait(Handle),
    /// A graph of its own, as it was when it was added.
    Child(Graph),
}

impl Graph {
    /// Adds a node and gives its index.
    pub fn add(&mut self, handle: Handle, action: Action, after: Vec<usize>) -> usize {
        self.nodes.push(Node { handle, action, after });
        self.nodes.len() - 1
    }

    /// The indices of nodes by their handles.
    ///
    /// # Errors
    /// `INVALID_VALUE` for one that is not here.
    pub fn indices(&self, handles: &[Handle]) -> Answer<Vec<usize>> {
        let index = |handle: &Handle| self.nodes.iter().position(|node| node.handle == *handle);
        handles.iter().map(|handle| index(handle).ok_or(Code::INVALID_VALUE)).collect()
    }

    /// The nodes with the nodes of child graphs in their places, in an order in which each comes after what it depends
    /// on.
    ///
    /// # Errors
    /// `INVALID_VALUE` if nodes depend on each other in a circle.
    pub fn flatten(&self) -> Answer<Vec<Node>> {
        let mut flat = Vec::new();
        self.flatten_into(&[], &mut flat)?;
        Ok(flat)
    }

    /// Adds the nodes; the first of them come after `before`. Gives the indices of the last.
    fn flatten_into(&self, before: &[usize], flat: &mut Vec<Node>) -> Answer<Vec<usize>> {
        let mut placed: Vec<Option<Vec<usize>>> = vec![None; self.nodes.len()];
        let mut is_last = vec![true; self.nodes.len()];
        for index in self.sorted()? {
            let node = &self.nodes[index];
            let mut after: Vec<usize> = Vec::new();
            for earlier in &node.after {
                is_last[*earlier] = false;
                after.extend(placed[*earlier].iter().flatten());
            }
            if node.after.is_empty() {
                after.extend(before);
            }
            placed[index] = Some(match &node.action {
                Action::Child(child) if !child.nodes.is_empty() => child.flatten_into(&after, flat)?,
                Action::Child(_) => {
                    let action = Action::Operation(Operation::Nothing);
                    flat.push(Node { handle: node.handle, action, after });
                    vec![flat.len() - 1]
                }
                action => {
                    flat.push(Node { handle: node.handle, action: action.clone(), after });
                    vec![flat.len() - 1]
                }
            });
        }
        let last = (0..self.nodes.len()).filter(|index| is_last[*index]);
        Ok(last.flat_map(|index| placed[index].clone().unwrap_or_default()).collect())
    }

    /// The indices in an order in which each comes after what it depends on.
    fn sorted(&self) -> Answer<Vec<usize>> {
        let mut missing: Vec<usize> = self.nodes.iter().map(|node| node.after.len()).collect();
        let mut ready: Vec<usize> =
            (0..self.nodes.len()).rev().filter(|index| missing[*index] == 0).collect();
        let mut sorted = Vec::new();
        while let Some(index) = ready.pop() {
            sorted.push(index);
            for (later, node) in self.nodes.iter().enumerate() {
                let edges = node.after.iter().filter(|earlier| **earlier == index).count();
                missing[later] -= edges;
                if edges > 0 && missing[later] == 0 {
                    ready.push(later);
                }
            }
        }
        if sorted.len() == self.nodes.len() { Ok(sorted) } else { Err(Code::INVALID_VALUE) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(graph: &mut Graph, handle: Handle, after: &[usize]) -> usize {
        graph.add(handle, Action::Operation(Operation::Nothing), after.to_vec())
    }

    fn order(nodes: &[Node]) -> Vec<Handle> {
        nodes.iter().map(|node| node.handle).collect()
    }

    #[test]
    fn nodes_come_after_what_they_depend_on() {
        let mut graph = Graph::default();
        let first = add(&mut graph, 1, &[]);
        let second = add(&mut graph, 2, &[]);
        add(&mut graph, 3, &[first]);
        graph.nodes[first].after.push(second);
        assert_eq!(order(&graph.flatten().unwrap()), [2, 1, 3]);
    }

    #[test]
    fn circles_are_refused() {
        let mut graph = Graph::default();
        let first = add(&mut graph, 1, &[]);
        let second = add(&mut graph, 2, &[first]);
        graph.nodes[first].after.push(second);
        assert_eq!(graph.flatten().unwrap_err(), Code::INVALID_VALUE);
    }

    #[test]
    fn children_stand_in_the_place_of_their_node() {
        let mut child = Graph::default();
        add(&mut child, 10, &[]);
        add(&mut child, 11, &[]);
        let mut graph = Graph::default();
        let first = add(&mut graph, 1, &[]);
        let middle = graph.add(2, Action::Child(child), vec![first]);
        add(&mut graph, 3, &[middle]);
        let flat = graph.flatten().unwrap();
        assert_eq!(order(&flat), [1, 10, 11, 3]);
        assert_eq!(
            (&flat[1].after[..], &flat[2].after[..], &flat[3].after[..]),
            (&[0][..], &[0][..], &[1, 2][..])
        );
    }
}
