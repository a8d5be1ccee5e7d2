use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, io};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::fetch::{Body, Fetched};
use crate::hash::Hash;

/// An index upstream: answers by URL, each status, content type or location, and body.
#[derive(Default)]
struct Upstream {
    answers: BTreeMap<String, (u16, &'static str, Vec<u8>)>,
    asked: AtomicUsize,
}

struct Pieces(Vec<u8>);

impl Body for Pieces {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, FetchError> {
        // From the end: the tests' contents are of one byte, but for those of pages.
        let count = if self.0.len() > 100_000 { self.0.len().saturating_sub(1_000_000) } else { 0 };
        let next = self.0.split_off(count.min(self.0.len()));
        Ok((!next.is_empty()).then_some(next))
    }
}

impl Fetch for Upstream {
    type Body = Pieces;

    async fn get(&self, url: &Url, _: &str) -> Result<Fetched<Pieces>, FetchError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let missing = (404, "", Vec::new());
        let (status, about, body) = self.answers.get(&url.to_string()).unwrap_or(&missing).clone();
        let about = Some(about.to_owned());
        Ok(Fetched { status, content_type: about.clone(), location: about, body: Pieces(body) })
    }
}

struct Bed {
    dir: TempDir,
    upstream: Upstream,
    source: Source,
    index: Index,
}

const WHEEL: &str = "foo-1.0-py3-none-any.whl";

impl Bed {
    /// An upstream with one wheel of this content, which its page gives this hash.
    fn new(content: &[u8], hash: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let index_url = Url::parse("https://index.test/simple").unwrap();
        let page = format!("<a href='../../f/{WHEEL}{hash}'>x</a>");
        let mut upstream = Upstream::default();
        let mut add = |url: &str, answer| upstream.answers.insert(url.to_owned(), answer);
        add("https://index.test/simple/foo/", (200, "text/html", page.into_bytes()));
        add(&format!("https://index.test/f/{WHEEL}"), (200, "", content.to_vec()));
        let source = Source { index_url: Some(index_url), ..Source::default() };
        let index = Index::new(Some(Cache::open(dir.path(), 1 << 20).unwrap()));
        Self { dir, upstream, source, index }
    }

    fn answer_to(&self, tenant: &str, path: &str) -> (u16, Vec<u8>) {
        let asked = self.index.answer(tenant, &self.source, path, "text/html", &self.upstream);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let Answer { status, content, .. } = runtime.block_on(asked);
        let body = match content {
            Content::Text(text) => text.into_bytes(),
            Content::File(mut stored) => {
                let mut bytes = Vec::new();
                io::Read::read_to_end(&mut stored.file, &mut bytes).unwrap();
                assert_eq!(bytes.len(), usize::try_from(stored.bytes).unwrap());
                bytes
            }
        };
        (status, body)
    }

    fn asked(&self) -> usize {
        self.upstream.asked.load(Ordering::Relaxed)
    }

    /// How many files lie in the cache, finished or not.
    fn kept(&self) -> usize {
        let count = |dir: &std::path::Path| fs::read_dir(dir).unwrap().count();
        let entries = fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_dir()).map(|path| count(&path)).sum()
    }
}

fn file() -> String {
    format!("/files/foo/{WHEEL}")
}

#[test]
fn a_file_is_fetched_once_and_another_tenant_fetches_its_own() {
    let content = vec![7; 5000];
    let bed = Bed::new(&content, &format!("#{}", Hash::sha256(&content)));
    let (status, page) = bed.answer_to("a", "/simple/Foo/");
    let page = String::from_utf8(page).unwrap();
    assert!(status == 200 && page.contains(&format!("{}#sha256=", file())), "{page}");
    assert_eq!(bed.answer_to("a", &file()), (200, content.clone()));
    assert_eq!((bed.asked(), bed.kept()), (2, 1));
    assert_eq!(bed.answer_to("a", &file()), (200, content.clone()));
    assert_eq!(bed.asked(), 2);
    // What one tenant has shows in nothing that another gets.
    assert_eq!(bed.answer_to("b", &file()), (200, content));
    assert_eq!((bed.asked(), bed.kept()), (4, 2));
}

#[test]
fn nothing_of_a_file_with_another_hash_is_served_or_kept() {
    let content = vec![7; 5000];
    let bed = Bed::new(&content, &format!("#{}", Hash::sha256(b"other")));
    for _ in 0..2 {
        let (status, body) = bed.answer_to("a", &file());
        assert_eq!(status, 502);
        assert_eq!(body, b"a file has not the hash that the index gives\n");
        assert_eq!(bed.kept(), 0);
    }
}

#[test]
fn a_file_without_a_hash_is_served_and_not_kept() {
    let bed = Bed::new(b"content", "#md5=9a0364b9e99bb480dd25e1f0284c8555");
    for _ in 0..2 {
        assert_eq!(bed.answer_to("a", &file()), (200, b"content".to_vec()));
        assert_eq!(bed.kept(), 0);
    }
    assert_eq!(bed.asked(), 3);
}

#[test]
fn redirects_are_followed_but_not_for_ever_and_not_to_a_plain_connection() {
    let mut bed = Bed::new(b"content", "");
    let mut redirect = |from: &str, to| {
        bed.upstream.answers.insert(from.to_owned(), (302, to, Vec::new()));
    };
    redirect("https://index.test/simple/loop/", "/simple/loop/");
    redirect("https://index.test/simple/plain/", "http://index.test/simple/foo/");
    redirect("https://index.test/simple/foo-bar/", "https://other.test/foo-bar");
    redirect("https://index.test/simple/nowhere/", "ftp://x");
    let page = (200, "text/html", b"<a href=foo_bar-1.tar.gz>".to_vec());
    bed.upstream.answers.insert("https://other.test/foo-bar".to_owned(), page);
    for project in ["loop", "plain", "nowhere"] {
        assert_eq!(bed.answer_to("a", &format!("/simple/{project}/")).0, 502, "{project}");
    }
    assert!(bed.asked() < 12);
    let (status, page) = bed.answer_to("a", "/simple/foo-bar/");
    assert!(status == 200 && String::from_utf8(page).unwrap().contains("foo_bar-1.tar.gz"));
}

#[test]
fn a_project_of_the_operators_is_never_asked_for_upstream() {
    let mut bed = Bed::new(b"upstream", "");
    let links = tempfile::tempdir().unwrap();
    fs::write(links.path().join("foo-2.0-py3-none-any.whl"), b"local").unwrap();
    fs::write(links.path().join("secret.txt"), b"secret").unwrap();
    bed.source.find_links = vec![links.path().to_owned()];
    let (_, page) = bed.answer_to("a", "/simple/foo/");
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains(&Hash::sha256(b"local").to_string()) && !page.contains("1.0"), "{page}");
    assert_eq!(bed.answer_to("a", "/files/foo/foo-2.0-py3-none-any.whl").1, b"local");
    assert_eq!(bed.answer_to("a", &file()).0, 404);
    assert_eq!(bed.answer_to("a", "/files/foo/secret.txt").0, 404);
    assert_eq!(bed.asked(), 0);
    assert_eq!(bed.answer_to("a", "/simple/bar/").0, 404);
    assert_eq!(bed.asked(), 1);
    // What is to be there and cannot be seen is not looked for elsewhere.
    bed.source.find_links.push("/nonexistent".into());
    assert_eq!(bed.answer_to("a", "/simple/bar/").0, 502);
    assert_eq!(bed.asked(), 1);
}

#[test]
fn without_a_cache_there_are_pages_and_the_operators_files() {
    let mut bed = Bed::new(b"content", "");
    bed.index = Index::new(None);
    assert_eq!(bed.answer_to("a", "/simple/foo/").0, 200);
    let (status, said) = bed.answer_to("a", &file());
    assert!(status == 502 && String::from_utf8(said).unwrap().contains("no cache"));
    fs::write(bed.dir.path().join(WHEEL), b"local").unwrap();
    bed.source.find_links = vec![bed.dir.path().to_owned()];
    assert_eq!(bed.answer_to("a", &file()), (200, b"local".to_vec()));
}

#[test]
fn a_cache_is_one_gates_alone() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open(dir.path(), 1).unwrap();
    assert_eq!(Cache::open(dir.path(), 1).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    drop(cache);
    assert!(Cache::open(dir.path(), 1).is_ok());
}

#[test]
fn a_file_that_two_ask_for_is_fetched_once() {
    let content = vec![7; 5000];
    let bed = Bed::new(&content, &format!("#{}", Hash::sha256(&content)));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let path = file();
    let ask = || bed.index.answer("a", &bed.source, &path, "", &bed.upstream);
    let (one, other) = runtime.block_on(async { tokio::join!(ask(), ask()) });
    assert_eq!((one.status, other.status), (200, 200));
    // The page, perhaps by both, and the file.
    assert!(bed.asked() <= 3, "{}", bed.asked());
}

#[test]
fn a_flood_of_one_tenant_takes_little_from_another() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open(dir.path(), 4 << 20).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store = |tenant: &str, byte: u8| {
        let content = vec![byte; 600_000];
        let hash = Hash::sha256(&content);
        runtime.block_on(cache.store(tenant, Some(&hash), Pieces(content))).map(drop).unwrap();
        hash
    };
    let own = store("quiet", 0);
    for byte in 1..8 {
        store("loud", byte);
    }
    assert!(cache.find("quiet", &own).is_some());
    // Nor by what it never finishes.
    let endless = runtime.block_on(cache.store("loud", None, Pieces(vec![0; 6 << 20])));
    assert!(endless.is_err() && cache.find("quiet", &own).is_some());
}

#[test]
fn the_cache_keeps_its_size_and_what_was_used_last() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open(dir.path(), 4 << 20).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let contents: Vec<Vec<u8>> = (0..6_u8).map(|byte| vec![byte; 900_000]).collect();
    let hashes: Vec<Hash> = contents.iter().map(|content| Hash::sha256(content)).collect();
    for (content, hash) in contents.into_iter().zip(&hashes) {
        runtime.block_on(cache.store("a", Some(hash), Pieces(content))).map(drop).unwrap();
        assert!(cache.find("a", &hashes[0]).is_some());
    }
    let kept: Vec<_> = hashes.iter().map(|hash| cache.find("a", hash).is_some()).collect();
    assert!(kept[0] && kept[5] && !kept[1], "{kept:?}");
    assert!(kept.iter().filter(|kept| **kept).count() <= 4, "{kept:?}");
    let huge = runtime.block_on(cache.store("a", None, Pieces(vec![0; 5 << 20])));
    assert!(matches!(huge, Err(FetchError::TooLong(_) | FetchError::Cache(_))), "{huge:?}");
}

#[test]
fn what_was_left_unfinished_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("tenant")).unwrap();
    fs::write(dir.path().join("tenant/.new-1"), b"x").unwrap();
    Cache::open(dir.path(), 1).map(drop).unwrap();
    assert_eq!(fs::read_dir(dir.path().join("tenant")).unwrap().count(), 0);
}

#[test]
fn hostile_paths_name_nothing() {
    let bed = Bed::new(b"content", "");
    for path in [
        "",
        "/",
        "/simple/",
        "/simple/../",
        "/simple/%2e%2e/",
        "/simple/a%2fb/",
        "/simple/a%00/",
        "/files/foo/../../../etc/passwd",
        "/files/foo/..%2f..%2fetc%2fpasswd",
        "/files/../foo-1.tar.gz",
        "/files/foo/.new-1",
        "/files/bar/foo-1.0-py3-none-any.whl",
        "/files/foo/%ff",
        "/files/foo/%",
        "http://packages.vivarium.internal/simple/foo/",
        "/simple/foo/extra",
        "//simple/foo/",
    ] {
        let (status, _) = bed.answer_to("a", path);
        assert!(matches!(status, 400 | 404), "{path}: {status}");
    }
    assert_eq!(bed.kept(), 0);
}

proptest! {
    #[test]
    fn no_path_reaches_out_of_the_index(path in "/(simple|files)/[a-z.%/0-9]{0,30}|.*") {
        let bed = Bed::new(b"content", "");
        let (status, _) = bed.answer_to("../a", &path);
        prop_assert!(matches!(status, 200 | 400 | 404), "{}", status);
    }
}
