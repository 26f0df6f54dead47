// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs this program again for one experiment, with a time limit. Threads: safe.

#include <chrono>
#include <string>
#include <vector>

namespace numapool::gpu_probe {

// What a child said, line by line: a kind, a space, a text.
struct child_answer {
  std::vector<std::string> seen;
  std::vector<std::string> notes;
  std::string skipped;  // why it asked nothing
  std::string end;      // empty: it ended well
  double seconds = 0;
};

// Starts this program with `arguments`; what it writes to descriptor `answer_fd` is the answer.
inline constexpr int answer_fd = 9;
child_answer ask_child(const std::vector<std::string>& arguments, std::chrono::seconds limit);

}  // namespace numapool::gpu_probe
