// Random functions of tile IR through the pipeline and on the emulator: their inputs, what they are to give, and passes
// of several variants that share what they have in common.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "codegen/analysis/shared_hazards.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/exec/emulator.h"
#include "codegen/ir/printer.h"
#include "codegen/passes/passes.h"
#include "runtime/base/float16.h"
#include "tests/codegen/exec/emulator/emulator_kernels.h"
#include "tests/codegen/passes/laid_out_kernels.h"
#include "tests/codegen/passes/random_tiles.h"
#include "tests/codegen/passes/tile_evaluator.h"

namespace tegula {

struct Variant {
  std::string name, target;
  std::set<std::string> left_out;
  ir::Completion completion = ir::Completion::Group;
  uint64_t seed = 0;         ///< of the emulator
  bool all_passes = false;   ///< of LLVM's too
  bool verify_each = false;  ///< behind each pass; else behind the last one
  int64_t shared = 0;        ///< bytes of shared memory that a program may have; 0: the target's
};

struct Numbers {
  int32_t n, steps, wrap;
};

struct Inputs {
  std::vector<int32_t> a, b, x;

  Inputs() {
    for (int64_t i = 0; i < kInput; ++i) {
      a.push_back(int32_t(i * 7 % (2 * kMostInput + 1) - kMostInput));
      b.push_back(int32_t(i * 11 / 3 % (2 * kMostInput + 1) - kMostInput));
    }
    for (int64_t i = 0; i < kIntegers; ++i) x.push_back(int32_t(i * 13 % 101) - 50);
  }
};

using Output = std::vector<int32_t>;
inline Output output_before() { return Output(kTiles * kSlots * kSlot, -1); }

/// What the output is after the function.
class Reference {
 public:
  explicit Reference(const Inputs& inputs) : a_(inputs.a), b_(inputs.b), x_(inputs.x) {}

  Output output(const ir::Func& func, const Numbers& numbers) {
    Output out = output_before();
    TileEvaluator({{0, &a_}, {0, &b_}, {0, &x_}, {0, &out}, {numbers.n}, {numbers.steps}, {numbers.wrap}})
        .run(func, kPrograms);
    return out;
  }

 private:
  std::vector<int32_t> a_, b_, x_;
};

/// Operands of products as they lie in memory.
template <class T>
std::vector<uint8_t> bytes_as(const std::vector<int32_t>& numbers) {
  std::vector<T> converted;
  for (int32_t n : numbers) converted.push_back(T(float(n)));
  std::vector<uint8_t> bytes(converted.size() * sizeof(T));
  std::memcpy(bytes.data(), converted.data(), bytes.size());
  return bytes;
}
inline std::vector<uint8_t> bytes_as(Elem elem, const std::vector<int32_t>& numbers) {
  switch (elem) {
    case Elem::F32:
      return bytes_as<float>(numbers);
    case Elem::BF16:
      return bytes_as<bfloat16>(numbers);
    case Elem::I8:
      return bytes_as<int8_t>(numbers);
    default:
      return bytes_as<float16>(numbers);
  }
}

/// An emulator of a target with the arrays of a launch. It lasts for all functions: what it takes to make one is as
/// much as a function.
class Machine {
 public:
  Machine(const std::string& target, const Inputs& inputs)
      : inputs_(inputs), device_(make_emulator({.target = target, .threads = 1, .keep_code = false})) {}

  Shared<LoadedKernel> load(const KernelImage& image) { return device_->load(image); }

  /// False where the numbers allow no tensor map. An error is the text of a failed launch.
  bool launch(LoadedKernel& kernel, Elem operands, uint64_t seed, Numbers numbers, std::string& error) {
    device_->set_seed(seed);
    device_->copy_to_device(out_.address(), before_.data(), before_.size() * sizeof(int32_t));
    Operands& given = operands_of(operands);
    uint64_t addresses[] = {given.a.address(), given.b.address(), x_.address(), out_.address()};
    void* args[] = {&addresses[0], &addresses[1],  &addresses[2], &addresses[3],
                    &numbers.n,    &numbers.steps, &numbers.wrap};
    bool launched = true;
    error = error_of([&] { launched = kernel.try_launch({kPrograms}, args, nullptr); });
    return launched;
  }

  bool output_is(const Output& expected) const { return is(out_, expected); }
  /// No launch has written to an operand.
  bool inputs_are_whole() const {
    return is(x_, inputs_.x) && std::ranges::all_of(operands_, [](const auto& of_type) {
             const Operands& x = of_type.second;
             return is(x.a, x.a_before) && is(x.b, x.b_before);
           });
  }

 private:
  /// Of one type.
  struct Operands {
    std::vector<uint8_t> a_before, b_before;
    Array<uint8_t> a, b;

    Operands(EmulatorDevice& device, const Inputs& inputs, Elem elem)
        : a_before(bytes_as(elem, inputs.a)),
          b_before(bytes_as(elem, inputs.b)),
          a(device, a_before),
          b(device, b_before) {}
  };
  Operands& operands_of(Elem elem) { return operands_.try_emplace(elem, *device_, inputs_, elem).first->second; }

  /// The emulator's memory is the host's.
  template <class T>
  static bool is(const Array<T>& array, const std::vector<T>& values) {
    return std::memcmp(reinterpret_cast<const void*>(array.address()), values.data(), values.size() * sizeof(T)) == 0;
  }

  const Inputs& inputs_;
  const Output before_ = output_before();
  std::unique_ptr<EmulatorDevice> device_;
  std::map<Elem, Operands> operands_;
  Array<int32_t> x_{*device_, inputs_.x}, out_{*device_, before_};
};

/// By target.
using Machines = std::map<std::string, Machine>;

inline size_t place_of_pass(std::string_view name) {
  const auto& table = pass_table();
  const auto it = std::find_if(table.begin(), table.end(), [&](const PassInfo& pass) { return pass.name == name; });
  return size_t(it - table.begin());
}

/// One function, by the passes of several variants. Passes that variants begin with in common run once, and a function
/// that several of them end with is compiled once; each runs.
class Pipelines {
 public:
  Pipelines(const ir::Func& func, const Inputs& inputs, Machines& machines)
      : func_(func), inputs_(inputs), machines_(machines) {}

  /// Fails unless that is the output after the variant's passes, or a program has not the shared memory for it.
  void run(const Variant& variant, const Numbers& numbers, const Output& expected) {
    const Target target = target_of(variant);
    const ir::Func* behind = pass(variant, target);
    if (!behind || plan_shared(*behind).bytes > target.shared_per_program) return;
    Machine& machine = machines_.try_emplace(variant.target, variant.target, inputs_).first->second;
    const std::string text = print(*behind);
    Shared<LoadedKernel>& kernel = kernels_[{variant.target, variant.all_passes, text}];
    std::string error = kNoError;
    if (!kernel) {
      const auto image = emulator_image(*behind, target, variant.all_passes);
      if (!image) return;
      error = error_of([&] { kernel = machine.load(*image); });
    }
    if (kernel && !machine.launch(*kernel, func_.body.args[0]->type.elem, variant.seed, numbers,
                                  error)) {  // the numbers allow no tensor map
      auto without = func_.clone();
      without->attrs["bulk_copies"] = int64_t(1);
      return Pipelines(*without, inputs_, machines_).run(variant, numbers, expected);
    }
    if (error != kNoError)
      ADD_FAILURE() << error << "\n" << text;
    else
      EXPECT_TRUE(machine.output_is(expected));
  }

  /// Bytes that the function has behind the variant's passes; 0 after a failure of the test.
  int64_t shared_bytes(const Variant& variant) {
    const ir::Func* behind = pass(variant, target_of(variant));
    return behind ? plan_shared(*behind).bytes : 0;
  }

 private:
  /// Target, shared memory, how copies complete, and what the variant leaves out.
  using Key = std::tuple<std::string, int64_t, ir::Completion, std::set<std::string>>;

  static Target target_of(const Variant& variant) {
    Target target = *find_target(variant.target);
    if (variant.shared) target.shared_per_program = variant.shared;
    return target;
  }

  /// What the function is before pass `place` depends on these alone.
  static Key key_before(const Variant& variant, size_t place) {
    static const size_t pipeline = place_of_pass("pipeline");  // no pass before that one looks at the completion
    std::set<std::string> left_out;
    for (const std::string& name : variant.left_out)
      if (place_of_pass(name) < place) left_out.insert(name);
    return {variant.target, variant.shared, place <= pipeline ? ir::Completion::Group : variant.completion, left_out};
  }

  static bool is_valid(const ir::Func& func, const PassInfo& behind, Diagnostics& diags) {
    if (ir::verify(func, behind.after, diags) && (behind.after != ir::Stage::Ordered || verify_order(func, diags)))
      return true;
    ADD_FAILURE() << "pass " << behind.name << " broke the function\n" << diags.render() << print(func);
    return false;
  }

  /// The function behind the variant's passes. Null, and a failure of the test, if one of them broke it.
  const ir::Func* pass(const Variant& variant, const Target& target) {
    const std::vector<PassInfo>& table = pass_table();
    size_t done = table.size();  // passes that are
    while (done && !states_.contains({done, key_before(variant, done)})) --done;
    const ir::Func* from = done ? states_.at({done, key_before(variant, done)}).get() : &func_;
    if (done == table.size()) return from;
    Diagnostics diags;
    PassContext context{target, diags};
    context.completion = variant.completion;
    auto work = from->clone();
    for (; done < table.size(); ++done) {
      const PassInfo& pass = table[done];
      if (branches_.contains(done)) states_.try_emplace({done, key_before(variant, done)}, work->clone());
      if (variant.left_out.contains(pass.name)) continue;
      pass.run(*work, context);
      if ((variant.verify_each || done + 1 == table.size()) && !is_valid(*work, pass, diags)) return nullptr;
    }
    auto& behind = states_[{done, key_before(variant, done)}];
    behind = std::move(work);
    return behind.get();
  }

 public:
  /// Variants to come differ in this pass, and not before.
  void keep_before(const std::string& pass) { branches_.insert(place_of_pass(pass)); }

 private:
  static constexpr const char* kNoError = "no error";  ///< as error_of() says

  const ir::Func& func_;
  const Inputs& inputs_;
  Machines& machines_;
  std::set<size_t> branches_;
  std::map<std::pair<size_t, Key>, std::unique_ptr<ir::Func>> states_;  ///< before a pass
  std::map<std::tuple<std::string, bool, std::string>, Shared<LoadedKernel>> kernels_;
};

}  // namespace tegula
