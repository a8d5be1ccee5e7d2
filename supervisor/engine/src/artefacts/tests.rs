use super::*;

fn record(hash: char, base: &str) -> ArtefactRecord {
    ArtefactRecord {
        hash: hash.to_string().repeat(64),
        base: base.to_owned(),
        interpreter: "/usr/bin/python3".into(),
        python_version: "3.11.2".to_owned(),
        hash_locked: false,
        bytes: 10,
        inodes: 2,
        distributions: Vec::new(),
    }
}

fn helper() -> StorageHelper {
    let (backend, _) = crate::backend::fake::Fake::new();
    StorageHelper { backend, ids: None }
}

/// As a build that was sealed leaves it: the directory of what sessions see is empty.
fn add(state: &Path, owner: &Owner, name: &str, record: &ArtefactRecord) {
    let root = state.join(disk::ROOT);
    let staging = disk::make_staging(&root).unwrap();
    disk::move_in(&root, &staging, owner, record).unwrap();
    let named = NameRecord { hash: record.hash.clone(), built_at: Timestamp::now() };
    disk::write_name(&root, owner, name, &named).unwrap();
}

#[tokio::test]
async fn environments_are_found_again_and_what_was_on_its_way_is_cleared() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join(disk::ROOT)).unwrap();
    let root = dir.path().join(disk::ROOT);
    drop(disk::lock(&root).unwrap().unwrap());
    let team = Owner::of(Some("team"));
    add(dir.path(), &team, "mine", &record('a', "default"));
    add(dir.path(), &Owner::Operator, "mine", &record('b', "default"));
    let half = disk::make_staging(&root).unwrap();
    std::fs::remove_dir(half.join(disk::DATA)).unwrap();
    // None of ours, and a name whose artefact is gone.
    std::fs::create_dir_all(root.join("not plain/artefacts/x")).unwrap();
    let lost = NameRecord { hash: "c".repeat(64), built_at: Timestamp::now() };
    disk::write_name(&root, &team, "lost", &lost).unwrap();
    let artefacts = Artefacts::open(dir.path(), helper()).await.unwrap();
    assert!(matches!(Artefacts::open(dir.path(), helper()).await, Err(ArtefactError::Locked)));
    assert!(!half.exists());
    let hash = |owner: &Owner| artefacts.find(owner, "mine").unwrap().artefact.record.hash.clone();
    assert_eq!((hash(&team), hash(&Owner::Operator)), ("a".repeat(64), "b".repeat(64)));
    assert!(artefacts.find(&team, "lost").is_none());
    assert!(artefacts.find(&Owner::of(Some("other")), "mine").is_none());
    assert_eq!(artefacts.owners(), [Owner::Operator, team.clone()]);
    assert_eq!((artefacts.bytes_of(&team), artefacts.totals()), (10, (2, 20)));
}

#[tokio::test]
async fn what_is_in_use_is_not_collected() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join(disk::ROOT);
    drop(disk::lock(&root).unwrap().unwrap());
    let owner = Owner::Operator;
    add(dir.path(), &owner, "mine", &record('a', "default"));
    let artefacts = Artefacts::open(dir.path(), helper()).await.unwrap();
    let Named { artefact, .. } = artefacts.find(&owner, "mine").unwrap();
    // So that nothing has to clear it, as nobody can here.
    std::fs::remove_dir(artefact.dir.join(disk::DATA)).unwrap();
    assert!(!Artefacts::in_use(&artefact));
    assert_eq!(artefacts.collect().await, Collected::default(), "it has a name");
    assert!(artefacts.unname(&owner, "mine").await.unwrap());
    assert!(!artefacts.unname(&owner, "mine").await.unwrap());
    assert_eq!(artefacts.collect().await, Collected::default(), "somebody has it");
    let place = artefact.dir.clone();
    drop(artefact);
    assert_eq!(artefacts.collect().await, Collected { artefacts: 1, bytes: 10 });
    assert!(!place.exists());
}

#[test]
fn no_name_leads_out_of_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let named = NameRecord { hash: "a".repeat(64), built_at: Timestamp::now() };
    for name in ["", ".", "..", "a/b", "../x", "a\0", "é"] {
        assert!(disk::write_name(dir.path(), &Owner::Operator, name, &named).is_err(), "{name:?}");
        let owner = Owner::of(Some(name));
        assert!(disk::write_name(dir.path(), &owner, "n", &named).is_err(), "{name:?}");
        assert!(disk::read_log(dir.path(), &Owner::Operator, name).is_none());
    }
}

#[test]
fn an_environment_needs_the_interpreter_that_it_was_built_for() {
    let artefact = Artefact { record: record('a', "default"), dir: PathBuf::new() };
    let python = Path::new("/usr/bin/python3");
    assert_eq!(artefact.check(python, "3.11.9"), Ok(()));
    assert!(artefact.check(python, "3.12.1").unwrap_err().contains("build it again"));
    assert!(artefact.check(Path::new("/opt/python3"), "3.11.2").is_err());
}
