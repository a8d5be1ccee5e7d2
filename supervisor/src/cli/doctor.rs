//! `vivarium doctor`

use vivarium_protocol::layer::Status;

use super::exit::{Exit, Failure};
use super::options::ConfigOptions;
use super::terminal::escape;
use super::{place, print};
use crate::doctor::{self, Diagnosis};
use crate::logging;
use crate::privilege::{self, Purpose};

/// How to tell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exits with 0 if mode \"on\" would start, else with 1.")]
pub(super) struct Args {
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigOptions,
}

pub(super) fn main(args: &Args) -> Result<Exit, Failure> {
    let mut settings = args.config.load(&[])?.settings;
    logging::init(settings.server.log_format, "error")
        .map_err(|error| Failure::new(Exit::Usage, &error))?;
    privilege::prepare(&mut settings, Purpose::OneShot)
        .map_err(|error| Failure::new(Exit::Error, &error))?;
    let diagnosis = place::runtime()?.block_on(doctor::examine(&settings));
    if args.json {
        print::json(&diagnosis)?;
    } else {
        print::out(render(&diagnosis).as_bytes())?;
    }
    Ok(if diagnosis.ok { Exit::Ok } else { Exit::Error })
}

fn render(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    if let Some(error) = &diagnosis.error {
        text.push_str(&format!("No session could be made: {error}\n\n"));
    }
    if !diagnosis.layers.is_empty() {
        text.push_str("Layers, as a trial session read them back:\n");
    }
    for report in &diagnosis.layers {
        let status = report.status.to_string();
        text.push_str(&format!("  {:<12} {status:<12} {}\n", report.layer.name(), report.detail));
        if !report.fix.is_empty() && report.status != Status::Enforced {
            text.push_str(&format!("  {:<25} fix: {}\n", "", report.fix));
        }
    }
    text.push_str("\nHost:\n");
    for fact in &diagnosis.facts {
        text.push_str(&format!("  {:<46} {}\n", fact.name, fact.value));
    }
    for environment in &diagnosis.environments {
        let name = format!("environment {}", environment.name);
        let value = format!("{} (Python {})", environment.interpreter, environment.python_version);
        text.push_str(&format!("  {name:<46} {value}\n"));
        let template = &environment.template;
        let why = template.reason.as_deref().map(|reason| format!(": {reason}"));
        let state = format!("{}{}", template.state, escape(&why.unwrap_or_default()));
        text.push_str(&format!("  {:<46} {state}\n", format!("template {}", environment.name)));
    }
    text.push_str(if diagnosis.ok {
        "\nEvery layer is enforced: sandbox.mode \"on\" starts here.\n"
    } else {
        "\nNot every layer is enforced: sandbox.mode \"on\" refuses to start here, \"auto\" starts \
         with what there is.\n"
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Fact;
    use vivarium_protocol::layer::{Layer, Report};

    #[test]
    fn what_is_missing_is_shown_with_its_fix() {
        let text = render(&Diagnosis {
            ok: false,
            error: None,
            layers: vec![
                Report::enforced(Layer::Seccomp, "a filter"),
                Report::partial(Layer::Cgroup, "no memory controller", "boot with v2"),
            ],
            environments: vec![],
            facts: vec![Fact { name: "kernel".into(), value: "6.1".into() }],
        });
        assert!(text.contains("seccomp      enforced     a filter\n"), "{text}");
        assert!(text.contains("cgroup       partial      no memory controller\n"), "{text}");
        assert!(text.contains("fix: boot with v2"), "{text}");
        assert!(text.contains("refuses to start here"), "{text}");
    }
}
