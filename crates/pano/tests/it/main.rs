//! Tests of splitting panoramas through the public interface.

mod choosing;
mod colours;
mod corpus;
mod cube_films;
mod cubes;
mod films;
mod lenses;
mod masks;
mod sampling;
mod splitting;
mod streams;
mod two_circles;
mod vignetting;
mod walk;
mod walks;
