// SPDX-License-Identifier: Apache-2.0
#include "cli/descriptor_output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace numapool::cli {

descriptor_output::descriptor_output(int descriptor) : descriptor_(descriptor) {
  setp(pending_.data(), pending_.data() + pending_.size());
}

descriptor_output::~descriptor_output() {
  write_all();
}

descriptor_output::int_type descriptor_output::overflow(int_type next) {
  if (!write_all()) {
    return traits_type::eof();
  }
  if (!traits_type::eq_int_type(next, traits_type::eof())) {
    *pptr() = traits_type::to_char_type(next);
    pbump(1);
  }
  return traits_type::not_eof(next);
}

int descriptor_output::sync() {
  return write_all() ? 0 : -1;
}

bool descriptor_output::write_all() {
  const char* next = pbase();
  while (next != pptr() && error_number_ == 0) {
    if (may_write_ && !may_write_(descriptor_)) {
      error_number_ = ECANCELED;
      break;
    }
    const ssize_t written = ::write(descriptor_, next, static_cast<std::size_t>(pptr() - next));
    if (written >= 0) {
      next += written;
    } else if (errno != EINTR && errno != EAGAIN) {
      error_number_ = errno;
    }
  }
  setp(pending_.data(), pending_.data() + pending_.size());
  return error_number_ == 0;
}

void keep_standard_descriptors_closed() noexcept {
  for (int lowest = 0; lowest >= 0 && lowest <= STDERR_FILENO;) {
    lowest = ::open("/", O_PATH | O_CLOEXEC);
    if (lowest > STDERR_FILENO) {
      ::close(lowest);
    }
  }
}

}  // namespace numapool::cli
