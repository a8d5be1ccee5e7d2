//! What /proc/thread-self/status says of the calling thread: proc_pid_status(5). A kernel that
//! is being confined has no other.
//!
//! Read back, never assumed: a field that is missing or unreadable is an error.

use super::super::{LayerError, proc_file};

const PATH: &str = "/proc/thread-self/status";

/// The fields that the layers are verified by.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::sandbox) struct OwnStatus {
    /// Real, effective, saved and filesystem user id.
    pub(in crate::sandbox) uids: Vec<u32>,
    /// Real, effective, saved and filesystem group id.
    pub(in crate::sandbox) gids: Vec<u32>,
    pub(in crate::sandbox) groups: Vec<u32>,
    /// Inheritable, permitted, effective and ambient capabilities, with their names here.
    pub(in crate::sandbox) capabilities: [(&'static str, u64); 4],
    pub(in crate::sandbox) bounding: u64,
    pub(in crate::sandbox) no_new_privs: bool,
}

impl OwnStatus {
    pub(in crate::sandbox) fn read() -> Result<Self, LayerError> {
        Self::parse(&proc_file::read(PATH)?)
    }

    fn parse(text: &str) -> Result<Self, LayerError> {
        let set = |name| -> Result<_, LayerError> { Ok((name, hexadecimal(text, name)?)) };
        Ok(Self {
            uids: numbers(text, "Uid")?,
            gids: numbers(text, "Gid")?,
            groups: numbers(text, "Groups")?,
            capabilities: [set("CapInh")?, set("CapPrm")?, set("CapEff")?, set("CapAmb")?],
            bounding: hexadecimal(text, "CapBnd")?,
            no_new_privs: one(text, "NoNewPrivs")? == 1,
        })
    }

    pub(in crate::sandbox) fn real_uid(&self) -> u32 {
        self.uids.first().copied().unwrap_or(u32::MAX)
    }

    pub(in crate::sandbox) fn real_gid(&self) -> u32 {
        self.gids.first().copied().unwrap_or(u32::MAX)
    }
}

fn field<'a>(text: &'a str, name: &str) -> Result<&'a str, LayerError> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .ok_or_else(|| LayerError::new(format!("read {name} in {PATH}"), "no such line"))
}

fn unreadable(name: &str, value: &str) -> LayerError {
    LayerError::new(format!("read {name} in {PATH}"), format!("{value:?} is not a number"))
}

fn numbers(text: &str, name: &str) -> Result<Vec<u32>, LayerError> {
    field(text, name)?
        .split_whitespace()
        .map(|word| word.parse().map_err(|_| unreadable(name, word)))
        .collect()
}

fn one(text: &str, name: &str) -> Result<u32, LayerError> {
    let word = field(text, name)?.trim();
    word.parse().map_err(|_| unreadable(name, word))
}

fn hexadecimal(text: &str, name: &str) -> Result<u64, LayerError> {
    let word = field(text, name)?.trim();
    u64::from_str_radix(word, 16).map_err(|_| unreadable(name, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str = "Name:\tpython3\nUid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\n\
        Groups:\t4 24 \nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\n\
        CapEff:\t0000000000000000\nCapBnd:\t000001ffffffffff\nCapAmb:\t0000000000000000\n\
        NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n";

    #[test]
    fn every_field_is_read() {
        let status = OwnStatus::parse(KERNEL).unwrap();
        assert_eq!(status.uids, [1000; 4]);
        assert_eq!((status.real_uid(), status.real_gid()), (1000, 1000));
        assert_eq!(status.groups, [4, 24]);
        assert_eq!(status.bounding, 0x1ff_ffff_ffff);
        assert!(status.no_new_privs);
    }

    #[test]
    fn a_missing_or_garbled_field_is_an_error() {
        for (from, to) in [("CapEff", "CapXxx"), ("NoNewPrivs:\t1", "NoNewPrivs:\tyes")] {
            assert!(OwnStatus::parse(&KERNEL.replace(from, to)).is_err(), "{to}");
        }
    }

    #[test]
    fn this_kernel_has_every_field() {
        assert!(OwnStatus::read().is_ok());
    }
}
