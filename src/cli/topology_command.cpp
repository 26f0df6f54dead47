// SPDX-License-Identifier: Apache-2.0
// numapool topology: the machine's nodes, and what this process may use of them.
#include <cerrno>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "cli/command.hpp"
#include "cli/errors.hpp"
#include "cli/recorded_machine.hpp"
#include "cli/topology_facts.hpp"

namespace numapool::cli {

namespace {

struct topology_arguments {
  std::string sysroot;
  std::string save;
  std::string svg;
  bool json = false;
};

void write_file(const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) {
    throw output_error(path, errno != 0 ? errno : EIO);
  }
}

int show_topology(const topology_arguments& asked, console& where) {
  const topology_options options{asked.sysroot};
  const topology_facts machine =
      read_recorded(asked.sysroot, [&options] { return facts_of(topology::read(options)); });
  if (!asked.save.empty()) {
    save_machine(asked.save, options);
  }
  if (!asked.svg.empty()) {
    write_file(asked.svg, topology_svg(machine));
  }
  if (asked.json) {
    write_json(where.out, topology_json(machine));
  } else {
    where.out << topology_text(machine);
    flush_or_throw(where.out);
  }
  return exit_done;
}

}  // namespace

void register_topology(CLI::App& app, chosen_command& chosen) {
  auto asked = std::make_shared<topology_arguments>();
  CLI::App* command =
      app.add_subcommand("topology", "Show the NUMA nodes, and what this process may use of them");
  command
      ->add_option("--sysroot", asked->sysroot,
                   "Show the machine recorded in DIR/sys and DIR/proc instead of this one")
      ->type_name("DIR");
  command
      ->add_option("--save", asked->save,
                   "Also record the machine in DIR, for --sysroot to read somewhere else")
      ->type_name("DIR");
  command->add_option("--svg", asked->svg, "Also draw the machine into FILE, as SVG")
      ->type_name("FILE");
  command->add_flag("--json", asked->json, "Print one JSON document instead of tables");
  command->footer(
      "Examples:\n"
      "  numapool topology\n"
      "  numapool topology --save machine --svg machine.svg\n"
      "  numapool topology --sysroot machine --json");
  command->callback([asked, &chosen, command] {
    for (const char* option : {"--sysroot", "--save", "--svg"}) {
      if (command->count(option) != 0 && command->get_option(option)->as<std::string>().empty()) {
        throw usage_error(std::string(option) + ": '' is no path; write the name of a " +
                          (std::string(option) == "--svg" ? "file" : "folder"));
      }
    }
    chosen.json = asked->json;
    chosen.run = [asked](console& where) {
      return show_topology(*asked, where);
    };
  });
}

}  // namespace numapool::cli
