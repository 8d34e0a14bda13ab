// What the subcommands share: how the texts of a command line read (dsl/listing/texts.h), and the options of a launch.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "dsl/listing/texts.h"

namespace tegula::cli {

/// What was written on the command line does not make sense.
using UsageError = dsl::TextError;

using dsl::check_argument_name;
using dsl::complete_options;
using dsl::find_kernel;
using dsl::kAssumedInteger;
using dsl::KernelName;
using dsl::load_program;
using dsl::parse_arg_types;
using dsl::parse_constexpr;
using dsl::parse_kernel_name;
using dsl::parse_scalar;
using dsl::read_text;
using dsl::split_assignment;
using dsl::split_words;
using dsl::with_constexprs;

/// After a mistake about pointers: a line that names the arguments whose type was not given, so
/// that they are int32; empty if there are none.
std::string note_of_untyped(const Kernel& kernel, const std::vector<std::string>& args, const CompileError& mistake);

/// Adds --global and --import: how the names of a file that are not its own are found.
void add_source_options(CLI::App& app, std::vector<std::string>& globals, std::vector<std::string>& import_folders);

/// Adds --num-warps, --num-stages, ...: a flag for each option of options.def that can have several values; and
/// --no-fp-fusion, --no-dependent-launch and --cooperative-grid.
void add_launch_options(CLI::App& app, LaunchOptions& options);

}  // namespace tegula::cli
