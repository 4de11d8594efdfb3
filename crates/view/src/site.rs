//! Pages that draw for themselves: the server gives their files, and answers to what they ask.

/// A page with its answers.
pub trait Site: Send + Sync {
    /// The file with a path: kind and text. Whoever reaches the server may read it.
    fn file(&self, path: &str) -> Option<(&'static str, &'static str)>;

    /// The answer to a question under `/api/`, for whoever knows the secret; `None` = there is none. One is asked at a time.
    fn answer(&self, path: &str, query: &str) -> Option<Answer>;
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its media type.
    pub kind: &'static str,
    /// Its content.
    pub bytes: Vec<u8>,
}
