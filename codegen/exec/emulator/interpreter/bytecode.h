// Kernels as instructions for the emulator's interpreter (interpreter.h): what is made in little time, for code that
// runs briefly.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

namespace tegula::emulator {
struct HwBody;
}

namespace tegula::emulator::bytecode {

/// Of numbers in a frame. A bit is a byte that is 0 or 1, a pointer an I64.
enum class Kind : uint8_t { I1, I8, I16, I32, I64, F16, BF16, F32, F64 };

constexpr unsigned bytes_of(Kind kind) {
  switch (kind) {
    case Kind::I1:
    case Kind::I8:
      return 1;
    case Kind::I16:
    case Kind::F16:
    case Kind::BF16:
      return 2;
    case Kind::I32:
    case Kind::F32:
      return 4;
    default:
      return 8;
  }
}

/// Computes `count` results from as many operands, of which there are up to three.
using Elementwise = void (*)(char* to, const char* a, const char* b, const char* c, unsigned count);

/// Which function that is (elementwise.h).
struct Computation {
  enum Is : uint8_t { Computes, Converts, Selects, Picks } is;
  uint8_t how = 0;  ///< the Arithmetic, the Conversion, or how many bytes a number has that is selected or picked
  Kind kind = Kind::I1, to = Kind::I1;  ///< of the operands; of what numbers are converted to
  auto operator<=>(const Computation&) const = default;
};

/// What an instruction does.
enum class Code : uint16_t {
#define TEGULA_CODE(name) name,
#include "codegen/exec/emulator/interpreter/codes.def"
};

struct Instruction {
  Code code;
  uint16_t function = 0;
  uint32_t count = 0;
  int32_t to = 0, a = 0, b = 0, c = 0;
};

/// Of a call.
struct Operand {
  enum Is : uint32_t { Slot, Number, Address } is;  ///< in the frame; itself; the address of what lies in the frame
  int32_t value;
};

/// Calls a function of C++ with these operands, and puts its result where it belongs.
using Thunk = void (*)(void* function, char* frame, const Operand* operands, int32_t result);

struct BodyCall {
  const HwBody* body;
  std::vector<Operand> operands;
  int32_t result = 0;
};

/// The operands are copied to the parameters of the callee.
struct FunctionCall {
  struct Copy {
    int32_t from, to;
    uint32_t bytes;
  };
  uint32_t callee;
  std::vector<Copy> operands;
  int32_t result = 0;
  uint32_t result_bytes = 0;
};

/// The address of a byte of a global, which stands at `at` of some bytes.
struct Address {
  uint32_t at = 0;
  uint32_t global = 0;
  uint64_t offset = 0;
};

/// Numbers, and addresses that are known when all globals are in memory (Module::place).
struct Constants {
  std::vector<char> bytes;
  std::vector<Address> addresses;
};

struct Function {
  std::vector<Instruction> code;
  Constants constants;       ///< what stands before the frame; a multiple of kAlignment
  uint32_t frame_bytes = 0;  ///< behind the constants; a multiple of kAlignment
  int32_t result = 0;        ///< where a call finds it
  uint32_t most_bytes = 0;   ///< of constants and frames, its own and those of what it calls
  std::vector<int32_t> parameters;
};

inline constexpr uint32_t kAlignment = 16;

struct Module {
  std::vector<Function> functions;
  std::vector<BodyCall> bodies;
  std::vector<FunctionCall> calls;
  std::vector<Computation> computations;
  std::vector<Constants> globals;  ///< constants in memory, at whose addresses code looks
  uint32_t entry = 0;              ///< takes the address of the arguments
  uint32_t segment_bytes = 0;      ///< Function::most_bytes of segments

  // Of this process, by place().
  std::vector<Elementwise> elementwise;

  /// Finds the functions of the computations and fills in the addresses, whereupon the module can run. False if there
  /// is no such function or global.
  bool place();
};

}  // namespace tegula::emulator::bytecode
