// SPDX-License-Identifier: Apache-2.0
#include "payload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fw_cfg.h"
#include "serial.h"

enum { head_size = 110, mode_at = 14, size_at = 54, name_size_at = 94, path_max = 4096 };

static unsigned field(const char* head, int at) {
  char digits[9] = {0};
  memcpy(digits, head + at, 8);
  return (unsigned)strtoul(digits, NULL, 16);
}

void make_parents(char* path) {
  for (char* slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(path, 0755);
    *slash = '/';
  }
}

static int unpack_file(const char* path, unsigned mode, unsigned size) {
  static char buffer[65536];
  const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) {
    send_text('B', "%s: %s", path, strerror(errno));
    return -1;
  }
  while (size > 0) {
    const unsigned part = size < sizeof buffer ? size : sizeof buffer;
    if (fw_cfg_read(buffer, part) != 0) {
      close(fd);
      return -1;
    }
    if (write(fd, buffer, part) != (ssize_t)part) {
      send_text('B', "%s does not fit into the guest's memory", path);
      close(fd);
      return -1;
    }
    size -= part;
  }
  fchmod(fd, mode & 07777);
  close(fd);
  return 0;
}

static int unpack_link(const char* path, unsigned size) {
  char target[path_max] = {0};
  if (size >= sizeof target || fw_cfg_read(target, size) != 0) {
    return -1;
  }
  unlink(path);
  return symlink(target, path);
}

static int unpack_entry(char* path, unsigned mode, unsigned size) {
  make_parents(path);
  if (S_ISDIR(mode)) {
    // What the guest has already keeps its mode: /tmp is everybody's, also where the payload lies
    // there.
    return mkdir(path, 0755) == 0 ? chmod(path, mode & 07777) : errno == EEXIST ? 0 : -1;
  }
  if (S_ISLNK(mode)) {
    return unpack_link(path, size);
  }
  return unpack_file(path, mode, size);
}

int unpack_payload(void) {
  for (;;) {
    char head[head_size];
    char path[path_max] = "/";
    if (fw_cfg_read(head, head_size) != 0 || memcmp(head, "070701", 6) != 0) {
      send_text('B', "the payload is no archive");
      return -1;
    }
    const unsigned mode = field(head, mode_at);
    const unsigned size = field(head, size_at);
    const unsigned name_size = field(head, name_size_at);
    if (name_size >= sizeof path - 1 || fw_cfg_read(path + 1, name_size) != 0 ||
        fw_cfg_read(NULL, -(head_size + name_size) & 3) != 0) {
      send_text('B', "the payload has a bad name in it");
      return -1;
    }
    if (strcmp(path + 1, "TRAILER!!!") == 0) {
      return 0;
    }
    if (unpack_entry(path, mode, size) != 0 || fw_cfg_read(NULL, -size & 3) != 0) {
      send_text('B', "%s could not be unpacked", path);
      return -1;
    }
  }
}
