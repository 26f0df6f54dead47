// SPDX-License-Identifier: Apache-2.0
//
// The program behind tests/gpu/probe: asks each experiment in a process of its own and compares
// what it sees with what the code and the fakes claim.

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "gpu/children.hpp"
#include "gpu/experiment.hpp"
#include "gpu/report.hpp"

namespace numapool::gpu_probe {
namespace {

using clock = std::chrono::steady_clock;

constexpr int exit_same = 0;
constexpr int exit_differs = 1;
constexpr int exit_usage = 2;
constexpr int exit_no_cuda = 77;

struct options {
  library_names libraries;
  std::vector<std::string> only;
  std::string output;
  std::string experiment;  // set in a child
  std::size_t largest_mib = 4096;
  unsigned int seconds = 90;
  unsigned int jobs = 4;
  bool as_json = false;
  bool lists = false;
};

const char* const usage = R"(Usage: probe [--build DIR] [options]

Finds out what this machine's CUDA runtime, driver and NVML answer, and compares it with what
numapool's code and the fakes of its tests claim. Under two minutes; needs a C++20 compiler.

Options:
  --build DIR     keep the program in DIR; one that is there and up to date is used
  --json          one JSON document instead of the table
  --output FILE   write to FILE; the summary still goes to the standard output
  --only PREFIX   only experiments whose name begins so; may be repeated
  --list          name the experiments with their questions, and ask nothing
  --largest MIB   the largest registration to time (4096)
  --seconds N     start no experiment after so many seconds (90)
  --jobs N        experiments at a time (4)
  --runtime FILE  libcudart; 'none' does without. Else NUMAPOOL_CUDART, else it is searched
  --driver FILE   libcuda; 'none' does without
  --nvml FILE     libnvidia-ml; 'none' does without. Else NUMAPOOL_NVML, else it is searched
  --help          show this help

Exit status: 0 all as claimed, 1 something differs, 2 bad usage, 77 there is no usable CUDA.
)";

[[noreturn]] void bad_usage(const std::string& what) {
  std::fprintf(stderr, "probe: %s; try '--help'.\n", what.c_str());
  std::exit(exit_usage);
}

unsigned int number(const std::string& name, const std::string& text) {
  char* end = nullptr;
  const unsigned long value = std::strtoul(text.c_str(), &end, 10);
  const bool is_number = !text.empty() && text[0] >= '0' && text[0] <= '9' && *end == '\0';
  if (!is_number || value == 0 || value > 1000000) {
    bad_usage(name + " needs a number from 1 on, not '" + text + "'");
  }
  return static_cast<unsigned int>(value);
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Takes an option that has a value; false where there is no such option.
bool take_value(options& chosen, const std::string& name, const std::string& value) {
  if (name == "--output") {
    chosen.output = value;
  } else if (name == "--only") {
    chosen.only.push_back(value);
  } else if (name == "--largest") {
    chosen.largest_mib = number(name, value);
  } else if (name == "--seconds") {
    chosen.seconds = number(name, value);
  } else if (name == "--jobs") {
    chosen.jobs = number(name, value);
  } else if (name == "--runtime") {
    chosen.libraries.runtime = value;
  } else if (name == "--driver") {
    chosen.libraries.driver = value;
  } else if (name == "--nvml") {
    chosen.libraries.nvml = value;
  } else if (name == "--experiment") {
    chosen.experiment = value;
  } else {
    return false;
  }
  return true;
}

options read_arguments(const std::vector<std::string>& arguments) {
  options chosen;
  chosen.libraries.runtime = environment("NUMAPOOL_CUDART");
  chosen.libraries.nvml = environment("NUMAPOOL_NVML");
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string name = arguments[i];
    if (name == "--help") {
      std::fputs(usage, stdout);
      std::exit(exit_same);
    }
    if (name == "--json" || name == "--list") {
      (name == "--json" ? chosen.as_json : chosen.lists) = true;
      continue;
    }
    const std::size_t equals = name.find('=');
    const bool has_value = name.substr(0, 2) == "--" && equals != std::string::npos;
    std::string value = has_value ? name.substr(equals + 1) : "";
    name = name.substr(0, equals);
    const bool has_next = !has_value && i + 1 < arguments.size();
    if (!take_value(chosen, name, has_value ? value : has_next ? arguments[i + 1] : "")) {
      bad_usage("unknown argument '" + arguments[i] + "'");
    }
    if (!has_value && !has_next) {
      bad_usage(name + " needs a value");
    }
    i += has_next ? 1 : 0;
  }
  return chosen;
}

experiments all_experiments(const options& chosen) {
  experiments all;
  const auto add = [&](experiments more) {
    std::move(more.begin(), more.end(), std::back_inserter(all));
  };
  add(machine_experiments());
  add(nvml_experiments());
  add(registration_experiments());
  add(pending_error_experiments());
  add(context_experiments());
  add(lifetime_experiments());
  add(fork_experiments());
  add(exit_experiments());
  add(copy_experiments());
  add(driverless_experiments());
  add(size_experiments({chosen.largest_mib << 20U}));
  return all;
}

bool is_chosen(const options& chosen, const std::string& name) {
  return chosen.only.empty() ||
         std::any_of(chosen.only.begin(), chosen.only.end(), [&](const std::string& prefix) {
           return name.compare(0, prefix.size(), prefix) == 0;
         });
}

// ---- The first question: what is there

constexpr const char* survey_name = "survey";

// Lines of "name text", read by the parent.
void answer_survey(const lab& asked) {
  const libraries& cuda = asked.cuda;
  asked.saw("runtime " + cuda.runtime_file);
  asked.saw("driver " + cuda.driver_file);
  asked.saw("nvml " + cuda.nvml_file);
  asked.saw("missing " + cuda.reasons);
  int count = 0;
  if (cuda.has_runtime()) {
    const int code = cuda.runtime.get_device_count(&count);
    asked.saw("runtime_code " + std::to_string(code));
  }
  if (cuda.has_driver()) {
    const int code = cuda.driver.init(0);
    asked.saw("driver_code " + std::to_string(code));
  }
}

struct survey {
  std::vector<fact> facts;
  bool has_runtime = false;
  bool has_driver = false;
  bool has_nvml = false;
  int runtime_code = -1;  // -1: not said
  int driver_code = -1;

  bool can_runtime() const { return has_runtime && runtime_code == 0; }
  bool can_driver() const { return has_driver && driver_code == 0; }
};

survey read_survey(const child_answer& answer) {
  survey found;
  std::string missing;
  for (const std::string& line : answer.seen) {
    const std::size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    const std::string text = line.substr(space + 1);
    if (name == "runtime_code") {
      found.runtime_code = std::atoi(text.c_str());
    } else if (name == "driver_code") {
      found.driver_code = std::atoi(text.c_str());
    } else if (name == "missing") {
      missing = text;
    } else {
      found.has_runtime |= name == "runtime" && !text.empty();
      found.has_driver |= name == "driver" && !text.empty();
      found.has_nvml |= name == "nvml" && !text.empty();
      found.facts.push_back({name, text.empty() ? "none" : text});
    }
  }
  const auto usable = [&](const char* name, bool is_there, int code, const char* function) {
    if (is_there && code != 0) {
      found.facts.push_back({name, std::string{function} + " answers " + text_of(code)});
    }
  };
  usable("unusable runtime", found.has_runtime, found.runtime_code, "cudaGetDeviceCount");
  usable("unusable driver", found.has_driver, found.driver_code, "cuInit");
  if (!missing.empty()) {
    found.facts.push_back({"missing", missing});
  }
  if (!answer.end.empty()) {
    found.facts.push_back({"survey", answer.end});
  }
  return found;
}

// Why an experiment cannot be asked here; empty: it can.
std::string obstacle(const experiment& one, const survey& found) {
  const bool lacks_driver = found.has_runtime && found.runtime_code == 35;
  if ((one.needs & need_missing_driver) != 0) {
    return lacks_driver ? "" : "only for a runtime that lacks its driver";
  }
  if ((one.needs & need_runtime) != 0 && !found.can_runtime()) {
    return "no usable runtime";
  }
  if ((one.needs & need_driver) != 0 && !found.can_driver()) {
    return "no usable driver";
  }
  if ((one.needs & need_either) != 0 && !found.can_runtime() && !found.can_driver()) {
    return "no usable CUDA";
  }
  return (one.needs & need_nvml) != 0 && !found.has_nvml ? "no NVML" : "";
}

// ---- Asking

std::string joined(const std::vector<std::string>& parts, const char* separator) {
  std::string text;
  for (const std::string& each : parts) {
    text += (text.empty() ? "" : separator) + each;
  }
  return text;
}

void judge(finding& found, const child_answer& answer) {
  std::vector<std::string> seen = answer.seen;
  found.note = joined(answer.notes, "; ");
  found.seconds = answer.seconds;
  if (seen.empty() && answer.end.empty()) {
    found.seen = answer.skipped.empty() ? "said nothing" : answer.skipped;
    found.judged = answer.skipped.empty() ? verdict::differs : verdict::not_asked;
    return;
  }
  for (const std::string& more : {answer.skipped, answer.end}) {
    if (!more.empty()) {
      seen.push_back(more);
    }
  }
  found.seen = joined(seen, ", ");
  const bool is_told = found.expected.empty() && answer.end.empty();
  found.judged = is_told                        ? verdict::told
                 : found.seen == found.expected ? verdict::same
                                                : verdict::differs;
}

class asker {
 public:
  asker(const options& chosen, const std::vector<std::string>& arguments)
      : chosen_{chosen}, arguments_{arguments} {}

  child_answer ask(const std::string& name) const {
    std::vector<std::string> all = arguments_;
    all.push_back("--experiment=" + name);
    // The first initialisation of several devices that nobody keeps awake takes longest.
    const std::chrono::seconds limit{name == survey_name ? 45 : 25};
    return ask_child(all, limit);
  }

  // Several at a time, then those that want to be alone.
  void ask_all(const experiments& list, std::vector<finding>& findings) const {
    std::atomic<std::size_t> next{0};
    const auto work = [&](bool alone) {
      for (std::size_t i = next++; i < list.size(); i = next++) {
        if (list[i].alone == alone && findings[i].seen.empty()) {
          ask_one(list[i], findings[i]);
        }
      }
    };
    std::vector<std::thread> threads;
    for (unsigned int i = 0; i < chosen_.jobs; ++i) {
      threads.emplace_back(work, false);
    }
    for (std::thread& each : threads) {
      each.join();
    }
    next = 0;
    work(true);
  }

 private:
  void ask_one(const experiment& one, finding& found) const {
    if (clock::now() - begin_ > std::chrono::seconds{chosen_.seconds}) {
      found.seen = "no time left";
      return;
    }
    judge(found, ask(one.name));
  }

  const options& chosen_;
  const std::vector<std::string>& arguments_;
  clock::time_point begin_ = clock::now();
};

[[noreturn]] void be_child(const options& chosen) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const libraries opened = open_libraries(chosen.libraries);
  const lab here{opened, answer_fd};
  if (chosen.experiment == survey_name) {
    answer_survey(here);
  }
  for (const experiment& one : all_experiments(chosen)) {
    if (one.name == chosen.experiment) {
      one.run(here);
    }
  }
  ::_exit(0);  // what the libraries do at the end of a process is asked elsewhere
}

void show(const options& chosen, const report& found, std::ofstream& file) {
  const std::string text = chosen.as_json ? json(found) : table(found);
  if (chosen.output.empty()) {
    std::fputs(text.c_str(), stdout);
    return;
  }
  file << text << std::flush;
  if (!file) {
    bad_usage("'" + chosen.output + "' cannot be written");
  }
  std::fputs(summary(found).c_str(), stdout);
}

int run(const std::vector<std::string>& arguments) {
  const options chosen =
      read_arguments(std::vector<std::string>{arguments.begin() + 1, arguments.end()});
  if (!chosen.experiment.empty()) {
    be_child(chosen);
  }
  experiments list = all_experiments(chosen);
  std::erase_if(list, [&](const experiment& one) { return !is_chosen(chosen, one.name); });
  if (list.empty()) {
    bad_usage("no experiment's name begins so");
  }
  if (chosen.lists) {
    for (const experiment& one : list) {
      std::printf("%-32s %s%s%s\n", one.name.c_str(), one.question.c_str(),
                  one.expected.empty() ? "" : ": ", one.expected.c_str());
    }
    return exit_same;
  }
  std::ofstream file;
  if (!chosen.output.empty()) {
    file.open(chosen.output);  // now, so that nobody waits for what cannot be written
    if (!file) {
      bad_usage("'" + chosen.output + "' cannot be written");
    }
  }
  const auto begin = clock::now();
  const asker asks{chosen, arguments};
  const survey here = read_survey(asks.ask(survey_name));
  if (!here.has_runtime && !here.has_driver) {
    for (const fact& each : here.facts) {
      std::fprintf(stderr, "probe: %s: %s\n", each.name.c_str(), each.text.c_str());
    }
    std::fputs("probe: there is no CUDA library here, so nothing was asked.\n", stderr);
    return exit_no_cuda;
  }
  report found;
  found.facts = here.facts;
  for (const experiment& one : list) {
    found.findings.push_back(
        {one.name, one.question, one.expected, obstacle(one, here), "", verdict::not_asked, 0});
  }
  asks.ask_all(list, found.findings);
  found.seconds = std::chrono::duration<double>(clock::now() - begin).count();
  show(chosen, found, file);
  if (found.count(verdict::differs) != 0) {
    return exit_differs;
  }
  if (!here.can_runtime() && !here.can_driver()) {
    std::fputs("probe: no CUDA here can be used.\n", stderr);
    return exit_no_cuda;
  }
  return exit_same;
}

}  // namespace
}  // namespace numapool::gpu_probe

int main(int count, char** arguments) {
  return numapool::gpu_probe::run(std::vector<std::string>{arguments, arguments + count});
}
