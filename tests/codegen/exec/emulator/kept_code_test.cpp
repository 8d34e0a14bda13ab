// label: device
// The emulator: code of kernels is kept for later processes, which neither translate nor compile it again.
#include "codegen/exec/emulator/code/kept_code.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "runtime/store/image_cache.h"
#include "tests/checks_off.h"
#include "tests/codegen/exec/emulator/emulator_kernels.h"

namespace tegula::emulator {
namespace {

namespace fs = std::filesystem;

/// out[t] = what stands at the place t of a table of pointers to numbers, less two halves of 1 and more by their
/// bits, plus 1 by inline PTX, summed up over pairs.
KernelImage kernel_of_everything() {
  return make_image({pointer("out", Elem::I32)}, R"(
  %t = call i32 @tegula.hw.thread_id()
  %odd = and i32 %t, 3
  %slot = getelementptr ptr, ptr @table, i32 %odd
  %number = load ptr, ptr %slot
  %a = load i32, ptr %number
  %c = sub i32 %a, bitcast (<2 x half> splat (half 0xH3C00) to i32)
  %d = add i32 %c, 1006648320
  %b = call i32 @tegula.asm.increment(i32 %d)
  %s = call i32 @tegula.hw.shfl_bfly_b32(i32 %b, i32 1)
  %r = add i32 %s, %b
  %f = sitofp i32 %r to float
  %h = fptrunc float %f to half
  %g = fptosi half %h to i32
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %t
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %p, i32 %g, i1 true, i32 1)
  ret void)",
                    1, 0, R"(
@numbers = internal constant [5 x i32] [i32 10, i32 20, i32 30, i32 40, i32 50]
@table = internal constant [4 x ptr] [ptr @numbers, ptr getelementptr (i8, ptr @numbers, i64 4),
  ptr getelementptr (i8, ptr @numbers, i64 12), ptr getelementptr (i8, ptr @numbers, i64 16)]
declare i32 @tegula.asm.increment(i32) #1
attributes #1 = { "tegula-asm"="add.s32 $0, $1, 1;" "tegula-asm-constraints"="=r,r" "tegula-asm-site"="1" }
)");
}

std::vector<int> expected() {
  std::vector<int> all;
  for (int t = 0; t < 32; ++t) all.push_back(t % 4 < 2 ? 11 + 21 : 41 + 51);
  return all;
}

class KeptCode : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tegula-kept-code-XXXXXX";
    folder_ = mkdtemp(name);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// As each process has its own.
  std::shared_ptr<ImageCache> cache() {
    return std::make_shared<ImageCache>(ImageCache::Options{
        .folder = folder_, .max_bytes = 1 << 24, .warn = [this](auto& text) { warnings_.push_back(text); }});
  }
  std::unique_ptr<JitKernel> found_by_a_new_process(Tier tier) {
    jits_.push_back(std::make_unique<Jit>(false, false, Births(), cache()));
    return jits_.back()->find(image_, target_, tier);
  }
  std::vector<int> results(bool optimised) {
    auto device = make_emulator({.threads = 1, .optimised_at_once = optimised, .code_cache = cache()});
    auto kernel = device->load(image_);
    Array<int> out(*device, 32);
    launch(*kernel, {1}, out.address());
    return out.values();
  }
  fs::path entry() {
    std::vector<fs::path> codes;
    for (const auto& file : fs::directory_iterator(folder_))
      if (file.path().extension() == ".code") codes.push_back(file.path());
    EXPECT_EQ(codes.size(), 1u);
    return codes.empty() ? fs::path() : codes[0];
  }
  static std::string contents(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const ChecksOff checks_off_;
  const KernelImage image_ = kernel_of_everything();
  const Target target_ = *find_target("sm_90a");
  fs::path folder_;
  std::vector<std::string> warnings_;
  std::vector<std::unique_ptr<Jit>> jits_;
};

TEST_F(KeptCode, LaterProcessesFindWhatEachTierMade) {
  for (bool optimised : {false, true}) {
    SCOPED_TRACE(optimised);
    const Tier tier = optimised ? Tier::Optimised : Tier::Quick;
    EXPECT_EQ(found_by_a_new_process(tier), nullptr);
    EXPECT_EQ(results(optimised), expected());
    const std::string before = contents(entry());
    const auto found = found_by_a_new_process(tier);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->code.bytecode == nullptr, optimised);
    EXPECT_EQ(found->blocks.size(), 1u);
    EXPECT_GT(found->places.size(), 0u);
    EXPECT_GT(found->optimising_seconds, 0);
    EXPECT_EQ(results(optimised), expected());
    EXPECT_EQ(contents(entry()), before);
    EXPECT_EQ(warnings_, std::vector<std::string>());
    fs::remove(entry());
  }
}

// What is damaged is told of, and made again.
TEST_F(KeptCode, DamagedEntriesAreMadeAgain) {
  EXPECT_EQ(results(false), expected());
  const fs::path file = entry();
  const std::string whole = contents(file);
  auto damaged = [&](const std::string& bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
    warnings_.clear();
    EXPECT_EQ(found_by_a_new_process(Tier::Quick), nullptr);
    EXPECT_EQ(warnings_.size(), 1u);
    EXPECT_FALSE(fs::exists(file));
    EXPECT_EQ(results(false), expected());
    EXPECT_EQ(contents(file), whole);
  };
  for (size_t part : {0, 1, 2, 3}) damaged(whole.substr(0, whole.size() * part / 4 + (part == 3)));
  for (size_t at = 0; at < whole.size(); at += whole.size() / 16 + 1) {
    SCOPED_TRACE(at);
    std::string flipped = whole;
    flipped[at] = char(flipped[at] ^ 1);
    damaged(flipped);
  }
}

// Bytes that the digest does not guard.
TEST_F(KeptCode, PartsOfCodeAreNoCode) {
  Jit jit(false, false, Births(), cache());
  const auto kernel = jit.compile(image_, target_, Tier::Quick);
  const std::string whole = to_bytes("", *kernel);
  auto readable = [](const std::string& bytes) {
    JitKernel read;
    return read_code(bytes, read).has_value();
  };
  EXPECT_TRUE(readable(whole));
  EXPECT_FALSE(readable(whole + '\0'));
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) ASSERT_FALSE(readable(whole.substr(0, bytes))) << bytes;
  // The same from a process where everything lies elsewhere.
  const auto again = Jit(false, false, Births(), cache()).find(image_, target_, Tier::Quick);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(to_bytes("", *again), whole);
}

}  // namespace
}  // namespace tegula::emulator
