// Tile IR: text, reader and verifier messages, constant folding and the pass manager. The golden files
// (golden_test.cpp) hold what is easier to see than to say.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "codegen/ir/builder.h"
#include "codegen/ir/printer.h"
#include "codegen/ir/reader.h"
#include "codegen/passes/constant_fold.h"
#include "codegen/passes/pass_manager.h"

namespace tegula {
namespace {

using namespace ir;

constexpr char kScale[] = R"(func @scale(%0: ptr<f32> "x" div 16, %1: i32 "n") {num_warps = 4} {
  %2 = arange {end = 512, start = 0} : tile<512xi32>
  %3 = splat %1 : tile<512xi32>
  %4 = lt %2, %3 : tile<512xi1>
  %5 = splat %0 : tile<512xptr<f32>>
  %6 = addptr %5, %2 : tile<512xptr<f32>>
  %7 = load %6, %4 : tile<512xf32>
  store %6, %7, %4
  return
}
)";

std::unique_ptr<Func> build_scale() {
  auto func = std::make_unique<Func>();
  func->name = "scale";
  func->attrs["num_warps"] = int64_t(4);
  Value* x = func->add_param(Type::pointer_to(Elem::F32), "x", 16);
  Value* n = func->add_param(Type::scalar(Elem::I32), "n");
  Builder b(&func->body);
  Value* columns = b.arange(0, 512);
  columns->name = "columns";
  Value* mask = b.lt(columns, b.splat(n, {512}));
  Value* pointers = b.addptr(b.splat(x, {512}), columns);
  b.store(pointers, b.load(pointers, mask, nullptr), mask);
  b.create(Opcode::Return, {});
  return func;
}

TEST(Printer, BuiltFunction) {
  auto func = build_scale();
  EXPECT_EQ(print(*func), kScale);
  EXPECT_EQ(print(*func->clone()), kScale);
  const Op& load = **std::prev(func->body.ops.end(), 3);
  EXPECT_EQ(print_line(load), "%7 = load %6, %4 : tile<512xf32>");
}

TEST(Printer, DetachedOp) {
  Op op{Opcode::Add, {nullptr, nullptr}, {}, {}, {}, {}, nullptr};
  EXPECT_EQ(print_line(op), "add");
}

TEST(Printer, LayoutsOfEqualContentShareAnAlias) {
  auto func = build_scale();
  auto layout = [] {
    std::string why;
    return std::make_shared<LinearLayout>(*LinearLayout::parse(
        "register=[[1],[2]], lane=[[4],[8],[16],[32],[64]], warp=[[128],[256]] -> dim0:512", &why));
  };
  walk(func->body, [&](Op& op) {
    for (auto& r : op.results) r->type.layout = layout();
  });
  Diagnostics diags;
  EXPECT_TRUE(verify(*func, Stage::LaidOut, diags)) << diags.render();
  EXPECT_FALSE(verify(*func, Stage::Tile, diags));
  std::string text = print(*func);
  EXPECT_EQ(text.find("#1"), text.npos) << text;
  auto again = read(text, "text", diags);
  ASSERT_TRUE(again) << diags.render();
  EXPECT_EQ(print(*again), text);
}

TEST(Reader, DoublesComeBackBitForBit) {
  std::mt19937_64 random(1);
  std::vector<uint64_t> bits = {0,
                                1,
                                0x8000000000000000,
                                0x7ff0000000000000,
                                0xfff0000000000000,
                                0x7ff8000000000000,
                                0xfff8000000000000,
                                0x7ff0000000000001,
                                0x7fefffffffffffff,
                                0x000fffffffffffff};
  for (int i = 0; i < 2000; ++i) bits.push_back(random());
  Func func;
  Builder b(&func.body);
  for (uint64_t v : bits) b.constant_float(Type::scalar(Elem::F64), std::bit_cast<double>(v));
  b.create(Opcode::Return, {});
  func.name = "doubles";
  Diagnostics diags;
  auto again = read(print(func), "text", diags);
  ASSERT_TRUE(again) << diags.render();
  auto op = again->body.ops.begin();
  for (uint64_t v : bits) EXPECT_EQ(std::bit_cast<uint64_t>(std::get<double>((*op++)->attrs.find("value")->second)), v);
}

TEST(Reader, MessageWithPlaceAndHint) {
  Diagnostics diags;
  EXPECT_FALSE(read("func @f() {\n  %0 = constnt {value = 1} : i32\n  return\n}\n", "k.tile", diags));
  EXPECT_EQ(diags.render(),
            "k.tile:2:8: error: unknown operation 'constnt'\n"
            "      %0 = constnt {value = 1} : i32\n"
            "           ^~~~~~~\n"
            "  hint: did you mean 'constant'?\n");
}

TEST(Reader, UnfinishedTexts) {
  for (auto [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"", "found the end of the text, expected 'func'"},
           {"func f", "found 'f', expected '@'"},
           {"func @f(%0: i32", "expected the parameter's name in quotes"},
           {"func @f() {\n  return\n", "found the end of the text, expected '}' that closes the block"},
           {"func @f() {\n  %0 = constant {value", "expected '='"},
           {"func @f() {\n  %0 = constant {value = \"", "the string has no end"},
       }) {
    Diagnostics diags;
    EXPECT_FALSE(read(text, "t", diags));
    EXPECT_NE(diags.render().find(message), std::string::npos) << text << "\n" << diags.render();
  }
}

// Cutting or changing a good text anywhere gives a message or another function, never a crash.
TEST(Reader, DamagedTexts) {
  std::string text = kScale;
  std::mt19937 random(2);
  for (size_t i = 0; i < text.size(); ++i) {
    Diagnostics diags;
    bool good = read(text.substr(0, i), "t", diags) != nullptr;
    EXPECT_EQ(good, !diags.has_errors()) << i;
    std::string changed = text;
    changed[i] = "%_:{}()x0\"\n"[random() % 11];
    auto func = read(changed, "t", diags);
    if (func) verify(*func, Stage::Tile, diags);
  }
}

TEST(Verifier, MessageWithOpAndSource) {
  Func func;
  func.name = "f";
  Value* n = func.add_param(Type::scalar(Elem::I32), "n");
  Builder b(&func.body);
  b.set_loc({intern_file("kernel.py"), 7, 9, 12});
  b.create(Opcode::Add, {n, b.constant(Type::scalar(Elem::I64), 1)});
  b.create(Opcode::Return, {});
  Diagnostics diags;
  EXPECT_FALSE(verify(func, Stage::Tile, diags));
  EXPECT_EQ(diags.render(),
            "kernel.py:7:9: error: operand 'rhs' is i64, expected the type of operand 'lhs', i32\n"
            "  note: in `%2 = add %0, %1 : i32`\n");
}

TEST(Verifier, BrokenTree) {
  auto func = build_scale();
  func->body.ops.front()->parent = nullptr;
  func->body.ops.front()->results[0]->index = 3;
  Diagnostics diags;
  EXPECT_FALSE(verify(*func, Stage::Tile, diags));
  EXPECT_NE(diags.render().find("the op does not know its block"), std::string::npos);
  EXPECT_NE(diags.render().find("result 0 does not know its op and index"), std::string::npos);
}

// ---- Constants

double half_value(int bits) {
  int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double v = exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24);
  return bits >> 15 ? -v : v;
}

TEST(Fold, HalfRoundsToNearestEven) {
  for (int bits = 0; bits < 0x7bff; ++bits) {
    double low = half_value(bits), high = half_value(bits + 1), middle = (low + high) / 2;
    ASSERT_EQ(round_float(low, Elem::F16), low);
    ASSERT_EQ(round_float(-middle, Elem::F16), -(bits & 1 ? high : low));
    ASSERT_EQ(round_float(std::nextafter(middle, 0), Elem::F16), low);
    ASSERT_EQ(round_float(std::nextafter(middle, INFINITY), Elem::F16), high);
  }
  EXPECT_EQ(round_float(65519.9, Elem::F16), 65504);
  EXPECT_EQ(round_float(65520, Elem::F16), INFINITY);
}

TEST(Fold, Bfloat16RoundsToNearestEven) {
  std::mt19937 random(3);
  for (int i = 0; i < 100000; ++i) {
    uint32_t bits = random();
    float v = std::bit_cast<float>(bits);
    if (std::isnan(v)) continue;
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    ASSERT_EQ(round_float(v, Elem::BF16), double(std::bit_cast<float>(rounded))) << v;
  }
}

const Opcode kComparisons[] = {Opcode::Eq, Opcode::Ne, Opcode::Lt, Opcode::Le, Opcode::Gt, Opcode::Ge};

std::vector<Opcode> arithmetic(Elem elem) {
  std::vector<Opcode> list = {Opcode::Add,     Opcode::Sub,     Opcode::Mul, Opcode::Div, Opcode::Rem,
                              Opcode::Minimum, Opcode::Maximum, Opcode::Neg, Opcode::Abs};
  if (is_float(elem))
    list.insert(list.end(), {Opcode::DivRn, Opcode::Floor, Opcode::Ceil});
  else
    list.insert(list.end(), {Opcode::BitAnd, Opcode::BitOr, Opcode::BitXor, Opcode::Shl, Opcode::Shr});
  return list;
}

std::vector<Attr> inputs(Elem elem) {
  std::vector<Attr> list;
  for (double v : {0.0, 1.0, -1.0, -0.0, 2.0, 5.0, 127.0, -128.0})
    list.push_back(is_float(elem) ? Attr(v) : Attr(wrap_integer(uint64_t(int64_t(v)), elem)));
  if (is_float(elem)) list.insert(list.end(), {Attr(double(NAN)), Attr(double(INFINITY)), Attr(double(-INFINITY))});
  return list;
}

// A kernel under construction: stores a value computed from x and y of one type.
struct Expression {
  std::unique_ptr<Func> func = std::make_unique<Func>();
  Builder b{&func->body};
  Value *out, *x, *y;

  explicit Expression(Elem elem) {
    func->name = "f";
    out = func->add_param(Type::pointer_to(elem), "out");
    x = func->add_param(Type::scalar(elem), "x");
    y = func->add_param(Type::scalar(elem), "y");
  }
  Value* constant(const Attr& value) { return b.create(Opcode::Constant, {}, {x->type}, {{"value", value}})->result(); }
  void finish(Value* value) {
    b.store(out, value->type.elem == x->type.elem ? value : b.select(value, x, y), nullptr);
    b.create(Opcode::Return, {});
  }
};

void fix_parameters(Func& func, const Attr& x, const Attr& y) {
  Builder b;
  b.set_before(func.body.ops.front().get());
  for (int i = 0; i < 2; ++i) {
    Value* param = func.body.args[1 + i].get();
    replace_uses(func.body, param, b.create(Opcode::Constant, {}, {param->type}, {{"value", i ? y : x}})->result());
  }
}

class Canonicalize : public testing::TestWithParam<Elem> {
 protected:
  // Simplifying before the parameters are known, or only afterwards, must give the same value. False if it does not
  // fold to one (a division by zero, say).
  bool same_value(const Func& original, const Attr& x, const Attr& y) {
    auto late = original.clone(), early = original.clone();
    passes::canonicalize(*late, context_);
    EXPECT_TRUE(verify(*late, Stage::Tile, diags_)) << diags_.render() << print(original);
    for (Func* func : {late.get(), early.get()}) {
      fix_parameters(*func, x, y);
      passes::canonicalize(*func, context_);
    }
    if (early->body.ops.size() > 3) return false;
    EXPECT_EQ(print(*late), print(*early)) << print(original);
    return true;
  }

  Diagnostics diags_;
  PassContext context_{*find_target("sm_90a"), diags_};
};

// Every identity of one op: doubt about -0.0, NaN, signs and wrapping shows here.
TEST_P(Canonicalize, OneOp) {
  Elem elem = GetParam();
  int compared = 0;
  auto ops = arithmetic(elem);
  ops.insert(ops.end(), std::begin(kComparisons), std::end(kComparisons));
  for (Opcode opcode : ops)
    for (const Attr& c : inputs(elem))
      for (int side = 0; side < 3; ++side)
        for (const Attr& x : inputs(elem)) {
          Expression e(elem);
          Value *lhs = side == 0 ? e.constant(c) : e.x, *rhs = side == 1 ? e.constant(c) : e.x;
          bool binary = op_info(opcode).required == 2;
          e.finish(e.b.create(opcode, binary ? std::vector{lhs, rhs} : std::vector{lhs})->result());
          compared += same_value(*e.func, x, c);
        }
  EXPECT_GT(compared, 2000);
}

TEST_P(Canonicalize, RandomExpressions) {
  Elem elem = GetParam();
  std::mt19937 random(4);
  auto any = [&](const auto& list) { return *(std::begin(list) + random() % std::size(list)); };
  int compared = 0;
  for (int round = 0; round < 300; ++round) {
    Expression e(elem);
    std::vector<Value*> values = {e.x, e.y}, truths;
    for (const Attr& v : inputs(elem)) values.push_back(e.constant(v));
    truths = {e.b.lt(e.x, e.y)};
    for (int i = 0; i < 8; ++i) {
      switch (random() % 6) {
        case 0:
          truths.push_back(e.b.create(any(kComparisons), {any(values), any(values)})->result());
          break;
        case 1:
          values.push_back(e.b.select(any(truths), any(values), any(values)));
          break;
        case 2: {
          std::vector<Elem> middles = {Elem::I8, Elem::U16, Elem::I64, Elem::U64};
          if (is_float(elem)) middles = {Elem::F32, Elem::F64, Elem::BF16};
          values.push_back(e.b.cast(e.b.cast(any(values), any(middles)), elem));
          break;
        }
        default: {
          Opcode opcode = any(arithmetic(elem));
          std::vector<Value*> operands = {any(values)};
          if (op_info(opcode).required == 2) operands.push_back(any(values));
          values.push_back(e.b.create(opcode, operands)->result());
        }
      }
    }
    e.finish(values.back());
    compared += same_value(*e.func, any(inputs(elem)), any(inputs(elem)));
  }
  EXPECT_GT(compared, 150);
}

INSTANTIATE_TEST_SUITE_P(Elem, Canonicalize,
                         testing::Values(Elem::I8, Elem::U8, Elem::I32, Elem::U64, Elem::F16, Elem::F32, Elem::F64),
                         [](auto& info) { return std::string(elem_info(info.param).text); });

// ---- Pass manager

TEST(PassManager, RunsDumpsAndTimesEveryPass) {
  auto func = build_scale();
  Diagnostics diags;
  PassContext context{*find_target("sm_90a"), diags};
  std::vector<std::string> dumped;
  std::vector<PassTime> times;
  auto dump = [&](const std::string& pass, const std::string& text) {
    dumped.push_back(pass);
    EXPECT_EQ(text, print(*func));
  };
  ASSERT_TRUE(run_passes(*func, context, dump, &times)) << diags.render();
  ASSERT_EQ(times.size(), pass_table().size());
  for (size_t i = 0; i < times.size(); ++i) {
    EXPECT_EQ(times[i].pass, pass_table()[i].name);
    EXPECT_EQ(dumped[i], pass_table()[i].name);
    EXPECT_GE(times[i].ms, 0);
  }
  EXPECT_TRUE(verify(*func, pass_table().back().after, diags)) << diags.render();
}

// Loops that are pipelined pass through all of the pipeline.
TEST(PassManager, PipelinedLoops) {
  for (auto& entry : std::filesystem::directory_iterator(TEGULA_SOURCE_DIR "/tests/golden/pipeline")) {
    std::ifstream in(entry.path(), std::ios::binary);
    std::string text(std::istreambuf_iterator<char>(in), {});
    Diagnostics diags;
    auto func = read(text.substr(0, text.find("// ----")), entry.path().string(), diags);
    ASSERT_TRUE(func) << diags.render();
    if (text.find("\n#0 = layout") < text.find("\nfunc ")) continue;  // begins behind assign_layouts
    PassContext context{*find_target("sm_90a"), diags};
    EXPECT_TRUE(run_passes(*func, context)) << diags.render();
  }
}

TEST(PassManager, RefusesABrokenFunction) {
  auto func = build_scale();
  func->body.ops.pop_back();
  Diagnostics diags;
  PassContext context{*find_target("sm_90a"), diags};
  EXPECT_FALSE(run_passes(*func, context));
  EXPECT_NE(diags.render().find("the block does not end with return"), std::string::npos) << diags.render();
}

TEST(PassManager, DumpFromEnvironment) {
  unsetenv("TEGULA_DUMP");
  EXPECT_FALSE(dump_from_environment());
  setenv("TEGULA_DUMP", "canonicalize,ptx", 1);
  testing::internal::CaptureStderr();
  auto dump = dump_from_environment();
  for (const char* pass : {"canonicalize", "pipeline", "ptx"}) dump(pass, std::string("text of ") + pass + "\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "// ---- after canonicalize\ntext of canonicalize\n// ---- after ptx\ntext of ptx\n");
  // A name that is none: said once.
  setenv("TEGULA_DUMP", "all,pipelin,nothing of the kind", 1);
  testing::internal::CaptureStderr();
  dump_from_environment();
  dump_from_environment();
  std::string said = testing::internal::GetCapturedStderr();
  unsetenv("TEGULA_DUMP");
  EXPECT_EQ(said.substr(said.find("tegula: warning: TEGULA_DUMP: no pass is called 'pipelin'")),
            "tegula: warning: TEGULA_DUMP: no pass is called 'pipelin'\n  hint: did you mean 'pipeline'?\n");
  EXPECT_EQ(said.substr(0, said.find("waiting_loads")),
            "tegula: warning: TEGULA_DUMP: no pass is called 'nothing of the kind'\n  hint: known are all, ");
}

}  // namespace
}  // namespace tegula
