// SPDX-License-Identifier: Apache-2.0
#include "job.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char* job;
static size_t job_size;

int load_job(void) {
  struct stat status;
  const int fd = open("/.lab/job", O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return -1;
  }
  fstat(fd, &status);
  job = malloc((size_t)status.st_size + 1);
  const ssize_t count = read(fd, job, (size_t)status.st_size);
  close(fd);
  if (count != status.st_size) {
    return -1;
  }
  job_size = (size_t)count;
  job[job_size] = '\0';
  return 0;
}

const char* next_job_value(const char* key, const char** position) {
  const size_t key_size = strlen(key);
  const char* entry = *position != NULL ? *position : job;
  while (entry < job + job_size) {
    const char* next = entry + strlen(entry) + 1;
    if (strncmp(entry, key, key_size) == 0 && entry[key_size] == '=') {
      *position = next;
      return entry + key_size + 1;
    }
    entry = next;
  }
  return NULL;
}

const char* job_value(const char* key) {
  const char* position = NULL;
  return next_job_value(key, &position);
}

char** job_values(const char* key, char* const* first) {
  const char* position = NULL;
  const char* value;
  size_t count = 0;
  char** values = calloc(job_size + 16, sizeof *values);  // more than there can be
  for (; first != NULL && *first != NULL; ++first) {
    values[count++] = *first;
  }
  while ((value = next_job_value(key, &position)) != NULL) {
    values[count++] = (char*)value;
  }
  return values;
}
