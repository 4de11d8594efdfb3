//! The tree of paths: one node for each nesting of names that occurred, with its statistics.

use crate::stats::Stats;

/// Index of the node above all roots.
pub(crate) const ROOT: usize = 0;

/// A path with its statistics.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathNode {
    pub(crate) name: &'static str,
    /// Child nodes, in the order of first occurrence.
    pub(crate) children: Vec<usize>,
    /// Nanoseconds of all spans of this path, including spans that were cut off.
    pub(crate) total_ns: u64,
    /// CPU nanoseconds of the process during these spans, if they were read.
    pub(crate) cpu_ns: Option<u64>,
    /// Nanoseconds of the spans that ended normally.
    pub(crate) inclusive: Stats,
    /// The same without their children; kept once the path has any.
    pub(crate) exclusive: Option<Box<Stats>>,
}

/// A bounded tree of [`PathNode`]s; node [`ROOT`] has no name.
#[derive(Clone, Debug)]
pub(crate) struct PathTree {
    pub(crate) nodes: Vec<PathNode>,
}

impl Default for PathTree {
    fn default() -> Self {
        Self { nodes: vec![PathNode::default()] }
    }
}

impl PathTree {
    /// The child of `parent` with this name, created if needed; `None` if the tree has `limit` nodes.
    pub(crate) fn child(&mut self, parent: usize, name: &'static str, limit: usize) -> Option<usize> {
        let found = self.nodes[parent].children.iter().copied().find(|&c| self.nodes[c].name == name);
        if found.is_some() {
            return found;
        }
        if self.nodes.len() > limit {
            return None;
        }
        let index = self.nodes.len();
        self.nodes.push(PathNode { name, ..PathNode::default() });
        let parent = &mut self.nodes[parent];
        if parent.children.is_empty() {
            // So far no span of this path had a child: all of its time was exclusive.
            parent.exclusive = Some(Box::new(parent.inclusive.clone()));
        }
        parent.children.push(index);
        Some(index)
    }

    /// Adds all of `other`, path by path; returns the number of spans that did not fit.
    pub(crate) fn merge(&mut self, other: &Self, limit: usize) -> u64 {
        self.merge_below(ROOT, other, ROOT, limit)
    }

    fn merge_below(&mut self, mine: usize, other: &Self, theirs: usize, limit: usize) -> u64 {
        let mut dropped = 0;
        for &source in &other.nodes[theirs].children {
            let from = &other.nodes[source];
            let Some(target) = self.child(mine, from.name, limit) else {
                dropped += from.inclusive.count;
                continue;
            };
            dropped += self.merge_below(target, other, source, limit);
            let to = &mut self.nodes[target];
            to.total_ns += from.total_ns;
            if let Some(cpu) = from.cpu_ns {
                *to.cpu_ns.get_or_insert(0) += cpu;
            }
            to.inclusive.merge(&from.inclusive);
            if let Some(exclusive) = &mut to.exclusive {
                exclusive.merge(from.exclusive.as_deref().unwrap_or(&from.inclusive));
            }
        }
        dropped
    }
}
