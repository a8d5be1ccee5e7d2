//! What a kernel reads of an image before it changes its own memory.

mod format;

use format::{HEADER_BYTES, Header, Kind, MAPPING_BYTES, PAGE_BYTES, RUN_BYTES, Tables};

/// The memory that reading stands on.
const FREE: std::ops::Range<usize> = 0x1000_0000_0000..0x1000_1000_0000;

/// Tables that are taken for right touch nothing that they must not.
pub fn image(data: &[u8]) {
    let Ok(header) = Header::read(data) else { return };
    let mut written = [0; HEADER_BYTES];
    header.write(&mut written);
    assert_eq!(Header::read(&written), Ok(header.clone()));
    let Some(tables) = tables(&header, &data[HEADER_BYTES..]) else { return };
    if tables.check(&header, &FREE).is_err() {
        return;
    }
    let mappings: Vec<_> = tables.mappings().collect();
    assert_eq!(mappings.len(), header.mappings);
    assert!(mappings.is_sorted_by(|one, next| one.end <= next.start));
    for mapping in &mappings {
        assert!(mapping.start < mapping.end);
        assert!(mapping.end <= FREE.start || mapping.start >= FREE.end);
        assert!(tables.path(mapping).is_some());
    }
    let (mut end, mut count) = (0, 0);
    let shared = mappings.iter().filter(|mapping| mapping.kind == Kind::Shared);
    let shared: usize = shared.map(|mapping| mapping.range().len()).sum();
    for (run, of) in tables.runs_with_mappings() {
        assert!(run.start >= end && run.start % PAGE_BYTES == 0 && run.end() > run.start);
        let within =
            |mapping: &&format::Mapping| mapping.start <= run.start && run.end() <= mapping.end;
        let mapping = mappings.iter().find(within).expect("a mapping around each run");
        assert!(!matches!(of.kind, Kind::Fixed | Kind::SharedFile));
        assert_eq!(*mapping, of);
        if of.kind == Kind::Shared {
            assert!(tables.shared_offset(run.start) + (run.end() - run.start) <= shared);
        }
        (end, count) = (run.end(), count + 1);
    }
    assert_eq!(count, header.runs);
}

fn tables<'a>(header: &Header, data: &'a [u8]) -> Option<Tables<'a>> {
    let (mappings, data) = data.split_at_checked(header.mappings * MAPPING_BYTES)?;
    let (runs, data) = data.split_at_checked(header.runs * RUN_BYTES)?;
    Some(Tables { mappings, runs, paths: data.get(..header.paths_bytes)? })
}
