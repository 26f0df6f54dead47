// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "cli/descriptor_output.hpp"
#include "cli/errors.hpp"
#include "cli/near_match.hpp"

namespace numapool::cli {

void write_json(std::ostream& out, const nlohmann::ordered_json& document) {
  out << document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
  flush_or_throw(out);
}

void flush_or_throw(std::ostream& out) {
  out.flush();
  if (!out) {
    const auto* const file = dynamic_cast<const descriptor_output*>(out.rdbuf());
    const int error_number = file != nullptr ? file->error_number() : 0;
    throw output_error("the standard output", error_number != 0 ? error_number : EIO);
  }
}

void console::set_gates(const std::function<bool(int descriptor)>& may_write) {
  for (std::ostream* const stream : {&out, &err}) {
    if (auto* const file = dynamic_cast<descriptor_output*>(stream->rdbuf())) {
      file->set_gate(may_write);
    }
  }
}

namespace {

constexpr const char* footer_text =
    "Sizes: 4096, 64KiB, 1.5GiB (units of 1024), 2GB (units of 1000); 64K alone is refused.\n"
    "Exit status: 0 done; 1 it could not be done; 2 the command line is wrong; 128 + the number "
    "of\n"
    "the signal that ended the command early.\n"
    "\n"
    "Example:\n"
    "  numapool topology";

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) {
    names.push_back(command->get_name());
  }
  return names;
}

// The first word that nothing takes; CLI11 would list all that follow it, last one first.
std::string unexpected_word(const CLI::App& app) {
  const std::vector<std::string> unknown = app.remaining(true);
  const std::string word = unknown.empty() ? std::string() : unknown.front();
  const auto chosen = app.get_subcommands();
  const bool is_option = word.starts_with('-');
  if (!is_option && !chosen.empty()) {
    return "'" + word + "' is not expected here";
  }
  const std::string near = near_match(
      word.substr(0, word.find('=')),
      is_option ? option_names(chosen.empty() ? app : *chosen.front()) : command_names(app));
  return std::string(is_option ? "no option '" : "no command '") + word + "'" +
         (near.empty() ? "" : " (did you mean '" + near + "'?)");
}

// CLI11's own words are not always one sentence.
std::string sentence_of(const CLI::ParseError& wrong) {
  std::string sentence = wrong.what();
  if (wrong.get_name() == "ArgumentMismatch") {
    sentence = sentence.substr(0, sentence.find(':')) + ": wants exactly one value, once";
  }
  std::replace(sentence.begin(), sentence.end(), '\n', ' ');
  return sentence;
}

std::string with_way_out(const CLI::App& app, const std::string& sentence) {
  const auto chosen = app.get_subcommands();
  const std::string command =
      chosen.empty() ? std::string("numapool") : "numapool " + chosen.front()->get_name();
  return sentence + "; '" + command + " --help' shows what can be written";
}

void tell(const report& what, bool as_json, console& where) {
  if (as_json && what.exit_status != exit_usage && where.out.good()) {
    write_json(where.out, error_document(what));
    return;
  }
  where.err << "numapool: " << what.message << "\n" << std::flush;
}

int parse_and_run(int argc, const char* const* argv, console& where, chosen_command& chosen) {
  CLI::App app(
      "Puts host memory on the right NUMA node, resident and pinned, and shows the machine.",
      "numapool");
  app.set_version_flag("--version", std::string("numapool ") + NUMAPOOL_VERSION,
                       "Print the version and exit");
  app.set_help_flag("--help,-h", "Print this help and exit");
  app.footer(footer_text);
  register_topology(app, chosen);
  register_devices(app, chosen);
  register_allocate(app, chosen);
  register_doctor(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& shown) {   // --help, --version
    if (app.remaining_size(true) != 0) {  // of what is no command there is no help
      throw usage_error(with_way_out(app, unexpected_word(app)));
    }
    app.exit(shown, where.out, where.err);
    flush_or_throw(where.out);
    return exit_done;
  } catch (const CLI::ExtrasError&) {
    throw usage_error(with_way_out(app, unexpected_word(app)));
  } catch (const CLI::ParseError& wrong) {
    throw usage_error(with_way_out(app, sentence_of(wrong)));
  }
  if (!chosen.run) {  // CLI11's require_subcommand() would say so of a misspelt one too
    throw usage_error("no command was named; 'numapool --help' lists them");
  }
  return chosen.run(where);
}

}  // namespace

int run_command_line(int argc, const char* const* argv, console& where) noexcept {
  chosen_command chosen;
  try {
    return parse_and_run(argc, argv, where, chosen);
  } catch (...) {
    const report what = report_current_exception();
    try {
      tell(what, chosen.json, where);
    } catch (...) {
      // There is nowhere left to say it: the exit status alone speaks.
    }
    return what.exit_status;
  }
}

}  // namespace numapool::cli
