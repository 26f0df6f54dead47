// SPDX-License-Identifier: Apache-2.0
#include "serial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <termios.h>
#include <unistd.h>

static int port = -1;

void serial_open(void) {
  struct termios raw;
  port = open("/dev/ttyS1", O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (port < 0) {
    return;
  }
  tcgetattr(port, &raw);
  cfmakeraw(&raw);
  cfsetspeed(&raw, B115200);
  raw.c_cflag |= CLOCAL | CREAD;
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  tcsetattr(port, TCSANOW, &raw);
}

void send_bytes(const void* data, size_t size) {
  const char* next = data;
  while (size > 0) {
    const ssize_t written = write(port, next, size);
    if (written < 0) {
      if (errno == EINTR || errno == EAGAIN) {
        continue;
      }
      return;
    }
    next += written;
    size -= (size_t)written;
  }
}

void send_head(char type, uint32_t size) {
  const unsigned char head[6] = {0xA5,
                                 (unsigned char)type,
                                 (unsigned char)size,
                                 (unsigned char)(size >> 8),
                                 (unsigned char)(size >> 16),
                                 (unsigned char)(size >> 24)};
  send_bytes(head, sizeof head);
}

void send_frame(char type, const void* data, uint32_t size) {
  send_head(type, size);
  send_bytes(data, size);
}

void send_text(char type, const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (length >= (int)sizeof text) {
    length = (int)sizeof text - 1;
  }
  send_frame(type, text, (uint32_t)length);
}

int wait_for_go(void) {
  char byte = 0;
  while (byte != 'G') {
    const ssize_t count = read(port, &byte, 1);
    if (count == 0 || (count < 0 && errno != EINTR)) {
      return 0;
    }
  }
  return 1;
}

void serial_drain(void) {
  if (port >= 0) {
    tcdrain(port);
  }
}
