// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads a file that QEMU was given with -fw_cfg. Such files are no part of a machine's saved state:
// a machine that is restored from a snapshot sees those of the QEMU that restores it, which is how
// a command reaches it. Read by DMA from user space: neither a driver nor a device is needed.

#include <stddef.h>

/// Opens the file `name`, closing the one before. 0, or -1. The first call makes and locks the
/// buffers that the device writes to.
int fw_cfg_open(const char* name);
/// Reads exactly `size` bytes, or skips them where `data` is null. 0, or -1.
int fw_cfg_read(void* data, size_t size);
/// Gives the buffers and the right to use I/O ports back.
void fw_cfg_close(void);
