// SPDX-License-Identifier: Apache-2.0

//! The way that numapool replaces, in its own language and written anew, by the standard library
//! alone: one thread for a node behind an unbounded channel. It maps what is asked for, touches
//! one byte of every base page, and answers through a channel that the request brings along.
//!
//! Where it differs from the original: the memory is mmap's under MADV_NOHUGEPAGE instead of the
//! driver's, as in ../original_way.hpp; and what it does for a GPU is left out.

use std::ffi::c_void;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread;
use std::time::Duration;

mod machine;

struct Request {
    size_bytes: usize, // 0: only an answer is wanted
    answer: Sender<Answer>,
}

struct Block(*mut c_void);
// SAFETY: a block has one owner at a time, and memory is every thread's.
unsafe impl Send for Block {}

type Answer = Result<Block, i32>;

/// Opaque to C.
pub struct Original {
    requests: Option<Sender<Request>>,
    worker: Option<thread::JoinHandle<()>>,
}

impl Original {
    fn start(cpus: Vec<u32>) -> Option<Original> {
        let (sender, receiver) = channel();
        let worker = thread::Builder::new()
            .name("rust-original".into())
            .spawn(move || work(&cpus, &receiver))
            .ok()?;
        Some(Original {
            requests: Some(sender),
            worker: Some(worker),
        })
    }

    fn send(&self, size_bytes: usize) -> Receiver<Answer> {
        let (sender, receiver) = channel();
        if let Some(requests) = &self.requests {
            // Without a worker the answer's sender is dropped, and who waits is told.
            let _ = requests.send(Request {
                size_bytes,
                answer: sender,
            });
        }
        receiver
    }
}

impl Drop for Original {
    fn drop(&mut self) {
        self.requests = None; // the worker's loop ends
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

fn work(cpus: &[u32], requests: &Receiver<Request>) {
    // Refused: it works on elsewhere, as the original does.
    let _ = machine::pin_this_thread(cpus);
    thread::yield_now();
    thread::sleep(Duration::from_millis(1));
    for request in requests {
        let made = if request.size_bytes == 0 {
            Ok(Block(std::ptr::null_mut()))
        } else {
            make(request.size_bytes)
        };
        if let Err(unsent) = request.answer.send(made) {
            if let Ok(block) = unsent.0 {
                machine::unmap(block.0, request.size_bytes);
            }
        }
    }
}

fn make(size_bytes: usize) -> Answer {
    let data = machine::map(size_bytes)?;
    let page = machine::page_bytes();
    let first: *mut u8 = data.cast();
    for offset in (0..size_bytes).step_by(page) {
        // SAFETY: inside the mapping.
        unsafe { first.add(offset).write_volatile(0) };
    }
    // SAFETY: inside the mapping, which is not empty.
    unsafe { first.add(size_bytes - 1).write_volatile(0) };
    Ok(Block(data))
}

fn wait(answer: &Receiver<Answer>, size_bytes: usize) -> Answer {
    let whole_gib = (size_bytes >> 30) as u64;
    let limit = Duration::from_secs((10 + whole_gib).min(300));
    answer
        .recv_timeout(limit)
        .unwrap_or(Err(machine::TIMED_OUT))
}

/// Starts the worker on `count` CPUs. Null when no thread can be started.
///
/// # Safety
/// `cpus` points to `count` numbers.
#[no_mangle]
pub unsafe extern "C" fn rust_original_start(cpus: *const u32, count: usize) -> *mut Original {
    let cpus = std::slice::from_raw_parts(cpus, count).to_vec();
    Original::start(cpus).map_or(std::ptr::null_mut(), |made| Box::into_raw(Box::new(made)))
}

/// Ends the worker after what was asked of it.
///
/// # Safety
/// `original` is from rust_original_start, and nobody uses it any more.
#[no_mangle]
pub unsafe extern "C" fn rust_original_stop(original: *mut Original) {
    drop(Box::from_raw(original));
}

/// Blocks. `size_bytes`, not 0, of touched memory, or null with the errno in `error_number`.
///
/// # Safety
/// `original` is from rust_original_start; `error_number` points to a number.
#[no_mangle]
pub unsafe extern "C" fn rust_original_allocate(
    original: *const Original,
    size_bytes: usize,
    error_number: *mut i32,
) -> *mut c_void {
    match wait(&(*original).send(size_bytes), size_bytes) {
        Ok(block) => block.0,
        Err(reason) => {
            *error_number = reason;
            std::ptr::null_mut()
        }
    }
}

/// # Safety
/// `data` is from rust_original_allocate of as many bytes.
#[no_mangle]
pub unsafe extern "C" fn rust_original_free(data: *mut c_void, size_bytes: usize) {
    machine::unmap(data, size_bytes);
}

/// Asks for nothing `count` times, then waits for each answer: 1 is a round trip. Whether all came.
///
/// # Safety
/// `original` is from rust_original_start.
#[no_mangle]
pub unsafe extern "C" fn rust_original_ask(original: *const Original, count: usize) -> bool {
    let answers: Vec<_> = (0..count).map(|_| (*original).send(0)).collect();
    answers.iter().all(|answer| wait(answer, 0).is_ok())
}

/// Asks for nothing `count` times, at least once, and waits for the last answer alone. Whether it
/// came.
///
/// # Safety
/// `original` is from rust_original_start.
#[no_mangle]
pub unsafe extern "C" fn rust_original_post(original: *const Original, count: usize) -> bool {
    for _ in 1..count {
        drop((*original).send(0));
    }
    wait(&(*original).send(0), 0).is_ok()
}
