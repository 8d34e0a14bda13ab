// tegula debug FILE::KERNEL: runs one kernel on the emulator, records one of its programs, and answers questions about
// it.
#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <optional>
#include <sstream>

#include "codegen/exec/debug/debugger.h"
#include "codegen/exec/emulator.h"
#include "dsl/tegula.h"
#include "runtime/base/files.h"
#include "tools/tegula/arguments.h"
#include "tools/tegula/commands.h"
#include "tools/tegula/json.h"
#include "tools/tegula/launch_values.h"

namespace tegula::cli {

namespace {

struct Options {
  std::string kernel;
  std::string grid = "1";
  std::string program = "0";
  std::vector<std::string> commands;
  std::string record, replay;
  uint64_t order = 0;
  int64_t memory = 1024;
  bool json = false;
  LaunchTexts launch;
};

Grid parse_program(const std::string& text) {
  unsigned at[3] = {0, 0, 0};
  size_t axis = 0;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ','); ++axis) {
    const bool is_number = !word.empty() && word.size() < 10 && word.find_first_not_of("0123456789") == word.npos;
    if (axis == 3 || !is_number)
      throw UsageError(fmt::format("--program '{}': expected one to three indices, as 3 or 3,0,1", text));
    at[axis] = unsigned(std::stoul(word));
  }
  return {at[0], at[1], at[2]};
}

/// Runs the kernel; a launch that ends early is a recording too.
void record(const Options& o, Recording& recording) {
  if (o.launch.device == "gpu")
    throw UsageError("tegula debug runs kernels on the emulator; --device gpu is not for it");
  const KernelName name = parse_kernel_name(o.kernel);
  const GridExpression grid = parse_grid(o.grid);
  const Grid program = parse_program(o.program);
  EmulatorOptions emulator;
  if (!o.launch.target.empty()) emulator.target = o.launch.target;
  emulator.check_races = emulator.check_nans = o.launch.check;
  emulator.seed = o.order;
  const auto device = make_emulator(emulator);  // outlives the kernels and buffers below
  Program source = load_program(name.file, o.launch.globals, o.launch.import_folders);
  Kernel kernel = find_kernel(source, name);
  LaunchOptions options = with_constexprs(o.launch.options, o.launch.constexprs);
  options.debug = 2;
  LaunchValues values(o.launch, kernel);
  std::vector<Arg> args = values.upload(*device, kernel);
  auto extents = [&](const Config& c) { return grid(grid_names(kernel, args, c)); };
  const Kernel::Ready ready = kernel.ready(*device, detail::GridRef(extents), options, args);
  const Grid all = extents(*ready.config);
  if (program.x >= all.x || program.y >= all.y || program.z >= all.z)
    throw UsageError(fmt::format("--program ({}, {}, {}) is not in the grid of {} x {} x {} programs", program.x,
                                 program.y, program.z, all.x, all.y, all.z));
  device->record_program(&recording, program);
  std::optional<KernelPrints> prints;
  if (o.json) prints.emplace();
  try {
    kernel.launch(*device, detail::GridRef(extents), options, std::span<const Arg>(args));
    device->synchronize();
  } catch (const DeviceError& e) {
    if (recording.error().empty()) recording.end(e.what());
  }
}

/// The place that the program begins at, with what the launch has printed.
void tell_begin(Debugger& debugger, bool json) {
  const DebuggerAnswer answer = debugger.execute("where");
  if (!json) return fmt::print("{}", answer.text);
  Json told = Json::parse(answer.json);
  told["prints"] = KernelPrints::lines();
  print_line(told);
}

/// False where the command was wrong.
bool answer(Debugger& debugger, const std::string& command, bool json) {
  const DebuggerAnswer answer = debugger.execute(command);
  fmt::print("{}", json ? answer.json + "\n" : answer.text);
  std::fflush(stdout);
  return !answer.is_error;
}

int debug_command(const Options& o) {
  if (o.kernel.empty() == o.replay.empty()) throw UsageError("tegula debug takes a KERNEL, or a recording by --replay");
  if (o.memory < 1) throw UsageError(fmt::format("--memory {}: expected a number of MiB from 1 on", o.memory));
  Recording recording(size_t(o.memory) << 20);
  if (o.replay.empty())
    record(o, recording);
  else
    recording = Recording::load(read_text(o.replay), o.replay);
  if (!o.record.empty()) replace_file(o.record, recording.save());

  Debugger debugger(recording);
  tell_begin(debugger, o.json);
  std::fflush(stdout);
  bool all_right = true;
  for (const std::string& command : o.commands) {
    if (!o.json) fmt::print("(tegula) {}\n", command);
    all_right = answer(debugger, command, o.json) && all_right;
  }
  if (!o.commands.empty() || !o.record.empty()) return all_right ? 0 : 2;
  const bool prompts = isatty(STDIN_FILENO) && !o.json;
  for (std::string line; !debugger.is_over();) {
    if (prompts) fmt::print("(tegula) "), std::fflush(stdout);
    if (!std::getline(std::cin, line)) break;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    all_right = answer(debugger, line, o.json) && all_right;
  }
  return all_right || prompts ? 0 : 2;
}

}  // namespace

Command add_debug(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("debug", "Run one kernel on the emulator and look at a program step by step");
  auto o = std::make_shared<Options>();
  app->add_option("KERNEL", o->kernel, "FILE::KERNEL; FILE alone if it has one kernel beside helpers");
  app->add_option("--grid", o->grid, "Programs to start: 64, cdiv(n, BLOCK), or up to three of these: rows, batch")
      ->capture_default_str();
  app->add_option("--program", o->program, "The program to look at: its index, or up to three: 3,0,1")
      ->capture_default_str();
  app->add_option("--command", o->commands, "A command of the debugger; else they are read from standard input")
      ->allow_extra_args(false);
  o->launch.add_options(*app);
  app->add_option("--order", o->order, "Seed of the order in which threads run; 0: in order")->capture_default_str();
  app->add_flag("--check", o->launch.check, "With all checks of the emulator, as tegula run --check");
  app->add_option("--record", o->record, "Write the recording to a file, for --replay");
  app->add_option("--replay", o->replay, "Look at a recording in place of running a kernel");
  app->add_option("--memory", o->memory, "MiB that recorded values may take")->capture_default_str();
  app->add_flag("--json", o->json, "Answer each command with a line of JSON");
  app->footer(
      std::string(kLaunchHelp) +
      "The program is recorded from its beginning to its end, so that steps go back as well. The command 'help' "
      "lists what\nthe debugger knows; docs/debugging.md tells more.\n\n"
      "Examples:\n"
      "  tegula debug softmax.py::softmax --grid 64 --program 3 --random x_ptr=f32[64,1000] \\\n"
      "      --zeros out_ptr=f32[64,1000] --arg cols=1000 --constexpr BLOCK=1024\n"
      "  tegula debug ... --command 'break 12' --command continue --command 'print e[0:8]' --json\n"
      "  tegula debug ... --record run.tgr ; tegula debug --replay run.tgr --command 'picture acc acc.svg'");
  return {app, [o] { return debug_command(*o); }};
}

}  // namespace tegula::cli
