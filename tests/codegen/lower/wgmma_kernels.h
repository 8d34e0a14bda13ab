// Products of a warpgroup as LLVM IR: operands in shared memory of all orders and swizzles, and what a plain product
// gives.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "codegen/target/target.h"
#include "dsl/tegula.h"
#include "runtime/base/float16.h"
#include "tests/codegen/exec/emulator/emulator_kernels.h"

namespace tegula {

// An operand in shared memory: rows of A or columns of B, by K.
struct SharedOperand {
  int lines, depth;
  int swizzle;      // bytes: 0, 32, 64, 128
  bool mn_major;    // neighbours in memory are of neighbouring lines
  int element = 2;  // bytes

  int of_chunk() const { return 16 / element; }
  int width() const { return swizzle ? swizzle / 16 : 1; }  // chunks of 16 bytes
  int bytes() const { return lines * depth * element; }

  // Atoms of 8 lines (of memory) by `width` chunks. K-major: atoms follow each other along the lines, then along K;
  // MN-major: along K, then along the lines. Without swizzle an atom is 8 by one chunk and they follow along K first.
  int offset(int line, int k) const {
    int w = width(), atom = 128 * w;
    int major = mn_major ? line : k, minor = mn_major ? k : line;
    int chunk = major / of_chunk(), result;
    if (swizzle)
      result =
          minor / 8 * atom + chunk / w * atom * (mn_major ? depth : lines) / 8 + minor % 8 * 16 * w + chunk % w * 16;
    else
      result = line / 8 * (depth / of_chunk()) * atom + k / of_chunk() * atom + minor % 8 * 16;
    result += major % of_chunk() * element;
    // Chunks of a row of 128 bytes, permuted by the row's number.
    return result ^ ((result >> 7) % w) << 4;
  }
  // Bytes from one part of 32 bytes along K to the next.
  int step() const {
    if (!swizzle) return 256;
    if (mn_major) return 2 * 128 * width();
    return 32;  // within an atom
  }
  uint64_t descriptor(int at) const {
    int w = width(), atom = 128 * w;
    uint64_t leading, stride, mode = swizzle == 0 ? 0 : swizzle == 128 ? 1 : swizzle == 64 ? 2 : 3;
    if (!swizzle) {
      int along_k = atom, along_lines = depth / of_chunk() * atom;
      leading = uint64_t(along_k), stride = uint64_t(along_lines);
    } else {
      leading = mn_major ? uint64_t(atom * depth / 8) : 16, stride = uint64_t(atom);
    }
    return uint64_t(at / 16) | leading / 16 << 16 | stride / 16 << 32 | mode << 62;
  }
};

struct Multiplication {
  int n = 16;
  Elem elem = Elem::F16;
  SharedOperand a{64, 64, 128, false}, b{16, 64, 128, false};
  bool a_in_registers = false;
  int steps = 1;  // of 16 along K
  int num_warps = 4;
  // Pieces of the kernel, to be left out.
  std::string before =
      "  call void @tegula.hw.cp_async_wait.0()\n  call void @tegula.hw.fence_async_shared()\n"
      "  call void @tegula.hw.barrier(i32 2)\n  call void @tegula.hw.wgmma_fence()\n";
  std::string commit = "  call void @tegula.hw.wgmma_commit()\n";
  std::string after;  // between commit and wait
  int pending = 0;    // -1: no wait
};

inline constexpr int kAt = 4096, kBt = kAt + 64 * 64 * 2;  // of the operands
inline constexpr int kShared = kBt + 256 * 64 * 2;
inline constexpr int kBarrierAt = kShared;

inline std::string row(const Multiplication& s) {
  const char* form = s.a_in_registers ? "rs" : "ss";
  switch (s.elem) {
    case Elem::F32:
      return fmt::format("wgmma_m64n{}k8_tf32_{}", s.n, form);
    case Elem::I8:
      return fmt::format("wgmma_m64n{}k32_s8_{}", s.n, form);
    case Elem::U8:
      return fmt::format("wgmma_m64n{}k32_u8_{}", s.n, form);
    default:
      return fmt::format("wgmma_m64n{}k16_{}_{}.{}{}", s.n, s.elem == Elem::BF16 ? "bf16" : "f16", form,
                         s.a_in_registers ? "" : fmt::format("{:d}.", s.a.mn_major), int(s.b.mn_major));
  }
}
// Of the sums.
inline std::string type_of(const std::string& row) {
  return row.find("_s8_") != row.npos || row.find("_u8_") != row.npos ? "i32" : "float";
}
inline std::string wait_row(const std::string& row, int count) {
  return fmt::format("wgmma_wait_{}n{}", type_of(row) == "i32" ? "i32_" : "", count);
}
inline std::string repeated(const std::string& type, int count) {
  std::string list;
  for (int i = 0; i < count; ++i) list += (i ? ", " : "") + type;
  return list;
}

inline std::string declarations(int n, const std::string& row) {
  return fmt::format(R"(
declare void @tegula.hw.fence_async_shared()
declare void @tegula.hw.wgmma_fence() convergent
declare void @tegula.hw.wgmma_commit() convergent
declare void @tegula.hw.mbarrier_init(i32, i32, i1, i32)
declare void @tegula.hw.cp_async_mbarrier_arrive(i32, i32)
declare void @tegula.hw.mbarrier_wait(i32, i32, i32) convergent
declare {{{0}}} @tegula.hw.{1}.0({0}) convergent
declare {{{0}}} @tegula.hw.{1}.1({0}) convergent
declare {{{0}}} @tegula.hw.{2}({3}, i64, {0}, i1, i32) convergent
)",
                     repeated(type_of(row), n / 2), wait_row(row, n / 2), row,
                     row.find("_rs") != row.npos ? "i32, i32, i32, i32" : "i64");
}

// One instruction; result %<name>, its elements %<name>_<i>.
std::string call(const Multiplication& s, const std::string& name, const std::string& a, const std::string& b,
                 const std::string& sums, bool accumulate, int site) {
  const int count = s.n / 2;
  const std::string type = type_of(row(s)), sums_type = repeated(type, count);
  std::string text = fmt::format("  %{} = call {{{}}} @tegula.hw.{}({}, i64 {}, ", name, sums_type, row(s), a, b);
  for (int i = 0; i < count; ++i)
    text += sums.empty() ? type + " zeroinitializer, " : fmt::format("{} %{}_{}, ", type, sums, i);
  text += fmt::format("i1 {}, i32 {})\n", accumulate, site);
  for (int i = 0; i < count; ++i)
    text += fmt::format("  %{0}_{1} = extractvalue {{{2}}} %{0}, {1}\n", name, i, sums_type);
  return text;
}
inline std::string wait(const Multiplication& s, const std::string& name, const std::string& sums, int pending) {
  const int count = s.n / 2;
  const std::string type = type_of(row(s)), sums_type = repeated(type, count);
  std::string text =
      fmt::format("  %{} = call {{{}}} @tegula.hw.{}.{}(", name, sums_type, wait_row(row(s), count), pending);
  for (int i = 0; i < count; ++i) text += fmt::format("{}{} %{}_{}", i ? ", " : "", type, sums, i);
  text += ")\n";
  for (int i = 0; i < count; ++i)
    text += fmt::format("  %{0}_{1} = extractvalue {{{2}}} %{0}, {1}\n", name, i, sums_type);
  return text;
}

// Each thread's registers to %out.
inline std::string stores(const Multiplication& s, const std::string& sums) {
  std::string text;
  for (int r = 0; r < s.n / 2; ++r)
    text += fmt::format(
        "  %oi{0} = mul i32 %t, {1}\n  %oj{0} = add i32 %oi{0}, {0}\n"
        "  %op{0} = getelementptr i32, ptr addrspace(1) %out, i32 %oj{0}\n  %ov{0} = bitcast {3} %{2}_{0} to i32\n"
        "  call void @tegula.hw.st_global_b32(ptr addrspace(1) %op{0}, i32 %ov{0}, i1 true, i32 9)\n",
        r, s.n / 2, sums, type_of(row(s)));
  return text;
}

// Copies the operands from %x to shared memory, multiplies, and stores each thread's registers.
inline std::string kernel_text(const Multiplication& s) {
  std::string body = fmt::format(R"(
  %t = call i32 @tegula.hw.thread_id()
  %base = call i32 @tegula.hw.shared_base()
  %o = mul i32 %t, 16
  %base18 = and i32 %base, 262143
  %base14 = lshr i32 %base18, 4
  %start = zext i32 %base14 to i64
  %fo = mul i32 %t, 4
  br label %copy
copy:
  %i = phi i32 [ 0, %0 ], [ %i1, %copy ]
  %io = mul i32 %i, {0}
  %at = add i32 %io, %o
  %p = getelementptr i8, ptr addrspace(1) %x, i32 %at
  %to = add i32 %base, %at
  call void @tegula.hw.cp_async_16(i32 %to, ptr addrspace(1) %p, i1 true, i32 1)
  %i1 = add i32 %i, 1
  %more = icmp slt i32 %i1, {1}
  br i1 %more, label %copy, label %multiply
multiply:
  call void @tegula.hw.cp_async_commit()
)",
                                 16 * 32 * s.num_warps, kShared / (16 * 32 * s.num_warps));
  // Fragments of A before the fence, as all registers of the instructions.
  for (int k = 0; s.a_in_registers && k < s.steps; ++k)
    for (int r = 0; r < 4; ++r)
      body += fmt::format(
          "  %fi{0}_{1} = add i32 %fo, {2}\n  %fp{0}_{1} = getelementptr i32, ptr addrspace(1) %fragment, i32 "
          "%fi{0}_{1}\n"
          "  %f{0}_{1} = call i32 @tegula.hw.ld_global_b32(ptr addrspace(1) %fp{0}_{1}, i32 0, i1 true, i32 3)\n",
          k, r, k * 512 + r);
  body += s.before;
  std::string sums;
  for (int k = 0; k < s.steps; ++k) {
    body += fmt::format("  %a{0} = add i64 %start, {1}\n  %b{0} = add i64 %start, {2}\n", k,
                        int64_t(s.a.descriptor(kAt + k * s.a.step())), int64_t(s.b.descriptor(kBt + k * s.b.step())));
    std::string a = fmt::format("i64 %a{}", k), name = fmt::format("d{}", k);
    if (s.a_in_registers) a = fmt::format("i32 %f{0}_0, i32 %f{0}_1, i32 %f{0}_2, i32 %f{0}_3", k);
    body += call(s, name, a, fmt::format("%b{}", k), sums, k > 0, 4 + k);
    sums = name;
  }
  body += s.commit + s.after;
  if (s.pending >= 0) {
    body += wait(s, "w", sums, s.pending);
    sums = "w";
  }
  return body + stores(s, sums) + "  ret void";
}

inline KernelImage image(const Multiplication& s) {
  return make_image({pointer("x", Elem::I32), pointer("fragment", Elem::I32), pointer("out")}, kernel_text(s),
                    s.num_warps, kBarrierAt + 8, declarations(s.n, row(s)));
}

inline uint32_t bits_of(float value, Elem elem) {
  switch (elem) {
    case Elem::F32:
      return std::bit_cast<uint32_t>(value);
    case Elem::I8:
    case Elem::U8:
      return uint8_t(int(value));
    case Elem::BF16:
      return bfloat16(value).bits;
    default:
      return float16(value).bits;
  }
}

struct Problem {
  explicit Problem(const Multiplication& s, unsigned seed = 0)
      : a(size_t(s.a.lines * s.a.depth)), b(size_t(s.b.lines * s.b.depth)) {
    std::mt19937 random(seed);
    for (float& v : a) v = float(int(random() % 17) - 8);
    for (float& v : b) v = float(int(random() % 17) - 8) / (is_float(s.elem) ? 4 : 1);
    if (s.elem == Elem::U8)
      for (auto* values : {&a, &b})
        for (float& v : *values) v = std::fabs(v) + 120;
    memory.assign(kShared / 2, 0);
    auto place = [&](const SharedOperand& operand, const std::vector<float>& values, int at) {
      for (int line = 0; line < operand.lines; ++line)
        for (int k = 0; k < operand.depth; ++k) {
          const uint32_t bits = bits_of(values[size_t(line * operand.depth + k)], s.elem);
          std::memcpy(reinterpret_cast<char*>(memory.data()) + at + operand.offset(line, k), &bits,
                      size_t(operand.element));
        }
    };
    place(s.a, a, kAt);
    place(s.b, b, kBt);
    fragments.resize(size_t(4 * 512));
    for (int step = 0; step < s.steps; ++step)
      for (int t = 0; t < 128; ++t)
        for (int r = 0; r < 4; ++r)
          for (int e = 0; e < 4 / s.a.element; ++e) {
            const int packed = 4 / s.a.element, depth = 8 * packed;
            const int i = t / 32 * 16 + t % 32 / 4 + r % 2 * 8, k = depth * step + (t % 4 + r / 2 * 4) * packed + e;
            fragments[size_t(step * 512 + t * 4 + r)] |= bits_of(a[size_t(i * s.a.depth + k)], s.elem)
                                                         << 8 * s.a.element * e;
          }
    for (int t = 0; t < 128; ++t)
      for (int r = 0; r < s.n / 2; ++r) {
        int i = t / 32 * 16 + t % 32 / 4 + r / 2 % 2 * 8, j = r / 4 * 8 + t % 4 * 2 + r % 2;
        float sum = 0;
        for (int k = 0; k < 32 / s.a.element * s.steps; ++k)
          sum += a[size_t(i * s.a.depth + k)] * b[size_t(j * s.b.depth + k)];
        expected.push_back(sum);
      }
  }
  std::vector<float> a, b, expected;
  std::vector<uint16_t> memory;
  std::vector<uint32_t> fragments;
};

}  // namespace tegula
