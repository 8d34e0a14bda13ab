// label: device
// The emulator: the interpreter computes the bits that optimised machine code does.
#include <algorithm>
#include <array>
#include <bit>
#include <set>

#include "tests/codegen/exec/emulator/emulator_kernels.h"

namespace tegula {
namespace {

/// What the integers and floats of each width find remarkable, in the lowest bits.
const std::vector<uint64_t>& remarkable_numbers() {
  static const std::vector<uint64_t> numbers = [] {
    std::vector<uint64_t> n = {0,          1,      2,           3,           7,
                               31,         100,    127,         128,         255,
                               0x8000,     0xffff, 0x7fff'ffff, 0x8000'0000, 0xffff'ffff,
                               1ull << 63, ~0ull,  ~0ull - 1,   ~0ull >> 1,  0x0123'4567'89ab'cdef};
    // 0.5, 1, -1.5, 3.5, 1e-7 or so, a denormal number, infinity, a quiet NaN and -0 of float16, bfloat16, float,
    // double.
    for (uint64_t h : {0x3800, 0x3c00, 0xbe00, 0x4300, 0x0002, 0x7c00, 0xfc00, 0x7e00}) n.push_back(h);
    for (uint64_t h : {0x3f00, 0x3f80, 0xbfc0, 0x4060, 0x33d7, 0x7f80, 0xff80, 0x7fc0}) n.push_back(h);
    for (float f : {0.5f, 1.0f, -1.5f, 3.5f, 1e-7f, 1e-42f, 65519.0f, 65520.0f, 3e9f})
      n.push_back(std::bit_cast<uint32_t>(f));
    for (uint64_t f : {0x7f80'0000u, 0xff80'0000u, 0x7fc0'0000u}) n.push_back(f);
    for (double f : {0.5, 1.0, -1.5, 3.5, 1e-300, 5e-324, 65519.99, 1e19, -3e9})
      n.push_back(std::bit_cast<uint64_t>(f));
    for (uint64_t f : {0x7ff0'0000'0000'0000, 0x7ff8'0000'0000'0000}) n.push_back(f);
    return n;
  }();
  return numbers;
}

struct Type {
  std::string name;    ///< of LLVM
  std::string suffix;  ///< of its intrinsics
  int bits;
  bool is_float;
};
const std::array<Type, 8> kTypes = {{{"i8", "i8", 8, false},
                                     {"i16", "i16", 16, false},
                                     {"i32", "i32", 32, false},
                                     {"i64", "i64", 64, false},
                                     {"half", "f16", 16, true},
                                     {"bfloat", "bf16", 16, true},
                                     {"float", "f32", 32, true},
                                     {"double", "f64", 64, true}}};

/// The text of a kernel that computes many expressions of x, y and z of one type, and stores the bits of each.
class Expressions {
 public:
  explicit Expressions(Type type) : type_(std::move(type)) {}

  /// `zeros`: which of two zeros it gives is open.
  void add(const std::string& expression, const Type& result, bool zeros = false) {
    body_ += fmt::format("  %r{0} = {1}\n", count_, expression);
    std::string bits = fmt::format("%r{}", count_);
    if (result.is_float) {
      body_ += fmt::format("  %b{0} = bitcast {1} {2} to i{3}\n", count_, result.name, bits, result.bits);
      bits = fmt::format("%b{}", count_);
    }
    if (result.bits < 64) {
      body_ += fmt::format("  %w{0} = zext i{2} {1} to i64\n", count_, bits, result.bits);
      bits = fmt::format("%w{}", count_);
    }
    body_ += fmt::format(
        "  %n{0} = add i32 %first, {1}\n  %p{0} = getelementptr i64, ptr addrspace(1) %out, i32 %n{0}\n"
        "  call void @tegula.hw.st_global_b64(ptr addrspace(1) %p{0}, i64 {2}, i1 true, i32 1)\n",
        count_, int(results_.size()), bits);
    ++count_;
    results_.push_back({expression, result, zeros});
  }
  void add(const std::string& expression) { add(expression, type_); }
  void binary(const std::string& name) { add(fmt::format("{} {} %x, %y", name, type_.name)); }
  void compare(const std::string& name) { add(fmt::format("{} {} %x, %y", name, type_.name), {"i1", "", 1, false}); }
  void intrinsic(const std::string& name, int operands, const std::string& more = "") {
    const std::string& t = type_.name;
    std::string types = t, values = t + " %x";
    if (operands > 1) types += ", " + t, values += ", " + t + " %y";
    if (operands > 2) types += ", " + t, values += ", " + t + " %z";
    const std::string function = fmt::format("@llvm.{}.{}", name, type_.suffix);
    if (std::string(kDeclarations).find(function + "(") == std::string::npos)
      declarations_ += fmt::format("declare {} {}({}{})\n", t, function, types, more.empty() ? "" : ", i1");
    add(fmt::format("call {} {}({}{})", t, function, values, more), type_, name == "minnum" || name == "maxnum");
  }

  int count() const { return count_; }

  /// The results of all expressions for all pairs of remarkable numbers: as optimised, and as interpreted.
  void compare_tiers() const {
    const std::vector<uint64_t>& numbers = remarkable_numbers();
    const size_t side = numbers.size(), pairs = (side * side + 31) / 32 * 32;
    std::string body = fmt::format(R"(
  %lane = call i32 @tegula.hw.thread_id()
  %program = call i32 @tegula.hw.program_id_x()
  %before = mul i32 %program, 32
  %i = add i32 %before, %lane
  %first = mul i32 %i, {}
)",
                                   results_.size());
    const std::string t = type_.name;
    for (auto [name, index] : {std::pair("x", "udiv i32 %i, {0}"), std::pair("y", "urem i32 %i, {0}"),
                               std::pair("z", "urem i32 %first, {0}")}) {
      body += fmt::format("  %{}k = ", name) + fmt::format(fmt::runtime(index), side);
      body += fmt::format(
          "\n  %{0}j = urem i32 %{0}k, {1}\n  %{0}p = getelementptr i64, ptr addrspace(1) %in, i32 %{0}j\n"
          "  %{0}a = call i64 @tegula.hw.ld_global_b64(ptr addrspace(1) %{0}p, i64 0, i1 true, i32 2)\n",
          name, side);
      if (type_.bits < 64) body += fmt::format("  %{0}b = trunc i64 %{0}a to i{1}\n", name, type_.bits);
      body += fmt::format("  %{0} = bitcast i{1} %{0}{2} to {3}\n", name, type_.bits, type_.bits < 64 ? "b" : "a", t);
    }
    const KernelImage image = make_image({pointer("in", Elem::I64), pointer("out", Elem::I64)},
                                         body + body_ + "  ret void", 1, 0, declarations_);
    auto results = [&](bool optimised) {
      // No code is kept: that of one would be the other's.
      auto device = make_emulator({.threads = 1, .optimised_at_once = optimised, .keep_code = false});
      auto kernel = device->load(image);
      Array<uint64_t> in(*device, numbers), out(*device, pairs * results_.size());
      launch(*kernel, {unsigned(pairs / 32)}, in.address(), out.address());
      return out.values();
    };
    const std::vector<uint64_t> fast = results(true), quick = results(false);
    std::set<size_t> wrong;
    for (size_t i = 0; i < side * side; ++i)
      for (size_t e = 0; e < results_.size(); ++e) {
        const size_t at = i * results_.size() + e;
        const Result& result = results_[e];
        if (result.comparable(fast[at]) != result.comparable(quick[at]) && wrong.insert(e).second)
          ADD_FAILURE() << result.text << " of "
                        << fmt::format("{:#x}, {:#x}: {:#x} interpreted, {:#x} optimised", numbers[i / side],
                                       numbers[i % side], quick[at], fast[at]);
      }
  }

 private:
  struct Result {
    std::string text;
    Type type;
    bool zeros;

    /// Equal for results that may differ: which NaN it is depends on how a code generator orders operands.
    uint64_t comparable(uint64_t bits) const {
      if (!type.is_float) return bits;
      const bool brain = type.name == "bfloat";
      const int fraction = type.bits == 64 ? 52 : type.bits == 32 ? 23 : brain ? 7 : 10;
      const uint64_t sign = uint64_t(1) << (type.bits - 1), infinity = (sign - 1) >> fraction << fraction;
      if ((bits & (sign - 1)) > infinity) return infinity + 1;
      return zeros && bits == sign ? 0 : bits;
    }
  };

  Type type_;
  int count_ = 0;
  std::vector<Result> results_;
  std::string body_, declarations_;
};

TEST(Tiers, Integers) {
  for (const Type& type : kTypes) {
    if (type.is_float) continue;
    Expressions e(type);
    for (const char* name : {"add", "sub", "mul", "and", "or", "xor"}) e.binary(name);
    const std::string t = type.name;
    auto in_range = [&](const std::string& name, const std::string& right, const std::string& rest) {
      // The right operand is one that leaves nothing undefined.
      e.add(fmt::format("{} {} %y, {}", right, t, rest));
      e.add(fmt::format("{} {} %x, %r{}", name, t, e.count() - 1));
    };
    for (const char* name : {"shl", "lshr", "ashr"}) in_range(name, "and", std::to_string(type.bits - 1));
    for (const char* name : {"udiv", "urem"}) in_range(name, "or", "1");
    for (const char* name : {"sdiv", "srem"}) {
      e.add(fmt::format("lshr {} %y, 1", t));
      e.add(fmt::format("or {} %r{}, 1", t, e.count() - 1));
      e.add(fmt::format("{} {} %x, %r{}", name, t, e.count() - 1));
    }
    for (const char* name : {"umin", "umax", "smin", "smax", "uadd.sat", "usub.sat"}) e.intrinsic(name, 2);
    for (const char* name : {"ctlz", "cttz", "abs"}) e.intrinsic(name, 1, ", i1 false");
    for (const char* name : {"ctpop", "bitreverse"}) e.intrinsic(name, 1);
    if (type.bits > 8) e.intrinsic("bswap", 1);
    for (const char* name : {"fshl", "fshr"}) e.intrinsic(name, 3);
    for (const char* name : {"eq", "ne", "ult", "ule", "ugt", "uge", "slt", "sle", "sgt", "sge"})
      e.compare(fmt::format("icmp {}", name));
    e.compare_tiers();
  }
}

TEST(Tiers, Floats) {
  for (const Type& type : kTypes) {
    if (!type.is_float) continue;
    Expressions e(type);
    for (const char* name : {"fadd", "fsub", "fmul", "fdiv"}) e.binary(name);
    e.add(fmt::format("fneg {} %x", type.name));
    for (const char* name : {"fabs", "sqrt", "floor", "ceil", "trunc", "rint", "round"}) e.intrinsic(name, 1);
    for (const char* name : {"copysign", "minnum", "maxnum", "minimum", "maximum"}) e.intrinsic(name, 2);
    if (type.bits > 16) e.intrinsic("fma", 3);
    for (const char* name :
         {"oeq", "one", "olt", "ole", "ogt", "oge", "ord", "uno", "ueq", "une", "ult", "ule", "ugt", "uge"})
      e.compare(fmt::format("fcmp {}", name));
    e.compare_tiers();
  }
}

TEST(Tiers, Conversions) {
  for (const Type& from : kTypes) {
    Expressions e(from);
    for (const Type& to : kTypes) {
      auto convert = [&](const char* how) { e.add(fmt::format("{} {} %x to {}", how, from.name, to.name), to); };
      if (!from.is_float && !to.is_float && from.bits > to.bits) convert("trunc");
      if (!from.is_float && !to.is_float && from.bits < to.bits) convert("zext"), convert("sext");
      if (!from.is_float && to.is_float) convert("sitofp"), convert("uitofp");
      if (from.is_float && to.is_float && from.bits > to.bits) convert("fptrunc");
      if (from.is_float && to.is_float && from.bits < to.bits) convert("fpext");
    }
    e.compare_tiers();
  }
}

// Parts of vectors and numbers that bodies take and give in arrays, which the interpreter leaves where they are,
// through a loop that exchanges them.
TEST(Tiers, PartsOfValuesThroughLoops) {
  const std::string body = R"(
  br label %begin
begin:
  %lane = call i32 @tegula.hw.thread_id()
  %at = mul i32 %lane, 4
  %from = getelementptr i32, ptr addrspace(1) %in, i32 %at
  br label %loop
loop:
  %i = phi i32 [ 0, %begin ], [ %next, %loop ]
  %v = phi <4 x i32> [ <i32 1, i32 2, i32 3, i32 4>, %begin ], [ %w, %loop ]
  %s = phi i32 [ %lane, %begin ], [ %e1, %loop ]
  %t = phi i32 [ 7, %begin ], [ %s, %loop ]
  %u = phi i32 [ 11, %begin ], [ %g2, %loop ]
  %g = call {i32, i32, i32, i32} @tegula.hw.ld_global_v4b32(ptr addrspace(1) %from, i32 0, i32 0, i32 0, i32 0, i1 true, i32 2)
  %g0 = extractvalue {i32, i32, i32, i32} %g, 0
  %g1 = extractvalue {i32, i32, i32, i32} %g, 1
  %g2 = extractvalue {i32, i32, i32, i32} %g, 2
  %g3 = extractvalue {i32, i32, i32, i32} %g, 3
  %h = call {i32, i32, i32, i32} @tegula.hw.ld_global_v4b32(ptr addrspace(1) %from, i32 %g3, i32 %u, i32 %g1, i32 %g0, i1 false, i32 2)
  %h0 = extractvalue {i32, i32, i32, i32} %h, 0
  %h1 = extractvalue {i32, i32, i32, i32} %h, 1
  %h3 = extractvalue {i32, i32, i32, i32} %h, 3
  %e0 = extractelement <4 x i32> %v, i32 0
  %e1 = extractelement <4 x i32> %v, i32 1
  %e3 = extractelement <4 x i32> %v, i32 3
  %a = insertelement <4 x i32> poison, i32 %e3, i32 0
  %b = insertelement <4 x i32> %a, i32 %e0, i32 1
  %c = insertelement <4 x i32> %b, i32 %s, i32 2
  %d = insertelement <4 x i32> %c, i32 %h0, i32 2
  %w0 = insertelement <4 x i32> %c, i32 %t, i32 3
  %w1 = add <4 x i32> %w0, %v
  %sums = insertelement <4 x i32> %w1, i32 %h3, i32 0
  %d2 = extractelement <4 x i32> %d, i32 2
  %more0 = add i32 %d2, %h1
  %w = insertelement <4 x i32> %sums, i32 %more0, i32 2
  %to.n = mul i32 %i, 128
  %to.i = add i32 %to.n, %at
  %to = getelementptr i32, ptr addrspace(1) %out, i32 %to.i
  call void @tegula.hw.st_global_v4b32(ptr addrspace(1) %to, i32 %s, i32 %g0, i32 %g1, i32 %e1, i1 true, i32 3)
  %to2 = getelementptr i32, ptr addrspace(1) %to, i32 1152
  call void @tegula.hw.st_global_v4b32(ptr addrspace(1) %to2, i32 %g0, i32 %g1, i32 %g2, i32 %g3, i1 true, i32 3)
  %next = add i32 %i, 1
  %again = icmp ult i32 %next, 9
  br i1 %again, label %loop, label %end
end:
  %l0 = extractelement <4 x i32> %v, i32 2
  %last = getelementptr i32, ptr addrspace(1) %out, i32 2304
  %place = getelementptr i32, ptr addrspace(1) %last, i32 %at
  call void @tegula.hw.st_global_v4b32(ptr addrspace(1) %place, i32 %l0, i32 %e1, i32 %u, i32 %h3, i1 true, i32 4)
  ret void)";
  std::string declarations;
  for (const char* line :
       {"declare {i32, i32, i32, i32} @tegula.hw.ld_global_v4b32(ptr addrspace(1), i32, i32, i32, i32, i1, i32)\n",
        "declare void @tegula.hw.st_global_v4b32(ptr addrspace(1), i32, i32, i32, i32, i1, i32)\n"})
    if (std::string_view(kDeclarations).find(line) == std::string_view::npos) declarations += line;
  const KernelImage image = make_image({pointer("in", Elem::I32), pointer("out", Elem::I32)}, body, 1, 0, declarations);
  std::vector<uint32_t> numbers(128);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = uint32_t(i * 2654435761u);
  auto results = [&](bool optimised) {
    auto device = make_emulator({.threads = 1, .optimised_at_once = optimised, .keep_code = false});
    auto kernel = device->load(image);
    Array<uint32_t> in(*device, numbers), out(*device, 19 * numbers.size());
    launch(*kernel, {1}, in.address(), out.address());
    return out.values();
  };
  const std::vector<uint32_t> quick = results(false);
  EXPECT_EQ(quick, results(true));
  EXPECT_EQ(std::vector(quick.begin() + 1152, quick.begin() + 1280), numbers);
}

// Numbers that a body gives in an array are read by a block that stands ahead of the body's.
TEST(Tiers, BlocksInAnyOrder) {
  const char* body = R"(
begin:
  %lane = call i32 @tegula.hw.thread_id()
  %at = mul i32 %lane, 2
  %from = getelementptr i32, ptr addrspace(1) %in, i32 %at
  %to = getelementptr i32, ptr addrspace(1) %out, i32 %at
  br label %given
taken:
  %sum = add i32 %g0, %g1
  call void @tegula.hw.st_global_v2b32(ptr addrspace(1) %to, i32 %sum, i32 %g1, i1 true, i32 3)
  ret void
given:
  %g = call {i32, i32} @tegula.hw.ld_global_v2b32(ptr addrspace(1) %from, i32 0, i32 0, i1 true, i32 2)
  %g0 = extractvalue {i32, i32} %g, 0
  %g1 = extractvalue {i32, i32} %g, 1
  br label %taken)";
  const KernelImage image = make_image({pointer("in", Elem::I32), pointer("out", Elem::I32)}, body);
  std::vector<uint32_t> numbers(64), expected(64);
  for (uint32_t i = 0; i < numbers.size(); ++i) numbers[i] = i * i + 5;
  for (size_t i = 0; i < numbers.size(); i += 2)
    expected[i] = numbers[i] + numbers[i + 1], expected[i + 1] = numbers[i + 1];
  for (const bool optimised : {false, true}) {
    auto device = make_emulator({.threads = 1, .optimised_at_once = optimised, .keep_code = false});
    auto kernel = device->load(image);
    Array<uint32_t> in(*device, numbers), out(*device, numbers.size());
    launch(*kernel, {1}, in.address(), out.address());
    EXPECT_EQ(out.values(), expected) << optimised;
  }
}

}  // namespace
}  // namespace tegula
