#include "codegen/exec/emulator/interpreter/interpreter.h"

#include <alloca.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "codegen/exec/emulator/hardware/hw_bodies.h"
#include "codegen/exec/emulator/interpreter/numbers.h"
#include "codegen/exec/emulator/launch/scheduler.h"

namespace tegula::emulator::bytecode {

namespace {

using Bytes16 = std::array<uint64_t, 2>;

class Interpreter {
 public:
  explicit Interpreter(const Module& module) : module_(module) {}

  /// `frame` begins with the function's constants and has its parameters.
  void run(const Function& function, char* frame) const;

 private:
  void call(const FunctionCall& call, const Function& caller, char* frame) const {
    const Function& callee = module_.functions[call.callee];
    char* inner = enter(callee, frame + caller.frame_bytes);
    for (const FunctionCall::Copy& copy : call.operands) std::memcpy(inner + copy.to, frame + copy.from, copy.bytes);
    run(callee, inner);
    std::memcpy(frame + call.result, inner + callee.result, call.result_bytes);
  }

  /// The last lane to arrive computes for all of them.
  void run_segment(uint32_t number, uint32_t place) const {
    Worker& worker = *this_worker;
    Warp& warp = worker.warp();
    void* values = warp.exchange[warp.round & 1].lanes;
    worker.meet(warp, {Where::kNone, place}, [&] {
      const Function& segment = module_.functions[number];
      char* frame = enter(segment, worker.segment_frames(module_.segment_bytes));
      put(frame + segment.parameters[0], values);
      run(segment, frame);
    });
  }

 public:
  /// The frame in the room that begins there.
  static char* enter(const Function& function, char* room) {
    const std::vector<char>& constants = function.constants.bytes;
    std::copy(constants.begin(), constants.end(), room);  // there may be none
    return room + constants.size();
  }

 private:
  const Module& module_;
};

void Interpreter::run(const Function& function, char* frame) const {
  // A jump of its own behind each instruction, which the processor predicts by what came before: a tenth less time than
  // a loop around a switch.
  static constexpr const void* kLabels[] = {
#define TEGULA_CODE(name) &&name,
#include "codegen/exec/emulator/interpreter/codes.def"
  };
#define TEGULA_GO goto* kLabels[size_t(at->code)]
#define TEGULA_NEXT \
  ++at;             \
  TEGULA_GO
  const Instruction* const begin = function.code.data();
  const Instruction* at = begin;
  auto displacement = [&at] { return uint64_t(int64_t(at->c)); };

#define TEGULA_OP(code, T, expression)                            \
  code : {                                                        \
    const T x = get<T>(frame + at->a), y = get<T>(frame + at->b); \
    put<T>(frame + at->to, T(expression));                        \
    TEGULA_NEXT;                                                  \
  }
#define TEGULA_COMPARE(code, T, comparison)                       \
  code : {                                                        \
    const T x = get<T>(frame + at->a), y = get<T>(frame + at->b); \
    put(frame + at->to, uint8_t(x comparison y));                 \
    TEGULA_NEXT;                                                  \
  }
#define TEGULA_SELECT(code, T)                                                        \
  code:                                                                               \
  put(frame + at->to, get<T>(frame + (get<uint8_t>(frame + at->a) ? at->b : at->c))); \
  TEGULA_NEXT;
#define TEGULA_MOVE(code, T)                  \
  code:                                       \
  put(frame + at->to, get<T>(frame + at->a)); \
  TEGULA_NEXT;
#define TEGULA_LOAD(code, T)                                                                                 \
  code:                                                                                                      \
  put(frame + at->to, get<T>(reinterpret_cast<const char*>(get<uint64_t>(frame + at->a) + displacement()))); \
  TEGULA_NEXT;
#define TEGULA_STORE(code, T)                                                                          \
  code:                                                                                                \
  put(reinterpret_cast<char*>(get<uint64_t>(frame + at->to) + displacement()), get<T>(frame + at->b)); \
  TEGULA_NEXT;

  TEGULA_GO;
  TEGULA_OP(Add32, uint32_t, x + y)
  TEGULA_OP(Add64, uint64_t, x + y)
  TEGULA_OP(Sub32, uint32_t, x - y)
  TEGULA_OP(Mul32, uint32_t, x * y)
  TEGULA_OP(And32, uint32_t, x & y)
  TEGULA_OP(Or32, uint32_t, x | y)
  TEGULA_OP(Xor32, uint32_t, x ^ y)
  TEGULA_OP(Shl32, uint32_t, x << (y & 31))
  TEGULA_OP(LShr32, uint32_t, x >> (y & 31))
  TEGULA_OP(Mul64, uint64_t, x * y)
  TEGULA_OP(And64, uint64_t, x & y)
  TEGULA_OP(Or64, uint64_t, x | y)
  TEGULA_OP(Shl64, uint64_t, x << (y & 63))
  TEGULA_COMPARE(Eq32, uint32_t, ==)
  TEGULA_COMPARE(Ne32, uint32_t, !=)
  TEGULA_COMPARE(Ult32, uint32_t, <)
  TEGULA_COMPARE(Ule32, uint32_t, <=)
  TEGULA_COMPARE(Slt32, int32_t, <)
  TEGULA_COMPARE(Sle32, int32_t, <=)
  TEGULA_OP(And1, uint8_t, x & y)
  TEGULA_OP(Or1, uint8_t, x | y)
  TEGULA_OP(Xor1, uint8_t, x ^ y)
  TEGULA_OP(FAdd32, float, x + y)
  TEGULA_OP(FSub32, float, x - y)
  TEGULA_OP(FMul32, float, x* y)
Fma32:
  put(frame + at->to, std::fma(get<float>(frame + at->a), get<float>(frame + at->b), get<float>(frame + at->c)));
  TEGULA_NEXT;
ZExt8To32:
  put(frame + at->to, uint32_t(get<uint8_t>(frame + at->a)));
  TEGULA_NEXT;
SExt32To64:
  put(frame + at->to, int64_t(get<int32_t>(frame + at->a)));
  TEGULA_NEXT;
ZExt32To64:
  put(frame + at->to, uint64_t(get<uint32_t>(frame + at->a)));
  TEGULA_NEXT;
  TEGULA_SELECT(Select8, uint8_t)
  TEGULA_SELECT(Select16, uint16_t)
  TEGULA_SELECT(Select32, uint32_t)
  TEGULA_SELECT(Select64, uint64_t)
  TEGULA_MOVE(Move8, uint8_t)
  TEGULA_MOVE(Move16, uint16_t)
  TEGULA_MOVE(Move32, uint32_t)
  TEGULA_MOVE(Move64, uint64_t)
  TEGULA_MOVE(Move128, Bytes16)
Apply:
  module_.elementwise[at->function](frame + at->to, frame + at->a, frame + at->b, frame + at->c, at->count);
  TEGULA_NEXT;
Move:
  std::memcpy(frame + at->to, frame + at->a, at->count);
  TEGULA_NEXT;
SelectAll:
  std::memcpy(frame + at->to, frame + (get<uint8_t>(frame + at->a) ? at->b : at->c), at->count);
  TEGULA_NEXT;

FrameAddress:
  put(frame + at->to, reinterpret_cast<uint64_t>(frame + at->a));
  TEGULA_NEXT;
Offset:
  put(frame + at->to, get<uint64_t>(frame + at->a) + displacement());
  TEGULA_NEXT;
Step32:
  put(frame + at->to, get<uint64_t>(frame + at->a) + uint64_t(int64_t(get<int32_t>(frame + at->b))) * displacement());
  TEGULA_NEXT;
Step64:
  put(frame + at->to, get<uint64_t>(frame + at->a) + get<uint64_t>(frame + at->b) * displacement());
  TEGULA_NEXT;
Steps32:
  for (uint32_t n = 0; n < at->count; ++n)
    put(frame + at->to + 8 * size_t(n),
        get<uint64_t>(frame + at->a) + uint64_t(int64_t(get<int32_t>(frame + at->b + 4 * size_t(n)))) * displacement());
  TEGULA_NEXT;
  TEGULA_LOAD(Load8, uint8_t)
  TEGULA_LOAD(Load16, uint16_t)
  TEGULA_LOAD(Load32, uint32_t)
  TEGULA_LOAD(Load64, uint64_t)
LoadMany:
  std::memcpy(frame + at->to, reinterpret_cast<const char*>(get<uint64_t>(frame + at->a) + displacement()), at->count);
  TEGULA_NEXT;
  TEGULA_STORE(Store8, uint8_t)
  TEGULA_STORE(Store16, uint16_t)
  TEGULA_STORE(Store32, uint32_t)
  TEGULA_STORE(Store64, uint64_t)
StoreMany:
  std::memcpy(reinterpret_cast<char*>(get<uint64_t>(frame + at->to) + displacement()), frame + at->b, at->count);
  TEGULA_NEXT;
Gather:
  for (uint32_t n = 0; n < at->count; ++n)
    std::memcpy(frame + at->to + size_t(at->c) * n,
                reinterpret_cast<const char*>(get<uint64_t>(frame + at->a + 8 * size_t(n))), size_t(at->c));
  TEGULA_NEXT;

Jump:
  at = begin + at->a;
  TEGULA_GO;
Branch:
  at = begin + (get<uint8_t>(frame + at->a) ? at->b : at->c);
  TEGULA_GO;
Case32:
  if (get<uint32_t>(frame + at->a) == get<uint32_t>(frame + at->b)) {
    at = begin + at->c;
    TEGULA_GO;
  }
  TEGULA_NEXT;
Case64:
  if (get<uint64_t>(frame + at->a) == get<uint64_t>(frame + at->b)) {
    at = begin + at->c;
    TEGULA_GO;
  }
  TEGULA_NEXT;
Body : {
  const BodyCall& call = module_.bodies[size_t(at->a)];
  call.body->thunk(call.body->function, frame, call.operands.data(), call.result);
  TEGULA_NEXT;
}
Call:
  call(module_.calls[size_t(at->a)], function, frame);
  TEGULA_NEXT;
Segment:
  run_segment(uint32_t(at->a), uint32_t(at->c));
  TEGULA_NEXT;
Return:
  return;
#undef TEGULA_GO
#undef TEGULA_NEXT
#undef TEGULA_OP
#undef TEGULA_COMPARE
#undef TEGULA_SELECT
#undef TEGULA_MOVE
#undef TEGULA_LOAD
#undef TEGULA_STORE
}

}  // namespace

void run(const Module& module, void* const* args) {
  const Function& entry = module.functions[module.entry];
  auto* room = static_cast<char*>(alloca(entry.most_bytes + kAlignment));
  char* frame = Interpreter::enter(entry, room + (-reinterpret_cast<uintptr_t>(room) & (kAlignment - 1)));
  put(frame + entry.parameters[0], args);
  Interpreter(module).run(entry, frame);
}

}  // namespace tegula::emulator::bytecode
