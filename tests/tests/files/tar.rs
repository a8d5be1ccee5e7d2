//! Archives of which every byte is the test's.

/// What an entry says it is: the type flag of ustar (POSIX.1-2024, pax).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    HardLink,
    SymbolicLink,
    CharacterDevice,
    BlockDevice,
    Directory,
    Pipe,
    Unknown,
}

impl Kind {
    const fn flag(self) -> u8 {
        match self {
            Self::File => b'0',
            Self::HardLink => b'1',
            Self::SymbolicLink => b'2',
            Self::CharacterDevice => b'3',
            Self::BlockDevice => b'4',
            Self::Directory => b'5',
            Self::Pipe => b'6',
            Self::Unknown => b'Q',
        }
    }
}

/// The header of an entry that says it has `size` bytes.
pub(crate) fn header(name: &str, kind: Kind, size: usize, link: &str) -> Vec<u8> {
    let mut header = vec![0; 512];
    let mut put = |at: usize, text: &[u8]| header[at..at + text.len()].copy_from_slice(text);
    put(0, name.as_bytes());
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, &[kind.flag()]);
    put(157, link.as_bytes());
    put(257, b"ustar\x0000");
    put(329, b"0000001\0");
    put(337, b"0000003\0");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

/// An entry with its content.
pub(crate) fn entry(name: &str, kind: Kind, content: &[u8], link: &str) -> Vec<u8> {
    let mut bytes = header(name, kind, content.len(), link);
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

/// A regular file.
pub(crate) fn file(name: &str, content: &[u8]) -> Vec<u8> {
    entry(name, Kind::File, content, "")
}

/// Entries and the end of an archive.
pub(crate) fn archive(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = entries.concat();
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}
