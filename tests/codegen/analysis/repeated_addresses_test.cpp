// label: device
// Places in memory that a tile of pointers has more than once: which tiles may have them, and that a program's order
// holds for them.
#include "codegen/analysis/repeated_addresses.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "dsl/tegula.h"
#include "tests/devices.h"

namespace tegula {
namespace {

// Of `p`, which `text` computes of x, an array, and n, a number of the launch; along one axis, if it is given.
bool repeats(const std::string& text, std::optional<int> axis = {}) {
  std::string source = "@triton.jit\ndef kernel(x, n):\n";
  for (const std::string& line : {std::string("i = tl.arange(0, 64)"), std::string("j = tl.arange(0, 16)"), text,
                                  std::string("tl.store(p, 1.0)")})
    source += "    " + line + "\n";
  const Program program = Program::parse("import triton\nimport triton.language as tl\n\n\n" + source, "repeated.py");
  const std::vector<ArgType> types{{.elem = Elem::F32, .pointer = true}, {.elem = Elem::I32}};
  const auto func = program.kernel("kernel").tile_func(types, {});
  std::optional<bool> found;
  ir::walk(func->body, [&](const ir::Op& op) {
    if (op.opcode != ir::Opcode::Store) return;
    const ir::Value* pointers = op.operand(0);
    found = axis ? may_repeat_along(pointers, *axis) : may_repeat(pointers);
  });
  EXPECT_TRUE(found) << text;
  return found.value_or(false);
}

TEST(RepeatedAddresses, OfSumsAndProducts) {
  for (const char* apart :
       {"p = x + i", "p = x + (n * 64 + i)", "p = x + i * 3 - n", "p = x + i[:, None] * 16 + j[None, :]",
        "p = x + i[:, None] * n + j[None, :]", "p = x + i[:, None] + j[None, :] * 64", "p = x + (i << 2) * n",
        "p = x + tl.trans(i[:, None] * 16 + j[None, :])", "p = tl.reshape(x + i[:, None] * 16 + j[None, :], [1024])",
        "p = x + i.to(tl.int64) * n", "p = x + (-i)", "p = x - i"})
    EXPECT_FALSE(repeats(apart)) << apart;
  for (const char* repeated :
       {"p = x + i // 2", "p = x + i % 8", "p = x + i[:, None] * 15 + j[None, :]",
        "p = x + i[:, None] + 0 * j[None, :]", "p = x + tl.broadcast_to(i[:, None], [64, 16])",
        "p = x + tl.minimum(i, n)", "p = x + tl.where(i < n, i, 0)", "p = x + i + i % 2", "p = x + i * i",
        "p = x + (i - i)", "p = x + tl.load(x + i).to(tl.int32)",
        "p = x + i[:, None] * n + tl.load(x + j).to(tl.int32)[None, :]", "p = x + (i ^ 1)", "p = x + i.to(tl.uint8)"})
    EXPECT_TRUE(repeats(repeated)) << repeated;
}

TEST(RepeatedAddresses, OfQuotientsAndRemainders) {
  for (const char* apart :
       {"p = x + i // 8 * n + i % 8", "p = x + i // 8 * 8 + i % 8", "p = x + i % 8 * 64 + i // 8",
        "k = n * 64 + i; p = x + k // n * 100 + k % n", "p = x + i % 4 + i // 4 % 2 * 4 + i // 8 * 8",
        "k = i[:, None] * 16 + j[None, :]; p = x + k // 32 * n + k % 32", "p = x + (i >> 3) * 9 + (i & 7)"})
    EXPECT_FALSE(repeats(apart)) << apart;
  for (const char* repeated : {"p = x + i // 8 + i % 8", "p = x + i // 8 * n + i % 4", "p = x + i // 8 * 7 + i % 8",
                               "p = x + i % 4 + i // 4 % 2 * 4", "p = x + i // 8 * 8 + (i + 1) % 8",
                               "p = x + i % 8 * 2 + i // 8", "p = x + (i // 8 * 16 + i % 8)[:, None] + j[None, :]"})
    EXPECT_TRUE(repeats(repeated)) << repeated;
}

TEST(RepeatedAddresses, OfWhatLoopsHandOn) {
  EXPECT_FALSE(repeats("p = x + i\n    for k in range(n):\n        p += 64"));
  EXPECT_FALSE(repeats("p = x + i\n    if n > 3:\n        p += n"));
  EXPECT_TRUE(repeats("p = x + i\n    for k in range(n):\n        p += i % 2"));
  EXPECT_TRUE(repeats("p = x + i % 8\n    for k in range(n):\n        p += 8"));
  EXPECT_FALSE(repeats("r = i[:, None]\n    if n > 3:\n        r = i[:, None] + 64\n    p = x + r * 16 + j[None, :]"));
  EXPECT_TRUE(repeats("r = i[:, None]\n    if n > 3:\n        r = i[:, None] + 64\n    p = x + r + j[None, :] * 0"));
  EXPECT_TRUE(repeats("c = j\n    if n > 3:\n        c = j * 16\n    p = x + i[:, None] * 16 + c[None, :]"));
  EXPECT_TRUE(repeats("c = i * 64\n    for k in range(1):\n        c = c - i * 64\n    p = x + c"));
  EXPECT_TRUE(repeats("p = x + i\n    q = x + i % 2\n    for k in range(n):\n        p, q = q, p"));
}

TEST(RepeatedAddresses, AlongOneAxis) {
  const std::string loaded = "r = tl.load(x + i).to(tl.int32)\n    ";
  for (const char* rows : {"p = x + i[:, None] // 2 * 16 + j[None, :]", "p = x + i[:, None] // 2 * n + j[None, :]",
                           "p = x + tl.minimum(i, n)[:, None] * 16 + j[None, :]", "p = x + i[:, None] * 0 + j[None, :]",
                           "p = x + r[:, None] * n + j[None, :]", "p = x + r[:, None] * n + j[None, :] * n",
                           "p = x + r[:, None] * 16 + j[None, :]", "p = x + (r * 16)[:, None] + j[None, :]"}) {
    EXPECT_TRUE(repeats(loaded + rows, 0)) << rows;
    EXPECT_FALSE(repeats(loaded + rows, 1)) << rows;
  }
  for (const char* both :
       {"p = x + r[:, None] * (tl.load(x).to(tl.int32) + 1) + j[None, :]", "p = x + r[:, None] * 15 + j[None, :]",
        "p = x + r[:, None] + j[None, :]", "p = x + r[:, None] + j[None, :] * n",
        "p = x + i[:, None] // 2 + j[None, :]", "p = x + r[:, None] * n + j[None, :] // 2",
        "p = x + r[:, None] * i[:, None] + j[None, :]", "p = x + tl.reshape(r[:, None] * n + j[None, :], [16, 64])"})
    for (int axis : {0, 1}) EXPECT_TRUE(repeats(loaded + both, axis)) << both << ", axis " << axis;
}

TEST(RepeatedAddresses, AreLookedForInBoundedTime) {
  std::string text = "a = i\n    b = i * n\n";
  for (int k = 0; k < 60; ++k) text += "    b, a = a + b, b\n";
  EXPECT_TRUE(repeats(text + "    p = x + b"));
}

struct Order {
  const char *what, *text;
  float x, y;  ///< all elements of x, and the first 8 of y
};

TEST(RepeatedAddresses, AreInTheOrderOfTheProgram) {
  const Order orders[] = {
      {"atomic, load", "tl.atomic_add(p, 1.0); tl.store(x + i, tl.load(p))", 32, 32},
      {"load, store", "for t in range(4): tl.store(p, tl.load(p) + 1)", 0, 4},
      {"load, atomic", "v = tl.load(p); tl.atomic_add(p, 1.0); tl.store(x + i, v)", 0, 32},
      {"store, atomic", "tl.store(p, 5.0); tl.atomic_add(p, 1.0)", 0, 37},
      {"exchange, load", "tl.atomic_xchg(p, 7.0); tl.store(x + i, tl.load(p))", 7, 7},
  };
  for (const auto& device : gpu_or_emulators({{}, {.seed = 1}, {.seed = 2}}))
    for (const Order& order : orders)
      for (int warps : {1, 4, 8}) {
        std::string body = order.text;
        for (size_t at; (at = body.find("; ")) != std::string::npos;) body.replace(at, 2, "\n    ");
        const Program program = Program::parse(
            "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef kernel(x, y):\n    i = tl.arange(0, "
            "256)\n"
            "    p = y + i % 8\n    " +
                body + "\n",
            "order.py");
        Buffer x(*device, std::vector<float>(256)), y(*device, std::vector<float>(8));
        program.kernel("kernel").launch(*device, {1}, {.num_warps = warps}, x.as<float>(), y.as<float>());
        EXPECT_EQ(x.download<float>(), std::vector<float>(256, order.x)) << order.what << ", warps " << warps;
        EXPECT_EQ(y.download<float>(), std::vector<float>(8, order.y)) << order.what << ", warps " << warps;
      }
}

// A tile that is computed part by part: each part has all of the rows, so that what one of them stores none loads.
TEST(RepeatedAddresses, AreInOnePartOfALargeTile) {
  const Program program = Program::parse(R"(
import triton
import triton.language as tl

@triton.jit
def kernel(y, rows, n):
    i = tl.load(rows + tl.arange(0, 64))
    p = y + i[:, None] * n + tl.arange(0, 512)[None, :]
    tl.store(p, tl.load(p) + 1)
)",
                                         "parts.py");
  std::vector<int32_t> rows(64);
  for (int k = 0; k < 64; ++k) rows[size_t(k)] = k * 7 % 24;
  for (const auto& device : gpu_or_emulators({{}, {.seed = 1}})) {
    Buffer y(*device, std::vector<float>(24 * 512)), chosen(*device, rows);
    program.kernel("kernel").launch(*device, {1}, {.num_warps = 1}, y.as<float>(), chosen.as<int32_t>(), 512);
    EXPECT_EQ(y.download<float>(), std::vector<float>(24 * 512, 1));
  }
}

}  // namespace
}  // namespace tegula
