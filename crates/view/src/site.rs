//! Pages other than the viewer: the server serves their files and answers their requests.

/// A page with its files and answers.
pub trait Site: Send + Sync {
    /// The file with a path: media type and text. Files are served without a token.
    fn file(&self, path: &str) -> Option<(&'static str, &'static str)>;

    /// The answer to a request under `/api/`, which needs the token; `None` = not found. Requests come one at a time.
    fn answer(&self, path: &str, query: &str) -> Option<SiteAnswer>;
}

/// Answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteAnswer {
    /// Media type of the body, such as `text/html`.
    pub media_type: &'static str,
    /// The bytes that follow the head.
    pub body: Vec<u8>,
}
