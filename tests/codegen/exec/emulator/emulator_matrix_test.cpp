// Matrix instructions of a warp on the emulator: mma.sync, ldmatrix, stmatrix.
#include <random>

#include "runtime/base/float16.h"
#include "tests/checks_off.h"
#include "tests/codegen/exec/emulator/emulator_kernels.h"

namespace tegula {
namespace {

std::string store_all(int n, const char* type) {
  std::string fields, text;
  for (int i = 0; i < n; ++i) fields += fmt::format("{}{}", i ? ", " : "", type);
  for (int i = 0; i < n; ++i) {
    text +=
        fmt::format("  %e{0} = extractvalue {{{1}}} %r, {0}\n  %b{0} = bitcast {2} %e{0} to i32\n", i, fields, type);
    text += fmt::format("  %o{0} = mul i32 %t, {1}\n  %i{0} = add i32 %o{0}, {0}\n", i, n);
    text += fmt::format("  %p{0} = getelementptr i32, ptr addrspace(1) %out, i32 %i{0}\n", i);
    text += fmt::format("  call void @tegula.hw.st_global_b32(ptr addrspace(1) %p{0}, i32 %b{0}, i1 true, i32 1)\n", i);
  }
  return text + "  ret void";
}

TEST(Emulator, MultipliesMatrices) {
  for (bool half : {true, false}) {
    std::string body = "  %t = call i32 @tegula.hw.thread_id()\n";
    auto load = [&](const char* name, const char* array, int count) {
      for (int i = 0; i < count; ++i)
        body += fmt::format(
            "  %{0}o{1} = mul i32 %t, {3}\n  %{0}i{1} = add i32 %{0}o{1}, {1}\n"
            "  %{0}p{1} = getelementptr i32, ptr addrspace(1) %{2}, i32 %{0}i{1}\n"
            "  %{0}{1} = call i32 @tegula.hw.ld_global_b32(ptr addrspace(1) %{0}p{1}, i32 0, i1 true, i32 1)\n",
            name, i, array, count);
    };
    load("a", "A", 4);
    load("b", "B", 2);
    load("c", "C", 4);
    for (int i = 0; i < 4; ++i) body += fmt::format("  %cf{0} = bitcast i32 %c{0} to float\n", i);
    body += fmt::format(
        "  %r = call {{float, float, float, float}} @tegula.hw.mma_m16n8k16_{}(i32 %a0, i32 %a1, i32 %a2, i32 %a3, "
        "i32 %b0, i32 %b1, float %cf0, float %cf1, float %cf2, float %cf3)\n",
        half ? "f16" : "bf16");
    std::string store = store_all(4, "float");
    for (const char* name : {"b0", "b1", "b2", "b3"}) {  // names of B's registers are taken
      std::string from = fmt::format("%{} ", name), to = fmt::format("%bits{} ", name);
      for (size_t at = 0; (at = store.find(from, at)) != std::string::npos;) store.replace(at, from.size(), to);
      from.back() = ',', to.back() = ',';
      for (size_t at = 0; (at = store.find(from, at)) != std::string::npos;) store.replace(at, from.size(), to);
    }
    auto device = make_emulator();
    auto kernel = device->load(
        make_image({pointer("A", Elem::I32), pointer("B", Elem::I32), pointer("C"), pointer("out")}, body + store));

    std::mt19937 random(3);
    auto value = [&] { return float(int(random() % 33) - 16) / 4; };
    auto bits = [&](float f) -> uint32_t { return half ? float16(f).bits : bfloat16(f).bits; };
    float a[16][16], b[16][8], c[16][8];
    for (auto& row : a)
      for (float& f : row) f = value();
    for (auto& row : b)
      for (float& f : row) f = value();
    for (auto& row : c)
      for (float& f : row) f = value();
    std::vector<uint32_t> av(128), bv(64);
    std::vector<float> cv(128);
    for (int lane = 0; lane < 32; ++lane) {
      int g = lane / 4, p = lane % 4 * 2;
      av[lane * 4 + 0] = bits(a[g][p]) | bits(a[g][p + 1]) << 16;
      av[lane * 4 + 1] = bits(a[g + 8][p]) | bits(a[g + 8][p + 1]) << 16;
      av[lane * 4 + 2] = bits(a[g][p + 8]) | bits(a[g][p + 9]) << 16;
      av[lane * 4 + 3] = bits(a[g + 8][p + 8]) | bits(a[g + 8][p + 9]) << 16;
      bv[lane * 2 + 0] = bits(b[p][g]) | bits(b[p + 1][g]) << 16;
      bv[lane * 2 + 1] = bits(b[p + 8][g]) | bits(b[p + 9][g]) << 16;
      cv[lane * 4 + 0] = c[g][p], cv[lane * 4 + 1] = c[g][p + 1];
      cv[lane * 4 + 2] = c[g + 8][p], cv[lane * 4 + 3] = c[g + 8][p + 1];
    }
    Array<uint32_t> A(*device, av), B(*device, bv);
    Array<float> C(*device, cv), out(*device, 128);
    launch(*kernel, {1}, A.address(), B.address(), C.address(), out.address());
    std::vector<float> d = out.values();
    for (int lane = 0; lane < 32; ++lane)
      for (int r = 0; r < 4; ++r) {
        int i = lane / 4 + r / 2 * 8, j = lane % 4 * 2 + r % 2;
        float expected = c[i][j];
        for (int k = 0; k < 16; ++k) expected += a[i][k] * b[k][j];
        EXPECT_EQ(d[lane * 4 + r], expected) << i << " " << j;
      }
  }
}

// A row of hw.def that moves n matrices between registers and shared memory.
struct MatrixMove {
  const char* row;
  int n;
  bool transposed;
};

// A row of 16 bytes for each thread, in reverse order.
constexpr const char* kRows = R"(
  %t = call i32 @tegula.hw.thread_id()
  %base = call i32 @tegula.hw.shared_base()
  %back = sub i32 31, %t
  %off = mul i32 %back, 16
  %row = add i32 %base, %off
)";

// The n words of %r that each thread of a warp ends with.
std::vector<uint32_t> words_of_warp(const std::string& body, int n) {
  auto device = make_emulator();
  auto kernel = device->load(make_image({pointer("out", Elem::I32)}, body + store_all(n, "i32"), 1, 512));
  Array<uint32_t> out(*device, 32 * n);
  launch(*kernel, {1}, out.address());
  return out.values();
}

TEST(Emulator, LoadsMatrices) {
  for (MatrixMove c : {MatrixMove{"ldmatrix_x1", 1, false}, MatrixMove{"ldmatrix_x4", 4, false},
                       MatrixMove{"ldmatrix_x2_trans", 2, true}}) {
    // Element (m, i, j), the j-th of row i of matrix m, holds 64 m + 8 i + j.
    std::string body = kRows;
    for (int j = 0; j < 8; ++j)
      body += fmt::format(
          "  %v{0} = mul i32 %t, 8\n  %w{0} = add i32 %v{0}, {0}\n  %h{0} = trunc i32 %w{0} to i16\n"
          "  %a{0} = add i32 %row, {1}\n  call void @tegula.hw.st_shared_b16(i32 %a{0}, i16 %h{0}, i1 true, i32 1)\n",
          j, 2 * j);
    std::string fields = "i32";
    for (int i = 1; i < c.n; ++i) fields += ", i32";
    body += fmt::format("  call void @tegula.hw.barrier(i32 2)\n  %r = call {{{}}} @tegula.hw.{}(i32 %row, i32 3)\n",
                        fields, c.row);
    const std::vector<uint32_t> result = words_of_warp(body, c.n);
    for (int lane = 0; lane < 32; ++lane)
      for (int m = 0; m < c.n; ++m) {
        int i = lane / 4, j = lane % 4 * 2;
        uint32_t first = c.transposed ? 64 * m + 8 * j + i : 64 * m + 8 * i + j;
        uint32_t second = c.transposed ? first + 8 : first + 1;
        EXPECT_EQ(result[lane * c.n + m], first | second << 16) << c.row << " lane " << lane << " matrix " << m;
      }
  }
}

TEST(Emulator, StoresMatrices) {
  const ChecksOff off;  // of one or two matrices, lanes read rows too that nobody has stored
  for (MatrixMove c : {MatrixMove{"stmatrix_x1", 1, false}, MatrixMove{"stmatrix_x4", 4, false},
                       MatrixMove{"stmatrix_x2_trans", 2, true}}) {
    // Lane l stores 64 m + 2 l and 64 m + 2 l + 1 of matrix m.
    std::string body = std::string(kRows) + "  %e = mul i32 %t, 2\n";
    std::string words;
    for (int m = 0; m < c.n; ++m) {
      body += fmt::format("  %a{0} = add i32 %e, {1}\n  %d{0} = mul i32 %a{0}, 65537\n  %w{0} = add i32 %d{0}, 65536\n",
                          m, 64 * m);
      words += fmt::format("i32 %w{}, ", m);
    }
    body += fmt::format("  call void @tegula.hw.{}(i32 %row, {}i32 3)\n  call void @tegula.hw.barrier(i32 2)\n", c.row,
                        words);
    body += "  %r = call {i32, i32, i32, i32} @tegula.hw.ld_shared_v4b32(i32 %row, i32 3)\n";
    const std::vector<uint32_t> result = words_of_warp(body, 4);
    for (int m = 0; m < c.n; ++m)
      for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; ++j) {
          uint32_t word = result[(8 * m + i) * 4 + j / 2], found = j % 2 ? word >> 16 : word & 0xffff;
          EXPECT_EQ(found, uint32_t(64 * m + (c.transposed ? 8 * j + i : 8 * i + j))) << c.row << " " << i << " " << j;
        }
  }
}

}  // namespace
}  // namespace tegula
