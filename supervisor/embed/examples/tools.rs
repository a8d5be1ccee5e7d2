//! Python that calls functions of this program; docs/embedding.md has the command.

#![expect(clippy::print_stdout, reason = "it shows what came out")]

use vivarium_embed::{CallAnswer, CallInfo, ExecuteRequest, JsonText, Policy, Sandbox, ToolSpec};

/// A function of the program's, and what it alone knows.
async fn answer(call: CallInfo) -> CallAnswer {
    let value = serde_json::json!({"asked": call.arguments, "price": 12});
    CallAnswer { result: JsonText::of(&value).ok(), error: None }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::start(Policy::new()).await?;
    let session = sandbox.session().await?;
    let request = ExecuteRequest {
        code: "from vivarium import tools\n\
               sum(tools.price(of=item)['price'] for item in range(100))"
            .to_owned(),
        tools: vec![ToolSpec { name: "price".to_owned(), ..ToolSpec::default() }],
        ..ExecuteRequest::default()
    };
    let outcome = session.execute_calling(request, answer).await?;
    println!("{}", outcome.result.map(|value| value.repr.clone()).unwrap_or_default());
    sandbox.stop().await;
    Ok(())
}
