// SPDX-License-Identifier: Apache-2.0
// The device is described in QEMU's docs/specs/fw_cfg.txt: a control block in memory, whose
// physical address is written to two ports, says what to do; its numbers are big-endian.
#include "fw_cfg.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
  page_size = 4096,
  data_pages = 64,
  port_high = 0x514,
  port_low = 0x518,
  directory = 0x19,
  control_error = 1,
  control_read = 2,
  control_select = 8,
};

struct control_block {
  uint32_t control;
  uint32_t length;
  uint64_t address;
};

struct directory_entry {
  uint32_t size;
  uint16_t key;
  uint16_t reserved;
  char name[56];
};

static char* pages;                        // data_pages, and one more for the control block
static uint64_t physical[data_pages + 1];  // their addresses
static size_t left_in_file;
static size_t in_buffer;
static size_t next_in_buffer;

static int find_physical_addresses(void) {
  const int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return -1;
  }
  const off_t at = (off_t)((uintptr_t)pages / page_size * sizeof physical[0]);
  const ssize_t count = pread(fd, physical, sizeof physical, at);
  close(fd);
  if (count != (ssize_t)sizeof physical) {
    return -1;
  }
  for (int i = 0; i <= data_pages; ++i) {
    const uint64_t entry = physical[i];
    if (entry >> 63 == 0) {  // not present
      return -1;
    }
    physical[i] = (entry & ((1ULL << 55) - 1)) * page_size;
  }
  return 0;
}

static int transfer(uint32_t control, uint32_t length, uint64_t address) {
  volatile struct control_block* block = (void*)(pages + data_pages * page_size);
  block->control = htobe32(control);
  block->length = htobe32(length);
  block->address = htobe64(address);
  __sync_synchronize();
  outl(htobe32((uint32_t)(physical[data_pages] >> 32)), port_high);
  outl(htobe32((uint32_t)physical[data_pages]), port_low);
  while ((be32toh(block->control) & ~(uint32_t)control_error) != 0) {
  }
  return block->control != 0 ? -1 : 0;
}

static int make_buffers(void) {
  if (pages == NULL) {
    const size_t size = (data_pages + 1) * page_size;
    void* made = mmap(NULL, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | MAP_LOCKED, -1, 0);
    if (made == MAP_FAILED) {
      return -1;
    }
    pages = made;
    memset(pages, 0, size);
  }
  return find_physical_addresses();
}

int fw_cfg_open(const char* name) {
  uint32_t count = 0;
  if (iopl(3) != 0 || make_buffers() != 0 ||
      transfer(directory << 16 | control_select | control_read, sizeof count, physical[0]) != 0) {
    return -1;
  }
  memcpy(&count, pages, sizeof count);
  for (uint32_t i = 0; i < be32toh(count); ++i) {
    struct directory_entry entry;
    if (transfer(control_read, sizeof entry, physical[0]) != 0) {
      return -1;
    }
    memcpy(&entry, pages, sizeof entry);
    if (strcmp(entry.name, name) == 0) {
      left_in_file = be32toh(entry.size);
      in_buffer = next_in_buffer = 0;
      return transfer((uint32_t)be16toh(entry.key) << 16 | control_select, 0, 0);
    }
  }
  errno = ENOENT;
  return -1;
}

static int fill_buffer(void) {
  if (left_in_file == 0) {
    errno = ENODATA;
    return -1;
  }
  next_in_buffer = in_buffer = 0;
  for (int i = 0; i < data_pages && left_in_file > 0; ++i) {
    const uint32_t size = left_in_file < page_size ? (uint32_t)left_in_file : page_size;
    if (transfer(control_read, size, physical[i]) != 0) {
      return -1;
    }
    in_buffer += size;
    left_in_file -= size;
  }
  return 0;
}

int fw_cfg_read(void* data, size_t size) {
  char* to = data;
  while (size > 0) {
    if (next_in_buffer == in_buffer && fill_buffer() != 0) {
      return -1;
    }
    const size_t there = in_buffer - next_in_buffer;
    const size_t part = size < there ? size : there;
    if (to != NULL) {
      memcpy(to, pages + next_in_buffer, part);
      to += part;
    }
    next_in_buffer += part;
    size -= part;
  }
  return 0;
}

void fw_cfg_close(void) {
  if (pages != NULL) {
    munmap(pages, (data_pages + 1) * page_size);
    pages = NULL;
  }
  iopl(0);
}
