// The semantic layer's operators: result types, the ops that are made, compile-time results, and the text of errors.
#include <cmath>
#include <limits>

#include "tests/semantics_fixture.h"

namespace tegula::dsl {
namespace {

using ir::Type;

// ---- Promotion

TEST_F(Semantics, PromotionOfTwoValues) {
  struct Row {
    Elem a, b;
    const char *plus, *divide;  // "" where signs may not be mixed
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
    if (*r.divide)
      EXPECT_EQ(type_of(quotient), r.divide);
    else
      EXPECT_EQ(errors(), fmt::format("'/' of signed and unsigned integers: {} and {} (cast one of them so that both "
                                      "have the same sign)",
                                      describe(a), describe(b)));
  }
}

TEST_F(Semantics, LiteralsAreWeak) {
  EXPECT_EQ(type_of(binary(s, "+", tile(Elem::F16, {16}), Int(1))), "tile<16xf16>");
  EXPECT_EQ(ops(), "constant add");
  EXPECT_EQ(type_of(binary(s, "*", 2.0, tile(Elem::BF16, {16}))), "tile<16xbf16>");
  EXPECT_EQ(type_of(binary(s, "+", tile(Elem::BF16, {16}), Int(2))), "tile<16xbf16>");
  EXPECT_EQ(type_of(binary(s, "+", tile(Elem::I8, {16}), Int(127))), "tile<16xi8>");
  EXPECT_EQ(type_of(binary(s, "+", tile(Elem::I32, {16}), 0.5)), "tile<16xf32>");
  EXPECT_EQ(type_of(binary(s, "+", tile(Elem::I1, {16}), Int(1))), "tile<16xi32>");
  EXPECT_EQ(type_of(binary(s, "/", tile(Elem::F16, {16}), 2.0)), "tile<16xf32>");
  EXPECT_EQ(type_of(binary(s, "/", tile(Elem::I32, {16}), Int(2))), "tile<16xf32>");
  EXPECT_EQ(type_of(binary(s, "+", scalar(Elem::F32), 1e300)), "f32");
  EXPECT_EQ(type_of(compare(s, "<", scalar(Elem::F64), 1.0)), "i1");
  EXPECT_EQ(errors(), "");
}

TEST_F(Semantics, LiteralsOutOfRange) {
  EXPECT_TRUE(binary(s, "+", tile(Elem::I8, {16}), Int(128)).is_poison());
  EXPECT_EQ(
      errors(),
      "'+' of tile of [16] int8 and 128: 128 does not fit into int8 (cast the other operand to a wider type first)");
  EXPECT_TRUE(binary(s, "+", Int(1) << 40, scalar(Elem::I32)).is_poison());
  EXPECT_EQ(errors(),
            "'+' of 1099511627776 and int32: 1099511627776 does not fit into int32 (cast the other operand to a wider "
            "type first)");
  EXPECT_TRUE(compare(s, "<", scalar(Elem::U32), Int(-1)).is_poison());
  EXPECT_EQ(errors(),
            "'<' of uint32 and -1: -1 does not fit into uint32 (cast the unsigned operand to a signed type first)");
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
  EXPECT_EQ(errors(), "the step must be a number or a tile, found 'abc'");
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
  EXPECT_EQ(errors(), "'//' needs integers, found int32 and 2.0 (write tl.floor(x / y) for floats)");
  EXPECT_TRUE(binary(s, "%", x, scalar(Elem::U32)).is_poison());
  EXPECT_EQ(errors(),
            "'%' of signed and unsigned integers: int32 and uint32 (cast one of them so that both have the same sign)");
}

TEST_F(Semantics, Bitwise) {
  Val i = scalar(Elem::I32), u = scalar(Elem::U32), mask = tile(Elem::I1, {16});
  EXPECT_EQ(type_of(binary(s, "&", mask, tile(Elem::I1, {16}))), "tile<16xi1>");
  EXPECT_EQ(ops(), "bit_and");
  EXPECT_EQ(type_of(binary(s, "<<", Int(1), i)), "i32");
  EXPECT_EQ(ops(), "constant shl");
  EXPECT_EQ(type_of(binary(s, ">>", i, u)), "u32");  // keeps the sign of the left side
  EXPECT_EQ(ops(), "cast cast cast shr cast");
  EXPECT_EQ(type_of(binary(s, ">>", u, i)), "u32");
  EXPECT_EQ(ops(), "cast shr");
  EXPECT_EQ(type_of(unary(s, "~", mask)), "tile<16xi1>");
  EXPECT_EQ(last().operand(1)->def->attr_int("value"), 1);
  unary(s, "~", scalar(Elem::U8));
  EXPECT_EQ(last().operand(1)->def->attr_int("value"), 255);
  unary(s, "~", i);
  EXPECT_EQ(last().operand(1)->def->attr_int("value"), -1);
  EXPECT_TRUE(binary(s, "&", scalar(Elem::F32), i).is_poison());
  EXPECT_EQ(errors(),
            "'&' needs integers, found float32 and int32 (it binds tighter than comparisons: write (a < b) & (c < d))");
  EXPECT_TRUE(unary(s, "~", scalar(Elem::F32)).is_poison());
  EXPECT_EQ(errors(), "'~' needs integers, found float32");
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
            "'+' does not apply to two pointers, found pointer<float32> and pointer<float32> (a pointer moves by "
            "integers)");
  EXPECT_TRUE(binary(s, "-", Int(4), p).is_poison());
  EXPECT_EQ(
      errors(),
      "cannot subtract a pointer from an integer, found 4 and pointer<float32> (the pointer stands on the left: p - "
      "n)");
  EXPECT_TRUE(binary(s, "+", p, 0.5).is_poison());
  EXPECT_EQ(errors(),
            "'+' of a pointer needs integers, found pointer<float32> and 0.5 (a pointer moves by a whole number of "
            "elements)");
  EXPECT_TRUE(binary(s, "*", p, Int(2)).is_poison());
  EXPECT_EQ(errors(),
            "'*' takes no pointers, found pointer<float32> and 2 (convert the pointer to an integer first: "
            "p.to(tl.int64))");
  EXPECT_TRUE(compare(s, "==", p, p).is_poison());
  EXPECT_EQ(errors(),
            "'==' takes no pointers, found pointer<float32> and pointer<float32> (convert the pointer to an integer "
            "first: p.to(tl.int64))");
}

TEST_F(Semantics, Comparisons) {
  Val x = tile(Elem::F32, {16});
  EXPECT_EQ(type_of(compare(s, "<", x, Int(0))), "tile<16xi1>");
  EXPECT_EQ(ops(), "constant lt");
  EXPECT_EQ(type_of(compare(s, "!=", scalar(Elem::I8), scalar(Elem::I32))), "i1");
  EXPECT_EQ(ops(), "cast ne");
  EXPECT_FALSE(compare(s, "is", pointer(Elem::F32), None{}).as<bool>());
  EXPECT_TRUE(compare(s, "!=", None{}, pointer(Elem::F32)).as<bool>());
  EXPECT_EQ(errors(), "");
  EXPECT_TRUE(compare(s, "is", x, Int(1)).is_poison());
  EXPECT_EQ(errors(), "'is' works on compile-time values, found tile of [16] float32 and 1 (write ==)");
  EXPECT_TRUE(compare(s, "<", x, text("a")).is_poison());
  EXPECT_EQ(errors(), "'<' needs numbers or tiles, found tile of [16] float32 and 'a'");
}

TEST_F(Semantics, LogicalOperators) {
  Val a = tile(Elem::I1, {16}), b = scalar(Elem::I1);
  EXPECT_EQ(type_of(logical(s, "and", a, b)), "tile<16xi1>");
  EXPECT_EQ(ops(), "splat bit_and");
  EXPECT_EQ(type_of(logical(s, "or", true, b)), "i1");
  EXPECT_EQ(ops(), "constant bit_or");
  EXPECT_EQ(type_of(unary(s, "not", b)), "i1");
  EXPECT_EQ(ops(), "constant bit_xor");
  EXPECT_TRUE(logical(s, "and", scalar(Elem::I32), b).is_poison());
  EXPECT_EQ(errors(), "'and' needs int1, found int32 (compare it first: x != 0)");
  EXPECT_TRUE(unary(s, "not", scalar(Elem::F32)).is_poison());
  EXPECT_EQ(errors(), "'not' needs int1, found float32 (compare it first: x != 0)");
}

TEST_F(Semantics, Unary) {
  EXPECT_EQ(type_of(unary(s, "-", tile(Elem::F16, {16}))), "tile<16xf16>");
  EXPECT_EQ(ops(), "neg");
  EXPECT_TRUE(unary(s, "-", pointer(Elem::F16)).is_poison());
  EXPECT_EQ(errors(), "'-' needs numbers, found pointer<float16>");
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
            "'+': the shapes do not fit, found tile of [16] float32 and tile of [32] float32 (extents 16 and 32 of "
            "dimension 0) (extents must be equal, or one of them 1; x[:, None] adds a dimension)");
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
  EXPECT_EQ(integer("**", Int(-2), Int(63)), std::numeric_limits<Int>::min());
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

TEST_F(Semantics, FoldErrors) {
  EXPECT_TRUE(binary(s, "//", Int(1), Int(0)).is_poison());
  EXPECT_EQ(errors(), "1 // 0: division by zero");
  EXPECT_TRUE(binary(s, "*", Int(1) << 62, Int(2)).is_poison());
  EXPECT_EQ(errors(), "4611686018427387904 * 2: the result does not fit into 64 bits");
  EXPECT_TRUE(binary(s, "**", Int(3), Int(60)).is_poison());
  EXPECT_EQ(errors(), "3 ** 60: the result does not fit into 64 bits");
  EXPECT_TRUE(binary(s, "<<", Int(1), Int(-1)).is_poison());
  EXPECT_EQ(errors(), "1 << -1: the shift count is negative");
  EXPECT_TRUE(binary(s, "&", 1.5, Int(1)).is_poison());
  EXPECT_EQ(errors(), "1.5 & 1: both sides must be integers");
  EXPECT_TRUE(binary(s, "+", None{}, Int(1)).is_poison());
  EXPECT_EQ(errors(), "'+' does not apply to None and 1");
  EXPECT_TRUE(compare(s, "<", text("a"), Int(1)).is_poison());
  EXPECT_EQ(errors(), "'<' does not apply to 'a' and 1");
  EXPECT_TRUE(binary(s, "**", scalar(Elem::F32), Int(2)).is_poison());
  EXPECT_EQ(errors(),
            "'**' works on compile-time numbers, found float32 and 2 (write x * x, or libdevice.pow(x, y) for floats)");
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
  Val x = tile(Elem::I32, {16}), all = text(":");
  EXPECT_EQ(type_of(subscript(s, x, {all, None{}})), "tile<16x1xi32>");
  EXPECT_EQ(type_of(subscript(s, x, {None{}, all})), "tile<1x16xi32>");
  EXPECT_EQ(type_of(subscript(s, tile(Elem::I32, {4, 8}), {all, None{}})), "tile<4x1x8xi32>");
  EXPECT_EQ(type_of(subscript(s, tile(Elem::I32, {4, 8}), {None{}, all, all, None{}})), "tile<1x4x8x1xi32>");
  EXPECT_EQ(type_of(subscript(s, scalar(Elem::F32), {None{}})), "tile<1xf32>");
  EXPECT_EQ(subscript(s, shape({3, 5}), {Int(-1)}).as<Int>(), 5);
  EXPECT_EQ(errors(), "");
  EXPECT_TRUE(subscript(s, x, {Int(0)}).is_poison());
  EXPECT_EQ(
      errors(),
      "a tile takes only ':' and None as indices, found 0 (load the element from memory, or pick it with tl.where "
      "and tl.sum)");
  EXPECT_TRUE(subscript(s, x, {all, all}).is_poison());
  EXPECT_EQ(errors(), "tile of [16] int32 has 1 dimension, found 2 ':' in the index");
  EXPECT_TRUE(subscript(s, shape({3}), {Int(1)}).is_poison());
  EXPECT_EQ(errors(), "index 1 is out of range of a tuple of 1");
  EXPECT_TRUE(subscript(s, Int(3), {Int(1)}).is_poison());
  EXPECT_EQ(errors(), "3 takes no index");
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
  EXPECT_EQ(describe(dtype), "the type pointer<bfloat16>");
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
  EXPECT_EQ(errors(),
            ".T needs a tile of two dimensions, found tile of [8] pointer<bfloat16> (name the order of the dimensions: "
            "tl.permute(x, ...))");
  EXPECT_TRUE(attribute(s, type(Elem::F32), "element_ty").is_poison());
  EXPECT_EQ(errors(), "the type float32 has no attribute 'element_ty' (float32 is what it is: leave element_ty out)");
  EXPECT_TRUE(call("is_int", {x}).is_poison());
  EXPECT_EQ(errors(), "is_int is a question to a type, found tile of [16, 32] float16 (write x.dtype.is_int())");
}

// ---- Conversions

TEST_F(Semantics, Convert) {
  EXPECT_EQ(type_of(convert(s, scalar(Elem::I32), Type::tile(Elem::F32, {16}))), "tile<16xf32>");
  EXPECT_EQ(ops(), "cast splat");
  EXPECT_EQ(type_of(convert(s, tile(Elem::F32, {32}), Type::tile(Elem::F32, {16, 32}))), "tile<16x32xf32>");
  EXPECT_EQ(ops(), "expand_dims broadcast");
  EXPECT_EQ(type_of(convert(s, 1.75, Type::scalar(Elem::I32))), "i32");
  EXPECT_EQ(last().attr_int("value"), 1);
  convert(s, Int(200), Type::scalar(Elem::I8));
  EXPECT_EQ(last().attr_int("value"), -56);
  EXPECT_EQ(errors(), "");
  EXPECT_TRUE(convert(s, tile(Elem::F32, {8}), Type::tile(Elem::F32, {16})).is_poison());
  EXPECT_EQ(
      errors(),
      "conversion to tile of [16] float32: cannot broadcast tile of [8] float32 to [16] (only extents of 1 repeat)");
}

TEST_F(Semantics, Joins) {
  EXPECT_EQ(join_types(s, "acc", Type::scalar(Elem::F32), Type::scalar(Elem::F32))->to_string(), "f32");
  EXPECT_FALSE(join_types(s, "acc", Type::scalar(Elem::F32), Type::tile(Elem::F32, {16})));
  EXPECT_EQ(errors(),
            "'acc' is float32 on one way here and tile of [16] float32 on the other (bring both to one type with "
            ".to(...), and to one shape)");
}

TEST_F(Semantics, Conditions) {
  EXPECT_EQ(type_of(to_condition(s, scalar(Elem::I32))), "i1");
  EXPECT_EQ(ops(), "constant ne");
  EXPECT_EQ(type_of(to_condition(s, tile(Elem::I1, {1}))), "i1");
  EXPECT_EQ(ops(), "reduce{yield}");
  EXPECT_EQ(to_condition(s, tile(Elem::I1, {16})), nullptr);
  EXPECT_EQ(errors(),
            "a condition must be a scalar, found tile of [16] int1 (reduce it first, or choose element by element with "
            "tl.where)");
}

TEST_F(Semantics, Cast) {
  EXPECT_EQ(type_of(call("to", {tile(Elem::F32, {16}), type(Elem::F16)})), "tile<16xf16>");
  EXPECT_EQ(ops(), "cast");
  EXPECT_EQ(type_of(call("cast", {scalar(Elem::F32), type(Elem::F32)})), "f32");
  EXPECT_EQ(ops(), "");
  call("to", {scalar(Elem::F32), type(Elem::I1)});
  EXPECT_EQ(ops(), "constant ne");
  call("to", {scalar(Elem::F32), type(Elem::F16)}, {{"fp_downcast_rounding", text("rtz")}});
  EXPECT_EQ(last().attr_string("rounding"), "rtz");
  EXPECT_EQ(type_of(call("to", {scalar(Elem::F32), type(Elem::I32)}, {{"bitcast", true}})), "i32");
  EXPECT_EQ(type_of(call("to", {pointer(Elem::F32), type(Elem::I64)})), "i64");
  EXPECT_EQ(type_of(call("to", {scalar(Elem::I64), call("pointer_type", {type(Elem::F16)})})), "ptr<f16>");
  EXPECT_EQ(type_of(call("cast", {Int(3), type(Elem::U8)})), "u8");
  EXPECT_EQ(errors(), "");
  call("to", {scalar(Elem::F32), type(Elem::I16)}, {{"bitcast", true}});
  EXPECT_EQ(errors(), "cannot bitcast float32 to int16: 32 and 16 bits (both types must have the same width)");
  call("to", {scalar(Elem::F16), type(Elem::F32)}, {{"fp_downcast_rounding", text("rtz")}});
  EXPECT_EQ(errors(),
            "fp_downcast_rounding is for a float to a narrower float, found float16 to float32 (leave it out)");
  call("to", {scalar(Elem::F32), text("fp16")});
  EXPECT_EQ(errors(), "argument 'dtype' of cast must be a type, found 'fp16' (for example tl.float32)");
  call("to", {pointer(Elem::F32), type(Elem::I32)});
  EXPECT_EQ(errors(),
            "cannot convert pointer<float32> to int32 (a pointer converts to int64, uint64, int1 and other pointers)");
}

}  // namespace
}  // namespace tegula::dsl
