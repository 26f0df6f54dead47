// SPDX-License-Identifier: Apache-2.0
#include "gpu/report.hpp"

#include <algorithm>
#include <cstdio>

namespace numapool::gpu_probe {
namespace {

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text + "  ";
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      out += '\\';
      out += letter;
    } else if (code < 0x20 || code > 0x7e) {  // a driver's text might be in any encoding
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", code);
      out += escaped;
    } else {
      out += letter;
    }
  }
  return out + "\"";
}

std::string tenths(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", seconds);
  return text;
}

}  // namespace

std::size_t report::count(verdict which) const {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(),
                    [which](const finding& each) { return each.judged == which; }));
}

std::string word_for(verdict which) {
  switch (which) {
    case verdict::same:
      return "same";
    case verdict::differs:
      return "DIFFERS";
    case verdict::told:
      return "told";
    case verdict::not_asked:
      break;
  }
  return "not-asked";
}

std::string summary(const report& shown) {
  return std::to_string(shown.findings.size()) +
         " experiments: " + std::to_string(shown.count(verdict::same)) + " as claimed, " +
         std::to_string(shown.count(verdict::differs)) + " differ, " +
         std::to_string(shown.count(verdict::told)) + " told, " +
         std::to_string(shown.count(verdict::not_asked)) + " not asked; " + tenths(shown.seconds) +
         " s\n";
}

std::string table(const report& shown) {
  std::size_t width = 0;
  for (const finding& each : shown.findings) {
    width = std::max(width, each.name.size());
  }
  std::string out;
  for (const fact& each : shown.facts) {
    out += padded(each.name, 16) + each.text + "\n";
  }
  out += "\n";
  const std::string indent = padded("", 9) + padded("", width);
  for (const finding& each : shown.findings) {
    const auto line = [&out](const std::string& margin, const char* label,
                             const std::string& text) {
      out += margin;
      out += label;
      out += text;
      out += '\n';
    };
    line(padded(word_for(each.judged), 9) + padded(each.name, width), "", each.seen);
    if (each.judged == verdict::differs) {
      line(indent, "claimed: ", each.expected);
      line(indent, "asked: ", each.question);
    }
    if (!each.note.empty()) {
      line(indent, "", each.note);
    }
  }
  return out + "\n" + summary(shown);
}

std::string json(const report& shown) {
  std::string out = "{\n  \"libraries\": {";
  for (std::size_t i = 0; i < shown.facts.size(); ++i) {
    out += (i == 0 ? "" : ", ") + quoted(shown.facts[i].name) + ": " + quoted(shown.facts[i].text);
  }
  out += "},\n  \"experiments\": [";
  for (std::size_t i = 0; i < shown.findings.size(); ++i) {
    const finding& each = shown.findings[i];
    out += std::string{i == 0 ? "" : ","} + "\n    {\"name\": " + quoted(each.name) +
           ", \"question\": " + quoted(each.question) +
           ", \"expected\": " + (each.expected.empty() ? "null" : quoted(each.expected)) +
           ", \"seen\": " + quoted(each.seen) + ", \"note\": " + quoted(each.note) +
           ", \"verdict\": " + quoted(word_for(each.judged)) +
           ", \"seconds\": " + tenths(each.seconds) + "}";
  }
  out += "\n  ],\n  \"summary\": {\"same\": " + std::to_string(shown.count(verdict::same)) +
         ", \"differs\": " + std::to_string(shown.count(verdict::differs)) +
         ", \"told\": " + std::to_string(shown.count(verdict::told)) +
         ", \"not_asked\": " + std::to_string(shown.count(verdict::not_asked)) +
         ", \"seconds\": " + tenths(shown.seconds) + "}\n}\n";
  return out;
}

}  // namespace numapool::gpu_probe
