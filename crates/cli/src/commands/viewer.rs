//! Shared code of `view` and of the viewers of training runs: arguments of the server, and printing its address.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use gausset::Failure;
use gausset_view::hub::Hub;
use gausset_view::live::LiveRenderer;
use gausset_view::scene::SceneDescription;
use gausset_view::server::ServerError;
use gausset_view::{Listen, Server, ServerOptions};

use crate::EarlyExit;
use crate::console::Console;
use crate::interrupt::Interrupt;

/// Arguments that make the server reachable from other machines.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ListenArgs {
    /// Address to listen on, to allow other machines; 0.0.0.0 = all interfaces. The printed address grants access.
    #[arg(long, value_name = "ADDR", value_parser = parse_address, help_heading = "Viewer")]
    listen: Option<(IpAddr, Option<u16>)>,
    /// Host name that browsers may use in addition to IP addresses and localhost.
    #[arg(long, value_name = "NAME", requires = "listen", help_heading = "Viewer")]
    allow_host: Vec<String>,
    /// Origin of pages that may show the viewer in a frame, such as http://localhost:8888.
    #[arg(long, value_name = "ORIGIN", value_parser = parse_origin, help_heading = "Viewer")]
    allow_frame: Vec<String>,
}

/// Parses an IP address with an optional port: `0.0.0.0`, `10.1.2.3:8000`, `::`.
fn parse_address(text: &str) -> Result<(IpAddr, Option<u16>), String> {
    let bare = text.parse::<IpAddr>().map(|ip| (ip, None));
    bare.or_else(|_| text.parse::<SocketAddr>().map(|address| (address.ip(), Some(address.port()))))
        .map_err(|_| format!("expected an address such as 0.0.0.0 or 10.1.2.3:7007, found `{text}`"))
}

/// Checks the origin of a page: a scheme with a host and a port, of which `*` is any, or a scheme alone.
fn parse_origin(text: &str) -> Result<String, String> {
    let is_word = |text: &str, extra: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || extra.contains(c))
    };
    let is_origin = match text.split_once(':') {
        Some((scheme, "")) => is_word(scheme, "+.-"),
        Some((scheme, rest)) => {
            is_word(scheme, "+.-") && rest.strip_prefix("//").is_some_and(|host| is_word(host, ".-:*[]"))
        }
        None => false,
    };
    let refusal = || format!("expected an origin such as http://localhost:8888, found `{text}`");
    is_origin.then(|| text.to_owned()).ok_or_else(refusal)
}

impl ListenArgs {
    /// Whether any of these arguments is given.
    pub(crate) fn is_given(&self) -> bool {
        self.listen.is_some() || !self.allow_host.is_empty() || !self.allow_frame.is_empty()
    }

    /// The options of the server. `port` overrides the port of `--listen`.
    pub(crate) fn options(&self, port: Option<u16>) -> ServerOptions {
        let listen = self.listen.map_or(Listen::Loopback, |(ip, _)| Listen::Address(ip));
        let port = port.or(self.listen.and_then(|(_, port)| port));
        let (host_names, frames) = (self.allow_host.clone(), self.allow_frame.clone());
        ServerOptions { listen, port, host_names, frames, ..ServerOptions::default() }
    }
}

/// Default of the maximum fraction of the time spent on rendering for the viewer.
const VIEWER_SHARE: f64 = 0.25;

/// Arguments of the viewer of a running training. Each of them implies the viewer.
#[derive(Clone, Debug, Args)]
pub(crate) struct ViewerArgs {
    /// Show the training in a browser while it runs; port 0 = any [default port: 7007, or the next free port].
    #[arg(
        long, value_name = "PORT", num_args = 0..=1, require_equals = true, help_heading = "Viewer"
    )]
    viewer: Option<Option<u16>>,
    /// Maximum fraction of the time spent on rendering for the viewer, above 0 and up to 1 [default: 0.25].
    #[arg(long, value_name = "SHARE", value_parser = parse_share, help_heading = "Viewer")]
    viewer_share: Option<f64>,
    /// Keep the viewer running after the training until Ctrl-C; implied on a terminal.
    #[arg(long, help_heading = "Viewer")]
    viewer_linger: bool,
    #[command(flatten)]
    listen: ListenArgs,
}

fn parse_share(text: &str) -> Result<f64, String> {
    let found = text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    found.ok_or_else(|| format!("expected above 0 and up to 1, found `{text}`"))
}

/// The viewer of a training. Dropping it stops the server.
pub(crate) struct Viewer {
    pub(crate) live: LiveRenderer,
    _server: Server,
}

impl ViewerArgs {
    /// Whether a viewer is requested, by name or by an option that is about it.
    fn is_wanted(&self) -> bool {
        self.viewer.is_some() || self.viewer_share.is_some() || self.viewer_linger || self.listen.is_given()
    }

    /// Starts the viewer if it is requested, and prints its address. The name of the folder `run` is the page's title.
    pub(crate) fn start(
        &self,
        run: &Path,
        interrupt: &Interrupt,
        console: &Console,
    ) -> Result<Option<Viewer>, EarlyExit> {
        if !self.is_wanted() {
            return Ok(None);
        }
        let name = run.file_name().unwrap_or_default().display().to_string();
        let hub = Hub::new(SceneDescription { title: name, live: true, ..SceneDescription::default() });
        let server = Server::start(Arc::clone(&hub), &self.listen.options(self.viewer.flatten()))
            .map_err(server_failure)?;
        announce("viewer", &server, console)?;
        let share = self.viewer_share.unwrap_or(VIEWER_SHARE);
        let lingers = self.viewer_linger || std::io::IsTerminal::is_terminal(&std::io::stdin());
        let live = LiveRenderer::new(hub, share, lingers, Arc::clone(interrupt.stop()));
        Ok(Some(Viewer { live, _server: server }))
    }
}

/// Converts a server error into a failure with its code.
pub(crate) fn server_failure(error: ServerError) -> Failure {
    match error {
        ServerError::Port { .. } => Failure::new("port", error),
        ServerError::System(_) => Failure::new("viewer", error),
    }
}

/// Prints the address of a server of this name, with a warning if other machines can reach it.
pub(crate) fn announce(name: &str, server: &Server, console: &Console) -> Result<(), EarlyExit> {
    let url = server.url();
    if server.is_public() {
        let line = format!(
            "{} is reachable from other machines without encryption: anyone with the address and its token can see the scene and its photographs, and can pause, save and stop a training",
            server.address()
        );
        console.warn("the viewer", line);
    }
    let object = serde_json::json!({
        "kind": "viewer", "url": url, "port": server.address().port(), "pid": std::process::id(),
    });
    console.json_line_or_text(&object, &format!("{name} at {url}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_may_have_a_port() {
        assert_eq!(parse_address("0.0.0.0").unwrap(), ([0, 0, 0, 0].into(), None));
        assert_eq!(parse_address("10.1.2.3:80").unwrap(), ([10, 1, 2, 3].into(), Some(80)));
        assert_eq!(parse_address("[::1]:80").unwrap().1, Some(80));
        assert!(parse_address("unix:/run/socket").is_err() && parse_address("localhost").is_err());
    }

    #[test]
    fn shares_are_above_nothing() {
        assert_eq!(parse_share("0.25"), Ok(0.25));
        for bad in ["0", "-1", "1.5", "nan", "inf", "x"] {
            assert!(parse_share(bad).is_err(), "{bad}");
        }
    }
}
