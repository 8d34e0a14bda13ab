// label: unit
// Asynchronous copies on the emulator: each is done as late as the waits allow.
#include "codegen/compile.h"
#include "codegen/ir/reader.h"
#include "tests/codegen/exec/emulator/emulator_kernels.h"

namespace tegula {
namespace {

constexpr int kPoisoned = int(0xCDCDCDCD);

// One thread: `steps` with addresses %a0 .. %a3 in shared memory, 16 bytes apart, and %x0 .. %x3 in global memory
// likewise; then out[i] = the first word of a_i.
std::string kernel_text(const std::string& steps) {
  std::string body = R"(
  %t = call i32 @tegula.hw.thread_id()
  %first = icmp eq i32 %t, 0
  %base = call i32 @tegula.hw.shared_base()
)";
  for (int i = 0; i < 4; ++i)
    body += fmt::format(
        "  %a{0} = add i32 %base, {1}\n  %x{0} = getelementptr i8, ptr addrspace(1) %x, i32 {1}\n"
        "  %o{0} = getelementptr i32, ptr addrspace(1) %out, i32 {0}\n",
        i, 16 * i);
  body += steps;
  for (int i = 0; i < 4; ++i)
    body += fmt::format(
        "  %v{0} = call i32 @tegula.hw.ld_shared_b32(i32 %a{0}, i32 8)\n"
        "  call void @tegula.hw.st_global_b32(ptr addrspace(1) %o{0}, i32 %v{0}, i1 %first, i32 9)\n",
        i);
  return body + "  ret void";
}

std::string copy(int bytes, int to, int from, int read, int site = 1) {
  return fmt::format("  call void @tegula.hw.cp_async_{}(i32 %a{}, ptr addrspace(1) %x{}, i1 {}, i32 {})\n", bytes, to,
                     from, read > 0, site);
}
const std::string kCommit = "  call void @tegula.hw.cp_async_commit()\n";
std::string wait(int pending) { return fmt::format("  call void @tegula.hw.cp_async_wait.{}()\n", pending); }

const std::vector<ImageParam> kParams = {pointer("x", Elem::I32), pointer("out", Elem::I32)};

std::vector<int> run(const std::string& steps) {
  auto device = make_emulator({.threads = 1});
  auto kernel = device->load(make_image(kParams, kernel_text(steps), 1, 64));
  std::vector<int> values(16);
  std::iota(values.begin(), values.end(), 100);
  Array<int> x(*device, values), out(*device, 4);
  launch(*kernel, {1}, x.address(), out.address());
  return out.values();
}

using Values = std::vector<int>;

TEST(AsyncCopy, DoneAtTheWaitThatCoversIt) {
  const std::string two = copy(16, 0, 0, 16) + kCommit + copy(8, 1, 1, 8) + copy(4, 2, 2, 4) + kCommit;
  EXPECT_EQ(run(two), (Values{kPoisoned, kPoisoned, kPoisoned, kPoisoned})) << "no wait";
  EXPECT_EQ(run(two + wait(2)), (Values{kPoisoned, kPoisoned, kPoisoned, kPoisoned}));
  EXPECT_EQ(run(two + wait(1)), (Values{100, kPoisoned, kPoisoned, kPoisoned}));
  EXPECT_EQ(run(two + wait(0)), (Values{100, 104, 108, kPoisoned}));
  EXPECT_EQ(run(two + wait(1) + wait(0)), (Values{100, 104, 108, kPoisoned}));
  EXPECT_EQ(run(two + copy(4, 3, 3, 4) + wait(0)), (Values{100, 104, 108, kPoisoned})) << "not committed";
  EXPECT_EQ(run(two + kCommit + kCommit + wait(2)), (Values{100, 104, 108, kPoisoned})) << "empty groups count";
  EXPECT_EQ(run(two + wait(0) + copy(16, 0, 1, 16) + kCommit), (Values{100, 104, 108, kPoisoned})) << "old data";
}

TEST(AsyncCopy, ZeroFillAndLateRead) {
  const std::string zeros = copy(16, 0, 0, 0) + copy(8, 1, 1, 0) + copy(4, 2, 2, 0) + kCommit;
  EXPECT_EQ(run(zeros + wait(0)), (Values{0, 0, 0, kPoisoned}));
  // The source is read when the copy is done: what is stored in between gets in.
  EXPECT_EQ(run(copy(4, 0, 0, 4) + kCommit +
                "  call void @tegula.hw.st_global_b32(ptr addrspace(1) %x0, i32 7, i1 true, i32 1)\n" + wait(0)),
            (Values{7, kPoisoned, kPoisoned, kPoisoned}));
}

TEST(AsyncCopy, BySomeThreads) {
  auto some = [](int to, bool reads, bool copies) {
    return fmt::format(
        "  call void @tegula.hw.cp_async_by_some_4(i32 %a{0}, ptr addrspace(1) %x{0}, i1 {1}, i1 {2}, i32 1)\n", to,
        reads, copies);
  };
  EXPECT_EQ(run(some(0, true, true) + some(1, true, false) + some(2, false, true) + some(3, false, false) + kCommit +
                wait(0)),
            (Values{100, kPoisoned, 0, kPoisoned}));
}

// Each of 128 threads copies its own word and reads that of another one after wait and barrier; many rounds, two
// buffers.
TEST(AsyncCopy, PipelineOverRounds) {
  const std::string body = R"(
  %t = call i32 @tegula.hw.thread_id()
  %base = call i32 @tegula.hw.shared_base()
  %o = mul i32 %t, 4
  %mine = add i32 %base, %o
  %ro = sub i32 508, %o
  %other = add i32 %base, %ro
  %x0 = getelementptr i32, ptr addrspace(1) %x, i32 %t
  call void @tegula.hw.cp_async_4(i32 %mine, ptr addrspace(1) %x0, i1 true, i32 1)
  call void @tegula.hw.cp_async_commit()
  br label %loop
loop:
  %k = phi i32 [ 0, %0 ], [ %k1, %loop ]
  %sum = phi i32 [ 0, %0 ], [ %sum1, %loop ]
  %k1 = add i32 %k, 1
  %inside = icmp slt i32 %k1, %n
  %row = mul i32 %k1, 128
  %at = add i32 %row, %t
  %from = getelementptr i32, ptr addrspace(1) %x, i32 %at
  %odd1 = and i32 %k1, 1
  %next = mul i32 %odd1, 512
  %to = add i32 %mine, %next
  call void @tegula.hw.cp_async_4(i32 %to, ptr addrspace(1) %from, i1 %inside, i32 2)
  call void @tegula.hw.cp_async_commit()
  call void @tegula.hw.cp_async_wait.1()
  call void @tegula.hw.barrier(i32 3)
  %odd = and i32 %k, 1
  %now = mul i32 %odd, 512
  %a = add i32 %other, %now
  %v = call i32 @tegula.hw.ld_shared_b32(i32 %a, i32 4)
  %sum1 = add i32 %sum, %v
  call void @tegula.hw.barrier(i32 5)
  br i1 %inside, label %loop, label %end
end:
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %t
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %p, i32 %sum1, i1 true, i32 6)
  ret void)";
  constexpr int kRounds = 300;
  std::vector<int> x(kRounds * 128), expected(128);
  for (int i = 0; i < kRounds * 128; ++i) {
    x[i] = i * 7 % 1000;
    expected[127 - i % 128] += x[i];
  }
  for (uint64_t seed : {0, 1, 2}) {
    auto device = make_emulator({.seed = seed});
    auto kernel =
        device->load(make_image({pointer("x", Elem::I32), pointer("out", Elem::I32), scalar("n")}, body, 4, 1024));
    Array<int> in(*device, x), out(*device, 128);
    launch(*kernel, {1}, in.address(), out.address(), kRounds);
    EXPECT_EQ(out.values(), expected) << seed;
  }
}

TEST(AsyncCopy, FaultsNameTheCopy) {
  auto fault = [](const std::string& steps, const char* target = "sm_90a") {
    auto device = make_emulator({.target = target});
    return error_of([&] {
      auto kernel = device->load(make_image(kParams, kernel_text(steps), 1, 64));
      Array<int> x(*device, 14), out(*device, 4);
      launch(*kernel, {1}, x.address(), out.address());
    });
  };
  EXPECT_CONTAINS(fault(copy(16, 0, 3, 16, 4) + kCommit + wait(0)), "out-of-bounds read of 16 bytes at");
  EXPECT_CONTAINS(fault(copy(16, 0, 3, 16, 4)), "at k.py:4:5, program (0, 0, 0), thread 0");
  EXPECT_EQ(fault(copy(16, 0, 3, 0, 4) + kCommit + wait(0)), "no error") << "zeros read nothing";
  EXPECT_CONTAINS(
      fault("  %b = add i32 %a0, 8\n  call void @tegula.hw.cp_async_16(i32 %b, ptr addrspace(1) %x0, i1 true, "
            "i32 5)\n"),
      "misaligned write of 16 bytes in shared memory at offset 8, which is not a multiple of 16\n"
      "  at k.py:5:5");
  EXPECT_CONTAINS(
      fault("  %b = add i32 %a0, 64\n  call void @tegula.hw.cp_async_8(i32 %b, ptr addrspace(1) %x0, i1 true, "
            "i32 5)\n"),
      "out-of-bounds write of 8 bytes in shared memory at offset 64; the program has 64 bytes");
  // A launch after a fault starts with nothing pending.
  auto device = make_emulator({.threads = 1});
  auto faulty = device->load(make_image(kParams, kernel_text(copy(4, 0, 0, 4) + copy(16, 0, 3, 16)), 1, 64));
  auto idle = device->load(make_image(kParams, kernel_text(kCommit + wait(0)), 1, 64));
  Array<int> x(*device, 14), out(*device, 4);
  EXPECT_CONTAINS(error_of_launch(*faulty, {1}, x.address(), out.address()), "out-of-bounds");
  launch(*idle, {1}, x.address(), out.address());
  EXPECT_EQ(out.values()[0], kPoisoned);
}

TEST(AsyncCopy, ModifiersMustBeTheNumbersWanted) {
  auto device = make_emulator();
  auto image = make_image({}, "  call void @tegula.hw.cp_async_wait.1()\n  ret void");
  std::string text(image.bitcode.begin(), image.bitcode.end());
  for (size_t at = 0; (at = text.find("cp_async_wait.1", at)) != text.npos;) text.replace(at, 15, "cp_async_wait.x");
  image.bitcode.assign(text.begin(), text.end());
  EXPECT_CONTAINS(error_of([&] { device->load(image); }),
                  "'tegula.hw.cp_async_wait.x' names other modifiers than the 1 numbers that it takes");
}

// Elements whose addresses are only known to be their own size apart: no instruction copies so few bytes.
TEST(AsyncCopy, ElementByElement) {
  for (auto [name, bytes] : {std::pair{"i16", 2}, {"i8", 1}, {"i32", 4}}) {
    const std::string text = fmt::format(R"(
func @k(%0: ptr<{0}> "x", %1: ptr<{0}> "out", %2: i32 "n") {{num_warps = 2}} {{
  %3 = arange {{end = 32, start = 0}} : tile<32xi32>
  %4 = expand_dims %3 {{axis = 0}} : tile<1x32xi32>
  %5 = broadcast %4 : tile<32x32xi32>
  %6 = expand_dims %3 {{axis = 1}} : tile<32x1xi32>
  %7 = broadcast %6 : tile<32x32xi32>
  %8 = constant {{value = 32}} : tile<32x32xi32>
  %9 = mul %7, %8 : tile<32x32xi32>
  %10 = add %9, %5 : tile<32x32xi32>
  %11 = splat %0 : tile<32x32xptr<{0}>>
  %12 = addptr %11, %10 : tile<32x32xptr<{0}>>
  %13 = splat %2 : tile<32x32xi32>
  %14 = lt %10, %13 : tile<32x32xi1>
  %15 = shared_alloc {{slots = 1}} : shared<32x32x{0}>
  async_copy %12, %15, %14
  %16 = async_commit : token<group>
  async_wait %16
  %17 = shared_read %15 : tile<32x32x{0}>
  %18 = splat %1 : tile<32x32xptr<{0}>>
  %19 = addptr %18, %10 : tile<32x32xptr<{0}>>
  store %19, %17
  return
}}
)",
                                         name);
    Diagnostics diags;
    auto func = ir::read(text, "k.tile", diags);
    ASSERT_TRUE(func) << diags.render();
    CompileOptions options;
    options.target = *find_target("sm_90a");
    const std::optional<KernelImage> code = compile(*func, options, diags);
    options.emulator = true;
    auto image = compile(*func, options, diags);
    ASSERT_TRUE(code && image) << diags.render();
    auto device = make_emulator({.seed = 1});
    auto kernel = device->load(*image);
    const int count = 32 * 32, n = 1000;
    std::vector<uint8_t> x(size_t(count * bytes)), exact(size_t(count * bytes));
    for (size_t i = 0; i < x.size(); ++i) x[i] = uint8_t(i * 7 + i / 256);
    std::copy_n(x.begin(), n * bytes, exact.begin());
    Array<uint8_t> in(*device, x), out(*device, exact.size());
    launch(*kernel, {1}, in.address(), out.address(), n);
    EXPECT_EQ(out.values(), exact) << name;
    EXPECT_EQ(code->ptx.find("cp.async.ca.shared") != std::string::npos, bytes == 4) << name;
  }
}

}  // namespace
}  // namespace tegula
