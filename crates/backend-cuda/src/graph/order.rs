//! Which nodes of a graph come after which.
//!
//! Work that reads what was written, or writes what was read or written, comes after it; all else is in no order. Ranges that were
//! used are remembered with who wrote them last and who has read them since: a write comes after those readers, or where
//! there are none after the writer, so that an edge that follows from others is seldom made. Work that would come
//! after very many gets a node before it that does nothing else than come after them all, and whoever uses the same ranges
//! next comes after that: else a hundred writers and a hundred readers of all of it would make ten thousand edges. Not
//! here: what work uses (`graph.rs`), and order between recordings, which core computes (`Submission::waits`).

use std::collections::BTreeMap;

use smallvec::{SmallVec, smallvec};

use crate::commands::Use;

/// Most nodes that one with work comes after.
const MOST_EDGES: usize = 32;

/// A node, by what it does and what it comes after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Which work it does; none only comes after others.
    pub work: Option<usize>,
    /// Numbers of earlier nodes, rising.
    pub after: Vec<usize>,
}

/// The nodes of all work, in an order in which each comes after what it depends on.
pub(crate) fn nodes(work: impl Iterator<Item = SmallVec<[Use; 4]>>) -> Vec<Node> {
    let mut nodes = Vec::new();
    let mut used = Used::default();
    for (at, mut uses) in work.enumerate() {
        uses.retain(|one| one.start < one.end);
        let mut after = used.before(&uses);
        if after.len() > MOST_EDGES {
            let join = nodes.len();
            nodes.push(Node { work: None, after });
            used.join(&uses, join);
            after = vec![join];
        }
        used.add(&uses, nodes.len());
        nodes.push(Node { work: Some(at), after });
    }
    nodes
}

/// All ranges that were used, by their first byte. They do not overlap.
#[derive(Default)]
struct Used(BTreeMap<u64, Span>);

/// Bytes with one history.
#[derive(Clone)]
struct Span {
    end: u64,
    writer: Option<usize>,
    /// Since it was written.
    readers: SmallVec<[usize; 4]>,
}

impl Used {
    /// What has to come before work with these uses: rising, each once.
    fn before(&mut self, uses: &[Use]) -> Vec<usize> {
        let mut before = Vec::new();
        for one in uses {
            self.cut(one.start);
            self.cut(one.end);
            for span in self.0.range(one.start..one.end).map(|(_, span)| span) {
                if one.writes && !span.readers.is_empty() {
                    before.extend(&span.readers);
                } else {
                    before.extend(span.writer);
                }
            }
        }
        before.sort_unstable();
        before.dedup();
        before
    }

    /// A node that comes after all that has to come before these uses stands for the writers of what is read.
    fn join(&mut self, uses: &[Use], node: usize) {
        for one in uses.iter().filter(|one| !one.writes) {
            for (_, span) in self.0.range_mut(one.start..one.end) {
                span.writer = span.writer.map(|_| node);
            }
        }
    }

    /// The node has these uses, of which `before` has told.
    fn add(&mut self, uses: &[Use], node: usize) {
        for one in uses {
            let spans = self.take(one.start, one.end);
            if one.writes {
                let span = Span { end: one.end, writer: Some(node), readers: SmallVec::new() };
                self.0.insert(one.start, span);
            } else {
                self.read(one, spans, node);
            }
        }
    }

    /// Puts spans back with one more reader, and with what is between them. Neighbours with one history become one.
    fn read(&mut self, one: &Use, spans: Vec<(u64, Span)>, node: usize) {
        let mut whole: Vec<(u64, Span)> = Vec::new();
        let mut push = |start: u64, mut span: Span| {
            if span.readers.last() != Some(&node) {
                span.readers.push(node);
            }
            match whole.last_mut() {
                Some((_, last)) if last.writer == span.writer && last.readers == span.readers => {
                    last.end = span.end;
                }
                _ => whole.push((start, span)),
            }
        };
        let unused = |end: u64| Span { end, writer: None, readers: smallvec![] };
        let mut at = one.start;
        for (start, span) in spans {
            if at < start {
                push(at, unused(start));
            }
            at = span.end;
            push(start, span);
        }
        if at < one.end {
            push(at, unused(one.end));
        }
        self.0.extend(whole);
    }

    /// Ends a span at this byte, and begins another one there, if one has it inside.
    fn cut(&mut self, at: u64) {
        if let Some((_, span)) = self.0.range_mut(..at).next_back()
            && span.end > at
        {
            let rest = span.clone();
            span.end = at;
            self.0.insert(at, rest);
        }
    }

    /// Takes the spans of a range out.
    fn take(&mut self, start: u64, end: u64) -> Vec<(u64, Span)> {
        // Once more: another use of the same work may have joined what was cut.
        self.cut(start);
        self.cut(end);
        let starts: Vec<u64> = self.0.range(start..end).map(|(at, _)| *at).collect();
        starts.into_iter().filter_map(|at| self.0.remove_entry(&at)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(start: u64, end: u64) -> Use {
        Use { start, end, writes: false }
    }

    fn write(start: u64, end: u64) -> Use {
        Use { start, end, writes: true }
    }

    /// The nodes of work with these uses, and for each what it comes after.
    fn after(work: &[&[Use]]) -> Vec<Vec<usize>> {
        nodes(work.iter().map(|uses| SmallVec::from_slice(uses))).into_iter().map(|node| node.after).collect()
    }

    #[test]
    fn what_shares_nothing_is_in_no_order() {
        let none: &[usize] = &[];
        assert_eq!(after(&[&[write(0, 8)], &[write(8, 16)], &[write(16, 24), read(24, 32)]]), [none; 3]);
        assert_eq!(after(&[&[read(0, 8)], &[read(4, 16)], &[read(0, 32)]]), [none; 3], "reads");
        assert_eq!(after(&[&[write(8, 8)], &[write(0, 16)], &[read(3, 3)]]), [none; 3], "no bytes");
    }

    #[test]
    fn each_other_pair_is_in_order_where_a_byte_is_shared() {
        for (first, second) in [(true, false), (false, true), (true, true)] {
            let one = |start, end, writes| Use { start, end, writes };
            for (start, end, edges) in
                [(0, 8, 0), (16, 24, 0), (0, 9, 1), (15, 24, 1), (9, 10, 1), (0, 24, 1), (8, 16, 1)]
            {
                let after = after(&[&[one(8, 16, first)], &[one(start, end, second)]]);
                assert_eq!(after[1].len(), edges, "{first} {second} {start}..{end}");
            }
        }
    }

    #[test]
    fn a_write_comes_after_the_readers_and_they_after_the_writer() {
        let work: [&[Use]; 5] =
            [&[write(0, 16)], &[read(0, 8)], &[read(4, 16)], &[write(0, 16)], &[read(0, 1)]];
        assert_eq!(after(&work), [vec![], vec![0], vec![0], vec![1, 2], vec![3]]);
    }

    #[test]
    fn each_byte_has_its_own_history() {
        let work: [&[Use]; 6] = [
            &[write(0, 16)],
            &[write(4, 8)],
            &[read(0, 4)],
            &[read(5, 12)],
            &[write(10, 20), read(30, 40)],
            &[write(32, 33)],
        ];
        assert_eq!(after(&work), [vec![], vec![0], vec![0], vec![0, 1], vec![0, 3], vec![4]]);
    }

    #[test]
    fn what_is_read_and_written_by_the_same_work_is_no_reason_to_wait() {
        let both: &[Use] = &[read(0, 8), write(8, 16)];
        assert_eq!(after(&[both, both]), [vec![], vec![0]]);
        let same: &[Use] = &[read(0, 8), write(0, 8), read(0, 8)];
        assert_eq!(after(&[same, same, &[read(0, 8)]]), [vec![], vec![0], vec![1]]);
    }

    /// A node is put between many writers and many readers of all that they wrote, and one of very many readers before a writer.
    #[test]
    fn many_meet_in_one_node() {
        const MANY: usize = 100;
        let writers = (0..MANY as u64).map(|at| smallvec![write(at * 8, at * 8 + 8)]);
        let readers = (0..MANY).map(|_| smallvec![read(0, MANY as u64 * 8)]);
        let last: SmallVec<[Use; 4]> = smallvec![write(0, 1)];
        let nodes = nodes(writers.chain(readers).chain([last]));
        let joins: Vec<usize> = (0..nodes.len()).filter(|at| nodes[*at].work.is_none()).collect();
        let of = |range: std::ops::Range<usize>| range.collect::<Vec<_>>();
        assert_eq!(joins, [MANY, 2 * MANY + 1]);
        assert_eq!(nodes[MANY].after, of(0..MANY));
        assert!(nodes[MANY + 1..=2 * MANY].iter().all(|node| node.after == [MANY]));
        assert_eq!(nodes[2 * MANY + 1].after, of(MANY + 1..2 * MANY + 1));
        assert_eq!(nodes[2 * MANY + 2].after, [2 * MANY + 1]);
    }

    /// Random work: whatever shares a byte that one of the two writes is in order, by edges or by ways of edges; and nothing else
    /// is but by such ways, or where a node stands for many.
    #[test]
    fn ways_of_edges_are_what_sharing_demands() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |bound: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % bound
        };
        let mut joined = 0;
        for round in 0..300 {
            let space = [16, 64, 400, 90][round % 4];
            // Bytes that are written one by one and read together, or parts of all sizes.
            let many = round % 4 == 3;
            let mut one = || {
                let writes = below(if many { 12 } else { 2 }) > 0;
                match many {
                    true if writes => (below(space), 1, true),
                    true => (0, space, false),
                    false => (below(space), below(space / 4), writes),
                }
            };
            let mut uses = |count: u64| -> SmallVec<[Use; 4]> {
                let part = |(start, bytes, writes)| Use { start, end: start + bytes, writes };
                (0..count).map(|_| part(one())).collect()
            };
            let work: Vec<SmallVec<[Use; 4]>> = (0..80_u64).map(|at| uses(1 + at % 3)).collect();
            let nodes = nodes(work.iter().cloned());
            let has_joins = nodes.iter().any(|node| node.work.is_none());
            joined += usize::from(has_joins);
            let shares = |one: &[Use], other: &[Use]| {
                one.iter().any(|a| {
                    other.iter().any(|b| (a.writes || b.writes) && a.start.max(b.start) < a.end.min(b.end))
                })
            };
            // By number of work: what comes before by any way, as found and as it has to be.
            let mut found: Vec<Vec<bool>> = Vec::new();
            for (at, node) in nodes.iter().enumerate() {
                let mut before = vec![false; nodes.len()];
                for earlier in &node.after {
                    assert!(*earlier < at);
                    before[*earlier] = true;
                    before.iter_mut().zip(&found[*earlier]).for_each(|(one, other)| *one |= other);
                }
                found.push(before);
            }
            let place: Vec<usize> = (0..nodes.len()).filter(|at| nodes[*at].work.is_some()).collect();
            assert_eq!(place.len(), work.len());
            let mut demanded: Vec<Vec<bool>> = Vec::new();
            for (at, uses) in work.iter().enumerate() {
                let mut before = vec![false; work.len()];
                for earlier in (0..at).filter(|earlier| shares(&work[*earlier], uses)) {
                    before[earlier] = true;
                    before.iter_mut().zip(&demanded[earlier]).for_each(|(one, other)| *one |= other);
                }
                for earlier in 0..at {
                    let is_before = found[place[at]][place[earlier]];
                    assert!(is_before || !before[earlier], "{at} has to come after {earlier}: {work:?}");
                    assert!(has_joins || before[earlier] || !is_before, "{at} after {earlier}: {work:?}");
                }
                demanded.push(before);
            }
        }
        assert!(joined > 0, "some of it meets in one node");
    }
}
