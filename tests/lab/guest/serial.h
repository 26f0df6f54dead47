// SPDX-License-Identifier: Apache-2.0
#pragma once

// The guest's side of the wire to the lab: the second serial port, on which everything travels in
// frames: byte A5, a type, the length in four bytes (little-endian), and that many bytes.
//
//   R  a template is ready to be saved          S  the command starts
//   O  the command's standard output            E  the command's standard error
//   X  "status=N", as waitpid gives it          B  the lab could not do what was asked: why
//   F  a fetched file: name, a zero byte, data  D  a fetched folder: name
//   L  a line for people                        K  the kernel's log
//   H  lines that ask the lab for something     Q  that was all
//
// In the other direction a single byte G says that the payload is there.

#include <stddef.h>
#include <stdint.h>

/// Opens the port. Until then, and where there is none, frames are dropped.
void serial_open(void);
void send_frame(char type, const void* data, uint32_t size);
/// A frame's head alone; `size` bytes must follow by send_bytes.
void send_head(char type, uint32_t size);
void send_bytes(const void* data, size_t size);
void send_text(char type, const char* format, ...) __attribute__((format(printf, 2, 3)));
/// Waits for the lab's byte. Returns 0 when the lab is gone.
int wait_for_go(void);
/// Waits until everything has left the port.
void serial_drain(void);
