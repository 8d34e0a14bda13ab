// label: device
// Random functions of tile IR (random_function.h). What the emulator computes after the whole pipeline, for several
// targets and orders of threads, with less shared memory, and where passes are left out, equals what the ops say
// (tile_evaluator.h). All numbers are small integers: equal is equal.
#include "tests/codegen/passes/random_pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/codegen/passes/random_function.h"
#include "tests/random_count.h"

namespace tegula {
namespace {

using namespace ir;

std::set<std::string> optional_passes() {
  std::set<std::string> names;
  for (const PassInfo& pass : pass_table())
    if (pass.before == pass.after) names.insert(pass.name);
  return names;
}

/// Variants of a function whose products find less room in shared memory than all of them would have.
std::vector<Variant> variants_with_little_room(unsigned seed, Pipelines& pipelines, const Variant& all) {
  std::vector<Variant> variants;
  for (int64_t percent : {35 + seed % 6 * 5, 65 + seed / 6 % 7 * 5}) {
    Variant variant = all;
    variant.shared = std::max<int64_t>(1, pipelines.shared_bytes(all) * percent / 100);
    variant.name = fmt::format("{}, {} bytes of shared memory", all.name, variant.shared);
    variants.push_back(variant);
  }
  return variants;
}

TEST(RandomPipeline, PassesChangeNoResult) {
  std::vector<unsigned> seeds{15,        357,       501390,     671021759,
                              541451978, 541492766, 1000000451, 671062697};  // found something once
  const size_t known = seeds.size();
  const char* text = std::getenv("TEGULA_RANDOM_FIRST");
  const unsigned first = text ? unsigned(std::strtoul(text, nullptr, 10)) : 0;
  for (unsigned i = 0; i < random_count(2); ++i) seeds.push_back(first + i);
  const std::set<std::string> passes = optional_passes();
  const Inputs inputs;
  Reference reference(inputs);
  Machines machines;
  for (size_t number = 0; number < seeds.size(); ++number) {
    const unsigned seed = seeds[number];
    const bool any_shape = number < known || seed / 5 % 8 == 0, several_products = seed / 7 % 8 == 3;
    const std::unique_ptr<Func> func = RandomFunction(seed, any_shape, several_products).make();
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, print(*func)));
    Diagnostics diags;
    ASSERT_TRUE(verify(*func, Stage::Tile, diags)) << diags.render();
    const Numbers numbers{int32_t(seed * 7 % 70), int32_t(seed % (kMostSteps + 1)), 16 * int32_t(1 + seed % 3)};
    Pipelines pipelines(*func, inputs, machines);
    const Output expected = reference.output(*func, numbers);
    const std::string left_out = *std::next(passes.begin(), seed % passes.size());
    std::vector<Variant> variants{{"all", "sm_90a", {}, Completion::Group},
                                  {"all, sm_80", "sm_80", {}, Completion::Group},
                                  {"all, barriers", "sm_90a", {}, Completion::Barrier},
                                  {"all but " + left_out, "sm_90a", {left_out}, Completion::Group}};
    if (seed % 4 == 0) variants.push_back({"none", "sm_80", passes, Completion::Group});
    if (several_products)
      for (Variant& variant : variants_with_little_room(seed, pipelines, variants[seed / 3 % 4 == 0]))
        variants.push_back(std::move(variant));
    // LLVM's passes take longer than all the rest: one variant of each fourth function has them.
    const size_t optimised = seed / 2 % 16;
    pipelines.keep_before("pipeline");
    pipelines.keep_before(left_out);
    for (size_t i = 0; i < variants.size(); ++i) {
      Variant& variant = variants[i];
      variant.seed = seed + 1 + i;
      variant.all_passes = i == optimised;
      variant.verify_each = i == seed % variants.size();
      SCOPED_TRACE(variant.name);
      try {
        pipelines.run(variant, numbers, expected);
      } catch (const std::exception& error) {  // of a pass, on what one before it broke
        ADD_FAILURE() << error.what();
      }
    }
    for (const auto& [target, machine] : machines)
      EXPECT_TRUE(machine.inputs_are_whole()) << target << ": an operand was written";
    if (testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace tegula
