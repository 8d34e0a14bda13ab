// label: device
// What loads, stores, atomics and fences of inline assembly order, to the search for races.
#include <string>
#include <vector>

#include "dsl/tegula.h"
#include "tests/codegen/exec/emulator/emulator_kernels.h"

namespace tegula {
namespace {

// Program 0 stores an array, then a flag, for which program 1 waits before it loads the array.
constexpr const char* kHandOver = R"(import triton
import triton.language as tl

@triton.jit
def load(p):
    return tl.inline_asm_elementwise("LOAD", "=r,l", [p], dtype=tl.int32, is_pure=False, pack=1)

@triton.jit
def store(p):
    return tl.inline_asm_elementwise("STORE; mov.u32 $0, 0;", "=r,l", [p], dtype=tl.int32, is_pure=False, pack=1)

@triton.jit
def kernel(flag, y):
    i = tl.arange(0, 64)
    if tl.program_id(0) == 1:
        while load(flag) == 0:
            pass
        tl.debug_barrier()
        tl.store(y + 64 + i, tl.load(y + 63 - i))
    else:
        tl.store(y + i, i)
        tl.debug_barrier()
        store(flag)
)";

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  return text.replace(text.find(what), what.size(), by);
}

std::string error_of_program(const std::string& text, unsigned programs) {
  auto device = make_emulator({.check_races = true, .limit_s = 60});
  Array<int> flag(*device, 1), y(*device, 128);
  return error_of([&] {
    Program::parse(text, "k.py")
        .kernel("kernel")
        .launch(*device, {programs}, {}, reinterpret_cast<int*>(flag.address()), reinterpret_cast<int*>(y.address()));
  });
}

TEST(RacesOfAssembly, ArrayHandedOver) {
  struct Case {
    const char *load, *store;
    const char* found;  ///< null: no race
  };
  const char* const none = "nothing orders the two programs";
  const char* const scope = "counts in its own program alone";
  for (const Case& c : std::vector<Case>{
           {"ld.acquire.gpu.global.s32 $0, [$1];", "st.release.gpu.global.s32 [$1], 1", nullptr},
           {"ld.acquire.sys.global.s32 $0, [$1];", "st.release.sys.global.s32 [$1], 1", nullptr},
           {"ld.volatile.global.s32 $0, [$1];", "st.release.gpu.global.s32 [$1], 1", nullptr},
           {"ld.acquire.gpu.global.s32 $0, [$1];", "red.release.gpu.global.add.s32 [$1], 1", nullptr},
           {"ld.relaxed.gpu.global.s32 $0, [$1]; fence.acq_rel.gpu;",
            "fence.acq_rel.gpu; st.relaxed.gpu.global.s32 [$1], 1", nullptr},
           {"ld.volatile.global.s32 $0, [$1];", "membar.gl; st.volatile.global.s32 [$1], 1", nullptr},
           {"ld.mmio.relaxed.sys.global.s32 $0, [$1];", "st.release.gpu.global.s32 [$1], 1", none},
           {"ld.relaxed.gpu.global.s32 $0, [$1];", "st.release.gpu.global.s32 [$1], 1", none},
           {"ld.acquire.gpu.global.s32 $0, [$1];", "st.relaxed.gpu.global.s32 [$1], 1", none},
           {"ld.acquire.gpu.global.s32 $0, [$1];", "st.global.s32 [$1], 1", none},
           {"ld.acquire.gpu.global.s32 $0, [$1];", "red.relaxed.gpu.global.add.s32 [$1], 1", none},
           {"ld.relaxed.gpu.global.s32 $0, [$1]; fence.acq_rel.cta;",
            "fence.acq_rel.gpu; st.relaxed.gpu.global.s32 [$1], 1", none},
           {"ld.acquire.cta.global.s32 $0, [$1];", "st.release.gpu.global.s32 [$1], 1", scope},
           {"ld.acquire.gpu.global.s32 $0, [$1];", "st.release.cta.global.s32 [$1], 1", scope},
           {"ld.acquire.cluster.global.s32 $0, [$1];", "st.release.gpu.global.s32 [$1], 1", scope},
       }) {
    SCOPED_TRACE(std::string(c.load) + " " + c.store);
    const std::string error = error_of_program(replaced(replaced(kHandOver, "LOAD", c.load), "STORE", c.store), 2);
    if (c.found) {
      EXPECT_CONTAINS(error, "race: ");
      EXPECT_CONTAINS(error, c.found);
    } else {
      EXPECT_EQ(error, "no error");
    }
  }
}

TEST(RacesOfAssembly, StoresOfTheSameNumber) {
  const std::string head =
      "import triton\nimport triton.language as tl\n@triton.jit\ndef kernel(flag, y):\n"
      "    tl.inline_asm_elementwise('st.global.u32 [$1], ";
  const std::string tail = "; mov.u32 $0, 0;', '=r,l', [flag], dtype=tl.int32, is_pure=False, pack=1)\n";
  EXPECT_EQ(error_of_program(head + "1" + tail, 2), "no error");
  EXPECT_CONTAINS(error_of_program(head + "%tid.x" + tail, 1), "race: write of 4 bytes");
}

TEST(RacesOfAssembly, NarrowElementsHaveTheirOwnAddress) {
  auto device = make_emulator({.check_races = true});
  for (const auto& [type, bytes] : {std::pair("int8", 1), {"int16", 2}, {"int32", 4}}) {
    Array<int8_t> y(*device, 64);
    const Program program =
        Program::parse(fmt::format("import triton\nimport triton.language as tl\n@triton.jit\ndef kernel(y):\n"
                                   "    p = y.to(tl.pointer_type(tl.{})) + tl.program_id(0) * 7 + tl.arange(0, 8)\n"
                                   "    tl.store(p, (tl.arange(0, 8) + tl.program_id(0)).to(tl.{}))\n",
                                   type, type),
                       "k.py");
    const std::string error =
        error_of([&] { program.kernel("kernel").launch(*device, {2}, {}, reinterpret_cast<int8_t*>(y.address())); });
    EXPECT_CONTAINS(error, fmt::format("race: write of {} byte{} at ", bytes, bytes > 1 ? "s" : ""));
    EXPECT_CONTAINS(error, fmt::format(", {} bytes into a 64-byte allocation", 7 * bytes));
  }
}

}  // namespace
}  // namespace tegula
