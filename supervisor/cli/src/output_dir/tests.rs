//! What becomes of what was shown.

use super::*;

fn shown(
    kind: DisplayKind,
    id: Option<&'static str>,
    mime_type: &str,
    content: &str,
) -> DisplayEvent<'static> {
    let mime = [(mime_type.to_owned(), content.to_owned())].into();
    DisplayEvent { kind, id: id.map(Into::into), sizes: [].into(), mime }
}

fn output(name: &str, text: &str) -> OutputFile {
    OutputFile {
        name: name.into(),
        format: None,
        mime_type: "text/plain".into(),
        size_bytes: 1,
        text: Some(text.into()),
        data: None,
        error: None,
    }
}

#[test]
fn files_are_numbered_and_nothing_is_replaced() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("new/out");
    let mut output_dir = OutputDir::open(&dir).unwrap();
    output_dir.check().unwrap();
    fs::write(dir.join("image-1.png"), "mine").unwrap();
    std::os::unix::fs::symlink(temp.path().join("elsewhere"), dir.join("image-2.png")).unwrap();
    let image = shown(DisplayKind::Image, None, "image/png", "AQI=\n");
    assert_eq!(output_dir.write_display(&image).unwrap(), Some(dir.join("image-3.png")));
    assert_eq!(output_dir.write_display(&image).unwrap(), Some(dir.join("image-4.png")));
    assert_eq!(fs::read(dir.join("image-3.png")).unwrap(), [1, 2]);
    assert_eq!(fs::read(dir.join("image-1.png")).unwrap(), b"mine");
    assert!(!temp.path().join("elsewhere").exists());
    let frame = shown(DisplayKind::VideoFrame, None, "image/png", "AQI=");
    assert_eq!(output_dir.write_display(&frame).unwrap(), Some(dir.join("frame-1.png")));
    let value = [("text/html".to_owned(), "<b>".to_owned())].into();
    assert_eq!(output_dir.write_value(&value).unwrap(), Some(dir.join("result-1.html")));
}

#[test]
fn the_best_representation_is_written_and_plain_text_is_not() {
    let temp = tempfile::tempdir().unwrap();
    let mut output_dir = OutputDir::open(temp.path()).unwrap();
    let text = shown(DisplayKind::Display, None, "text/plain", "x");
    assert_eq!(output_dir.write_display(&text).unwrap(), None);
    let mut both = text.clone();
    both.mime.insert("text/html".into(), "<b>".into());
    both.mime.insert("image/png".into(), "AQI=".into());
    assert_eq!(output_dir.write_display(&both).unwrap(), Some(temp.path().join("display-1.png")));
    let plot = shown(DisplayKind::Display, None, "application/vnd.plotly.v1+json", "{}");
    assert_eq!(output_dir.write_display(&plot).unwrap(), Some(temp.path().join("display-2.json")));
    let broken = shown(DisplayKind::Image, None, "image/png", "no base64!");
    assert!(matches!(output_dir.write_display(&broken), Err(OutputDirError::Encoding { .. })));
}

#[test]
fn an_update_overwrites_the_file_of_its_display() {
    let temp = tempfile::tempdir().unwrap();
    let mut output_dir = OutputDir::open(temp.path()).unwrap();
    let of = |kind, text| shown(kind, Some("bar"), "text/html", text);
    let path = output_dir.write_display(&of(DisplayKind::Display, "0%")).unwrap().unwrap();
    assert_eq!(output_dir.write_display(&of(DisplayKind::Update, "100%")).unwrap(), None);
    assert_eq!(fs::read_to_string(path).unwrap(), "100%");
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
}

#[test]
fn outputs_keep_their_names_unless_they_are_taken() {
    let temp = tempfile::tempdir().unwrap();
    let mut output_dir = OutputDir::open(temp.path()).unwrap();
    let path = output_dir.write_output(&output("sub/a.tar.gz", "1")).unwrap();
    assert_eq!(path, temp.path().join("sub/a.tar.gz"));
    let path = output_dir.write_output(&output("sub/a.tar.gz", "2")).unwrap();
    assert_eq!(path, temp.path().join("sub/a.tar-2.gz"));
    assert_eq!(fs::read_to_string(path).unwrap(), "2");
    let path = output_dir.write_output(&output(".hidden", "3")).unwrap();
    assert_eq!(path, temp.path().join(".hidden"));
    for bad in ["../a", "/etc/passwd", "a/../../b", "", ".."] {
        let refused = output_dir.write_output(&output(bad, "x"));
        assert!(matches!(refused, Err(OutputDirError::Name { .. })), "{bad}: {refused:?}");
    }
    let mut missing = output("a", "");
    missing.error = Some("no such file".into());
    let error = output_dir.write_output(&missing).unwrap_err();
    assert_eq!(error.to_string(), "a: no such file");
}
