//! `pip install` of a pure wheel from an index on the host: in a session through the egress gate, and in
//! a virtual environment outside.

use std::process::Stdio;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::process::Command;
use vivarium_api_types::Outcome;
use vivarium_client::Method;
use vivarium_protocol::outcome::Status;

use super::{Context, outside, requests, with_daemon};
use crate::daemon::Daemon;
use crate::samples::Samples;
use crate::{Bar, BenchError, Findings};

const TIMES_OUTSIDE: f64 = 1.3;
const SESSION: &str = "packages";
const WHAT: &str = "pip install";
const PIP: [&str; 8] = [
    "-m",
    "pip",
    "install",
    "-q",
    "--no-deps",
    "--no-cache-dir",
    "--force-reinstall",
    "--disable-pip-version-check",
];
const PROJECT: &str = "tiny";

/// Prints its port; an index of one wheel.
const INDEX: &str = r#"
import hashlib, http.server, io, zipfile
wheel = io.BytesIO()
with zipfile.ZipFile(wheel, "w") as file:
    file.writestr("tiny.py", "VERSION = 1\n")
    file.writestr("tiny-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n")
    file.writestr("tiny-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    file.writestr("tiny-1.dist-info/RECORD", "")
wheel = wheel.getvalue()
name = "tiny-1-py3-none-any.whl"
page = f'<a href="/{name}#sha256={hashlib.sha256(wheel).hexdigest()}">{name}</a>'.encode()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        is_wheel = self.path == "/" + name
        body = wheel if is_wheel else page
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream" if is_wheel else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"#;

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    let interpreter = &context.machine.interpreter;
    let environment =
        tempfile::tempdir().map_err(|error| requests::unexpected("a directory", &error))?;
    let path = environment.path().to_string_lossy();
    run(interpreter, &["-m", "venv", &path]).await?;
    let (_index, port) = outside::server(interpreter, INDEX).await?;
    let url = format!("http://127.0.0.1:{port}/simple");
    let config = format!(
        "sandbox.allowed_networks = [\"loopback\", \"trusted\"]\n\
         egress.allow_addresses = [\"127.0.0.1\"]\npackages.index_url = \"{url}\"\n"
    );
    let python = format!("{path}/bin/python");
    let asked = async |daemon: &Daemon| installs(daemon, context, &python, &url).await;
    let [outside, inside] = with_daemon(&config, asked).await?;
    let outside = outside.summary("pip install of a pure wheel, outside");
    let inside = inside.summary("pip install through the egress gate");
    let name = "pip install through the gate, to one outside";
    let bar = Bar::at_most(name, inside.p50 / outside.p50, TIMES_OUTSIDE, "times");
    Ok(Findings { times: vec![outside, inside], bars: vec![bar], ..Findings::default() })
}

/// In turns. The first is not counted: the gate then has the wheel, and both have compiled pip.
async fn installs(
    daemon: &Daemon,
    context: &Context,
    python: &str,
    url: &str,
) -> Result<[Samples; 2], BenchError> {
    let mut client = daemon.client();
    let session = json!({"id": SESSION, "network": "trusted"});
    client.json::<Value>(Method::POST, "/v1/sessions", Some(&session)).await?;
    let inside_argv: Vec<&str> = ["python3"].into_iter().chain(PIP).chain([PROJECT]).collect();
    let command = json!({ "argv": inside_argv });
    let outside_argv: Vec<&str> =
        PIP.into_iter().chain(["--isolated", "--index-url", url, PROJECT]).collect();
    let path = format!("/v1/sessions/{SESSION}/commands");
    let mut samples = [(); 2].map(|()| Samples::default());
    let [outside, inside] = &mut samples;
    for turn in 0..=context.plan.installs {
        let start = Instant::now();
        run(python, &outside_argv).await?;
        outside.add_if(turn > 0, start.elapsed());
        let start = Instant::now();
        let outcome: Outcome = client.json(Method::POST, &path, Some(&command)).await?;
        inside.add_if(turn > 0, start.elapsed());
        if outcome.status != Status::Ok || outcome.exit_code != Some(0) {
            return Err(requests::unexpected(WHAT, &outcome));
        }
    }
    Ok(samples)
}

async fn run(program: &str, arguments: &[&str]) -> Result<(), BenchError> {
    let ran = Command::new(program).args(arguments).stdin(Stdio::null()).output().await;
    match ran {
        Ok(output) if output.status.success() => Ok(()),
        other => Err(requests::unexpected(WHAT, &other)),
    }
}
