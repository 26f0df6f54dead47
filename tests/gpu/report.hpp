// SPDX-License-Identifier: Apache-2.0
#pragma once

// What was found, as a table for people or one JSON document. Threads: values; safe.

#include <string>
#include <vector>

namespace numapool::gpu_probe {

enum class verdict { same, differs, told, not_asked };

struct finding {
  std::string name;
  std::string question;
  std::string expected;  // empty: nothing is claimed
  std::string seen;      // why nothing was, where it was not asked
  std::string note;
  verdict judged = verdict::not_asked;
  double seconds = 0;
};

// What stands above the findings, in order.
struct fact {
  std::string name;
  std::string text;
};

struct report {
  std::vector<fact> facts;
  std::vector<finding> findings;
  double seconds = 0;

  std::size_t count(verdict which) const;
};

std::string word_for(verdict which);
std::string summary(const report& shown);
std::string table(const report& shown);  // ends with the summary
std::string json(const report& shown);

}  // namespace numapool::gpu_probe
