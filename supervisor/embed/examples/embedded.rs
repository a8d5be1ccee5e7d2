//! Runs Python in a sandbox of this program; docs/embedding.md has the command.

#![expect(clippy::print_stdout, reason = "it shows what came out")]

use vivarium_embed::{Network, Policy, Sandbox};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let policy = Policy::new().memory_mb(256).network(Network::None);
    let sandbox = Sandbox::start(policy).await?;
    let session = sandbox.session().await?;

    session.write("prices.csv", b"3\n4\n5\n").await?;
    session.execute("prices = [int(line) for line in open('prices.csv')]").await?;
    let outcome = session.execute("print(prices)\nsum(prices)").await?;
    let total = outcome.result.map(|value| value.repr.clone()).unwrap_or_default();
    println!("{}{total}", outcome.stdout);

    let failed = session.execute("open('/etc/shadow')").await?;
    println!("{}", failed.exception.map(|raised| raised.message).unwrap_or_default());

    sandbox.stop().await;
    Ok(())
}
