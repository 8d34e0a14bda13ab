// label: device
// Inline assembly: results, arguments, elements that share registers, effects; and what is refused.
#include <functional>
#include <numeric>
#include <regex>

#include "codegen/exec/emulator.h"
#include "codegen/exec/ptxas.h"
#include "tests/codegen/lower/ops_support.h"

namespace tegula::ops {
namespace {

TEST(InlineAsm, OneElementAtATime) {
  auto x = random_values<float>(300, 80), y = random_values<float>(300, 81);
  auto out =
      evaluate<float>({"tl.inline_asm_elementwise('add.rz.f32 $0, $1, $2;', '=f,f,f', [a, b], tl.float32, True, 1)",
                       "tl.inline_asm_elementwise('max.f32 $0, $1, $2;', '=f,f,f', args=[a, 1.5], dtype=tl.float32, "
                       "is_pure=True, pack=1)"},
                      x, y);
  expect_equal(out[1], "max", [&](size_t i) { return std::max(x[i], 1.5f); });
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_LE(std::fabs(out[0][i]), std::fabs((long double)x[i] + y[i])) << x[i] << " + " << y[i];
}

// Bytes four to a register, converted to two results of 32 bits; the tile has fewer elements than threads, too.
TEST(InlineAsm, PackedArgumentsAndSeveralResults) {
  for (int block : {8, 128, 1024}) {
    std::vector<uint8_t> x(1024);
    for (size_t i = 0; i < x.size(); ++i) x[i] = uint8_t(i * 37);
    auto y = random_values<float>(1024, 82);
    Array<uint8_t> in(x);
    Array<float> other(y), maxima(1024);
    Array<int32_t> integers(1024);
    run(R"(
@triton.jit
def kernel(x, y, integers, maxima, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    (c, d) = tl.inline_asm_elementwise(
        asm="""
        {
            // Four bytes of one register.
            .reg .b8 tmp<4>;
            mov.b32 {tmp0, tmp1, tmp2, tmp3}, $8;
            cvt.u32.u8 $0, tmp0;
            cvt.u32.u8 $1, tmp1;
            cvt.u32.u8 $2, tmp2;
            cvt.u32.u8 $3, tmp3;
        }
        cvt.rn.f32.s32 $4, $0;
        cvt.rn.f32.s32 $5, $1;
        cvt.rn.f32.s32 $6, $2;
        cvt.rn.f32.s32 $7, $3;
        max.f32 $4, $4, $9;
        max.f32 $5, $5, $10;
        max.f32 $6, $6, $11;
        max.f32 $7, $7, $12;
        """,
        constraints=("=r,=r,=r,=r,=f,=f,=f,=f,"
                     "r,f,f,f,f"),
        args=[tl.load(x + i), tl.load(y + i)],
        dtype=(tl.int32, tl.float32),
        is_pure=True,
        pack=4,
    )
    tl.store(integers + i, c)
    tl.store(maxima + i, d)
)",
        {.constexprs = {{"BLOCK", block}}, .num_warps = next_warps()}, {unsigned(1024 / block)}, in, other, integers,
        maxima);
    expect_equal(integers.values(), "integers", [&](size_t i) { return int32_t(x[i]); });
    expect_equal(maxima.values(), "maxima", [&](size_t i) { return std::max(float(x[i]), y[i]); });
  }
}

// Stores of its results that want other layouts do not give it two.
TEST(InlineAsm, ResultsThatAreStoredInTwoWays) {
  Array<int32_t> out(64 * 32 * 2);
  run(R"(
@triton.jit
def kernel(out):
    i, j = tl.arange(0, 64)[:, None], tl.arange(0, 32)[None, :]
    a, b = tl.inline_asm_elementwise('{ add.s32 $0, $2, $3; sub.s32 $1, $2, $3; }', '=&r,=&r,r,r', [i * 5 + j, j * 7],
                                     (tl.int32, tl.int32), True, 1)
    tl.store(out + i * 32 + j, a)
    tl.store(out + 2048 + j * 64 + i, b)
)",
      {.num_warps = next_warps()}, {1}, out);
  const auto got = out.values();
  for (int i = 0; i < 64; ++i)
    for (int j = 0; j < 32; ++j) {
      EXPECT_EQ(got[size_t(i * 32 + j)], i * 5 + j * 8) << i << ", " << j;
      EXPECT_EQ(got[size_t(2048 + j * 64 + i)], i * 5 - j * 6) << i << ", " << j;
    }
}

TEST(InlineAsm, HalvesInPairs) {
  auto x = small_values<float16>(512, 83), y = small_values<float16>(512, 84);
  auto out =
      evaluate<float16>({"tl.inline_asm_elementwise('{ .reg .b32 t; mul.f16x2 t, $1, $2; add.f16x2 $0, t, $2; }', "
                         "'=r,r,r', [a, b], tl.float16, True, 2)",
                         "tl.inline_asm_elementwise('add.f16 $0, $1, $2;', '=h,h,h', [a, b], tl.float16, True, 1)"},
                        x, y);
  expect_equal(out[0], "a * b + b", [&](size_t i) { return float16(float(x[i]) * float(y[i]) + float(y[i])); });
  expect_equal(out[1], "a + b", [&](size_t i) { return float16(float(x[i]) + float(y[i])); });
}

// Numbers that the text holds are no registers: of the others' numbers some change. A register holds two elements of 16
// bits.
TEST(InlineAsm, Immediates) {
  std::vector<int32_t> x(256), y(256);
  std::iota(x.begin(), x.end(), -90);
  std::iota(y.begin(), y.end(), 1000);
  auto out = evaluate<int32_t>(
      {"tl.inline_asm_elementwise('lop3.b32 ${0}, $1, $4, ${2}, $3;', '=r,r,~{memory},n,n,r', [a, 0x00f000f0, 234, b], "
       "tl.int32, "
       "True, 1)",
       "tl.inline_asm_elementwise('{ .reg .b32 t; add.u32 t, $4, $8; add.u32 t, t, $6; add.u32 $0, $2, t; ' "
       "'add.u32 $1, $3, ${5}; add.u32 $1, $1, $7; add.u32 $1, $1, 257; }', '=r,=r,r,r,n,i,n,n,n', "
       "[a, 7, tl.constexpr(-2), True], tl.int32, True, 2)",
       "tl.inline_asm_elementwise('add.u32 $0, $1, $2;', '=r,n,n', [3, 4], tl.int32, True, 1) + a"},
      x, y);
  expect_equal(out[0], "x & number ^ y", [&](size_t i) { return (x[i] & y[i]) | 0x00f000f0; });
  expect_equal(out[1], "x + number", [&](size_t i) { return x[i] + 7 + 257 - 2; });
  expect_equal(out[2], "x + 7", [&](size_t i) { return x[i] + 7; });
}

// No arguments, effects, special registers, and memory of its own.
TEST(InlineAsm, Effects) {
  Array<int64_t> counter(std::vector<int64_t>(1, 5)), out(size_t(4));
  run(R"(
@triton.jit
def kernel(counter, out):
    first = tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)
    tl.inline_asm_elementwise("nanosleep.u32 10; mov.u32 $0, 0;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)
    value = tl.inline_asm_elementwise("ld.acquire.gpu.global.b64 $0, [$1];", "=l,l", [counter], tl.int64, False, 1)
    later = tl.extra.cuda.globaltimer()
    tl.store(out, (later >= first).to(tl.int64))
    tl.store(out + 1, value)
    tl.store(out + 2, tl.extra.cuda.num_warps() * 100 + tl.extra.cuda.num_threads())
    tl.store(out + 3, (tl.extra.cuda.smid() >= 0).to(tl.int64))
)",
      {.num_warps = 2}, {1}, counter, out);
  EXPECT_EQ(out.values(), (std::vector<int64_t>{1, 5, 264, 1}));
}

// What the lanes of a warp do together. All 64 threads run each text with their number as $1.
TEST(InlineAsm, ResultsThatArePointers) {
  std::vector<float> numbers(32);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  Array<float> x(numbers), y(size_t(32));
  run(R"(
@triton.jit
def kernel(x, y):
    i = tl.arange(0, 32)
    p = x + i
    tl.inline_asm_elementwise("st.global.f32 [$1], 0f40000000; // $0", "=r,l", [y + i], (y + i).dtype, False, 1)
    q = tl.inline_asm_elementwise("xor.b64 $0, $1, 4;", "=l,l", [p], p.dtype, True, 1)
    tl.store(y + i, tl.load(q) + tl.load(y + i))
)",
      {.num_warps = 1}, {1}, x, y);
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(y.values()[i], float(i ^ 1) + 2);
}

TEST(InlineAsm, LanesTogether) {
  struct Case {
    const char* text;
    std::function<uint32_t(uint32_t lane, uint32_t warp)> expected;
  };
  const Case cases[] = {
      {"shfl.sync.bfly.b32 $0, $1, 5, 31, -1;", [](uint32_t l, uint32_t w) { return 32 * w + (l ^ 5); }},
      {"shfl.sync.idx.b32 $0, $1, 7, 0x1807, 0xffffffff;", [](uint32_t l, uint32_t w) { return 32 * w + (l | 7); }},
      {"{ .reg .pred p; shfl.sync.up.b32 $0|p, $1, 3, 0, -1; @!p mov.b32 $0, 99; }",
       [](uint32_t l, uint32_t w) { return l < 3 ? 99 : 32 * w + l - 3; }},
      {"{ .reg .pred p; shfl.sync.down.b32 $0|p, $1, 4, 0x180f, -1; selp.b32 $0, $0, 77, p; }",  // groups of 8 lanes
       [](uint32_t l, uint32_t w) { return (l & 7) + 4 > 7 ? 77 : 32 * w + l + 4; }},
      {"{ .reg .pred p; setp.lt.u32 p, $1, 40; vote.sync.ballot.b32 $0, p, -1; }",
       [](uint32_t, uint32_t w) { return w ? 0xffu : ~0u; }},
      {"{ .reg .pred p, q, r; setp.lt.u32 p, $1, 40; vote.sync.all.pred q, p, -1; vote.sync.uni.pred r, !p, -1; "
       "selp.u32 $0, 1, 0, q; @r add.u32 $0, $0, 2; vote.sync.any.pred q, !p, -1; @q add.u32 $0, $0, 4; }",
       [](uint32_t, uint32_t w) { return w ? 4u : 3u; }},
      {"{ .reg .b32 m; and.b32 m, $1, 3; match.any.sync.b32 $0, m, -1; }",
       [](uint32_t l, uint32_t) { return 0x11111111u << (l & 3); }},
      {"{ .reg .pred p; match.all.sync.b32 $0|p, 5, -1; @!p mov.b32 $0, 1; }", [](uint32_t, uint32_t) { return ~0u; }},
      {"redux.sync.add.s32 $0, $1, -1;", [](uint32_t, uint32_t w) { return 496 + 1024 * w; }},
      {"redux.sync.max.u32 $0, $1, -1;", [](uint32_t, uint32_t w) { return 31 + 32 * w; }},
      {"activemask.b32 $0; bar.warp.sync -1;", [](uint32_t, uint32_t) { return ~0u; }},
      // Even and odd lanes, each among themselves.
      {"{ .reg .b32 m; .reg .pred odd; and.b32 m, $1, 1; setp.eq.u32 odd, m, 1; @odd bra second; "
       "redux.sync.min.u32 $0, $1, 0x55555555; bra done; second: redux.sync.min.u32 $0, $1, 0xaaaaaaaa; done: }",
       [](uint32_t l, uint32_t w) { return 32 * w + (l & 1); }},
  };
  for (const Case& c : cases) {
    Array<int32_t> out(size_t(64));
    run(fmt::format("@triton.jit\ndef kernel(out):\n    i = tl.arange(0, 64)\n    a = tl.inline_asm_elementwise('{}', "
                    "'=r,r', [i], tl.int32, False, 1)\n    tl.store(out + i, a)\n",
                    c.text),
        {.num_warps = 2}, {1}, out);
    const std::vector<int32_t> found = out.values();
    for (uint32_t t = 0; t < 64; ++t)
      ASSERT_EQ(uint32_t(found[t]), c.expected(t % 32, t / 32)) << c.text << " thread " << t;
  }
}

TEST(InlineAsm, PtxIsTheTextItself) {
  const char* text = R"(
@triton.jit
def kernel(x, y):
    i = tl.arange(0, 256)
    a = tl.load(x + i)
    tl.store(y + i, tl.inline_asm_elementwise("cvt.rn.bf16x2.f32 $0, $2, $1;", "=r,f,f", [a], tl.bfloat16, True, 2).to(tl.float32))
)";
  EXPECT_TRUE(std::regex_search(ptx_of<float>(text, 2), std::regex("cvt.rn.bf16x2.f32 %r[0-9]+, %r[0-9]+, %r[0-9]+;")))
      << ptx_of<float>(text, 2);
}

std::string error_of(const std::string& call) {
  std::string text =
      "import triton\nimport triton.language as tl\n\n@triton.jit\ndef kernel(x):\n    i = tl.arange(0, 32)\n    a = "
      "tl.load(x + i)\n    b = " +
      call + "\n    tl.store(x + i, b)\n";
  try {
    Program program = Program::parse(text, "kernel.py");
    Array<float> x(32);
    auto emulator = make_emulator();
    Buffer memory(*emulator, 32 * sizeof(float));
    program.kernel("kernel").launch(*emulator, {1}, {}, Arg(memory.as<float>()));
    emulator->synchronize();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// A message at the call, which is underlined.
std::string at_call(const std::string& call, const std::string& message, const std::string& hint) {
  return fmt::format("kernel.py:8:9: error: {}\n        b = {}\n            ^{}\n{}", message, call,
                     std::string(call.size() - 1, '~'),
                     hint.empty() ? "" : "  hint: " + hint + "\n  see docs/language.md#functions\n");
}

TEST(InlineAsm, Errors) {
  std::string call = "tl.inline_asm_elementwise('add.f32 $0, $1, $1;', '=f', [a], tl.float32, True, 1)";
  EXPECT_EQ(
      error_of(call),
      at_call(call,
              "the constraints '=f' of inline_asm_elementwise name 1 result and 0 arguments, expected 1 result and 1 "
              "argument",
              "'=r' for a result, 'r' for an argument; with pack=1 elements below 32 bits share registers"));
  call = "tl.inline_asm_elementwise('add.f32 $0, $1, $2;', '=f,f,n', [a, 1.5], tl.float32, True, 1)";
  EXPECT_EQ(error_of(call), at_call(call,
                                    "the constraint 'n' of inline_asm_elementwise takes an integer known at compile "
                                    "time, argument 1 is the float 1.5",
                                    "'r' takes it in a register of 32 bits, 'l' in one of 64"));
  call = "tl.inline_asm_elementwise('', '=f,f', [a], tl.float32, True, 3)";
  EXPECT_EQ(error_of(call),
            at_call(call, "the pack of inline_asm_elementwise is 3, expected a power of two up to 32", ""));
  call = "tl.inline_asm_elementwise('', '=f,f', a, tl.float32, True, 1)";
  EXPECT_EQ(error_of(call),
            at_call(call, "the args of inline_asm_elementwise are tile of [32] float32, expected a list",
                    "args=[x, y], or args=[] for none"));
  call = "tl.inline_asm_elementwise('tex.1d.v4.f32.s32 $0, $1;', '=f,f', [a], tl.float32, True, 1)";
  EXPECT_EQ(
      error_of(call),
      "kernel 'kernel' cannot run on the emulator: kernel.py:8:9: the interpreter of inline assembly does not know the "
      "instruction 'tex.1d.v4.f32.s32 $0, $1;'");
}

TEST(InlineAsm, TheAssemblerChecksIt) {
  if (!find_ptxas()) GTEST_SKIP() << why_no_ptxas();
  auto compiled = [](const std::string& call) -> std::string {
    Program program = Program::parse(
        "import triton\nimport triton.language as tl\n\n@triton.jit\ndef kernel(x):\n    i = tl.arange(0, 32)\n    a = "
        "tl.load(x + i)\n    b = " +
            call + "\n    tl.store(x + i, b)\n",
        "kernel.py");
    const ArgType pointer{Elem::F32, true, 16};
    try {
      program.kernel("kernel").compile(std::span(&pointer, 1), {}, "sm_80");
    } catch (const CompileError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(compiled("tl.inline_asm_elementwise('mov.b32 $0, $1; // $$', '=f,0', [a], tl.float32, True, 1)"), "");
  std::string call = "tl.inline_asm_elementwise('add.f32 ${0}, $1;', '=f,f', [a], tl.float32, True, 1)";
  EXPECT_EQ(compiled(call), at_call(call,
                                    "the assembler refuses 'add.f32 ${0}, $1;': Arguments mismatch for instruction "
                                    "'add'",
                                    ""));
  call =
      "tl.inline_asm_elementwise('{.reg .f32 t;\\n mov.f32 t, $1;\\n ad.f32 $0, t, t; }', '=f,f', [a], tl.float32, "
      "True, 1)";
  EXPECT_EQ(compiled(call),
            at_call(call,
                    "the assembler refuses 'ad.f32 $0, t, t; }' in line 3 of the assembly: Not a name of "
                    "any known instruction: 'ad'",
                    ""));
  call = "tl.inline_asm_elementwise('{ mov.f32 $0, $1;', '=f,f', [a], tl.float32, True, 1)";
  EXPECT_TRUE(compiled(call).starts_with("kernel.py:8:9: error: the assembler refuses '{ mov.f32 $0, $1;': "))
      << compiled(call);
}

// Each row of asm_versions.def, and the code around it: ptxas refuses an instruction in a text of an earlier version.
TEST(InlineAsm, RaisesTheVersionOfPtx) {
  struct Case {
    std::string_view assembly, target, version;
  };
  for (const auto& [assembly, target, version] : {
           Case{"mov.b32 $0, $1;", "sm_80", "7.4"},
           Case{"bmsk.clamp.b32 $0, $1, 3;", "sm_80", "7.6"},
           Case{"{ .reg .u64 g; mov.u64 g, %current_graph_exec; mov.b32 $0, $1; }", "sm_80", "8.0"},
           Case{"mov.u32 $0, %aggr_smem_size; // $1", "sm_90", "8.1"},
           Case{"{ .reg .b64 d; .reg .f32 f; cvt.u64.u32 d, $1; mov.b32 f, $1; multimem.red.relaxed.sys.global.add.f32 "
                "[d], f; mov.b32 $0, $1; }",
                "sm_90", "8.1"},
           Case{
               "{ .reg .b64 d; cvt.u64.u32 d, $1; multimem.ld_reduce.relaxed.sys.global.add.acc::f32.bf16x2 $0, [d]; }",
               "sm_90", "8.2"},
           Case{"cvt.rna.satfinite.tf32.f32 $0, $1;", "sm_90", "8.1"},
           Case{"{ .reg .b64 d; .reg .b128 q; cvt.u64.u32 d, $1; mov.b128 q, {d, d}; mov.b32 $0, $1; }", "sm_80",
                "8.3"},
           Case{"fence.proxy.tensormap::generic.release.gpu; mov.b32 $0, $1;", "sm_90", "8.3"},
           Case{"{ .reg .f32 f; mov.b32 f, $1; max.f32 f, f, 0f00000000, f; mov.b32 $0, f; }", "sm_100", "8.8"},
       }) {
    Program program =
        Program::parse(fmt::format("import triton\nimport triton.language as tl\n\n@triton.jit\ndef "
                                   "kernel(x):\n    i = tl.arange(0, 32)\n    a = tl.load(x + i)\n    "
                                   "b = tl.inline_asm_elementwise('{}', '=r,r', [a], tl.int32, True, "
                                   "1)\n    tl.store(x + i, b)\n",
                                   assembly));
    const ArgType pointer{Elem::I32, true, 16};
    const std::string ptx = program.kernel("kernel").compile(std::span(&pointer, 1), {}, std::string(target)).ptx;
    EXPECT_NE(ptx.find(fmt::format(".version {}\n", version)), ptx.npos) << assembly << "\n" << ptx.substr(0, 200);
  }
}

}  // namespace
}  // namespace tegula::ops
