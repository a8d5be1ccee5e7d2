//! `vivarium doctor`

use vivarium_protocol::layer::Status;
use vivarium_server::doctor::{self, Diagnosis, Offered};
use vivarium_server::logging;

use super::exit::{Exit, Failure};
use super::options::ConfigOptions;
use super::terminal::escape;
use super::{print, target};

/// How to tell.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exits with 0 if every layer is enforced and none is disabled, with 3 if a daemon with this
configuration would not start, and with 1 otherwise.")]
pub(super) struct Args {
    /// Prints JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigOptions,
}

pub(super) fn main(args: &Args) -> Result<Exit, Failure> {
    let mut settings = args.config.load(&[])?.settings;
    logging::init(settings.server.log_format, "error")
        .map_err(|error| Failure::new(Exit::Usage, &error))?;
    vivarium_privilege::prepare(&mut settings)
        .map_err(|error| Failure::new(Exit::Error, &error))?;
    let diagnosis = target::runtime()?.block_on(doctor::examine(&settings));
    if args.json {
        print::json(&diagnosis)?;
    } else {
        print::out(render(&diagnosis).as_bytes())?;
    }
    Ok(if !diagnosis.starts {
        Exit::Unavailable
    } else if diagnosis.ok && diagnosis.layers.iter().all(|layer| layer.disabled_by.is_none()) {
        Exit::Ok
    } else {
        Exit::Error
    })
}

fn render(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    if let Some(error) = &diagnosis.error {
        text.push_str(&format!("No session could be made: {error}\n\n"));
    }
    if !diagnosis.layers.is_empty() {
        text.push_str("Layers, as a trial session read them back:\n");
    }
    for Offered { report, disabled_by } in &diagnosis.layers {
        let status = report.status.to_string();
        text.push_str(&format!("  {:<12} {status:<12} {}\n", report.layer.name(), report.detail));
        if !report.fix.is_empty() && report.status != Status::Enforced {
            text.push_str(&format!("  {:<25} fix: {}\n", "", report.fix));
        }
        if let Some(key) = disabled_by {
            let is_offered = matches!(report.status, Status::Enforced | Status::Partial);
            let what = if is_offered { "offered, but disabled" } else { "also disabled" };
            text.push_str(&format!("  {:<25} {what} by {key}\n", ""));
        }
    }
    text.push_str("\nHost:\n");
    for fact in &diagnosis.facts {
        text.push_str(&format!("  {:<46} {}\n", fact.name, fact.value));
    }
    for environment in &diagnosis.environments {
        let name = format!("environment {}", environment.name);
        let value = format!(
            "{} {} (Python {})",
            environment.runtime, environment.interpreter, environment.python_version
        );
        text.push_str(&format!("  {name:<46} {value}\n"));
        let template = &environment.template;
        let why = template.reason.as_deref().map(|reason| format!(": {reason}"));
        let state = format!("{}{}", template.state, escape(&why.unwrap_or_default()));
        text.push_str(&format!("  {:<46} {state}\n", format!("template {}", environment.name)));
    }
    text.push_str(if diagnosis.ok {
        "\nThe host offers every layer: sandbox.mode \"on\" starts here.\n"
    } else {
        "\nThe host does not offer all of every layer: sandbox.mode \"on\" refuses to start here.\n"
    });
    text.push_str(if diagnosis.starts {
        "A daemon with this configuration starts.\n"
    } else {
        "A daemon with this configuration does not start: see sandbox.mode and sandbox.require.\n"
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use vivarium_protocol::layer::{Layer, Report};
    use vivarium_server::doctor::Fact;

    #[test]
    fn a_missing_layer_is_shown_with_its_fix() {
        let offered = |report, disabled_by| Offered { report, disabled_by };
        let partial = Report::partial(Layer::Cgroup, "no memory controller", "boot with v2");
        let text = render(&Diagnosis {
            ok: false,
            starts: true,
            error: None,
            layers: vec![
                offered(Report::enforced(Layer::Seccomp, "a filter"), Some("sandbox.mode")),
                offered(partial, None),
            ],
            environments: vec![],
            facts: vec![Fact { name: "kernel".into(), value: "6.1".into() }],
        });
        assert!(text.contains("seccomp      enforced     a filter\n"), "{text}");
        assert!(text.contains("cgroup       partial      no memory controller\n"), "{text}");
        assert!(text.contains("fix: boot with v2"), "{text}");
        assert_eq!(text.matches("offered, but disabled by sandbox.mode").count(), 1, "{text}");
        assert!(text.contains("refuses to start here"), "{text}");
        assert!(text.contains("this configuration starts"), "{text}");
    }
}
