// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs the scenario program in a fresh process and hands back what it printed. Threads: not for concurrent use with
// setenv.

#include <cstdio>
#include <cstdlib>
#include <string>

namespace numapool::test {

struct scenario_output {
  std::string text;
  int status = -1;  // of the shell; 0 when the program ended well

  // The value of a "key=value" line; empty when there is none.
  [[nodiscard]] std::string value(const std::string& key) const {
    const std::string start = "\n" + key + "=";
    const std::string all = "\n" + text;
    const std::size_t at = all.find(start);
    if (at == std::string::npos) {
      return {};
    }
    const std::size_t begin = at + start.size();
    return all.substr(begin, all.find('\n', begin) - begin);
  }
};

// `environment` is a shell prefix, "A='b' C='d'". Words must need no quoting beyond it.
inline scenario_output run_scenario(const std::string& environment, const std::string& program,
                                    const std::string& arguments) {
  scenario_output output;
  const std::string command = environment + " '" + program + "' " + arguments + " 2>&1";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) {
    return output;
  }
  for (int letter = std::fgetc(pipe); letter != EOF; letter = std::fgetc(pipe)) {
    output.text += static_cast<char>(letter);
  }
  output.status = ::pclose(pipe);
  return output;
}

}  // namespace numapool::test
