//! A problem in a file, with its location.

pub use gausset_io::file_problem::FileProblem;
