// The semantic layer's operators: result types, the ops that are made, compile-time results, and the text of errors.
#include <cmath>
#include <limits>

#include "tests/dsl/semantics/semantics_fixture.h"

namespace tegula::dsl {
namespace {

using ir::Type;

// ---- Promotion

TEST_F(Semantics, PromotionOfTwoValues) {
  struct Row {
    Elem a, b;
    const char *plus, *divide;  // "'**' takes floating-point values (multiply, or convert with .to(tl.float32))" where
                                // signs may not be mixed
  };
  for (const Row& r : {Row{Elem::I32, Elem::I64, "i64", "f32"}, Row{Elem::I8, Elem::I16, "i16", "f32"},
                       Row{Elem::U32, Elem::I32, "u32", ""}, Row{Elem::U8, Elem::I32, "i32", ""},
                       Row{Elem::I64, Elem::U32, "i64", ""}, Row{Elem::I1, Elem::I8, "i8", ""},
                       Row{Elem::I1, Elem::I1, "i1", "f32"}, Row{Elem::U16, Elem::U64, "u64", "f32"},
                       Row{Elem::F16, Elem::I64, "f16", "f32"}, Row{Elem::BF16, Elem::I32, "f32", "f32"},
                       Row{Elem::F16, Elem::F16, "f16", "f32"}, Row{Elem::BF16, Elem::BF16, "bf16", "f32"},
                       Row{Elem::F16, Elem::BF16, "f16", "f32"}, Row{Elem::F32, Elem::F16, "f32", "f32"},
                       Row{Elem::F32, Elem::F64, "f64", "f64"}, Row{Elem::F64, Elem::I8, "f64", "f64"}}) {
    Val a = scalar(r.a), b = scalar(r.b);
    SCOPED_TRACE(describe(a) + " and " + describe(b));
    EXPECT_EQ(type_of(binary(s, "+", a, b)), r.plus);
    EXPECT_EQ(type_of(binary(s, "*", b, a)), r.plus);
    EXPECT_EQ(errors(), "");
    Val quotient = binary(s, "/", a, b);
    if (*r.divide) {
      EXPECT_EQ(type_of(quotient), r.divide);
    } else {
      EXPECT_EQ(errors(),
                fmt::format("'/' of {} and {}, which differ in sign (convert one of them with .to(...) so that both "
                            "have the same sign)",
                            describe(a), describe(b)));
    }
  }
}

TEST_F(Semantics, LiteralsAreWeak) {
  EXPECT_EQ(type_of(binary(s, "+", tile(Elem::F16, {16}), Int(1))), "tile<16xf16>");
  EXPECT_EQ(ops(), "constant splat add");
  EXPECT_EQ(type_of(binary(s, "*", 2.0, tile(Elem::BF16, {16}))), "tile<16xbf16>");
  EXPECT_EQ(type_of(binary(s, "+", tile(Elem::BF16, {16}), Int(2))), "tile<16xbf16>");
  EXPECT_EQ(type_of(binary(s, "+", tile(Elem::I8, {16}), Int(127))), "tile<16xi8>");
  EXPECT_EQ(type_of(binary(s, "+", tile(Elem::I32, {16}), 0.5)), "tile<16xf32>");
  EXPECT_EQ(type_of(binary(s, "+", tile(Elem::I1, {16}), Int(1))), "tile<16xi32>");
  EXPECT_EQ(type_of(binary(s, "/", tile(Elem::F16, {16}), 2.0)), "tile<16xf32>");
  EXPECT_EQ(type_of(binary(s, "/", tile(Elem::I32, {16}), Int(2))), "tile<16xf32>");
  EXPECT_EQ(type_of(binary(s, "+", scalar(Elem::F32), 1e300)), "f32");
  EXPECT_EQ(type_of(compare(s, "<", scalar(Elem::F64), 1.0)), "i1");
  // In a comparison it does not: these are compared in int32, float32 and uint32.
  for (auto [elem, literal, type] : {std::tuple(Elem::I8, Val(Int(300)), "i32"),
                                     {Elem::F16, Val(0.1), "f32"},
                                     {Elem::U32, Val(Int(-1)), "u32"},
                                     {Elem::I64, Val(Int(1) << 63), "u64"}})
    EXPECT_EQ(type_of(compare(s, "<", scalar(elem), literal).value()->def->operand(0)), type);
  EXPECT_EQ(errors(), "");
}

TEST_F(Semantics, LiteralsOutOfRange) {
  EXPECT_TRUE(binary(s, "+", tile(Elem::I8, {16}), Int(128)).is_poison());
  EXPECT_EQ(errors(), "the number 128 does not fit int8 (convert the other operand to a wider type first)");
  EXPECT_TRUE(binary(s, "+", Int(1) << 40, scalar(Elem::I32)).is_poison());
  EXPECT_EQ(errors(), "the number 1099511627776 does not fit int32 (convert the other operand to a wider type first)");
  EXPECT_TRUE(binary(s, "&", scalar(Elem::U32), Int(-1)).is_poison());
  EXPECT_EQ(errors(), "the number -1 does not fit uint32 (convert the unsigned operand to a signed type first)");
}

TEST_F(Semantics, LiteralsAsValues) {
  EXPECT_EQ(type_of(to_value(s, Int(-7))), "i32");
  EXPECT_EQ(type_of(to_value(s, Int(1) << 31)), "u32");
  EXPECT_EQ(type_of(to_value(s, Int(1) << 32)), "i64");
  EXPECT_EQ(type_of(to_value(s, -(Int(1) << 31) - 1)), "i64");
  EXPECT_EQ(type_of(to_value(s, 0.1)), "f32");
  EXPECT_EQ(type_of(to_value(s, -std::numeric_limits<double>::infinity())), "f32");
  EXPECT_EQ(type_of(to_value(s, 1e300)), "f64");
  EXPECT_EQ(type_of(to_value(s, 1e-300)), "f64");
  EXPECT_EQ(type_of(to_value(s, true)), "i1");
  EXPECT_EQ(errors(), "");
  EXPECT_EQ(to_value(s, text("abc"), "step"), nullptr);
  EXPECT_EQ(errors(), "step must be a number or a tile, found 'abc'");
  EXPECT_EQ(to_value(s, Val()), nullptr);
  EXPECT_EQ(errors(), "");
}

// ---- Operators

TEST_F(Semantics, Division) {
  Val x = scalar(Elem::I32);
  EXPECT_EQ(type_of(binary(s, "//", x, Int(4))), "i32");
  EXPECT_EQ(ops(), "constant div");
  EXPECT_EQ(type_of(binary(s, "%", x, scalar(Elem::I64))), "i64");
  EXPECT_EQ(ops(), "cast rem");
  EXPECT_EQ(type_of(binary(s, "%", scalar(Elem::F16), 3.0)), "f32");
  EXPECT_EQ(ops(), "cast constant rem");
  EXPECT_EQ(type_of(binary(s, "/", x, x)), "f32");
  EXPECT_EQ(ops(), "cast cast div");
  EXPECT_EQ(type_of(binary(s, "/", scalar(Elem::I64), scalar(Elem::I64))), "f32");
  EXPECT_EQ(errors(), "");
  EXPECT_TRUE(binary(s, "//", x, 2.0).is_poison());
  EXPECT_EQ(errors(), "'//' takes integers, found int32 and the float 2 (write tl.floor(a / b))");
  EXPECT_TRUE(binary(s, "%", x, scalar(Elem::U32)).is_poison());
  EXPECT_EQ(errors(),
            "'%' of int32 and uint32, which differ in sign (convert one of them with .to(...) so that both have the "
            "same sign)");
}

TEST_F(Semantics, Bitwise) {
  Val i = scalar(Elem::I32), u = scalar(Elem::U32), mask = tile(Elem::I1, {16});
  EXPECT_EQ(type_of(binary(s, "&", mask, tile(Elem::I1, {16}))), "tile<16xi1>");
  EXPECT_EQ(ops(), "bit_and");
  EXPECT_EQ(type_of(binary(s, "<<", Int(1), i)), "i32");
  EXPECT_EQ(ops(), "constant shl");
  EXPECT_EQ(type_of(binary(s, ">>", i, u)), "u32");  // keeps the sign of the left side
  EXPECT_EQ(ops(), "cast shr cast cast shr cast");
  EXPECT_EQ(type_of(binary(s, ">>", u, i)), "u32");
  EXPECT_EQ(ops(), "cast shr");
  EXPECT_EQ(type_of(unary(s, "~", mask)), "tile<16xi1>");
  EXPECT_EQ(ir::constant_integer(last().operand(1)), 1);
  unary(s, "~", scalar(Elem::U8));
  EXPECT_EQ(ir::constant_integer(last().operand(1)), 255);
  unary(s, "~", i);
  EXPECT_EQ(ir::constant_integer(last().operand(1)), -1);
  EXPECT_TRUE(binary(s, "&", scalar(Elem::F32), i).is_poison());
  EXPECT_EQ(errors(),
            "'&' takes integers, found float32 and int32 (it binds tighter than comparisons: write (a < b) & (c < d))");
  EXPECT_TRUE(unary(s, "~", scalar(Elem::F32)).is_poison());
  EXPECT_EQ(errors(), "'~' takes integers, found float32");
}

TEST_F(Semantics, Pointers) {
  Val p = pointer(Elem::F32);
  EXPECT_EQ(type_of(binary(s, "+", p, Int(4))), "ptr<f32>");
  EXPECT_EQ(ops(), "constant addptr");
  EXPECT_EQ(type_of(binary(s, "+", tile(Elem::I32, {16}), p)), "tile<16xptr<f32>>");
  EXPECT_EQ(ops(), "splat addptr");
  binary(s, "+", p, scalar(Elem::U32));
  EXPECT_EQ(last().operand(1)->type.elem, Elem::I64);
  binary(s, "+", p, scalar(Elem::I8));
  EXPECT_EQ(last().operand(1)->type.elem, Elem::I32);
  ops();
  binary(s, "-", p, scalar(Elem::I64));
  EXPECT_EQ(ops(), "neg addptr");
  EXPECT_EQ(errors(), "");
  EXPECT_TRUE(binary(s, "+", p, p).is_poison());
  EXPECT_EQ(errors(),
            "'+' is not defined for pointer to float32 and pointer to float32 (load the elements that they point to "
            "first: tl.load(p + offsets))");
  EXPECT_TRUE(binary(s, "-", Int(4), p).is_poison());
  EXPECT_EQ(errors(),
            "'-' is not defined for the int 4 and pointer to float32 (the pointer stands on the left: p - n)");
  EXPECT_TRUE(binary(s, "+", p, 0.5).is_poison());
  EXPECT_EQ(errors(), "a pointer moves by integers, found the float 0.5");
  EXPECT_TRUE(binary(s, "*", p, Int(2)).is_poison());
  EXPECT_EQ(errors(),
            "'*' is not defined for pointer to float32 and the int 2 (load from the pointer first: tl.load(p))");
  EXPECT_EQ(type_of(compare(s, "==", p, p)), "i1");
  EXPECT_TRUE(compare(s, "==", p, pointer(Elem::F16)).is_poison());
  EXPECT_EQ(errors(),
            "'==' is not defined for pointer to float32 and pointer to float16 (load the elements that they point to "
            "first: tl.load(p + offsets))");
}

TEST_F(Semantics, Comparisons) {
  Val x = tile(Elem::F32, {16});
  EXPECT_EQ(type_of(compare(s, "<", x, Int(0))), "tile<16xi1>");
  EXPECT_EQ(ops(), "constant splat lt");
  EXPECT_EQ(type_of(compare(s, "!=", scalar(Elem::I8), scalar(Elem::I32))), "i1");
  EXPECT_EQ(ops(), "cast ne");
  EXPECT_FALSE(compare(s, "is", pointer(Elem::F32), None{}).as<bool>());
  EXPECT_TRUE(compare(s, "is not", None{}, pointer(Elem::F32)).as<bool>());
  EXPECT_EQ(errors(), "");
  EXPECT_FALSE(compare(s, "is", x, Int(1)).as<bool>());  // as Triton: never the same object
  EXPECT_TRUE(compare(s, "is not", x, Int(1)).as<bool>());
  EXPECT_FALSE(compare(s, "is", Int(1), true).as<bool>());
  EXPECT_FALSE(compare(s, "is", Int(1), 1.0).as<bool>());
  EXPECT_TRUE(compare(s, "is", true, true).as<bool>());
  EXPECT_EQ(errors(), "");
  EXPECT_TRUE(compare(s, "<", x, text("a")).is_poison());
  const std::string hint = " (a value of the kernel is compared with numbers and other such values)";
  EXPECT_EQ(errors(), "'<' is not defined for tile of [16] float32 and 'a'" + hint);
  EXPECT_TRUE(compare(s, "!=", type(Elem::F32), x).is_poison());
  EXPECT_EQ(errors(), "'!=' is not defined for the type float32 and tile of [16] float32" + hint);
  EXPECT_TRUE(compare(s, "==", None{}, pointer(Elem::F32)).is_poison());
  EXPECT_EQ(errors(), "'==' is not defined for None and pointer to float32 (write 'is None')");
}

TEST_F(Semantics, LogicalOperators) {
  Val a = tile(Elem::I1, {16}), b = scalar(Elem::I1);
  EXPECT_EQ(type_of(logical(s, "and", a, b)), "tile<16xi1>");
  EXPECT_EQ(ops(), "splat bit_and");
  EXPECT_EQ(type_of(logical(s, "or", true, b)), "i1");
  EXPECT_EQ(ops(), "constant bit_or");
  EXPECT_EQ(type_of(unary(s, "not", b)), "i1");
  EXPECT_EQ(ops(), "constant bit_xor");
  // Other numbers are compared with zero.
  EXPECT_EQ(type_of(logical(s, "and", scalar(Elem::I32), b)), "i1");
  EXPECT_EQ(ops(), "constant ne bit_and");
  EXPECT_EQ(type_of(unary(s, "not", scalar(Elem::F32))), "i1");
  EXPECT_EQ(ops(), "constant ne constant bit_xor");
  EXPECT_EQ(errors(), "");
}

TEST_F(Semantics, Unary) {
  EXPECT_EQ(type_of(unary(s, "-", tile(Elem::F16, {16}))), "tile<16xf16>");
  EXPECT_EQ(ops(), "neg");
  EXPECT_TRUE(unary(s, "-", pointer(Elem::F16)).is_poison());
  EXPECT_EQ(type_of(unary(s, "-", scalar(Elem::I1))), "i1");
  EXPECT_EQ(errors(), "unary '-' is not defined for pointer to float16");
}

TEST_F(Semantics, Broadcasting) {
  EXPECT_EQ(type_of(binary(s, "+", tile(Elem::F32, {16, 1}), tile(Elem::F32, {1, 32}))), "tile<16x32xf32>");
  EXPECT_EQ(ops(), "broadcast broadcast add");
  EXPECT_EQ(type_of(binary(s, "+", tile(Elem::F32, {16, 32}), tile(Elem::F32, {32}))), "tile<16x32xf32>");
  EXPECT_EQ(ops(), "expand_dims broadcast add");
  EXPECT_EQ(type_of(binary(s, "+", tile(Elem::F32, {2, 16, 32}), scalar(Elem::F32))), "tile<2x16x32xf32>");
  EXPECT_EQ(ops(), "splat add");
  EXPECT_TRUE(binary(s, "+", tile(Elem::F32, {16}), tile(Elem::F32, {32})).is_poison());
  EXPECT_EQ(errors(),
            "shapes [16] and [32] do not fit together at dimension 0: 16 and 32 (extents must be equal or 1; x[:, "
            "None] and x[None, :] add a dimension of extent 1)");
}

TEST_F(Semantics, PoisonIsSilent) {
  Val x = scalar(Elem::F32);
  for (const char* op : {"+", "/", "//", "&", "**", "@"}) {
    EXPECT_TRUE(binary(s, op, Val(), x).is_poison());
    EXPECT_TRUE(binary(s, op, x, Val()).is_poison());
  }
  EXPECT_TRUE(compare(s, "<", Val(), Int(1)).is_poison());
  EXPECT_TRUE(unary(s, "-", Val()).is_poison());
  EXPECT_TRUE(logical(s, "and", Val(), x).is_poison());
  EXPECT_TRUE(subscript(s, Val(), {None{}}).is_poison());
  EXPECT_TRUE(attribute(s, Val(), "dtype").is_poison());
  EXPECT_TRUE(convert(s, Val(), Type::scalar(Elem::F32)).is_poison());
  for (const FunctionInfo& f : function_table()) {
    size_t required = 0;
    for (const FunctionParam& p : f.params) required += p.required;
    if (required == 0) continue;
    EXPECT_TRUE(call(f.name, std::vector<Val>(required)).is_poison()) << f.name;
    EXPECT_TRUE(call(f.name, std::vector<Val>(required, make_tuple({Val()}))).is_poison()) << f.name;
  }
  EXPECT_EQ(errors(), "");
  EXPECT_EQ(ops(), "");
}

// ---- Compile-time values

TEST_F(Semantics, FoldsAsPython) {
  auto integer = [&](const char* op, Val a, Val b) { return binary(s, op, a, b).as<Int>(); };
  EXPECT_EQ(integer("//", Int(-7), Int(2)), -4);
  EXPECT_EQ(integer("%", Int(-7), Int(2)), 1);
  EXPECT_EQ(integer("%", Int(7), Int(-2)), -1);
  EXPECT_EQ(integer("//", Int(7), Int(-2)), -4);
  EXPECT_EQ(integer("//", Int(6), Int(-1)), -6);
  EXPECT_EQ(integer("**", Int(2), Int(40)), Int(1) << 40);
  EXPECT_EQ(integer("**", Int(-2), Int(63)), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(integer("<<", Int(3), Int(4)), 48);
  EXPECT_EQ(integer(">>", Int(-8), Int(70)), -1);
  EXPECT_EQ(integer("+", true, true), 2);
  EXPECT_EQ(binary(s, "/", Int(7), Int(2)).as<double>(), 3.5);
  EXPECT_EQ(binary(s, "**", Int(2), Int(-1)).as<double>(), 0.5);
  EXPECT_EQ(binary(s, "%", -7.5, Int(2)).as<double>(), 0.5);
  EXPECT_EQ(binary(s, "//", -7.5, Int(2)).as<double>(), -4);
  EXPECT_TRUE(binary(s, "&", true, true).as<bool>());
  EXPECT_EQ(unary(s, "~", true).as<Int>(), -2);
  EXPECT_TRUE(unary(s, "not", text("")).as<bool>());
  EXPECT_EQ(binary(s, "+", text("a"), text("b")).as<std::string>(), "ab");
  EXPECT_EQ(describe(binary(s, "+", shape({1, 2}), shape({3}))), "(1, 2, 3)");
  EXPECT_EQ(describe(binary(s, "*", shape({2}), Int(3))), "(2, 2, 2)");
  EXPECT_EQ(errors(), "");
  EXPECT_EQ(ops(), "");
}

TEST_F(Semantics, IntegersHaveAnySize) {
  auto number = [](const char* digits, int base = 10) { return *Int::parse(digits, base); };
  auto fold = [&](const char* op, const Val& a, const Val& b) { return binary(s, op, a, b).as<Int>().to_string(); };
  const Int golden = number("9E3779B97F4A7C15", 16), mask = (Int(1) << 64) - 1;
  EXPECT_EQ(golden.to_string(), "11400714819323198485");
  EXPECT_EQ(fold("&", golden * golden, mask), "16088033396387240377");
  EXPECT_EQ(fold("//", std::numeric_limits<int64_t>::min(), Int(-1)), "9223372036854775808");
  EXPECT_EQ(fold("//", -(Int(1) << 70), Int(3)), "-393530540239137101142");
  EXPECT_EQ(fold("%", -(Int(1) << 70), Int(3)), "2");
  EXPECT_EQ(fold(">>", -(Int(1) << 70) - 1, Int(70)), "-2");
  EXPECT_EQ(fold("^", -(Int(1) << 70), Int(-1)), "1180591620717411303423");
  EXPECT_EQ(fold("|", -(Int(1) << 70), Int(5)), "-1180591620717411303419");
  EXPECT_EQ(fold("<<", Int(0), Int(1) << 70), "0");
  EXPECT_EQ(fold("**", Int(-1), (Int(1) << 70) + 1), "-1");
  EXPECT_EQ(unary(s, "~", mask).as<Int>().to_string(), "-18446744073709551616");
  EXPECT_EQ(binary(s, "*", mask, 1.0).as<double>(), 0x1p64);
  EXPECT_TRUE(compare(s, ">", mask, 0x1p63).as<bool>());
  EXPECT_EQ(errors(), "");
  // As Triton has it: int32, uint32, int64, uint64.
  for (auto [value, type] : {std::pair(Int(-1) << 31, "i32"),
                             {Int(1) << 31, "u32"},
                             {(Int(-1) << 31) - 1, "i64"},
                             {Int(1) << 32, "i64"},
                             {Int(1) << 63, "u64"},
                             {mask, "u64"}})
    EXPECT_EQ(type_of(to_value(s, value)), type) << value.to_string();
  EXPECT_EQ(type_of(binary(s, "*", tile(Elem::U64, {8}), golden)), "tile<8xu64>");
  EXPECT_EQ(type_of(binary(s, "*", scalar(Elem::F32), mask)), "f32");
  EXPECT_EQ(errors(), "");
  EXPECT_FALSE(to_value(s, mask + 1));
  EXPECT_EQ(errors(), "the integer 18446744073709551616 does not fit 64 bits");
  EXPECT_TRUE(binary(s, "*", scalar(Elem::F32), mask + 1).is_poison());
  EXPECT_EQ(errors(), "the integer 18446744073709551616 does not fit 64 bits");
  EXPECT_TRUE(binary(s, "+", scalar(Elem::I64), mask).is_poison());
  EXPECT_EQ(errors(),
            "the number 18446744073709551615 does not fit int64 (convert the other operand to a wider type first)");
  EXPECT_TRUE(call("arange", {Int(0), mask}).is_poison());
  EXPECT_EQ(errors(), "the end of arange is 18446744073709551615, which does not fit int64");
  const Val p = pointer(Elem::I32), beyond = mask + 1;
  const std::string refused = "the integer 18446744073709551616 does not fit 64 bits";
  call("store", {p, beyond});
  EXPECT_EQ(errors(), refused);
  EXPECT_TRUE(call("load", {p, scalar(Elem::I1), beyond}).is_poison());
  EXPECT_EQ(errors(), refused);
  EXPECT_TRUE(call("atomic_add", {p, beyond}).is_poison());
  EXPECT_EQ(errors(), refused);
  EXPECT_TRUE(call("cast", {beyond, DType{ir::Type::scalar(Elem::I32)}}).is_poison());
  EXPECT_EQ(errors(), refused);
}

TEST_F(Semantics, FoldErrors) {
  EXPECT_TRUE(binary(s, "//", Int(1), Int(0)).is_poison());
  EXPECT_EQ(errors(), "division by zero");
  EXPECT_TRUE(binary(s, "<<", Int(1), Int(1) << 40).is_poison());
  EXPECT_EQ(errors(), "the result of '<<' has more than 65536 bits");
  EXPECT_TRUE(binary(s, "**", Int(3), Int(70'000)).is_poison());
  EXPECT_EQ(errors(), "the result of '**' has more than 65536 bits");
  EXPECT_TRUE(binary(s, "<<", Int(1), Int(-1)).is_poison());
  EXPECT_EQ(errors(), "negative shift count");
  EXPECT_TRUE(binary(s, "&", 1.5, Int(1)).is_poison());
  EXPECT_EQ(errors(), "'&' is not defined for the float 1.5 and the int 1");
  EXPECT_TRUE(binary(s, "+", None{}, Int(1)).is_poison());
  EXPECT_EQ(errors(), "'+' is not defined for None and the int 1");
  EXPECT_TRUE(compare(s, "<", text("a"), Int(1)).is_poison());
  EXPECT_EQ(errors(), "'<' is not defined for 'a' and the int 1");
  EXPECT_TRUE(binary(s, "**", Int(0), Int(-1)).is_poison());
  EXPECT_EQ(errors(), "division by zero");
  EXPECT_TRUE(binary(s, "**", -2.0, 0.5).is_poison());
  EXPECT_EQ(errors(), "the result of -2 ** 0.5 is no real number");
  EXPECT_EQ(binary(s, "**", Int(1), Int(1) << 62).as<Int>(), 1);
  EXPECT_EQ(type_of(binary(s, "**", scalar(Elem::F32), Int(2))), "f32");
  EXPECT_TRUE(binary(s, "**", scalar(Elem::I32), Int(2)).is_poison());
  EXPECT_EQ(errors(), "'**' takes floating-point values (multiply, or convert with .to(tl.float32))");
}

TEST_F(Semantics, FoldComparisons) {
  EXPECT_TRUE(compare(s, "==", Int(1), 1.0).as<bool>());
  EXPECT_TRUE(compare(s, "==", type(Elem::F32), type(Elem::F32)).as<bool>());
  EXPECT_TRUE(compare(s, "!=", type(Elem::F32), DType{Type::pointer_to(Elem::F32)}).as<bool>());
  EXPECT_FALSE(compare(s, "==", text("a"), Int(1)).as<bool>());
  EXPECT_TRUE(compare(s, "<=", text("a"), text("b")).as<bool>());
  EXPECT_TRUE(compare(s, "is", None{}, None{}).as<bool>());
  EXPECT_TRUE(compare(s, "==", shape({1, 2}), shape({1, 2})).as<bool>());
  EXPECT_FALSE(compare(s, "==", std::nan(""), std::nan("")).as<bool>());
  EXPECT_EQ(ops(), "");
}

TEST_F(Semantics, Truth) {
  for (const Val& v : {Val(true), Val(Int(-1)), Val(0.5), text("x"), shape({0}), type(Elem::F32)})
    EXPECT_TRUE(truth(v)) << describe(v);
  for (const Val& v : {Val(false), Val(Int(0)), Val(0.0), text(""), shape({}), Val(None{})})
    EXPECT_FALSE(truth(v)) << describe(v);
}

// ---- Subscripts and attributes

TEST_F(Semantics, Subscripts) {
  Val x = tile(Elem::I32, {16}), all = Slice{};
  EXPECT_EQ(type_of(subscript(s, x, {all, None{}})), "tile<16x1xi32>");
  EXPECT_EQ(type_of(subscript(s, x, {None{}, all})), "tile<1x16xi32>");
  EXPECT_EQ(type_of(subscript(s, tile(Elem::I32, {4, 8}), {all, None{}})), "tile<4x1x8xi32>");
  EXPECT_EQ(type_of(subscript(s, tile(Elem::I32, {4, 8}), {None{}, all, all, None{}})), "tile<1x4x8x1xi32>");
  EXPECT_EQ(type_of(subscript(s, scalar(Elem::F32), {None{}})), "tile<1xf32>");
  EXPECT_EQ(subscript(s, shape({3, 5}), {Int(-1)}).as<Int>(), 5);
  EXPECT_EQ(errors(), "");
  EXPECT_EQ(type_of(subscript(s, x, {Int(-16)})), "i32");
  EXPECT_EQ(type_of(subscript(s, x, {scalar(Elem::U8)})), "i32");
  EXPECT_EQ(type_of(subscript(s, tile(Elem::I1, {4, 8}), {Int(1)})), "tile<8xi1>");
  EXPECT_EQ(type_of(subscript(s, tile(Elem::F16, {4, 8}), {all, Int(1), None{}})), "tile<4x1xf16>");
  EXPECT_EQ(type_of(subscript(s, pointers(Elem::F32, {4}), {Int(1)})), "ptr<f32>");
  EXPECT_EQ(type_of(subscript(s, x, {Slice{2, 10}})), "tile<8xi32>");
  EXPECT_EQ(type_of(subscript(s, tile(Elem::F32, {4, 8}), {Slice{1, {}, 2}, Slice{{}, -4}})), "tile<2x4xf32>");
  EXPECT_EQ(describe(subscript(s, shape({1, 2, 3, 4}), {Slice{{}, {}, -2}})), "(4, 2)");
  // As in Triton, ':' of a scalar has no effect.
  EXPECT_EQ(type_of(subscript(s, scalar(Elem::F32), {all, None{}})), "tile<1xf32>");
  EXPECT_EQ(type_of(subscript(s, scalar(Elem::F32), {None{}, all})), "tile<1xf32>");
  EXPECT_EQ(errors(), "");
  EXPECT_TRUE(subscript(s, x, {Int(16)}).is_poison());
  EXPECT_EQ(errors(), "index 16 is out of range for the extent 16 of dimension 0");
  EXPECT_TRUE(subscript(s, x, {x}).is_poison());
  EXPECT_EQ(errors(),
            "a tile is indexed by integers, slices and None, found tile of [16] int32 (tl.gather(x, indices, axis) "
            "takes a tile of indices)");
  EXPECT_TRUE(subscript(s, x, {Slice{4, 4}}).is_poison());
  EXPECT_EQ(errors(), "the slice of dimension 0 with extent 16 is empty");
  EXPECT_TRUE(subscript(s, pointer(Elem::F32), {Int(0)}).is_poison());
  EXPECT_EQ(errors(), "a single pointer to float32 cannot be indexed (tl.load(p + i) reads element i)");
  EXPECT_TRUE(subscript(s, x, {all, all}).is_poison());
  EXPECT_EQ(errors(), "too many indices for a tile of rank 1");
  EXPECT_TRUE(subscript(s, x, {text(":")}).is_poison());
  EXPECT_EQ(errors(), "a tile is indexed by integers, slices and None, found ':'");
  EXPECT_TRUE(subscript(s, shape({3}), {Int(1)}).is_poison());
  EXPECT_EQ(errors(), "index 1 is out of range for a tuple of 1");
  EXPECT_TRUE(subscript(s, Int(3), {Int(1)}).is_poison());
  EXPECT_EQ(errors(), "the int 3 cannot be indexed");
}

TEST_F(Semantics, Attributes) {
  Val x = tile(Elem::F16, {16, 32}), p = pointers(Elem::BF16, {8});
  EXPECT_EQ(describe(attribute(s, x, "dtype")), "the type float16");
  EXPECT_EQ(describe(attribute(s, x, "type")), "the type tile of [16, 32] float16");
  EXPECT_EQ(describe(attribute(s, x, "shape")), "(16, 32)");
  EXPECT_EQ(describe(attribute(s, p, "shape")), "(8,)");
  EXPECT_EQ(attribute(s, x, "numel").as<Int>(), 512);
  EXPECT_EQ(type_of(attribute(s, x, "T")), "tile<32x16xf16>");
  Val dtype = attribute(s, p, "dtype");
  EXPECT_EQ(describe(dtype), "the type pointer to bfloat16");
  EXPECT_EQ(describe(attribute(s, dtype, "element_ty")), "the type bfloat16");
  EXPECT_EQ(attribute(s, attribute(s, x, "dtype"), "primitive_bitwidth").as<Int>(), 16);
  EXPECT_EQ(attribute(s, attribute(s, x, "dtype"), "name").as<std::string>(), "fp16");
  EXPECT_EQ(describe(attribute(s, attribute(s, x, "type"), "scalar")), "the type float16");
  EXPECT_TRUE(call("is_ptr", {dtype}).as<bool>());
  EXPECT_TRUE(call("is_block", {attribute(s, x, "type")}).as<bool>());
  EXPECT_TRUE(call("is_fp16", {attribute(s, x, "dtype")}).as<bool>());
  EXPECT_FALSE(call("is_int", {dtype}).as<bool>());
  EXPECT_EQ(errors(), "");
  EXPECT_TRUE(attribute(s, x, "dtipe").is_poison());
  EXPECT_EQ(errors(), "tile of [16, 32] float16 has no attribute 'dtipe' (did you mean 'dtype'?)");
  EXPECT_TRUE(attribute(s, x, "primitive_bitwidth").is_poison());
  EXPECT_EQ(
      errors(),
      "tile of [16, 32] float16 has no attribute 'primitive_bitwidth' (its type has: x.dtype.primitive_bitwidth)");
  EXPECT_TRUE(attribute(s, x, "sum").is_poison());
  EXPECT_EQ(errors(), "'sum' is a method (call it: x.sum(...))");
  EXPECT_TRUE(attribute(s, p, "T").is_poison());
  EXPECT_EQ(
      errors(),
      "trans swaps the last two dimensions, found tile of [8] pointer to bfloat16 (x[:, None] is a column of a tile "
      "of rank 1, x[None, :] a row)");
  EXPECT_TRUE(attribute(s, type(Elem::F32), "element_ty").is_poison());
  EXPECT_EQ(errors(), "float32 has no element_ty (element_ty belongs to pointer types: p.dtype.element_ty)");
  EXPECT_TRUE(call("is_int", {Int(1)}).is_poison());
  EXPECT_EQ(errors(), "expected a type, found the int 1");
}

// ---- Conversions

TEST_F(Semantics, Convert) {
  EXPECT_EQ(type_of(convert(s, scalar(Elem::I32), Type::tile(Elem::F32, {16}))), "tile<16xf32>");
  EXPECT_EQ(ops(), "cast splat");
  EXPECT_EQ(type_of(convert(s, tile(Elem::F32, {32}), Type::tile(Elem::F32, {16, 32}))), "tile<16x32xf32>");
  EXPECT_EQ(ops(), "expand_dims broadcast");
  EXPECT_EQ(type_of(convert(s, 1.75, Type::scalar(Elem::I32))), "i32");
  EXPECT_EQ(ir::constant_integer(last().result()), 1);
  convert(s, Int(200), Type::scalar(Elem::I8));
  EXPECT_EQ(ir::constant_integer(last().result()), -56);
  EXPECT_EQ(errors(), "");
  EXPECT_TRUE(convert(s, tile(Elem::F32, {8}), Type::tile(Elem::F32, {16})).is_poison());
  EXPECT_EQ(errors(), "cannot broadcast [8] to [16] (only extents of 1 repeat)");
}

TEST_F(Semantics, Joins) {
  EXPECT_EQ(join_types(s, "acc", Type::scalar(Elem::F32), Type::scalar(Elem::F32))->to_string(), "f32");
  EXPECT_FALSE(join_types(s, "acc", Type::scalar(Elem::F32), Type::tile(Elem::F32, {16})));
  EXPECT_EQ(errors(),
            "'acc' would be float32 on one path and tile of [16] float32 on the other (give it one shape on both)");
}

TEST_F(Semantics, Conditions) {
  EXPECT_EQ(type_of(to_condition(s, scalar(Elem::I32))), "i1");
  EXPECT_EQ(ops(), "constant ne");
  EXPECT_EQ(type_of(to_condition(s, tile(Elem::I1, {1}))), "i1");
  EXPECT_EQ(ops(), "reduce{yield}");
  EXPECT_EQ(to_condition(s, tile(Elem::I1, {16})), nullptr);
  EXPECT_EQ(errors(),
            "a condition must be one value, found a tile of [16] int1 (use tl.where for a choice element by element, "
            "or reduce the tile first)");
}

TEST_F(Semantics, Cast) {
  EXPECT_EQ(type_of(call("to", {tile(Elem::F32, {16}), type(Elem::F16)})), "tile<16xf16>");
  EXPECT_EQ(ops(), "cast");
  EXPECT_EQ(type_of(call("cast", {scalar(Elem::F32), type(Elem::F32)})), "f32");
  EXPECT_EQ(ops(), "");
  call("to", {scalar(Elem::F32), type(Elem::I1)});
  EXPECT_EQ(ops(), "cast");
  EXPECT_EQ(type_of(call("to", {pointer(Elem::F32), type(Elem::I1)})), "i1");
  call("to", {scalar(Elem::F32), type(Elem::F16)}, {{"fp_downcast_rounding", text("rtz")}});
  EXPECT_EQ(last().get(ir::attr::rounding), "rtz");
  EXPECT_EQ(type_of(call("to", {scalar(Elem::F32), type(Elem::I32)}, {{"bitcast", true}})), "i32");
  EXPECT_EQ(type_of(call("to", {pointer(Elem::F32), type(Elem::I64)})), "i64");
  EXPECT_EQ(type_of(call("to", {scalar(Elem::I64), call("pointer_type", {type(Elem::F16)})})), "ptr<f16>");
  EXPECT_EQ(type_of(call("cast", {Int(3), type(Elem::U8)})), "u8");
  EXPECT_EQ(errors(), "");
  call("to", {scalar(Elem::F32), type(Elem::I16)}, {{"bitcast", true}});
  EXPECT_EQ(errors(), "cannot bitcast float32 (32 bits) to int16 (16 bits) (both types must have the same width)");
  call("to", {scalar(Elem::F16), type(Elem::F32)}, {{"fp_downcast_rounding", text("rtz")}});
  EXPECT_EQ(errors(),
            "fp_downcast_rounding belongs to a cast to a narrower float, found one of float16 to float32 (leave "
            "fp_downcast_rounding out)");
  EXPECT_EQ(type_of(call("to", {scalar(Elem::F16), type(Elem::F16)}, {{"fp_downcast_rounding", text("rtne")}})), "f16");
  call("to", {scalar(Elem::F32), text("half")});
  EXPECT_EQ(errors(), "the target of a cast must be an element type such as tl.float32, found 'half'");
  call("to", {pointer(Elem::F32), type(Elem::I32)});
  EXPECT_EQ(errors(),
            "cannot cast pointer to float32 to int32 (pointers convert to int64, uint64, int1 and other pointers)");
}

}  // namespace
TEST_F(Semantics, FlagsAreKnownAtCompileTime) {
  const Val x = tile(Elem::F32, {64}), flag = scalar(Elem::I32), one = tile(Elem::I32, {4});
  auto unknown = [&](const char* function, std::vector<Val> args, const char* name, const Val& value) {
    EXPECT_TRUE(call(function, std::move(args), {{name, value}}).is_poison());
    return errors();
  };
  const std::string hint = " (True or False says which it is)";
  for (const char* scan : {"cumsum", "cumprod"}) {
    const std::string start = fmt::format("the reverse of {} must be known at compile time, found ", scan);
    EXPECT_EQ(unknown(scan, {x, Int(0)}, "reverse", flag), start + "int32" + hint);
    EXPECT_EQ(unknown(scan, {x, Int(0)}, "reverse", std::string("no")), start + "'no'" + hint);
  }
  EXPECT_EQ(unknown("max", {x, Int(0)}, "return_indices", flag),
            "the return_indices of max must be known at compile time, found int32" + hint);
  EXPECT_EQ(unknown("load", {pointer(Elem::F32)}, "volatile", flag),
            "the volatile of load must be known at compile time, found int32" + hint);
  EXPECT_FALSE(call("cumsum", {x, Int(0)}, {{"reverse", Int(1)}}).is_poison());
}

}  // namespace tegula::dsl
