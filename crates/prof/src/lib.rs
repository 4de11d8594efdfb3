//! Spans, per-stage statistics, tables and traces.
#![forbid(unsafe_code)]

/// Ends its span when dropped.
#[must_use = "a span ends when its guard is dropped"]
pub struct Span(());

/// Starts a span on this thread.
#[inline]
pub fn span(_name: &'static str) -> Span {
    Span(())
}

impl Drop for Span {
    fn drop(&mut self) {}
}
