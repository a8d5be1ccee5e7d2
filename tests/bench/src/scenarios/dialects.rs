//! The same code by the API and by each dialect, in turns: what a dialect adds.

mod e2b;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use vivarium_client::{Client, Method};

use super::{Context, requests, with_daemon};
use crate::daemon::{Daemon, free_address};
use crate::samples::Samples;
use crate::{Bar, BenchError, Findings};

const ADDED_MS: f64 = 1.0;
const SESSION: &str = "dialects";
const CONFIG: &str = "dialects.mcp = true\ndialects.jupyter = true\ndialects.tools = true\n\
                      dialects.e2b = true\n";
const NAMES: [&str; 5] = [
    "1+1 by the API",
    "1+1 as a tool of MCP",
    "1+1 as a dispatched tool",
    "1+1 in a Jupyter kernel",
    "1+1 in a sandbox of E2B",
];

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    let count = context.plan.dialect_calls;
    let e2b = free_address();
    let e2b = e2b.map_err(|error| requests::unexpected("a free address", &error.to_string()))?;
    let config = format!("{CONFIG}e2b.listen = [\"{e2b}\"]\n");
    let samples = with_daemon(&config, async |daemon| turns(daemon, e2b, count).await).await?;
    let times: Vec<_> =
        NAMES.iter().zip(samples).map(|(name, samples)| samples.summary(*name)).collect();
    let native = times.first().map_or(0.0, |native| native.p50);
    let bars = times.iter().skip(1).map(|dialect| {
        let name = format!("{}, above the API", dialect.name);
        Bar::at_most(name, dialect.p50 - native, ADDED_MS, "ms")
    });
    Ok(Findings { bars: bars.collect(), times, ..Findings::default() })
}

async fn turns(daemon: &Daemon, e2b: SocketAddr, count: usize) -> Result<[Samples; 5], BenchError> {
    let mut client = daemon.client();
    requests::create(&mut client, SESSION, "1+1", NAMES[0]).await?;
    let mut notebook = Notebook::open(daemon).await?;
    let mut sandbox = e2b::Sandbox::open(e2b, NAMES[4]).await?;
    let mut samples = [(); 5].map(|()| Samples::default());
    let [native, mcp, dispatched, jupyter, in_sandbox] = &mut samples;
    for turn in 0..=count {
        let start = Instant::now();
        requests::two(&mut client, SESSION, NAMES[0]).await?;
        native.add_if(turn > 0, start.elapsed());
        mcp.add_if(turn > 0, call_of_mcp(&mut client).await?);
        dispatched.add_if(turn > 0, dispatch(&mut client).await?);
        jupyter.add_if(turn > 0, notebook.two().await?);
        in_sandbox.add_if(turn > 0, sandbox.two().await?);
    }
    Ok(samples)
}

fn call() -> Value {
    json!({"name": "run_python", "arguments": {"code": "1+1", "session": SESSION}})
}

async fn call_of_mcp(client: &mut Client) -> Result<Duration, BenchError> {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call()});
    let start = Instant::now();
    let answer: Value = client.json(Method::POST, "/mcp", Some(&message)).await?;
    let time = start.elapsed();
    let repr = answer.pointer("/result/structuredContent/result/repr");
    if repr == Some(&json!("2")) { Ok(time) } else { Err(requests::unexpected(NAMES[1], &answer)) }
}

async fn dispatch(client: &mut Client) -> Result<Duration, BenchError> {
    let start = Instant::now();
    let answer: Value = client.json(Method::POST, "/tools", Some(&call())).await?;
    let time = start.elapsed();
    let content = answer.get("content").and_then(Value::as_str).unwrap_or_default();
    let is_two = content.starts_with("[result] 2\n");
    if is_two { Ok(time) } else { Err(requests::unexpected(NAMES[2], &answer)) }
}

/// A kernel of Jupyter, and its socket.
struct Notebook {
    socket: WebSocketStream<TcpStream>,
    asked: u64,
}

impl Notebook {
    async fn open(daemon: &Daemon) -> Result<Self, BenchError> {
        let wanted = json!({"name": "python3"});
        let path = "/jupyter/api/kernels";
        let kernel: Value = daemon.client().json(Method::POST, path, Some(&wanted)).await?;
        let id = kernel.get("id").and_then(Value::as_str).unwrap_or_default();
        let address = daemon.address();
        let url = format!("ws://{address}{path}/{id}/channels");
        let stream = TcpStream::connect(address).await.map_err(broken)?;
        stream.set_nodelay(true).map_err(broken)?;
        let opened = tokio_tungstenite::client_async(url, stream).await;
        let (socket, _) = opened.map_err(broken)?;
        Ok(Self { socket, asked: 0 })
    }

    /// Executes `1+1`, until its reply has come and the kernel is idle again.
    async fn two(&mut self) -> Result<Duration, BenchError> {
        self.asked += 1;
        let id = self.asked.to_string();
        let content = json!({
            "code": "1+1", "silent": false, "store_history": true, "user_expressions": {},
            "allow_stdin": false, "stop_on_error": true,
        });
        let header = json!({
            "msg_id": id, "msg_type": "execute_request", "session": "bench", "username": "",
            "date": "2026-01-01T00:00:00Z", "version": "5.3",
        });
        let message = json!({
            "header": header, "parent_header": {}, "metadata": {}, "content": content,
            "channel": "shell", "buffers": [],
        });
        let start = Instant::now();
        self.socket.send(Message::text(message.to_string())).await.map_err(broken)?;
        let (mut value, mut has_reply, mut is_idle) = (Value::Null, false, false);
        while !(has_reply && is_idle) {
            let answer = self.next().await?;
            if answer.pointer("/parent_header/msg_id") != Some(&json!(id)) {
                continue;
            }
            let content = answer.get("content").cloned().unwrap_or_default();
            match answer.pointer("/header/msg_type").and_then(Value::as_str) {
                Some("execute_result") => {
                    value = content.pointer("/data/text~1plain").cloned().unwrap_or_default()
                }
                Some("execute_reply") => has_reply = true,
                Some("status") => is_idle = content.get("execution_state") == Some(&json!("idle")),
                _ => {}
            }
        }
        let time = start.elapsed();
        if value == "2" { Ok(time) } else { Err(requests::unexpected(NAMES[3], &value)) }
    }

    async fn next(&mut self) -> Result<Value, BenchError> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => {
                    return serde_json::from_str(&text).map_err(broken);
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(broken(error)),
                None => return Err(broken("closed")),
            }
        }
    }
}

fn broken(error: impl std::fmt::Display) -> BenchError {
    requests::unexpected(NAMES[3], &error.to_string())
}
