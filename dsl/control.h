// Control flow of kernels that are written in C++ (dsl/tile.h), where it depends on values that are known only when the
// kernel runs. What is known when the kernel is recorded uses C++'s own if and for.
//
//   Tile acc = 0.0f;
//   for (Tile k : range(0, n, BLOCK)) acc += sum(load(x + k + arange(0, BLOCK)), 0);
//   if_(acc > limit, [&] { acc = limit; }, [&] { store(out, acc); });
//   while_([&] { return acc > 1.0f; }, [&] { acc *= 0.5f; });
//
// A body is recorded once. Tiles of the surroundings that it assigns are carried from one iteration to the next and
// keep their type; a Tile that has no value before a loop or branch has none after it.
#pragma once

#include <optional>
#include <type_traits>

#include "dsl/tile.h"
#include "runtime/base/function.h"

namespace tegula {

namespace detail {
struct Loop;
void record_if(const Operand& condition, FunctionRef<void()> then_body, FunctionRef<void()> else_body);
Tile record_choice(const Operand& condition, FunctionRef<Operand()> then_value, FunctionRef<Operand()> else_value);
}  // namespace detail

/// Options of a loop, as tl.range has them.
struct LoopOptions {
  std::optional<int> num_stages = {};          ///< iterations that loads run ahead, plus one
  std::optional<bool> warp_specialize = {};    ///< whether warps of their own issue copies; unset: as the launch says
  std::optional<int> loop_unroll_factor = {};  ///< iterations that run without a branch; unset: the compiler decides
};

/// The values of a kernel's loop variable; made by range() for one `for` statement.
class LoopRange {
 public:
  LoopRange(const Operand& lower, const Operand& upper, const Operand& step, LoopOptions options);
  LoopRange(const LoopRange&) = delete;
  ~LoopRange();

  struct End {};
  class Iterator {
   public:
    bool operator!=(End) const;
    Tile operator*() const;
    void operator++();

   private:
    friend class LoopRange;
    explicit Iterator(detail::Loop* loop) : loop_(loop) {}
    detail::Loop* loop_;
  };
  Iterator begin();
  End end() const { return {}; }

 private:
  detail::Loop* loop_;  // its own
};

/// 0, 1, ... below `upper`.
LoopRange range(const Operand& upper, LoopOptions options = {});
/// lower, lower + step, ... below `upper` (above it for a negative step).
LoopRange range(const Operand& lower, const Operand& upper, const Operand& step = 1, LoopOptions options = {});

/// Runs one of the bodies. If the condition is known when the kernel is recorded, it decides there.
template <class Then>
requires std::is_void_v<std::invoke_result_t<const Then&>>
void if_(const Operand& condition, const Then& then_body) { detail::record_if(condition, then_body, {}); }
template <class Then, class Else>
requires std::is_void_v<std::invoke_result_t<const Then&>>
void if_(const Operand& condition, const Then& then_body, const Else& else_body) {
  detail::record_if(condition, then_body, else_body);
}
/// The value of one of the bodies: `Tile y = if_(n > 0, [&] { return x; }, [&] { return -x; });`
template <class Then, class Else>
requires std::convertible_to<std::invoke_result_t<const Then&>, Operand> Tile if_(const Operand& condition,
                                                                                  const Then& then_body,
                                                                                  const Else& else_body) {
  return detail::record_choice(
      condition, [&] { return Operand(then_body()); }, [&] { return Operand(else_body()); });
}

/// Runs the body while the condition, a function of Tiles, holds.
void while_(FunctionRef<Tile()> condition, FunctionRef<void()> body, const char* file = __builtin_FILE(),
            int line = __builtin_LINE());

}  // namespace tegula
