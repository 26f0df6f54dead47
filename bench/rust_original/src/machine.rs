// SPDX-License-Identifier: Apache-2.0

//! What is asked of Linux, by the C library's names and 64-bit Linux's numbers.

use std::ffi::c_void;
use std::io;

extern "C" {
    fn sched_setaffinity(pid: i32, size_bytes: usize, mask: *const u64) -> i32;
    fn mmap(
        at: *mut c_void,
        size_bytes: usize,
        access: i32,
        flags: i32,
        file: i32,
        offset: i64,
    ) -> *mut c_void;
    fn munmap(data: *mut c_void, size_bytes: usize) -> i32;
    fn madvise(data: *mut c_void, size_bytes: usize, advice: i32) -> i32;
    fn sysconf(name: i32) -> i64;
}

const READ_AND_WRITE: i32 = 1 | 2;
const PRIVATE_AND_ANONYMOUS: i32 = 0x2 | 0x20;
const MADV_NOHUGEPAGE: i32 = 15;
const SC_PAGESIZE: i32 = 30; // glibc's
pub const TIMED_OUT: i32 = 110; // ETIMEDOUT

fn last_error() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

pub fn page_bytes() -> usize {
    // SAFETY: it only asks.
    usize::try_from(unsafe { sysconf(SC_PAGESIZE) }).unwrap_or(4096)
}

pub fn pin_this_thread(cpus: &[u32]) -> Result<(), i32> {
    let words = cpus.iter().max().map_or(1, |cpu| *cpu as usize / 64 + 1);
    let mut mask = vec![0u64; words];
    for cpu in cpus {
        mask[*cpu as usize / 64] |= 1u64 << (cpu % 64);
    }
    // SAFETY: the mask is as long as is said.
    match unsafe { sched_setaffinity(0, words * 8, mask.as_ptr()) } {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}

/// Base pages, whatever the machine's mode for huge ones: of those this way takes no advantage.
pub fn map(size_bytes: usize) -> Result<*mut c_void, i32> {
    // SAFETY: a new mapping, where the kernel likes.
    let data = unsafe {
        mmap(
            std::ptr::null_mut(),
            size_bytes,
            READ_AND_WRITE,
            PRIVATE_AND_ANONYMOUS,
            -1,
            0,
        )
    };
    if data as isize == -1 {
        return Err(last_error());
    }
    // SAFETY: ours. Refused where the kernel has no huge pages, which is as well.
    unsafe { madvise(data, size_bytes, MADV_NOHUGEPAGE) };
    Ok(data)
}

pub fn unmap(data: *mut c_void, size_bytes: usize) {
    if !data.is_null() {
        // SAFETY: from map(), and whoever calls this was its owner.
        unsafe { munmap(data, size_bytes) };
    }
}
