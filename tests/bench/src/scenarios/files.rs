//! Large files into a session and out of it, over the Unix socket.

use std::time::Instant;

use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use vivarium_api_types::FilesWritten;
use vivarium_client::{ApiRequest, Client, Method};

use super::{Context, requests, with_daemon};
use crate::daemon::Daemon;
use crate::samples::Samples;
use crate::{Bar, BenchError, Findings};

const RATE_MB_PER_S: f64 = 500.0;
const SESSION: &str = "files";
const PATH: &str = "/v1/sessions/files/files/large.bin";

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    let (count, bytes) = (context.plan.transfers, context.plan.transfer_bytes);
    let (up, down) = with_daemon("", async |daemon| turns(daemon, count, bytes).await).await?;
    let mb = bytes / 1_000_000;
    let up = up.rate(format!("upload of {mb} MB, Unix socket"), bytes);
    let down = down.rate(format!("download of {mb} MB, Unix socket"), bytes);
    let bar = |what, rate: f64| Bar::at_least(what, rate, RATE_MB_PER_S, "MB/s");
    Ok(Findings {
        bars: vec![
            bar("upload over the Unix socket", up.mb_per_s()),
            bar("download over the Unix socket", down.mb_per_s()),
        ],
        rates: vec![up, down],
        ..Findings::default()
    })
}

async fn turns(
    daemon: &Daemon,
    count: usize,
    bytes: u64,
) -> Result<(Samples, Samples), BenchError> {
    let mut client = daemon.unix_client();
    requests::execute(&mut client, SESSION, "pass", "a session for files").await?;
    let (mut up, mut down) = (Samples::default(), Samples::default());
    for _ in 0..count {
        let start = Instant::now();
        upload(&mut client, bytes).await?;
        up.add_since(start);

        let start = Instant::now();
        download(&mut client, bytes).await?;
        down.add_since(start);

        // So that each upload makes a new file, and the session needs room for one only.
        client.call::<Value>(ApiRequest::new(Method::DELETE, PATH)).await?;
    }
    Ok((up, down))
}

async fn upload(client: &mut Client, bytes: u64) -> Result<(), BenchError> {
    let content = tokio::io::repeat(b'v').take(bytes);
    let request =
        ApiRequest::new(Method::PUT, PATH).stream("application/octet-stream", content, Some(bytes));
    let written: FilesWritten = client.call(request).await?;
    if written.size_bytes == bytes {
        Ok(())
    } else {
        Err(requests::unexpected("an upload", &written))
    }
}

async fn download(client: &mut Client, bytes: u64) -> Result<(), BenchError> {
    let mut answer = client.open(ApiRequest::new(Method::GET, PATH)).await?;
    let mut arrived = 0;
    while let Some(chunk) = answer.chunk().await? {
        arrived += chunk.len() as u64;
    }
    if arrived == bytes { Ok(()) } else { Err(requests::unexpected("a download", &arrived)) }
}
