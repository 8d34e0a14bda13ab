// label: device
// Accesses by one argument's pointer that fall into another argument's array.
#include "codegen/exec/emulator.h"
#include "dsl/program.h"
#include "tests/codegen/exec/emulator/emulator_kernels.h"

namespace tegula {
namespace {

/// x and y are 128 int32 in memory of their own, `table` holds the addresses of both, n leads from x to y, m three
/// elements farther.
std::string error_of_body(const std::string& body, bool on_host = false) {
  auto device = make_emulator({.check_races = true});
  std::vector<int32_t> host_x(8192, 1), host_y(8192, 1);
  Array<int32_t> x(*device, std::vector<int32_t>(128, 1)), y(*device, std::vector<int32_t>(128, 1));
  const uint64_t at_x = on_host ? reinterpret_cast<uint64_t>(host_x.data()) : x.address();
  const uint64_t at_y = on_host ? reinterpret_cast<uint64_t>(host_y.data()) : y.address();
  const size_t bytes = host_x.size() * sizeof(int32_t);
  device->register_host_range(host_x.data(), bytes);
  device->register_host_range(host_y.data(), bytes);
  Array<int64_t> table(*device, {int64_t(at_x), int64_t(at_y)});
  const int64_t apart = (int64_t(at_y) - int64_t(at_x)) / 4;
  const std::string text =
      "import triton\nimport triton.language as tl\n@triton.jit\ndef kernel(x, y, table, n):\n"
      "    i = tl.arange(0, 64)\n    " +
      body + "\n";
  const int64_t n = body.find("n - 3") != body.npos ? apart + 3 : apart;
  return error_of([&] {
    Program::parse(text, "k.py")
        .kernel("kernel")
        .launch(*device, {1}, {.num_warps = 2}, reinterpret_cast<int32_t*>(at_x), reinterpret_cast<int32_t*>(at_y),
                reinterpret_cast<int64_t*>(table.address()), n);
  });
}

TEST(Arrays, OfOtherArgumentsAreOutOfBounds) {
  size_t planted = 0, found = 0;
  for (const auto& [body, access] : std::vector<std::pair<std::string, std::string>>{
           {"tl.store(x + (n - 3) + i, 2)", "write"},
           {"tl.store(y + i, tl.load(x + (n - 3) + i))", "read"},
           {"tl.atomic_add(x + (n - 3) + i, 2)", "atomic operation"},
           {"tl.store(y + i, tl.load(x + tl.where(i == 5, n - 3, 0)))", "read"},
           {"p = x\n    for k in range(2):\n        tl.store(p + i, 2)\n        p += n - 3", "write"},
       })
    for (bool on_host : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", body, on_host));
      const std::string error = error_of_body(body, on_host);
      EXPECT_CONTAINS(error, "kernel 'kernel': out-of-bounds " + access);
      EXPECT_CONTAINS(error, "of the array of argument 'x', in that of argument 'y'\n  at k.py:");
      ++planted, found += error.find("in that of argument 'y'") != error.npos;
    }
  tell_planted(found, planted);
}

TEST(Arrays, MayBeReachedByPointersThatAreMeantTo) {
  for (const std::string body : {
           "tl.store(x + i, tl.load(y + i))",
           // A table of pointers; the distance as an argument, or computed.
           "p = tl.load(table + 1).to(tl.pointer_type(tl.int32))\n    tl.store(p + i, 2)",
           "tl.store(x + n + i, 2)",
           "p = x + (y.to(tl.int64) - x.to(tl.int64)) // 4\n    tl.store(p + i, 2)",
           // One of two arrays.
           "p = x\n    if tl.load(x) == 1:\n        p = y\n    tl.store(p + i, 2)",
           "p = tl.where(i < 32, x, y)\n    tl.store(p + i, 2)",
           "for k in range(2):\n        tl.store(x + i, tl.load(y + i))\n        x += 64\n        y += 64",
           // Lanes that a mask leaves out.
           "tl.store(x + (n - 3) + i, 2, mask=i < 0)",
       }) {
    SCOPED_TRACE(body);
    EXPECT_EQ(error_of_body(body), "no error");
    EXPECT_EQ(error_of_body(body, true), "no error");
  }
}

// Rows with gaps between them are ranges of their own; one argument's may abut another one's.
TEST(Arrays, OfTheHostWithGapsAreNotToldApart) {
  auto device = make_emulator({.check_races = true});
  std::vector<int32_t> all(8 * 64, 1);
  for (int row = 0; row < 8; ++row) device->register_host_range(&all[size_t(64 * row)], 64);
  for (int row = 3; row < 8; ++row) device->register_host_range(&all[size_t(64 * row + 16)], 64);
  EXPECT_EQ(error_of([&] {
              Program::parse(
                  "import triton\nimport triton.language as tl\n@triton.jit\ndef kernel(x, y):\n"
                  "    i = tl.arange(0, 8)[:, None] * 64 + tl.arange(0, 16)[None, :]\n    tl.store(x + i, 2)\n",
                  "k.py")
                  .kernel("kernel")
                  .launch(*device, {1}, {}, &all[0], &all[64 * 3 + 16]);
            }),
            "no error");
}

// Two arguments may be views of one array.
TEST(Arrays, OfOneAllocationAreNotToldApart) {
  auto device = make_emulator({.check_races = true});
  Array<int32_t> all(*device, 256);
  const auto* view = reinterpret_cast<int32_t*>(all.address());
  EXPECT_EQ(error_of([&] {
              Program::parse(
                  "import triton\nimport triton.language as tl\n@triton.jit\ndef kernel(x, y):\n"
                  "    i = tl.arange(0, 64)\n    tl.store(x + 128 + i, tl.load(y - 64 + i))\n",
                  "k.py")
                  .kernel("kernel")
                  .launch(*device, {1}, {}, const_cast<int32_t*>(view), const_cast<int32_t*>(view) + 64);
            }),
            "no error");
}

}  // namespace
}  // namespace tegula
