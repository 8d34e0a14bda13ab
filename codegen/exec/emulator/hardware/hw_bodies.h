// The C++ bodies of the hardware functions, and how generated code calls them.
//
// A row of hw.def with the signature "{T * n}(p1, T * m, i1, site)" has the body
//   void emu_<row>(T* result, uint64_t address, const T* values, uint32_t predicate, uint32_t site)
// that is: a struct as result becomes a first parameter that points to it, and repeated arguments a pointer to them;
// i1, i16, i32, imm, numbers, f16 and bf16 travel as uint32_t (fp16 and bf16 as their bits), i64 and pointers as
// uint64_t. The body of a convergent row has one parameter more, the place of the call (fibers.h).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "codegen/exec/emulator/interpreter/bytecode.h"

namespace tegula::emulator {

struct HwSlot {
  char type = 0;  ///< the type's letter: v void, 1 i1, h i16, i i32, l i64, H f16, B bf16, f f32, d f64, p p1, s site,
                  ///< m imm, # a number
  int count = 0;  ///< 0: plain; n: a struct of n as result, n arguments; of a number its value
  constexpr bool repeated() const { return count > 0 && type != '#'; }
};

struct HwSignature {
  HwSlot result;
  std::array<HwSlot, 10> args;
  int num_args = 0;
};

/// Reads a signature of hw.def.
constexpr HwSignature parse_hw_signature(std::string_view text) {
  auto slot = [](std::string_view t) {
    while (t.starts_with(' ') || t.starts_with('{')) t.remove_prefix(1);
    if (t.ends_with('}')) t.remove_suffix(1);
    HwSlot s;
    auto number = [](std::string_view digits) {
      int n = 0;
      for (char c : digits) n = n * 10 + (c - '0');
      return n;
    };
    if (size_t star = t.find(" * "); star != t.npos) {
      s.count = number(t.substr(star + 3));
      t = t.substr(0, star);
    }
    if (t[0] >= '0' && t[0] <= '9') return HwSlot{'#', number(t)};
    constexpr std::string_view names[] = {"void", "i1",  "i16", "i32", "i64",  "f16",
                                          "bf16", "f32", "f64", "p1",  "site", "imm"};
    constexpr std::string_view letters = "v1hilHBfdpsm";
    for (size_t i = 0; i < letters.size(); ++i)
      if (names[i] == t) s.type = letters[i];
    return s;
  };
  HwSignature signature;
  size_t open = text.find('(');
  signature.result = slot(text.substr(0, open));
  std::string_view args = text.substr(open + 1, text.size() - open - 2);
  while (!args.empty()) {
    size_t comma = args.find(',');
    signature.args[signature.num_args++] = slot(args.substr(0, comma));
    args = comma == args.npos ? std::string_view() : args.substr(comma + 1);
  }
  return signature;
}

/// What stands before the name of a row in that of its body.
inline constexpr const char* kBodyPrefix = "emu_";

struct HwBody {
  const char* name;  ///< by which generated code calls it: that of the row (HwInfo::body) behind kBodyPrefix
  void* function;
  bytecode::Thunk thunk;
};

/// In the operand `site` of an atomic operation on global memory: nobody uses its result.
inline constexpr uint32_t kResultUnused = 1u << 31;

/// Those of all rows of hw.def and of all families.
const std::vector<HwBody>& hw_bodies();

/// Lets other fibers run: called before a load that may wait for another thread's store.
void emu_yield();
/// Called before an atomic operation or a volatile load, with the bits of its MemoryOrder, and with 0 behind it, where
/// races are looked for.
void emu_order(uint32_t bits);
/// Warns of what is at that place (Warning) if the condition holds.
void emu_warn(uint32_t condition, uint32_t what, uint32_t place);
/// Ahead of an access (its bytes, and its kind at kOriginAccessShift) by a pointer that is made of these arguments,
/// where races are looked for: that it does not fall into the array of another one (pointer_origins.h).
inline constexpr int kOriginAccessShift = 16;
void emu_check_origin(uint64_t address, uint32_t access, uint64_t arguments, uint32_t predicate, uint32_t site);
/// What the int32 that was just stored to shared memory would be in 64 bits; what one is that was loaded from there, or
/// given by the thread's latest atomic sum (arithmetic_checks.h).
void emu_note_exact(uint32_t address, uint32_t value, uint64_t exact, uint32_t predicate);
uint64_t emu_exact_of_shared(uint32_t address, uint32_t value);
uint64_t emu_exact_of_atomic(uint32_t value);
/// The taint (access_taints.h) of so many bytes of the thread's latest load; that of its next store to shared memory.
uint32_t emu_loaded_taint(uint32_t first, uint32_t count);
void emu_stored_taint(uint32_t first, uint32_t count, uint32_t taint);
/// The program uses what has this taint; 0: none.
void emu_use_taint(uint32_t taint);
/// Called in each iteration of a loop, which ends at that place.
void emu_tick(uint32_t place);
/// Where the lanes of the warp put the values that a segment takes (lane_segments.h), and find what it gives.
void* emu_lane_values();
/// The rendezvous that runs `all_lanes` of these values.
void emu_run_segment(void (*all_lanes)(void* values), uint32_t place);

}  // namespace tegula::emulator
