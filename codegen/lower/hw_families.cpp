// Rows that are written by rule rather than one by one: the name says the shape.
#include <fmt/format.h>

#include <cstdio>

#include "codegen/lower/hw.h"
#include "codegen/target/mma.h"

namespace tegula::lower {

namespace {

/// "$first, ..., $(first + count - 1)"
std::string operands(int first, int count) {
  std::string list;
  for (int i = 0; i < count; ++i) list += fmt::format("{}${}", i ? ", " : "", first + i);
  return list;
}

std::string repeated(const std::string& constraint, int count) {
  std::string list;
  for (int i = 0; i < count; ++i) list += fmt::format("{},", constraint);
  return list;
}

/// Inputs tied to the first `count` results.
std::string ties(int count) {
  std::string list;
  for (int i = 0; i < count; ++i) list += fmt::format("{},", i);
  return list;
}

/// The type of an operand register of the sums in a signature, and its constraint.
const char* sums_type(const MmaInstruction& x) { return is_float(x.sums) ? "f32" : "i32"; }
const char* sums_constraint(const MmaInstruction& x) { return is_float(x.sums) ? "f" : "r"; }
const char* sums_ptx(const MmaInstruction& x) { return is_float(x.sums) ? "f32" : "s32"; }
/// The emulator has a body for each type of sums.
std::string body(const char* name, const MmaInstruction& x) { return fmt::format("{}_{}", name, sums_type(x)); }

/// D = A B + C of a warp, 16 by 8.
HwInfo warp_product(const std::string& name, const MmaInstruction& x) {
  const std::string c = sums_constraint(x);
  return make_hw_info(
      name, body("mma", x), fmt::format("{{{0} * 4}}(i32 * 4, i32 * 2, {0} * 4, {1})", sums_type(x), x.row()),
      x.feature, Convergent,
      fmt::format("mma.sync.aligned.m16n8k{}.row.col.{}.{}.{}.{} {{{}}}, {{{}}}, {{{}}}, {{{}}};", x.k, sums_ptx(x),
                  x.type_a, x.type_b, sums_ptx(x), operands(0, 4), operands(4, 4), operands(8, 2), operands(10, 4)),
      repeated("=" + c, 4) + repeated("r", 6) + fmt::format("{0},{0},{0},{0}", c));
}

/// D = A B + D of a warpgroup, or A B where scale-d is 0: 64 by n. What may lie in either order has an immediate that
/// says so; what is no integer has factors of the operands, 1 here.
HwInfo product(const std::string& name, int n, const MmaInstruction& x, bool a_in_registers) {
  const int sums = n / 2, of_a = a_in_registers ? 4 : 1;
  std::string a = operands(sums, of_a);
  if (a_in_registers) a = "{" + a + "}";
  const bool ordered = x.order == MmaOrder::AnyOrder;
  auto orders = [&](const char* each) {
    return a_in_registers ? fmt::format(", {}", each) : fmt::format(", {0}, {0}", each);
  };
  return make_hw_info(
      name, body(a_in_registers ? "wgmma_rs" : "wgmma_ss", x),
      fmt::format("{{{0} * {1}}}({2}, i64, {0} * {1}, i1, site, {3}, {4}{5})", sums_type(x), sums,
                  a_in_registers ? "i32 * 4" : "i64", n, x.row(), orders(ordered ? "imm" : "0")),
      x.feature, Read | Write | Convergent,
      fmt::format("wgmma.mma_async.sync.aligned.m64n{}k{}.{}.{}.{} {{{}}}, {}, ${}, ${}{}{};", n, x.k, sums_ptx(x),
                  x.type_a, x.type_b, operands(0, sums), a, sums + of_a, 2 * sums + of_a + 1,
                  is_float(x.sums) ? ", 1, 1" : "", ordered ? orders("{imm}") : ""),
      repeated(fmt::format("={}", sums_constraint(x)), sums) + repeated(a_in_registers ? "r" : "l", of_a) + "l," +
          ties(sums) + "b");
}

HwInfo wait(const std::string& name, int count, const char* type, const char* constraint) {
  std::string constraints = repeated(constraint, count) + ties(count);
  constraints.pop_back();
  return make_hw_info(name, fmt::format("wgmma_wait_{}", type),
                      fmt::format("{{{0} * {1}}}({0} * {1}, {1}, imm)", type, count), Feature::Wgmma,
                      Read | Write | Convergent, "wgmma.wait_group.sync.aligned {imm};", constraints);
}

}  // namespace

std::optional<HwInfo> make_family_row(const std::string& name) {
  int n = 0;
  std::sscanf(name.c_str(), "wgmma_m64n%3d", &n);
  for (const MmaInstruction& x : mma_instructions()) {
    if (x.path == MmaPath::Sync) {
      if (name == x.hw_name(8)) return warp_product(name, x);
    } else if (x.has_columns(n)) {
      for (bool a_in_registers : {false, true})
        if (name == x.hw_name(n) + (a_in_registers ? "_rs" : "_ss")) return product(name, n, x, a_in_registers);
    }
  }
  n = 0;
  if (std::sscanf(name.c_str(), "wgmma_wait_n%3d", &n) != 1) std::sscanf(name.c_str(), "wgmma_wait_i32_n%3d", &n);
  if (n < 1 || n > kMmaMostColumns) return std::nullopt;
  if (name == fmt::format("wgmma_wait_n{}", n)) return wait(name, n, "f32", "=f");
  if (name == fmt::format("wgmma_wait_i32_n{}", n)) return wait(name, n, "i32", "=r");
  return std::nullopt;
}

}  // namespace tegula::lower
