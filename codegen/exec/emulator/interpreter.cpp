#include "codegen/exec/emulator/interpreter.h"

#include <alloca.h>

#include <algorithm>
#include <cmath>

#include "codegen/exec/emulator/hw_bodies.h"
#include "codegen/exec/emulator/numbers.h"
#include "codegen/exec/emulator/scheduler.h"

namespace tegula::emulator::bytecode {

namespace {

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
  const Instruction* const begin = function.code.data();
  const Instruction* at = begin;

#define TEGULA_OP(code, T, expression)                        \
  case Code::code: {                                          \
    const T x = get<T>(frame + i.a), y = get<T>(frame + i.b); \
    put<T>(frame + i.to, T(expression));                      \
    break;                                                    \
  }
#define TEGULA_SELECT(code, T)                                                  \
  case Code::code:                                                              \
    put(frame + i.to, get<T>(frame + (get<uint8_t>(frame + i.a) ? i.b : i.c))); \
    break;
#define TEGULA_MOVE(code, T)                \
  case Code::code:                          \
    put(frame + i.to, get<T>(frame + i.a)); \
    break;
#define TEGULA_LOAD(code, T)                                                                                \
  case Code::code:                                                                                          \
    put(frame + i.to, get<T>(reinterpret_cast<const char*>(get<uint64_t>(frame + i.a) + displacement(i)))); \
    break;
#define TEGULA_STORE(code, T)                                                                         \
  case Code::code:                                                                                    \
    put(reinterpret_cast<char*>(get<uint64_t>(frame + i.to) + displacement(i)), get<T>(frame + i.b)); \
    break;
  auto displacement = [](const Instruction& i) { return uint64_t(int64_t(i.c)); };

  for (;; ++at) {
    const Instruction& i = *at;
    switch (i.code) {
      TEGULA_OP(Add32, uint32_t, x + y)
      TEGULA_OP(Add64, uint64_t, x + y)
      TEGULA_OP(Sub32, uint32_t, x - y)
      TEGULA_OP(Mul32, uint32_t, x * y)
      TEGULA_OP(And32, uint32_t, x & y)
      TEGULA_OP(Or32, uint32_t, x | y)
      TEGULA_OP(Xor32, uint32_t, x ^ y)
      TEGULA_OP(Shl32, uint32_t, x << (y & 31))
      TEGULA_OP(LShr32, uint32_t, x >> (y & 31))
      TEGULA_OP(And1, uint8_t, x & y)
      TEGULA_OP(Or1, uint8_t, x | y)
      TEGULA_OP(Xor1, uint8_t, x ^ y)
      TEGULA_OP(FAdd32, float, x + y)
      TEGULA_OP(FSub32, float, x - y)
      TEGULA_OP(FMul32, float, x* y)
      case Code::Fma32:
        put(frame + i.to, std::fma(get<float>(frame + i.a), get<float>(frame + i.b), get<float>(frame + i.c)));
        break;
      case Code::SExt32To64:
        put(frame + i.to, int64_t(get<int32_t>(frame + i.a)));
        break;
      case Code::ZExt32To64:
        put(frame + i.to, uint64_t(get<uint32_t>(frame + i.a)));
        break;
        TEGULA_SELECT(Select8, uint8_t)
        TEGULA_SELECT(Select16, uint16_t)
        TEGULA_SELECT(Select32, uint32_t)
        TEGULA_SELECT(Select64, uint64_t)
        TEGULA_MOVE(Move8, uint8_t)
        TEGULA_MOVE(Move16, uint16_t)
        TEGULA_MOVE(Move32, uint32_t)
        TEGULA_MOVE(Move64, uint64_t)
      case Code::Apply:
        module_.elementwise[i.function](frame + i.to, frame + i.a, frame + i.b, frame + i.c, i.count);
        break;
      case Code::Move:
        std::memcpy(frame + i.to, frame + i.a, i.count);
        break;
      case Code::SelectAll:
        std::memcpy(frame + i.to, frame + (get<uint8_t>(frame + i.a) ? i.b : i.c), i.count);
        break;

      case Code::FrameAddress:
        put(frame + i.to, reinterpret_cast<uint64_t>(frame + i.a));
        break;
      case Code::Offset:
        put(frame + i.to, get<uint64_t>(frame + i.a) + displacement(i));
        break;
      case Code::Step32:
        put(frame + i.to, get<uint64_t>(frame + i.a) + uint64_t(int64_t(get<int32_t>(frame + i.b))) * displacement(i));
        break;
      case Code::Step64:
        put(frame + i.to, get<uint64_t>(frame + i.a) + get<uint64_t>(frame + i.b) * displacement(i));
        break;
      case Code::Steps32:
        for (uint32_t n = 0; n < i.count; ++n)
          put(frame + i.to + 8 * size_t(n),
              get<uint64_t>(frame + i.a) +
                  uint64_t(int64_t(get<int32_t>(frame + i.b + 4 * size_t(n)))) * displacement(i));
        break;
        TEGULA_LOAD(Load8, uint8_t)
        TEGULA_LOAD(Load16, uint16_t)
        TEGULA_LOAD(Load32, uint32_t)
        TEGULA_LOAD(Load64, uint64_t)
      case Code::LoadMany:
        std::memcpy(frame + i.to, reinterpret_cast<const char*>(get<uint64_t>(frame + i.a) + displacement(i)), i.count);
        break;
        TEGULA_STORE(Store8, uint8_t)
        TEGULA_STORE(Store16, uint16_t)
        TEGULA_STORE(Store32, uint32_t)
        TEGULA_STORE(Store64, uint64_t)
      case Code::StoreMany:
        std::memcpy(reinterpret_cast<char*>(get<uint64_t>(frame + i.to) + displacement(i)), frame + i.b, i.count);
        break;
      case Code::Gather:
        for (uint32_t n = 0; n < i.count; ++n)
          std::memcpy(frame + i.to + size_t(i.c) * n,
                      reinterpret_cast<const char*>(get<uint64_t>(frame + i.a + 8 * size_t(n))), size_t(i.c));
        break;

      case Code::Jump:
        at = begin + i.a - 1;
        break;
      case Code::Branch:
        at = begin + (get<uint8_t>(frame + i.a) ? i.b : i.c) - 1;
        break;
      case Code::Case32:
        if (get<uint32_t>(frame + i.a) == get<uint32_t>(frame + i.b)) at = begin + i.c - 1;
        break;
      case Code::Case64:
        if (get<uint64_t>(frame + i.a) == get<uint64_t>(frame + i.b)) at = begin + i.c - 1;
        break;
      case Code::Body: {
        const BodyCall& call = module_.bodies[size_t(i.a)];
        call.body->thunk(call.body->function, frame, call.operands.data(), call.result);
        break;
      }
      case Code::Call:
        call(module_.calls[size_t(i.a)], function, frame);
        break;
      case Code::Segment:
        run_segment(uint32_t(i.a), uint32_t(i.c));
        break;
      case Code::Return:
        return;
    }
  }
#undef TEGULA_OP
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
