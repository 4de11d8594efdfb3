//! File systems that fail on demand, for tests.
