// SPDX-License-Identifier: Apache-2.0
#pragma once

// What an experiment is: one question to the CUDA libraries of this machine, with the answer that
// numapool's code and the fakes in tests/support claim. Each is asked in a process of its own, so
// that none sees what another left behind, and a crash is an answer like any other. Threads:
// values; a lab belongs to the process that runs one experiment.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "gpu/libraries.hpp"

namespace numapool::gpu_probe {

// What must be usable for a question to make sense.
enum need : unsigned int {
  need_runtime = 1,
  need_driver = 2,
  need_nvml = 4,
  need_missing_driver = 8,  // a runtime that answers 35
  need_either = 16,         // the runtime or the driver
};

// Where an experiment says what it saw. What is said reaches the parent at once.
class lab {
 public:
  lab(const libraries& opened, int answers) : cuda{opened}, answer_fd_{answers} {}

  const libraries& cuda;

  void saw(const std::string& text) const { say("seen", text); }  // several are joined by ", "
  void saw(int code) const { saw(text_of(code)); }
  void note(const std::string& text) const { say("note", text); }  // compared with nothing
  [[noreturn]] void skip(const std::string& reason) const;         // ends the process
  // What cannot be done without, or this is no experiment: ends the process where it is not 0.
  void must(int code, const char* what) const;

 private:
  void say(const char* kind, const std::string& text) const;
  int answer_fd_;
};

struct experiment {
  std::string name;  // topic.what
  std::string question;
  std::string expected;  // empty: told for information
  unsigned int needs = 0;
  std::function<void(const lab&)> run;
  bool alone = false;  // measures time or takes much memory: nothing runs beside it
};

using experiments = std::vector<experiment>;

// Each topic's, in the order of the report.
struct options_for_sizes {
  std::size_t largest_bytes;
};
experiments registration_experiments();
experiments pending_error_experiments();
experiments copy_experiments();
experiments context_experiments();
experiments lifetime_experiments();
experiments fork_experiments();
experiments exit_experiments();
experiments driverless_experiments();
experiments machine_experiments();
experiments nvml_experiments();
experiments size_experiments(options_for_sizes options);

}  // namespace numapool::gpu_probe
