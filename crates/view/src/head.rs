//! The header of an HTTP request: read with limits, and checked before any look-up.
//!
//! Only GET without a body is answered, and each connection carries one request, so no second request can be smuggled
//! in with the first.

use std::net::IpAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::token::Token;

/// Longest request header, bytes.
pub(crate) const MAX_HEAD: usize = 8 << 10;
/// Time limit for sending a part of a short answer.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Size of the parts of an answer, bytes. Each has its own time limit, so that a slow link gets a large file.
const PART: usize = 256 << 10;
/// Time limit for sending a whole answer: at 1 MB/s, 1 GB.
const WHOLE_ANSWER_TIMEOUT: Duration = Duration::from_secs(1200);
/// Time limit for the peer to close an ended connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Largest number of bytes that are read from the peer in this time.
const MAX_DRAINED: usize = 256 << 10;

/// The parts of a request that the server uses.
#[derive(Debug, Default)]
pub(crate) struct RequestHead {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) host: Option<String>,
    origin: Option<String>,
    pub(crate) bearer: Option<String>,
    upgrade: bool,
    version_13: bool,
    pub(crate) key: Option<String>,
    /// Bytes received after the header.
    pub(crate) rest: Vec<u8>,
}

/// An error answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Not HTTP.
    Malformed,
    /// A wrong host, a foreign origin or a missing token.
    Forbidden,
    NotFound,
    /// A method other than GET, or a request with a body.
    MethodNotAllowed,
    Timeout,
    TooLong,
    /// A WebSocket request of another version.
    Upgrade,
    TooMany,
}

impl Refusal {
    pub(crate) const fn status(self) -> &'static str {
        match self {
            Self::Malformed => "400 Bad Request",
            Self::Forbidden => "403 Forbidden",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::Timeout => "408 Request Timeout",
            Self::TooLong => "431 Request Header Fields Too Large",
            Self::Upgrade => "426 Upgrade Required",
            Self::TooMany => "503 Service Unavailable",
        }
    }
}

/// Reads a header; `patience` limits the time until it is complete.
pub(crate) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    patience: Duration,
) -> Result<RequestHead, Refusal> {
    let mut bytes = Vec::with_capacity(1024);
    let whole = async {
        loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                return Ok(end + 4);
            }
            if bytes.len() >= MAX_HEAD {
                return Err(Refusal::TooLong);
            }
            let mut part = [0; 1024];
            match stream.read(&mut part).await {
                Ok(0) | Err(_) => return Err(Refusal::Malformed),
                Ok(count) => bytes.extend_from_slice(&part[..count]),
            }
        }
    };
    let end = timeout(patience, whole).await.map_err(|_| Refusal::Timeout)??;
    if end > MAX_HEAD {
        return Err(Refusal::TooLong);
    }
    let rest = bytes.split_off(end);
    Ok(RequestHead { rest, ..parse(&bytes)? })
}

fn parse(bytes: &[u8]) -> Result<RequestHead, Refusal> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => return Err(Refusal::TooLong),
        _ => return Err(Refusal::Malformed),
    }
    let mut head = RequestHead {
        method: request.method.unwrap_or_default().to_owned(),
        path: request.path.unwrap_or_default().to_owned(),
        ..RequestHead::default()
    };
    for header in request.headers.iter() {
        let Ok(value) = std::str::from_utf8(header.value) else { return Err(Refusal::Malformed) };
        let value = value.trim();
        let once = |slot: &mut Option<String>| match slot.replace(value.to_owned()) {
            // Two values: another reader of this request might use the other one.
            Some(_) => Err(Refusal::Malformed),
            None => Ok(()),
        };
        match header.name.to_ascii_lowercase().as_str() {
            "host" => once(&mut head.host)?,
            "origin" => once(&mut head.origin)?,
            "authorization" => {
                once(&mut head.bearer)?;
                head.bearer = head.bearer.and_then(|line| Some(line.strip_prefix("Bearer ")?.to_owned()));
            }
            "upgrade" => head.upgrade = value.eq_ignore_ascii_case("websocket"),
            "sec-websocket-version" => head.version_13 = value == "13",
            "sec-websocket-key" => once(&mut head.key)?,
            "content-length" if value != "0" => return Err(Refusal::MethodNotAllowed),
            "transfer-encoding" => return Err(Refusal::MethodNotAllowed),
            _ => {}
        }
    }
    Ok(head)
}

impl RequestHead {
    /// Refuses requests under a name other than this machine's own (a name that was rebound to its address), and
    /// requests from pages of other sites. `names` are also accepted.
    pub(crate) fn check(&self, names: &[String], is_public: bool) -> Result<(), Refusal> {
        let host = self.host.as_deref().ok_or(Refusal::Forbidden)?;
        if !is_own_name(host, names, is_public) {
            return Err(Refusal::Forbidden);
        }
        match &self.origin {
            Some(origin) if *origin != format!("http://{host}") => Err(Refusal::Forbidden),
            _ if self.method != "GET" => Err(Refusal::MethodNotAllowed),
            _ => Ok(()),
        }
    }

    /// Whether the request carries the token.
    pub(crate) fn carries_token(&self, token: &Token) -> bool {
        self.bearer.as_deref().is_some_and(|guess| token.matches(guess))
    }

    /// The key of a WebSocket request.
    pub(crate) fn socket_key(&self) -> Result<&str, Refusal> {
        match &self.key {
            Some(key) if self.upgrade && self.version_13 => Ok(key),
            _ => Err(Refusal::Upgrade),
        }
    }
}

/// Whether a `Host` is this machine. Addresses cannot be rebound, so a public server accepts any of them.
fn is_own_name(host: &str, names: &[String], is_public: bool) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, "")) => name,
            Some((name, port)) if is_port(port) => name,
            _ => return false,
        },
        None => match host.split_once(':') {
            None => host,
            Some((name, port)) if is_port(&format!(":{port}")) => name,
            Some(_) => return false,
        },
    };
    if name.eq_ignore_ascii_case("localhost") || names.iter().any(|own| own.eq_ignore_ascii_case(name)) {
        return true;
    }
    name.parse::<IpAddr>().is_ok_and(|address| {
        is_public
            || address == IpAddr::from([127, 0, 0, 1])
            || address == IpAddr::from([0u16, 0, 0, 0, 0, 0, 0, 1])
    })
}

fn is_port(text: &str) -> bool {
    text.strip_prefix(':').is_some_and(|digits| digits.parse::<u16>().is_ok())
}

/// Content security policy without the frames: a browser runs and loads only what this server sends.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'";

/// The policy of a page that these origins may show in a frame; none if there is none.
pub(crate) fn content_security_policy(frames: &[String]) -> String {
    let ancestors = if frames.is_empty() { "'none'".to_owned() } else { frames.join(" ") };
    format!("{CONTENT_SECURITY_POLICY}; frame-ancestors {ancestors}")
}

/// Ends a connection so that the last bytes sent arrive. A connection that is dropped with unread data is reset, and
/// the peer may lose data that it has not read yet.
pub(crate) async fn close(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    let listen = async {
        stream.shutdown().await?;
        let (mut unread, mut count) = ([0; 4 << 10], 0);
        while count < MAX_DRAINED {
            match stream.read(&mut unread).await? {
                0 => break,
                more => count += more,
            }
        }
        std::io::Result::Ok(())
    };
    // A peer that stays longer or sends more is cut off.
    let _ = timeout(CLOSE_TIMEOUT, listen).await;
}

/// Sends an answer that no other page may show in a frame and ends the connection. `patience` limits the time of each
/// part.
pub(crate) async fn answer(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    status: &str,
    kind: &str,
    body: &[u8],
    patience: Duration,
) {
    answer_with_policy(stream, &content_security_policy(&[]), status, kind, body, patience).await;
}

/// As [`answer`], with a content security policy.
pub(crate) async fn answer_with_policy(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    policy: &str,
    status: &str,
    kind: &str,
    body: &[u8],
    patience: Duration,
) {
    let allow = if status.starts_with("405") { "Allow: GET\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\
         Content-Security-Policy: {policy}\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
         Cross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Resource-Policy: same-origin\r\nCache-Control: no-store\r\n\r\n",
        body.len()
    );
    let send = async {
        for part in std::iter::once(head.as_bytes()).chain(body.chunks(PART)) {
            timeout(patience, stream.write_all(part)).await??;
        }
        std::io::Result::Ok(())
    };
    // The peer may have closed the connection.
    if matches!(timeout(WHOLE_ANSWER_TIMEOUT, send).await, Ok(Ok(()))) {
        close(stream).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Result<RequestHead, Refusal> {
        parse(text.replace('\n', "\r\n").as_bytes())
    }

    #[test]
    fn only_own_names_and_own_pages_are_let_in() {
        let check = |host: &str, origin: &str, is_public| {
            let origin = if origin.is_empty() { String::new() } else { format!("Origin: {origin}\n") };
            let head = head(&format!("GET / HTTP/1.1\nHost: {host}\n{origin}\n")).unwrap();
            head.check(&["box.lan".to_owned()], is_public)
        };
        for host in ["localhost", "localhost:7007", "127.0.0.1:1", "[::1]:7007", "[::1]", "BOX.lan:80"] {
            assert_eq!(check(host, "", false), Ok(()), "{host}");
            assert_eq!(check(host, &format!("http://{host}"), false), Ok(()));
            for origin in ["http://evil.example", "null", "https://localhost", "http://localhost:9999"] {
                assert_eq!(check(host, origin, false), Err(Refusal::Forbidden), "{host} {origin}");
            }
        }
        for host in [
            "evil.example",
            "10.0.0.7:7007",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "",
            "localhost:x",
            "[::1",
            "localhost:80:80",
            "[::1]x",
        ] {
            assert_eq!(check(host, "", false), Err(Refusal::Forbidden), "{host}");
        }
        assert_eq!(check("10.0.0.7:7007", "", true), Ok(()));
        assert_eq!(check("evil.example", "", true), Err(Refusal::Forbidden));
        assert_eq!(head("GET / HTTP/1.1\n\n").unwrap().check(&[], false), Err(Refusal::Forbidden));
    }

    #[test]
    fn bodies_second_hosts_and_other_methods_are_refused() {
        let refused = |text: &str| head(text).and_then(|head| head.check(&[], false)).unwrap_err();
        assert_eq!(refused("POST / HTTP/1.1\nHost: localhost\n\n"), Refusal::MethodNotAllowed);
        assert_eq!(
            refused("GET / HTTP/1.1\nHost: localhost\nContent-Length: 5\n\n"),
            Refusal::MethodNotAllowed
        );
        assert_eq!(
            refused("GET / HTTP/1.1\nHost: localhost\nTransfer-Encoding: chunked\n\n"),
            Refusal::MethodNotAllowed
        );
        assert_eq!(refused("GET / HTTP/1.1\nHost: localhost\nHost: evil.example\n\n"), Refusal::Malformed);
        assert_eq!(refused("nonsense\n\n"), Refusal::Malformed);
    }
}
