// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"

#include <algorithm>
#include <cerrno>
#include <string>

#include "cli/errors.hpp"

namespace numapool::cli {

void write_json(std::ostream& out, const nlohmann::ordered_json& document) {
  out << document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
  flush_or_throw(out);
}

void flush_or_throw(std::ostream& out) {
  errno = 0;
  out.flush();
  if (!out) {
    const int error_number = errno != 0 ? errno : EIO;
    throw output_error("the standard output", error_number);
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

// What is wrong as one sentence with the way out: CLI11's own words are not always one.
std::string usage_sentence(const CLI::App& app, const CLI::ParseError& wrong) {
  std::string sentence = wrong.what();
  const std::string kind = wrong.get_name();
  if (kind == "ArgumentMismatch") {
    sentence = sentence.substr(0, sentence.find(':')) + ": wants exactly one value, once";
  } else if (kind == "ExtrasError") {
    sentence = "not expected here:" + sentence.substr(sentence.find(':') + 1);
  }
  std::replace(sentence.begin(), sentence.end(), '\n', ' ');
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
  } catch (const CLI::Success& shown) {  // --help, --version
    app.exit(shown, where.out, where.err);
    flush_or_throw(where.out);
    return exit_done;
  } catch (const CLI::ParseError& wrong) {
    throw usage_error(usage_sentence(app, wrong));
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
