//! A WebSocket connection: a page sends requests and receives frames and events.
//!
//! A page that sends or reads nothing for a minute (in spite of pings), or sends too much or invalid data, is
//! disconnected.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use gausset::broadcast::Received;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::head;
use crate::hub::{Hub, PageHandle};
use crate::job::Request;
use crate::protocol::{MAX_MESSAGE, MAX_MESSAGES_PER_S, PageMessage, VERSION, ViewRequest};
use crate::result::EncodedMessage;
use crate::server::ServerState;
use crate::slots::Slot;

/// Largest number of frames and events that are sent before messages from the page are read again.
const MAX_BATCH: usize = 16;
/// Largest number of bytes that are read from a page per second; 100 view messages are half of it. This also bounds the
/// number of WebSocket frames, which have six bytes or more: a message may consist of any number of empty ones.
const MAX_BYTES_PER_S: usize = 2 * MAX_MESSAGE;

type Socket = WebSocketStream<RateLimited>;

/// Why a connection ends: the close code and reason that the page receives.
struct Close(CloseCode, &'static str);

const GONE: Close = Close(CloseCode::Away, "gone");

/// Completes the handshake and serves the page until it disconnects.
pub(crate) async fn open(
    mut stream: TcpStream,
    key: &str,
    rest: Vec<u8>,
    shared: &ServerState,
    hub: &Hub,
    place: &Slot,
) {
    let accept = derive_accept_key(key.as_bytes());
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    if !matches!(timeout(shared.patience.head, stream.write_all(answer.as_bytes())).await, Ok(Ok(()))) {
        return;
    }
    let limits =
        WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE)).max_frame_size(Some(MAX_MESSAGE));
    let stream = RateLimited { stream, second: Instant::now(), bytes: 0 };
    let mut socket = WebSocketStream::from_partially_read(stream, rest, Role::Server, Some(limits)).await;
    let Close(code, word) = serve(&mut socket, shared, hub, place).await;
    let close = CloseFrame { code, reason: word.into() };
    let _ = timeout(Duration::from_secs(2), socket.close(Some(close))).await;
    head::close(&mut socket.get_mut().stream).await;
}

/// A stream that fails to read after too many bytes in a second.
struct RateLimited {
    stream: TcpStream,
    second: Instant,
    bytes: usize,
}

impl AsyncRead for RateLimited {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if self.second.elapsed() >= Duration::from_secs(1) {
            (self.second, self.bytes) = (Instant::now(), 0);
        }
        self.bytes += buffer.filled().len() - before;
        let is_within = self.bytes <= MAX_BYTES_PER_S;
        Poll::Ready(if is_within { Ok(()) } else { Err(ErrorKind::QuotaExceeded.into()) })
    }
}

impl AsyncWrite for RateLimited {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

async fn serve(socket: &mut Socket, shared: &ServerState, hub: &Hub, place: &Slot) -> Close {
    let hello = match timeout(shared.patience.head, next_message(socket)).await {
        Ok(Ok(message)) => message,
        Ok(Err(close)) => return close,
        Err(_) => return Close(CloseCode::Policy, "no hello"),
    };
    match hello {
        Some(PageMessage::Hello { token, .. }) if !shared.admits(&token) => {
            return Close(CloseCode::Policy, "token");
        }
        Some(PageMessage::Hello { version, .. }) if version != VERSION => {
            let line = format!("{{\"t\":\"version\",\"version\":{VERSION}}}");
            return send(socket, Message::text(line), shared)
                .await
                .err()
                .unwrap_or(Close(CloseCode::Policy, "version"));
        }
        Some(PageMessage::Hello { .. }) => place.authenticate(),
        _ => return Close(CloseCode::Policy, "no hello"),
    }
    let Some(page) = hub.attach() else { return Close(CloseCode::Again, "too many pages") };
    let number = page.page;
    let close = match send(socket, Message::text(hub.hello_message(shared.token.reveal())), shared).await {
        Ok(()) => serve_page(socket, shared, hub, &page).await,
        Err(close) => close,
    };
    hub.detach(number);
    close
}

/// Receives and sends until one side ends the connection.
async fn serve_page(socket: &mut Socket, shared: &ServerState, hub: &Hub, page: &PageHandle) -> Close {
    let mut ping = tokio::time::interval(shared.patience.idle / 3);
    let mut heard_at = Instant::now();
    let (mut second, mut messages) = (Instant::now(), 0);
    loop {
        tokio::select! {
            message = next_message(socket) => {
                heard_at = Instant::now();
                if second.elapsed() >= Duration::from_secs(1) {
                    (second, messages) = (Instant::now(), 0);
                }
                messages += 1;
                if messages > MAX_MESSAGES_PER_S {
                    return Close(CloseCode::Policy, "too many messages");
                }
                match message {
                    Ok(Some(message)) => {
                        if let Some(line) = handle_message(message, hub, page.page)
                            && let Err(close) = send(socket, Message::text(line), shared).await
                        {
                            return close;
                        }
                    }
                    Ok(None) => {}
                    Err(close) => return close,
                }
            }
            () = page.notify.notified() => {
                if let Err(close) = send_pending(socket, shared, hub, page).await {
                    return close;
                }
            }
            _ = ping.tick() => {
                if heard_at.elapsed() > shared.patience.idle {
                    return Close(CloseCode::Policy, "silent");
                }
                if let Err(close) = send(socket, Message::Ping(Vec::new().into()), shared).await {
                    return close;
                }
            }
        }
    }
}

/// The next message of the protocol; `None` for pings and pongs.
async fn next_message(socket: &mut Socket) -> Result<Option<PageMessage>, Close> {
    match socket.next().await {
        Some(Ok(Message::Text(text))) => match serde_json::from_str(&text) {
            Ok(message) => Ok(Some(message)),
            Err(_) => Err(Close(CloseCode::Unsupported, "not a message")),
        },
        Some(Ok(Message::Binary(_))) => Err(Close(CloseCode::Unsupported, "not a message")),
        Some(Ok(Message::Close(_))) | None => Err(GONE),
        Some(Ok(_)) => Ok(None),
        Some(Err(Error::Capacity(_))) => Err(Close(CloseCode::Size, "message too long")),
        Some(Err(Error::Io(error))) if error.kind() == ErrorKind::QuotaExceeded => {
            Err(Close(CloseCode::Policy, "too many bytes"))
        }
        Some(Err(Error::Utf8(_))) => Err(Close(CloseCode::Unsupported, "not text")),
        Some(Err(_)) => Err(GONE),
    }
}

/// Sends a message; a page that does not read in time is disconnected.
async fn send(socket: &mut Socket, message: Message, shared: &ServerState) -> Result<(), Close> {
    match timeout(shared.patience.idle, socket.send(message)).await {
        Ok(Ok(())) => Ok(()),
        _ => Err(GONE),
    }
}

/// Handles a message. Returns the text to send immediately, if any.
fn handle_message(message: PageMessage, hub: &Hub, page: u64) -> Option<String> {
    match message {
        PageMessage::View(view) => {
            if let Some(id) = view.ack {
                hub.acknowledge(page, id);
            }
            return request_view(view, hub, page);
        }
        PageMessage::Photo { id, camera, side } => {
            let refused = hub.request(page, Request::Photo { id, camera, side }).err();
            return refused.map(|error| error_line(id, &error.to_string()));
        }
        PageMessage::Ack { id } => hub.acknowledge(page, id),
        PageMessage::Hidden { hidden } => hub.set_hidden(page, hidden),
        PageMessage::Snapshot { have, moving } => return hub.want_snapshot(page, have, moving),
        PageMessage::Filter { filter } => {
            let Some(filter) = filter.checked() else {
                return Some(error_line(0, "filter: values out of range"));
            };
            if !hub.request_filter(filter) {
                return Some(error_line(0, "splats cannot be filtered during training"));
            }
        }
        PageMessage::Command { what } => {
            if !hub.queue_command(what) {
                return Some(error_line(0, "no training is running, or too many commands are waiting"));
            }
        }
        PageMessage::Hello { .. } | PageMessage::Unknown => {}
    }
    None
}

fn request_view(view: Box<ViewRequest>, hub: &Hub, page: u64) -> Option<String> {
    match view.view() {
        Ok((camera, pose)) => {
            let id = view.id;
            let refused = hub.request(page, Request::View(view, camera, pose)).err();
            refused.map(|error| error_line(id, &error.to_string()))
        }
        Err(error) => Some(error_line(view.id, &error.to_string())),
    }
}

fn error_line(id: u32, line: &str) -> String {
    serde_json::json!({ "t": "error", "id": id, "line": line }).to_string()
}

/// Sends pending data: frames first, then events.
async fn send_pending(
    socket: &mut Socket,
    shared: &ServerState,
    hub: &Hub,
    page: &PageHandle,
) -> Result<(), Close> {
    while let Some(mut drawn) = hub.next_drawn(page.page) {
        let (id, reserved) = (drawn.id, std::mem::take(&mut drawn.reserved));
        let (packed, ms) = drawn.encode(|rendering| hub.return_buffer(rendering), hub.quality(page.page));
        hub.frame_sent(page.page, id, ms, matches!(packed, EncodedMessage::Text(_)));
        let message = match packed {
            EncodedMessage::Frame(bytes) => Message::binary(bytes),
            EncodedMessage::Text(line) => Message::text(line),
        };
        send(socket, message, shared).await?;
        drop(reserved);
        hub.wake();
    }
    for _ in 0..MAX_BATCH {
        match page.events.try_recv() {
            Received::Event(line) => send(socket, Message::text(line.as_str()), shared).await?,
            Received::Lost(count) => {
                send(socket, Message::text(format!("{{\"t\":\"lost\",\"count\":{count}}}")), shared).await?;
            }
            Received::Nothing | Received::Closed => return Ok(()),
        }
    }
    // There may be more, but messages from the page are read first.
    page.notify.notify_one();
    Ok(())
}
