//! A test daemon's configuration file.

use std::path::Path;

use crate::start_mode::StartMode;

/// The configuration: what every test's daemon has, and what `sections` add or replace.
pub(super) fn render(root: &Path, start_mode: StartMode, sections: &[(String, String)]) -> String {
    let root = root.display();
    let mut all = vec![
        (
            "server".to_owned(),
            format!(
                "listen = [\"unix:{root}/api.sock\", \"127.0.0.1:0\"]\n\
                 state_dir = \"{root}/state\"\nruntime_dir = \"{root}/run\""
            ),
        ),
        (
            "environments.default".to_owned(),
            format!("interpreter = \"/usr/bin/python3\"\n{}", start_mode.config()),
        ),
    ];
    for (section, lines) in sections {
        let key = |line: &str| line.split('=').next().unwrap_or_default().trim().to_owned();
        match all.iter_mut().find(|(name, _)| name == section) {
            Some((_, before)) => {
                let new: Vec<_> = lines.lines().map(key).collect();
                let kept: Vec<_> =
                    before.lines().filter(|line| !new.contains(&key(line))).collect();
                *before = format!("{}\n{lines}", kept.join("\n"));
            }
            None => all.push((section.clone(), lines.clone())),
        }
    }
    all.into_iter().map(|(name, lines)| format!("[{name}]\n{lines}\n\n")).collect()
}
