//! What a large image adds to an execution.

use std::time::Instant;

use vivarium_client::Client;

use super::{Context, requests, with_daemon};
use crate::daemon::Daemon;
use crate::samples::Samples;
use crate::{Bar, BenchError, Findings};

const ADDED_MS: f64 = 10.0;
const SESSION: &str = "image";
const WHAT: &str = "a displayed image";
const PNG: &str = "image/png";

/// Two images of one byte per pixel. The large one is noise that is stored and not compressed, so
/// that it has a little over 1 MB; only its being shown is measured, not its being made.
const PREPARE: &str = r#"
import os, struct, zlib

def chunk(kind, data):
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)

class Noise:
    def __init__(self, side):
        rows = b"".join(b"\0" + os.urandom(side) for _ in range(side))
        header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
        chunks = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows, 0)), chunk(b"IEND", b"")
        self.png = b"\x89PNG\r\n\x1a\n" + b"".join(chunks)

    def _repr_png_(self):
        return self.png

small, large = Noise(1), Noise(1000)
"#;

/// The large one has at least so many bytes.
const LARGE_BYTES: usize = 1_000_000;

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    let count = context.plan.images;
    let (small, large) = with_daemon("", async |daemon| turns(daemon, count).await).await?;
    let small = small.summary("display of a tiny PNG");
    let large = large.summary("display of a PNG of 1 MB");
    let bar = Bar::at_most("PNG of 1 MB, above a tiny one", large.p50 - small.p50, ADDED_MS, "ms");
    Ok(Findings { times: vec![small, large], bars: vec![bar], ..Findings::default() })
}

/// Both take their turns, so that a machine that slows down slows both of them.
async fn turns(daemon: &Daemon, count: usize) -> Result<(Samples, Samples), BenchError> {
    let mut client = daemon.client();
    requests::execute(&mut client, SESSION, PREPARE, WHAT).await?;
    show(&mut client, "display(small)", 1, &mut Samples::default()).await?;
    show(&mut client, "display(large)", LARGE_BYTES, &mut Samples::default()).await?;
    let (mut small, mut large) = (Samples::default(), Samples::default());
    for _ in 0..count {
        show(&mut client, "display(small)", 1, &mut small).await?;
        show(&mut client, "display(large)", LARGE_BYTES, &mut large).await?;
    }
    Ok((small, large))
}

async fn show(
    client: &mut Client,
    code: &str,
    least_bytes: usize,
    samples: &mut Samples,
) -> Result<(), BenchError> {
    let start = Instant::now();
    let outcome = requests::execute(client, SESSION, code, WHAT).await?;
    samples.add_since(start);
    let shown = outcome.displays.iter().find_map(|display| display.mime.get(PNG));
    // In base64 three bytes are four characters.
    match shown {
        Some(data) if data.len() / 4 * 3 >= least_bytes => Ok(()),
        _ => Err(requests::unexpected(WHAT, &shown.map(String::len))),
    }
}
