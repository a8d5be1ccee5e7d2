use proptest::prelude::*;

use super::*;

fn at() -> Url {
    Url::parse("https://index.test/simple/foo/").unwrap()
}

#[test]
fn a_page_of_either_form_has_the_same_files() {
    let digits = "ab".repeat(32);
    let html = format!(
        "<html><!-- <a href='evil-1.tar.gz'> --><a name=x>y</a>\
         <A HREF=\"../../f/foo-1.0-py3-none-any.whl#sha256={digits}\" \
         data-requires-python='&gt;=3.8' data-dist-info-metadata=\"sha256={digits}\">foo</A>\
         <a data-yanked href=/f/foo-0.9.tar.gz>old</a><a href=\"bar-1.0.tar.gz\">x</a>\
         <a href=\"javascript:1\">x</a><a href=\"foo-1.0.exe\">x</a></html>"
    );
    let json = json!({"meta": {"api-version": "1.1"}, "name": "Foo", "files": [
        {"filename": "foo-1.0-py3-none-any.whl", "url": "/f/foo-1.0-py3-none-any.whl",
         "hashes": {"md5": "00", "sha256": digits}, "requires-python": ">=3.8", "yanked": false,
         "core-metadata": {"sha256": digits}, "size": 1},
        {"filename": "foo-0.9.tar.gz", "url": "/f/foo-0.9.tar.gz", "hashes": {}, "yanked": true},
        {"filename": "bar-1.0.tar.gz", "url": "bar-1.0.tar.gz", "hashes": {}},
        {"filename": "../foo-1.0.tar.gz", "url": "x", "hashes": {}},
    ]});
    let files = read("foo", &at(), false, html.as_bytes()).unwrap();
    assert_eq!(read("foo", &at(), true, json.to_string().as_bytes()).unwrap(), files);
    assert_eq!(files.len(), 2);
    assert_eq!(files[0].hash.as_ref().unwrap().hex, digits);
    assert_eq!(
        files[0].url.as_ref().unwrap().to_string(),
        "https://index.test/f/foo-1.0-py3-none-any.whl"
    );
    assert_eq!((files[1].hash.clone(), files[1].yanked.as_deref()), (None, Some("")));
}

#[test]
fn what_is_written_is_read_again() {
    let file = File {
        name: "foo-1.0+cpu-py3-none-any.whl".to_owned(),
        url: None,
        hash: Some(Hash::sha256(b"x")),
        metadata: Some(Hash::sha256(b"y")),
        requires_python: Some(">=3.8,<\"4\"&".to_owned()),
        yanked: Some("<b>'broken\"".to_owned()),
    };
    let files = [file];
    let json = read("foo", &at(), true, to_json("foo", &files).as_bytes()).unwrap();
    let html = read("foo", &at(), false, to_html("foo", &files).as_bytes()).unwrap();
    assert_eq!(json, html);
    let url = Url::parse("https://index.test/files/foo/foo-1.0%2Bcpu-py3-none-any.whl").unwrap();
    assert_eq!(json, [File { url: Some(url), ..files[0].clone() }]);
}

proptest! {
    #[test]
    fn no_document_is_read_without_end(text in "[<>a =\"'/!#&;-]{0,200}|.*") {
        let files = read("foo", &at(), false, text.as_bytes()).unwrap();
        prop_assert!(files.iter().all(|file| name::project_of(&file.name).is_some()));
    }
}
