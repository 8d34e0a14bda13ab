// Rows that are written by rule rather than one by one: the name says the shape.
#include <fmt/format.h>

#include <cstdio>

#include "codegen/lower/hw.h"

namespace tegula::lower {

namespace {

/// "$first, ..., $(first + count - 1)"
std::string operands(int first, int count) {
  std::string list;
  for (int i = 0; i < count; ++i) list += fmt::format("{}${}", i ? ", " : "", first + i);
  return list;
}

std::string repeated(std::string_view constraint, int count) {
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

/// D = A B + D, or A B where scale-d is 0: 64 by n, depth 16, f16 or bf16, sums in f32.
HwInfo product(const std::string& name, int n, const std::string& type, bool a_in_registers) {
  const int sums = n / 2, of_a = a_in_registers ? 4 : 1;
  std::string a = operands(sums, of_a);
  if (a_in_registers) a = "{" + a + "}";
  return make_hw_info(
      name, a_in_registers ? "wgmma_rs" : "wgmma_ss",
      fmt::format("{{f32 * {0}}}({1}, i64, f32 * {0}, i1, site, {2}, {3}, {4})", sums,
                  a_in_registers ? "i32 * 4" : "i64", n, int(type == "bf16"), a_in_registers ? "imm" : "imm, imm"),
      Feature::Wgmma, Read | Write | Convergent,
      fmt::format("wgmma.mma_async.sync.aligned.m64n{}k16.f32.{}.{} {{{}}}, {}, ${}, ${}, 1, 1, {};", n, type, type,
                  operands(0, sums), a, sums + of_a, 2 * sums + of_a + 1, a_in_registers ? "{imm}" : "{imm}, {imm}"),
      repeated("=f", sums) + repeated(a_in_registers ? "r" : "l", of_a) + "l," + ties(sums) + "b");
}

HwInfo wait(const std::string& name, int count) {
  std::string constraints = repeated("=f", count) + ties(count);
  constraints.pop_back();
  return make_hw_info(name, "wgmma_wait_n", fmt::format("{{f32 * {0}}}(f32 * {0}, {0}, imm)", count), Feature::Wgmma,
                      Read | Write | Convergent, "wgmma.wait_group.sync.aligned {imm};", constraints);
}

}  // namespace

std::optional<HwInfo> make_family_row(const std::string& name) {
  int n = 0, end = 0;
  char type[5], form[3];
  if (std::sscanf(name.c_str(), "wgmma_m64n%3dk16_%4[bf16]_%2[rs]%n", &n, type, form, &end) == 3 &&
      end == int(name.size()) && n >= 8 && n <= 256 && n % 8 == 0 &&
      (std::string_view(type) == "f16" || std::string_view(type) == "bf16") &&
      (std::string_view(form) == "ss" || std::string_view(form) == "rs"))
    return product(name, n, type, form[0] == 'r');
  if (std::sscanf(name.c_str(), "wgmma_wait_n%3d%n", &n, &end) == 1 && end == int(name.size()) && n >= 1 && n <= 256)
    return wait(name, n);
  return std::nullopt;
}

}  // namespace tegula::lower
