// SPDX-License-Identifier: Apache-2.0

// Goal: buffers can be had while the process ends, in a destructor that runs after main(), and a
// refusal there is told or thrown like any other; nothing crashes.
// Method: this program, whose exit status is the verdict. With "used" main() allocates too, so that
// the CUDA libraries were found before exit() began: libcudart 13.0 without a driver then died of
// the next question (SIGSEGV in cudaGetDeviceCount).

#include <unistd.h>

#include <cstdio>
#include <string_view>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>

#include <numapool/device.hpp>
#include <numapool/worker_pool.hpp>

namespace {

void expect(bool is_true, const char* what) {
  if (!is_true) {
    std::fprintf(stderr, "exit_scenario: not so: %s\n", what);
    ::_exit(1);
  }
}

numapool::request small_request(numapool::worker_pool& pool) {
  numapool::request what;
  what.size_bytes = std::size_t{1} << 20U;
  what.node = pool.topology().nearest_usable_node(pool.topology().nodes().front().id);
  return what;
}

void expect_allocation() {
  numapool::worker_pool pool;
  boost::system::error_code error;
  const numapool::buffer made = pool.allocate(small_request(pool), error);
  expect(!error && made, "a buffer is allocated");
}

void expect_refusal() {
  numapool::worker_pool pool;
  pool.shutdown();
  boost::system::error_code thrown;
  try {
    pool.async_allocate(small_request(pool),
                        [](const boost::system::error_code&, const numapool::buffer&) {
                          expect(false, "a handler without an executor is not called");
                        });
  } catch (const numapool::error& refused) {
    thrown = refused.code();
  }
  expect(thrown == numapool::errc::pool_shut_down, "a refusal that nobody could be told is thrown");
  boost::asio::io_context context;
  boost::system::error_code told;
  pool.async_allocate(small_request(pool), boost::asio::bind_executor(
                                               context.get_executor(),
                                               [&told](const boost::system::error_code& error,
                                                       const numapool::buffer&) { told = error; }));
  context.run();
  expect(told == numapool::errc::pool_shut_down, "a refusal is told on the handler's executor");
}

struct last_words {
  // An exception would end the process, which is a verdict too.
  // NOLINTNEXTLINE(bugprone-exception-escape)
  ~last_words() {
    expect_allocation();
    static_cast<void>(numapool::locate_device(0));
    expect_refusal();
  }
};

const last_words at_exit;  // made before main(), so gone after all that was loaded later

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "used") {
    expect_allocation();
  }
}
