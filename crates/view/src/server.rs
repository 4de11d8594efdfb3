//! The server: accepts connections on its own thread, checks each request before any look-up, and serves the page, its
//! files, the state for scripts and a WebSocket.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use gausset_io::splat::Format;
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};

use crate::browser::{self, RedirectFile};
use crate::head::{self, ANSWER_TIMEOUT, Refusal, RequestHead};
use crate::hub::Hub;
use crate::site::{Site, SiteAnswer};
use crate::slots::{ConnectionSlots, Slot};
use crate::snapshot::Snapshot;
use crate::token::Token;
use crate::{assets, save, socket};

/// The port that is tried first.
pub const FIRST_PORT: u16 = 7007;
/// Name of the server's thread. A panic on it ends connections, but never the program.
pub const THREAD: &str = "gausset-viewer";
/// Number of ports that are tried from there.
const PORTS_TRIED: u16 = 100;
/// Largest number of connections. When it is reached, the oldest one without the token is closed for the next.
pub const MAX_CONNECTIONS: usize = 32;
/// Largest number of connections that are answered with an error when there is no slot.
const MAX_ERROR_ANSWERS: usize = 32;
/// Time limit for a browser from its start to opening the page.
const ONE_TIME_SECRET_TIMEOUT: Duration = Duration::from_secs(60);

/// Interface on which the server listens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listen {
    /// Loopback: only this machine can connect.
    #[default]
    Loopback,
    /// This address: every machine that can reach it can connect.
    Address(IpAddr),
}

/// Options of the server.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    /// Interface on which it listens.
    pub listen: Listen,
    /// The port, 0 for any; `None` = [`FIRST_PORT`] or the next free one.
    pub port: Option<u16>,
    /// Host names that are accepted in addition to addresses and `localhost`.
    pub host_names: Vec<String>,
    /// Origins of pages that may show this one in a frame, such as `http://localhost:8888`; none by default.
    pub frames: Vec<String>,
    /// How long connections may wait and send.
    pub time_limits: TimeLimits,
}

/// Time limits of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimits {
    /// For the header of a request, and for the first message of a page.
    pub head: Duration,
    /// For any sign of life of a page, which is pinged three times as often, and for sending a message.
    pub idle: Duration,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self { head: Duration::from_secs(10), idle: Duration::from_secs(60) }
    }
}

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The port is in use or not permitted.
    #[error(
        "⟨port⟩: {address}: {} (expected a free port; leave it out, or use 0 for any)",
        gausset_io::atomic::plain_reason(source)
    )]
    Port {
        /// The address that was tried.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The system provided no thread, socket or randomness.
    #[error("viewer: {0}")]
    System(String),
}

/// The page that a server serves.
enum ServedPage {
    /// The viewer.
    Viewer(Arc<Hub>),
    /// Another page.
    Site(Arc<dyn Site>),
}

/// A secret that admits one page, and the file from which a browser reads it.
struct OneTimeSecret {
    secret: Token,
    _redirect: RedirectFile,
}

/// State shared by all connections.
pub(crate) struct ServerState {
    shows: ServedPage,
    pub(crate) token: Token,
    ticket: Mutex<Option<OneTimeSecret>>,
    /// One file at a time is made and sent, so that memory does not grow with the number of requests.
    saving: Semaphore,
    /// Likewise, one thumbnail or site request at a time is processed.
    processing: Semaphore,
    names: Vec<String>,
    /// Content security policy of the page.
    policy: String,
    is_public: bool,
    pub(crate) patience: TimeLimits,
}

impl ServerState {
    /// Whether a page with this secret is admitted.
    pub(crate) fn admits(&self, secret: &str) -> bool {
        if self.token.matches(secret) {
            return true;
        }
        self.ticket().take_if(|ticket| ticket.secret.matches(secret)).is_some()
    }

    fn ticket(&self) -> MutexGuard<'_, Option<OneTimeSecret>> {
        self.ticket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server; it runs until it is dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<ServerState>,
    stop: Arc<Notify>,
    runtime: tokio::runtime::Handle,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts the viewer.
    ///
    /// # Errors
    /// No port, thread or randomness.
    pub fn start(hub: Arc<Hub>, options: &ServerOptions) -> Result<Self, ServerError> {
        Self::bind_and_spawn(ServedPage::Viewer(hub), options)
    }

    /// Starts a server for another page.
    ///
    /// # Errors
    /// No port, thread or randomness.
    pub fn start_site(site: Arc<dyn Site>, options: &ServerOptions) -> Result<Self, ServerError> {
        Self::bind_and_spawn(ServedPage::Site(site), options)
    }

    fn bind_and_spawn(shows: ServedPage, options: &ServerOptions) -> Result<Self, ServerError> {
        let system = |error: &dyn std::fmt::Display| ServerError::System(error.to_string());
        let listener = bind(options)?;
        listener.set_nonblocking(true).map_err(|error| system(&error))?;
        let address = listener.local_addr().map_err(|error| system(&error))?;
        let mut names = options.host_names.clone();
        if let Listen::Address(own) = options.listen {
            names.push(own.to_string());
        }
        let shared = Arc::new(ServerState {
            shows,
            token: Token::random().map_err(|error| system(&error))?,
            ticket: Mutex::new(None),
            saving: Semaphore::new(1),
            processing: Semaphore::new(1),
            names,
            policy: head::content_security_policy(&options.frames),
            is_public: matches!(options.listen, Listen::Address(own) if !own.is_loopback()),
            patience: options.time_limits,
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            // One for the file that is saved, one for a thumbnail or site request.
            .max_blocking_threads(2)
            .thread_name(THREAD)
            .build();
        let runtime = runtime.map_err(|error| system(&error))?;
        let (stop, handle) = (Arc::new(Notify::new()), runtime.handle().clone());
        let serve = {
            let (shared, stop) = (Arc::clone(&shared), Arc::clone(&stop));
            move || {
                runtime.block_on(accept(listener, shared, &stop));
                // A file that is being made for a page does not delay the end of the program.
                runtime.shutdown_background();
            }
        };
        let thread = std::thread::Builder::new().name(THREAD.to_owned()).spawn(serve);
        let thread = Some(thread.map_err(|error| system(&error))?);
        Ok(Self { address, shared, stop, runtime: handle, thread })
    }

    /// Address on which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether other machines can reach it.
    #[must_use]
    pub fn is_public(&self) -> bool {
        self.shared.is_public
    }

    /// The URL to show to the user. It contains the token behind `#`, which browsers do not send to servers.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_with(self.shared.token.reveal())
    }

    /// The token, for programs: `Authorization: Bearer …`.
    #[must_use]
    pub fn token(&self) -> &str {
        self.shared.token.reveal()
    }

    /// Opens the page in the browser, if this machine has a screen. Returns whether a program was started.
    #[must_use]
    pub fn open_browser(&self) -> bool {
        let Some(program) = browser::opener() else { return false };
        self.redirect().is_ok_and(|file| program.file(&file).launch().is_ok())
    }

    /// Writes a file that redirects a browser to the page and admits one page, once. Only this user can read the file;
    /// it is removed after its use, after a minute, or with the server.
    ///
    /// # Errors
    /// No randomness, or the file cannot be written.
    pub fn redirect(&self) -> Result<PathBuf, ServerError> {
        let system = |error: &dyn std::fmt::Display| ServerError::System(error.to_string());
        let secret = Token::random().map_err(|error| system(&error))?;
        let redirect = RedirectFile::new(&self.url_with(secret.reveal()));
        let redirect =
            redirect.map_err(|error| system(&format!("cannot write the file for the browser: {error}")))?;
        let path = redirect.path().to_owned();
        *self.shared.ticket() = Some(OneTimeSecret { secret, _redirect: redirect });
        let shared = Arc::clone(&self.shared);
        self.runtime.spawn(async move {
            tokio::time::sleep(ONE_TIME_SECRET_TIMEOUT).await;
            *shared.ticket() = None;
        });
        Ok(path)
    }

    fn url_with(&self, secret: &str) -> String {
        let mut shown = self.address;
        if shown.ip().is_unspecified() {
            shown.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
        }
        format!("http://{shown}/#token={secret}")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked needs no further cleanup.
            let _ = thread.join();
        }
    }
}

/// Binds the given port, or the first free one.
fn bind(options: &ServerOptions) -> Result<TcpListener, ServerError> {
    let ip = match options.listen {
        Listen::Loopback => IpAddr::V4(Ipv4Addr::LOCALHOST),
        Listen::Address(ip) => ip,
    };
    let ports = match options.port {
        Some(port) => port..=port,
        None => FIRST_PORT..=FIRST_PORT + PORTS_TRIED,
    };
    let mut failed = None;
    for port in ports {
        let address = SocketAddr::new(ip, port);
        match TcpListener::bind(address) {
            Ok(listener) => return Ok(listener),
            Err(source) if source.kind() == io::ErrorKind::AddrInUse => {
                failed = Some(ServerError::Port { address, source });
            }
            Err(source) => return Err(ServerError::Port { address, source }),
        }
    }
    Err(failed.unwrap_or_else(|| ServerError::System("no port to try".to_owned())))
}

/// Accepts connections until it is stopped. Connections that are open then end with the runtime.
async fn accept(listener: TcpListener, shared: Arc<ServerState>, stop: &Notify) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let (mut places, refusals) =
        (ConnectionSlots::new(MAX_CONNECTIONS), Arc::new(Semaphore::new(MAX_ERROR_ANSWERS)));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.notified() => return,
        };
        let Ok((mut stream, _)) = accepted else {
            // Out of file descriptors, or the peer has disconnected already: a short pause is enough.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // Frames are latency-sensitive, so small packets are sent immediately.
        let _ = stream.set_nodelay(true);
        if let Some(permit) = places.permit().await {
            let shared = Arc::clone(&shared);
            places.spawn(permit, |place| async move { serve(stream, &shared, &place).await });
        } else if let Ok(place) = Arc::clone(&refusals).try_acquire_owned() {
            tokio::spawn(async move {
                refuse(&mut stream, Refusal::TooMany).await;
                drop(place);
            });
        }
    }
}

async fn refuse(stream: &mut TcpStream, refusal: Refusal) {
    let status = refusal.status();
    let body = format!("{status}\n");
    head::answer(stream, status, "text/plain; charset=utf-8", body.as_bytes(), ANSWER_TIMEOUT).await;
}

/// Serves one connection, which carries one request.
async fn serve(mut stream: TcpStream, shared: &ServerState, place: &Slot) {
    let head = match head::read(&mut stream, shared.patience.head).await {
        Ok(head) => head,
        Err(refusal) => return refuse(&mut stream, refusal).await,
    };
    if head.carries_token(&shared.token) {
        place.authenticate();
    }
    match route(&head, shared) {
        Ok(Route::Text(kind, text)) => {
            let (policy, bytes) = (&shared.policy, text.as_bytes());
            head::answer_with_policy(&mut stream, policy, "200 OK", kind, bytes, ANSWER_TIMEOUT).await;
        }
        Ok(Route::Snapshot(snapshot)) => {
            let (kind, patience) = ("application/octet-stream", shared.patience.idle);
            head::answer(&mut stream, "200 OK", kind, &snapshot.bytes, patience).await;
        }
        Ok(Route::Thumb(camera, hub)) => match thumb(camera, &hub, shared).await {
            Some(jpeg) => head::answer(&mut stream, "200 OK", "image/jpeg", &jpeg, ANSWER_TIMEOUT).await,
            None => refuse(&mut stream, Refusal::NotFound).await,
        },
        Ok(Route::Save(format, hub)) => save(&mut stream, format, &hub, shared).await,
        Ok(Route::Socket(key, hub)) => socket::open(stream, &key, head.rest, shared, &hub, place).await,
        Ok(Route::SiteRequest(site)) => {
            let path = head.path;
            let answer = process(shared, move || {
                let (path, query) = path.split_once('?').unwrap_or((&path, ""));
                site.answer(path, query)
            });
            match answer.await {
                Some(SiteAnswer { media_type: kind, body: bytes }) => {
                    head::answer(&mut stream, "200 OK", kind, &bytes, shared.patience.idle).await;
                }
                None => refuse(&mut stream, Refusal::NotFound).await,
            }
        }
        Err(refusal) => refuse(&mut stream, refusal).await,
    }
}

/// Sends the shown splats as a file. If another one is being sent, the answer is 503; if it cannot be made, 500 and why.
async fn save(stream: &mut TcpStream, format: Format, hub: &Hub, shared: &ServerState) {
    let Ok(_place) = shared.saving.try_acquire() else { return refuse(stream, Refusal::TooMany).await };
    let Some((path, options, scene)) = hub.shown_file() else {
        return refuse(stream, Refusal::NotFound).await;
    };
    let made =
        tokio::task::spawn_blocking(move || save::file_of_shown(&path, &options, &scene, format)).await;
    let made = made.map_err(|_| "the file could not be made".to_owned());
    match made.and_then(|made| made.map_err(|failure| failure.to_string())) {
        Ok(bytes) => {
            head::answer(stream, "200 OK", "application/octet-stream", &bytes, shared.patience.idle).await;
        }
        Err(line) => {
            let status = "500 Internal Server Error";
            head::answer(stream, status, "text/plain; charset=utf-8", line.as_bytes(), ANSWER_TIMEOUT).await;
        }
    }
}

/// The thumbnail of a photograph; made on a blocking thread if it is not cached.
async fn thumb(camera: usize, hub: &Hub, shared: &ServerState) -> Option<Arc<[u8]>> {
    let (thumbs, background) = hub.thumbs()?;
    if let Some(made) = thumbs.cached(camera) {
        return Some(made);
    }
    process(shared, move || thumbs.make(camera, background)).await
}

/// Makes an answer on a blocking thread, one at a time.
async fn process<T: Send + 'static>(
    shared: &ServerState,
    work: impl FnOnce() -> Option<T> + Send + 'static,
) -> Option<T> {
    let _turn = shared.processing.acquire().await;
    tokio::task::spawn_blocking(work).await.ok()?
}

enum Route {
    Text(&'static str, String),
    Snapshot(Arc<Snapshot>),
    Thumb(usize, Arc<Hub>),
    Save(Format, Arc<Hub>),
    Socket(String, Arc<Hub>),
    SiteRequest(Arc<dyn Site>),
}

fn route(head: &RequestHead, shared: &ServerState) -> Result<Route, Refusal> {
    head.check(&shared.names, shared.is_public)?;
    if head.path == "/healthz" {
        return Ok(Route::Text("text/plain; charset=utf-8", "ok\n".to_owned()));
    }
    match &shared.shows {
        ServedPage::Viewer(hub) => route_in_viewer(head, shared, hub),
        ServedPage::Site(site) => route_in_site(head, shared, site),
    }
}

fn route_in_viewer(head: &RequestHead, shared: &ServerState, hub: &Arc<Hub>) -> Result<Route, Refusal> {
    match head.path.as_str() {
        path if ["/api/state", "/api/snapshot"].contains(&path)
            || ["/api/save/", "/thumb/"].iter().any(|start| path.starts_with(start)) =>
        {
            if !head.carries_token(&shared.token) {
                return Err(Refusal::Forbidden);
            }
            match path {
                "/api/state" => Ok(Route::Text("application/json", hub.state_json())),
                "/api/snapshot" => hub.snapshot().map(Route::Snapshot).ok_or(Refusal::NotFound),
                path => {
                    if let Some(word) = path.strip_prefix("/api/save/") {
                        let format = save::format_from_word(word).ok_or(Refusal::NotFound)?;
                        return Ok(Route::Save(format, Arc::clone(hub)));
                    }
                    let camera = path.strip_prefix("/thumb/").and_then(|number| number.parse().ok());
                    camera.map(|camera| Route::Thumb(camera, Arc::clone(hub))).ok_or(Refusal::NotFound)
                }
            }
        }
        "/ws" => Ok(Route::Socket(head.socket_key()?.to_owned(), Arc::clone(hub))),
        path => match assets::find(path) {
            Some(asset) => Ok(Route::Text(asset.media_type, asset.text.to_owned())),
            None => Err(Refusal::NotFound),
        },
    }
}

fn route_in_site(head: &RequestHead, shared: &ServerState, site: &Arc<dyn Site>) -> Result<Route, Refusal> {
    if let Some((kind, text)) = site.file(&head.path) {
        return Ok(Route::Text(kind, text.to_owned()));
    }
    if !head.path.starts_with("/api/") {
        return Err(Refusal::NotFound);
    }
    // A page that was opened from the redirect file has a one-time secret; it exchanges it for the token here.
    if head.path == "/api/enter" {
        let is_let_in = head.bearer.as_deref().is_some_and(|secret| shared.admits(secret));
        let token = || shared.token.reveal().to_owned();
        return if is_let_in { Ok(Route::Text("text/plain", token())) } else { Err(Refusal::Forbidden) };
    }
    if head.carries_token(&shared.token) {
        Ok(Route::SiteRequest(Arc::clone(site)))
    } else {
        Err(Refusal::Forbidden)
    }
}
