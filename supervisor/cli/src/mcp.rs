//! `vivarium mcp`: MCP on standard input and output, for agents that start their tools as programs.
//! Code runs in an engine of this process, or in a daemon.

use std::io;

use tokio::io::BufReader;
use vivarium_api_types::SessionSpec;
use vivarium_client::header::{ACCEPT, HeaderName, RANGE};
use vivarium_client::{ApiRequest, Client, Remote};
use vivarium_server::api::InProcess;
use vivarium_server::dialects::mcp::stdio;
use vivarium_server::dialects::native::{Body, Call, Content, Native, Refusal, Response};

use super::embedded;
use super::exit::{Exit, Failure};
use super::options::{ConfigOptions, UrlOption};
use super::target::{self, Target};

const EXAMPLES: &str = "\
Examples:
  vivarium mcp
  vivarium mcp --url http://127.0.0.1:8470
  vivarium mcp --sb-max-memory-mb 512";

/// Serves the Model Context Protocol on standard input and output.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    url: UrlOption,
    #[command(flatten)]
    config: ConfigOptions,
}

pub(super) fn main(args: &Args) -> Result<Exit, Failure> {
    if let Some(remote) = args.url.named()? {
        args.config.sandbox.refuse_for(&remote)?;
        return target::block_on(serve(Daemon(remote)));
    }
    let mut settings = embedded::prepare(&args.config, &SessionSpec::default(), None, None)?;
    // The user of an embedded engine is its only one.
    settings.tenants.clear();
    target::block_on(embedded::with_engine(settings, async |target| match target {
        Target::Embedded(engine) => serve(InProcess::embedded(engine)).await,
        Target::Daemon(remote) => serve(Daemon(remote)).await,
    }))
}

async fn serve(native: impl Native) -> Result<Exit, Failure> {
    let input = BufReader::new(tokio::io::stdin());
    match stdio::serve(native, input, tokio::io::stdout()).await {
        Ok(()) => Ok(Exit::Ok),
        // Nobody is left who would want to know.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Ok),
        Err(error) => Err(Failure::new(Exit::Error, &error)),
    }
}

/// The API of a daemon, with a connection for each request: a connection that is dropped ends its
/// request.
#[derive(Debug, Clone)]
struct Daemon(Remote);

impl Native for Daemon {
    /// A process of one client counts nothing.
    type Room = ();

    async fn call(&self, call: Call) -> Result<Response<Body>, Refusal> {
        let range = call.range_header();
        let mut request = ApiRequest::new(call.method, &call.path);
        request = match call.content {
            Content::None => request,
            Content::Json(body) => request.json_bytes(body),
            Content::Bytes(body) => request.bytes(body),
        };
        if call.is_streamed {
            request = request.header(ACCEPT, "text/event-stream");
        }
        if let Some(range) = range {
            request = request.header(RANGE, &range);
        }
        if let Some(last) = call.last_event_id {
            request = request.header(HeaderName::from_static("last-event-id"), &last.to_string());
        }
        let response = Client::new(self.0.clone()).respond(request).await;
        let response = response
            .map_err(|error| Refusal::unreachable(vivarium_protocol::error_chain(&error)))?;
        Ok(response.map(Body::new))
    }

    async fn room(&self, _: usize) -> Result<(), Refusal> {
        Ok(())
    }
}
