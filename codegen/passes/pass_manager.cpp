#include "codegen/passes/pass_manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <span>
#include <sstream>

#include "codegen/analysis/shared_hazards.h"
#include "codegen/ir/printer.h"
#include "codegen/ir/verify_steps.h"
#include "runtime/base/check.h"

namespace tegula {

namespace {

// Whether the function satisfies the stage. The order of accesses to shared memory is checked by the analysis that the
// barriers were inserted by.
bool holds(const ir::Func& func, ir::Stage stage, Diagnostics& broken) {
  return ir::verify(func, stage, broken) &&
         (!ir::kVerifyEachStep || stage != ir::Stage::Ordered || verify_order(func, broken));
}

void check_valid(const ir::Func& func, const PassInfo& pass) {
  Diagnostics broken;
  TEGULA_CHECK(holds(func, pass.after, broken), "pass {} broke the function\n{}---- after\n{}",
               ir::kVerifyEachStep ? pass.name : "pipeline", broken.render(), ir::print(func));
}

// The pass that TEGULA_FAIL makes fail, to test what users see of internal errors; usually none.
std::string asked_to_fail() {
  const char* name = std::getenv("TEGULA_FAIL");
  return name ? name : "";
}

// The passes up to stage_operands.
std::span<const PassInfo> staging() {
  const std::span<const PassInfo> all = pass_table();
  const auto last = std::ranges::find(all, &passes::stage_operands, &PassInfo::run);
  return all.first(size_t(last - all.begin()) + 1);
}

bool run_passes(std::span<const PassInfo> passes, ir::Func& func, PassContext& context, const DumpCallback& dump,
                std::vector<PassTime>* times) {
  for (const PassInfo& pass : passes) {
    auto start = std::chrono::steady_clock::now();
    size_t reported = context.diags.size();
    TEGULA_CHECK(pass.name != asked_to_fail(), "TEGULA_FAIL names the pass {}", pass.name);
    pass.run(func, context);
    std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    if (times) times->push_back({pass.name, elapsed.count()});
    for (size_t i = reported; i < context.diags.size(); ++i)
      if (context.diags.list()[i].severity == Severity::Error) return false;
    if (dump) dump(pass.name, ir::print(func));
    if (ir::kVerifyEachStep || &pass == &pass_table().back()) check_valid(func, pass);
  }
  return true;
}

}  // namespace

bool run_passes(ir::Func& func, PassContext& context, const DumpCallback& dump, std::vector<PassTime>* times) {
  return ir::verify(func, pass_table().front().before, context.diags) &&
         run_passes(pass_table(), func, context, dump, times);
}

bool run_passes_up_to_staging(ir::Func& func, PassContext& context) {
  return ir::verify(func, pass_table().front().before, context.diags) &&
         run_passes(staging(), func, context, {}, nullptr);
}

bool run_passes_behind_staging(ir::Func& func, PassContext& context) {
  return run_passes(std::span<const PassInfo>(pass_table()).subspan(staging().size()), func, context, {}, nullptr);
}

namespace {

void warn_of_unknown(const std::set<std::string>& names) {
  std::vector<std::string> known = {"all"};
  for (const PassInfo& pass : pass_table()) known.push_back(pass.name);
  for (const char* stage : kStages) known.push_back(stage);
  static std::mutex mutex;
  static std::set<std::string> warned;
  std::lock_guard lock(mutex);
  for (const std::string& name : names) {
    if (name.empty() || std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (!warned.insert(name).second) continue;
    auto near = nearest_name(name, known);
    fmt::print(stderr, "tegula: warning: TEGULA_DUMP: no pass is called '{}'\n  hint: {}\n", name,
               near ? fmt::format("did you mean '{}'?", *near) : fmt::format("known are {}", fmt::join(known, ", ")));
  }
}

}  // namespace

bool dump_requested() {
  const char* asked = std::getenv("TEGULA_DUMP");
  return asked && *asked;
}

DumpCallback dump_from_environment() {
  if (!dump_requested()) return {};
  std::set<std::string> names;
  std::istringstream list{std::getenv("TEGULA_DUMP")};
  for (std::string name; std::getline(list, name, ',');) names.insert(name);
  warn_of_unknown(names);
  return [names](const std::string& pass, const std::string& text) {
    if (names.contains("all") || names.contains(pass))
      std::fputs(fmt::format("// ---- after {}\n{}", pass, text).c_str(), stderr);
  };
}

}  // namespace tegula
