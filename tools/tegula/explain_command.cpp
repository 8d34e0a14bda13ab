// tegula explain FILE::KERNEL: what a launch costs and why; of several, whether they should be one kernel.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>

#include "dsl/explain.h"
#include "dsl/tegula.h"
#include "tools/tegula/arguments.h"
#include "tools/tegula/commands.h"
#include "tools/tegula/launch_values.h"

namespace tegula::cli {

namespace {

/// A kernel with its launch.
struct LaunchWords {
  std::string kernel;
  std::string grid = "1";
  LaunchTexts launch;

  void add_to(CLI::App& app) {
    app.add_option("KERNEL", kernel, "FILE::KERNEL; FILE alone if it has one kernel beside helpers")->required();
    app.add_option("--grid", grid, "Programs to start: 64, cdiv(n, BLOCK), or up to three of these: rows, batch")
        ->capture_default_str();
    launch.add_options(app);
  }
};

struct Options {
  LaunchWords first;
  std::vector<std::string> then, keep;
  bool measure = false, json = false;
  std::string svg;
};

/// Addresses for arrays that no data is given for: far apart, and the same for one name.
class Addresses {
 public:
  uint64_t of(const std::string& name) {
    return known_.try_emplace(name, (uint64_t(known_.size()) + 1) << 44).first->second;
  }
  std::vector<uint64_t> all(const std::vector<std::string>& names) const {
    std::vector<uint64_t> found;
    for (const std::string& name : names) {
      const auto it = known_.find(name);
      if (it == known_.end())
        throw UsageError(
            fmt::format("--keep '{0}': no kernel has an array of that name; name one by --arg x='*f32@{0}'", name));
      found.push_back(it->second);
    }
    return found;
  }

 private:
  std::map<std::string, uint64_t> known_;
};

/// The arguments of one launch, and what they live in.
struct Prepared {
  std::vector<Arg> args;
  std::unique_ptr<LaunchValues> values;
};

/// Takes "x='*f32'" and "x='*f32@name'" out of the scalars, since no data stands behind them.
std::map<std::string, std::pair<Elem, std::string>> take_pointers(LaunchTexts& texts) {
  std::map<std::string, std::pair<Elem, std::string>> pointers;
  std::erase_if(texts.scalars, [&](const std::string& text) {
    auto [name, value] = split_assignment(text, "--arg");
    if (!value.starts_with('*')) return false;
    const size_t at = value.find('@');
    const auto elem = elem_from_text(value.substr(1, at == std::string::npos ? at : at - 1));
    if (!elem)
      throw UsageError(fmt::format("--arg '{}': '{}' is no type of a pointer; expected *f32, *bf16, ...", text, value));
    pointers[name] = {*elem, at == std::string::npos ? name : value.substr(at + 1)};
    return true;
  });
  return pointers;
}

Prepared prepare(LaunchTexts texts, const Kernel& kernel, Device* device, Addresses& addresses) {
  const auto pointers = take_pointers(texts);
  for (const auto& [name, pointer] : pointers) {
    check_argument_name(kernel, name);
    texts.scalars.push_back(name + "=None");
  }
  texts.takes_types = true;
  Prepared out;
  out.values = std::make_unique<LaunchValues>(texts, kernel);
  for (const auto& [name, pointer] : pointers)
    out.values->items()[name].scalar = Arg::pointer(addresses.of(pointer.second), pointer.first);
  out.args = out.values->upload(*device, kernel);
  return out;
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text << std::flush;
  if (!out) throw FileError(fmt::format("cannot write '{}': {}", path, std::strerror(errno)));
}

/// The launches of --then, each a command line of its own.
std::vector<std::unique_ptr<LaunchWords>> later_launches(const Options& o) {
  std::vector<std::unique_ptr<LaunchWords>> all;
  for (const std::string& text : o.then) {
    CLI::App app("--then");
    auto words = std::make_unique<LaunchWords>();
    words->add_to(app);
    std::vector<std::string> line = split_words(text);
    std::reverse(line.begin(), line.end());  // as CLI11 takes them
    try {
      app.parse(line);
    } catch (const CLI::ParseError& e) {
      throw UsageError(fmt::format("--then '{}': {}", text, e.what()));
    }
    all.push_back(std::move(words));
  }
  return all;
}

int explain_command(const Options& o) {
  std::string why;
  LaunchTexts where = o.first.launch;
  std::string target = where.target;
  where.target.clear();
  if (!target.empty() && where.device.empty()) where.device = "emulator";
  if (where.device == "emulator") where.target = target;
  std::shared_ptr<Device> device = open_device(where, why);  // outlives the kernels and buffers below
  if (o.measure && device->info().emulator) throw UsageError("--measure takes a GPU: the emulator times nothing");

  const auto later = later_launches(o);
  std::vector<const LaunchWords*> all = {&o.first};
  for (const auto& words : later) all.push_back(words.get());
  Addresses addresses;
  std::vector<Prepared> prepared;
  std::vector<Explanation> launches;
  const ExplainOptions how{.target = target, .device = device.get(), .measure = o.measure};
  for (const LaunchWords* words : all) {
    const KernelName name = parse_kernel_name(words->kernel);
    Kernel kernel = find_kernel(load_program(name.file, words->launch.globals, words->launch.import_folders), name);
    prepared.push_back(prepare(words->launch, kernel, device.get(), addresses));
    const std::vector<Arg>& args = prepared.back().args;
    auto grid = [&, expression = parse_grid(words->grid)](const Config& c) {
      return expression(grid_names(kernel, args, c));
    };
    launches.push_back(explain(kernel, detail::GridRef(grid),
                               with_constexprs(words->launch.options, words->launch.constexprs), args, how));
  }
  if (!o.svg.empty()) write_file(o.svg, launches[0].roofline_svg());
  const std::vector<uint64_t> kept = addresses.all(o.keep);
  const bool alone = launches.size() == 1;
  if (o.json) {
    std::vector<std::string> kernels;
    for (const Explanation& e : launches) kernels.push_back(e.json());
    if (alone)
      fmt::print("{}\n", kernels[0]);
    else
      fmt::print("{{\"kernels\": [{}], \"fusion\": {}}}\n", fmt::join(kernels, ", "),
                 advise_fusion(launches, kept).json());
    return 0;
  }
  for (const Explanation& e : launches) fmt::print("{}{}", e.text(), alone ? "" : "\n");
  if (!alone) fmt::print("{}", advise_fusion(launches, kept).text());
  return 0;
}

}  // namespace

Command add_explain(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("explain", "Say what a launch costs and why, without running it");
  auto o = std::make_shared<Options>();
  o->first.add_to(*app);
  app->add_option("--then", o->then,
                  "Another kernel that runs behind it, with its options, in quotes: should they be one kernel?")
      ->allow_extra_args(false);
  app->add_option("--keep", o->keep, "An array that is read behind all of them although one of them reads it")
      ->allow_extra_args(false);
  app->add_flag("--measure", o->measure,
                "Launch and time it as well, on a GPU, with arrays of --in, --random and --zeros");
  app->add_flag("--json", o->json, "JSON instead of text");
  app->add_option("--svg", o->svg, "A file for the roofline plot of the first kernel");
  app->footer(
      "A pointer needs no data unless the kernel's addresses follow from it: --arg x='*f32'. Where several kernels "
      "share "
      "an array,\nit has a name: --arg x='*f32@hidden'. --target says which GPU is meant: a row of targets.def.\n\n"
      "Examples:\n"
      "  tegula explain softmax.py::softmax --grid 8192 --arg out_ptr='*bf16' --arg x_ptr='*bf16' \\\n"
      "      --arg cols=4096 --constexpr BLOCK=4096 --target sm_90a --svg roofline.svg\n"
      "  tegula explain ops.py::scale --grid 64 --arg x='*f32' --arg y='*f32@t' \\\n"
      "      --then \"ops.py::bias --grid 64 --arg x='*f32@t' --arg y='*f32'\"");
  return {app, [o] { return explain_command(*o); }};
}

}  // namespace tegula::cli
