//! A problem in a file, with its location.

use crate::text::{excerpt, one_line};

/// Longest description in a message, characters.
const LONGEST: usize = 280;

/// A problem in a file, with its location.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {problem}")]
pub struct FileProblem {
    /// Location: a line, an element or an image.
    pub location: String,
    /// Description of the problem.
    pub problem: String,
}

impl FileProblem {
    /// Shortens both texts for a message, since they may quote the file.
    pub fn new(place: impl ToString, problem: impl ToString) -> Self {
        let problem = one_line(&problem.to_string()).chars().take(LONGEST).collect();
        Self { location: excerpt(&place.to_string()), problem }
    }
}
