// Products of tl and the types that are there for them: result types, the ops that are made, and the text of errors.
#include "tests/dsl/semantics/semantics_fixture.h"

namespace tegula::dsl {
namespace {

using SemanticsProducts = Semantics;

// ---- Matrix product

TEST_F(SemanticsProducts, Dot) {
  Val a = tile(Elem::F16, {32, 16}), b = tile(Elem::F16, {16, 64}), acc = tile(Elem::F32, {32, 64});
  EXPECT_EQ(type_of(call("dot", {a, b})), "tile<32x64xf32>");
  EXPECT_EQ(ops(), "constant dot");
  EXPECT_EQ(type_of(call("dot", {a, b, acc}, {{"allow_tf32", false}})), "tile<32x64xf32>");
  EXPECT_EQ(type_of(binary(s, "@", a, b)), "tile<32x64xf32>");
  EXPECT_EQ(errors(), "");
  call("dot", {a, tile(Elem::F16, {32, 64})});
  EXPECT_EQ(errors(),
            "dot of shapes [32, 16] and [32, 64]: the inner extents 16 and 32 differ (the first operand is [M, K], the "
            "second [K, N])");
  call("dot", {a, tile(Elem::BF16, {16, 64})});
  EXPECT_EQ(errors(),
            "dot of tile of [32, 16] float16 and tile of [16, 64] bfloat16 (both operands must have the same type, one "
            "of float16, bfloat16, float32, float64, int8 and uint8, or both a float8; convert with .to(...))");
  call("dot", {acc, acc});
  EXPECT_EQ(errors(),
            "dot of shapes [32, 64] and [32, 64]: the inner extents 64 and 32 differ (the first operand is [M, K], the "
            "second [K, N])");
  call("dot", {a, b, tile(Elem::F32, {32, 32})});
  EXPECT_EQ(errors(), "the accumulator of dot is tile of [32, 32] float32, expected the type tile of [32, 64] float32");
  EXPECT_EQ(type_of(call("dot", {a, b}, {{"out_dtype", type(Elem::F16)}})), "tile<32x64xf16>");
  EXPECT_EQ(type_of(call("dot", {tile(Elem::I8, {1, 2}), tile(Elem::I8, {2, 4})})), "tile<1x4xi32>");
  EXPECT_EQ(type_of(call("dot", {tile(Elem::F64, {2, 4, 8}), tile(Elem::F64, {2, 8, 4})})), "tile<2x4x4xf64>");
  EXPECT_EQ(errors(), "");
  call("dot", {a, b}, {{"out_dtype", type(Elem::BF16)}});
  EXPECT_EQ(errors(), "dot accumulates in float32, found out_dtype bfloat16 (convert the result with .to(...))");
  call("dot", {tile(Elem::F16, {16}), b});
  EXPECT_EQ(errors(),
            "dot takes two tiles of one rank, 2 or more, found tile of [16] float16 and tile of [16, 64] float16 (x[:, "
            "None] is a column of a tile of rank 1, x[None, :] a row)");
  call("dot", {tile(Elem::F32, {16, 16}), tile(Elem::F32, {16, 16})}, {{"input_precision", text("bf16")}});
  EXPECT_EQ(errors(), "input_precision of dot is 'bf16', expected 'tf32', 'tf32x3', 'bf16x3', 'bf16x6' or 'ieee'");
  EXPECT_EQ(type_of(call("dot", {tile(Elem::F16, {2, 3, 16, 32}), tile(Elem::F16, {2, 3, 32, 16})})),
            "tile<2x3x16x16xf32>");
  EXPECT_EQ(errors(), "");
  call("dot", {tile(Elem::F16, {2, 3, 16, 32}), tile(Elem::F16, {2, 1, 32, 16})});
  EXPECT_EQ(errors(),
            "dot of shapes [2, 3, 16, 32] and [2, 1, 32, 16]: 3 and 1 matrices (the first operand is [B, M, K], the "
            "second [B, K, N])");
}

TEST_F(SemanticsProducts, DotScaledWithoutScales) {
  Val a = tile(Elem::U8, {32, 64}), b = tile(Elem::U8, {64, 16}), none = None{};
  call("dot_scaled", {a, none, text("e4m3"), b, none, text("e5m2")});
  EXPECT_EQ(last().operand(0)->type.elem, Elem::F8E4M3);
  EXPECT_EQ(last().operand(1)->type.elem, Elem::F8E5M2);
  EXPECT_EQ(last().get(ir::attr::imprecise), 128);
  call("dot_scaled", {a, none, text("e4m3"), b, tile(Elem::U8, {16, 2}), text("e5m2")});
  EXPECT_EQ(last().operand(0)->type.elem, Elem::BF16) << "as the other one is scaled";
  EXPECT_EQ(errors(), "");
}

TEST_F(SemanticsProducts, DotScaledErrors) {
  Val a = tile(Elem::U8, {32, 32}), b = tile(Elem::U8, {64, 16}), sa = tile(Elem::U8, {32, 2}),
      sb = tile(Elem::U8, {16, 2});
  EXPECT_EQ(type_of(call("dot_scaled", {a, sa, text("e2m1"), b, sb, text("e4m3")})), "tile<32x16xf32>");
  EXPECT_EQ(errors(), "");
  call("dot_scaled", {a, sa, text("e3m0"), b, sb, text("e4m3")});
  EXPECT_EQ(errors(), "lhs_format of dot_scaled is 'e3m0' (it is one of 'e2m1', 'e4m3', 'e5m2', 'bf16', 'fp16')");
  call("dot_scaled", {a, sa, text("bf16"), b, sb, text("e4m3")});
  EXPECT_EQ(errors(),
            "lhs of dot_scaled is tile of [32, 32] uint8, expected a matrix of uint16 or bfloat16 for 'bf16'");
  call("dot_scaled", {a, sa, text("e2m1"), b, tile(Elem::U8, {2, 16}), text("e4m3")});
  EXPECT_EQ(
      errors(),
      "rhs_scale of dot_scaled has shape [2, 16], expected [16, 2]: one for 32 elements along K (scales of rhs are "
      "[N, K // group], not transposed)");
  call("dot_scaled", {a, tile(Elem::F32, {32, 2}), text("e2m1"), b, sb, text("e4m3")});
  EXPECT_EQ(errors(), "lhs_scale of dot_scaled is tile of [32, 2] float32, expected uint8 (exponents) or float8e4nv");
  call("dot_scaled", {a, sa, text("e2m1"), b, sb, text("e4m3")}, {{"rhs_k_pack", false}});
  EXPECT_EQ(errors(), "rhs_k_pack=False belongs to rhs_format 'e2m1', found 'e4m3'");
  call("dot_scaled", {a, sa, text("e2m1"), b, sb, text("e4m3")}, {{"out_dtype", type(Elem::F16)}});
  EXPECT_EQ(errors(), "dot_scaled accumulates in float32, found out_dtype float16 (convert the result with .to(...))");
}

// ---- float8

TEST_F(SemanticsProducts, OtherKindsOfFloat8) {
  Val x = tile(Elem::F8E4B15, {16, 16}), y = tile(Elem::F8E4M3, {16, 16});
  ops();
  EXPECT_EQ(type_of(call("dot", {x, y})), "tile<16x16xf32>");
  EXPECT_EQ(ops(), "cast cast constant dot");  // of float16
  EXPECT_EQ(type_of(call("abs", {x})), "tile<16x16xf8e4b15>");
  EXPECT_EQ(ops(), "bitcast constant bit_and bitcast");
  EXPECT_EQ(type_of(call("to", {tile(Elem::F32, {4}), type(Elem::F8E4B15), text("rtz")})), "tile<4xf8e4b15>");
  ops();
  EXPECT_EQ(type_of(call("to", {tile(Elem::F32, {4}), type(Elem::F8E5M2), text("rtz")})), "tile<4xf8e5m2>");
  EXPECT_EQ(ops(), "cast bitcast constant shr cast ne constant select bitcast");
  EXPECT_EQ(type_of(call("extra_cuda_convert_custom_float8_sm80", {x, type(Elem::F32)})), "tile<16x16xf32>");
  EXPECT_EQ(type_of(call("extra_cuda_convert_custom_float8_sm80", {x, type(Elem::BF16)})), "tile<16x16xf16>");
  EXPECT_EQ(describe(call("is_fp8e4b15", {type(Elem::F8E4B15)})), "True");
  EXPECT_EQ(describe(attribute(s, type(Elem::F8E5B16), "name")), "'fp8e5b16'");
  EXPECT_EQ(errors(), "");
  call("extra_cuda_convert_custom_float8", {tile(Elem::BF16, {4}), type(Elem::F8E4B15)});
  EXPECT_EQ(errors(), "convert_custom_float8 takes float8e4b15, float16 or float32, found tile of [4] bfloat16");
}

TEST_F(SemanticsProducts, Float8) {
  Val x = tile(Elem::F8E4M3, {16}), y = tile(Elem::F8E5M2, {16}), h = tile(Elem::F16, {16}), f = tile(Elem::F32, {16});
  ops();
  // As in Triton, two kinds meet in float16, others in what the other operand has.
  EXPECT_EQ(type_of(binary(s, "+", x, y)), "tile<16xf16>");
  EXPECT_EQ(ops(), "cast cast add");
  EXPECT_EQ(type_of(binary(s, "*", x, h)), "tile<16xf16>");
  EXPECT_EQ(type_of(binary(s, "-", tile(Elem::BF16, {16}), y)), "tile<16xf32>");
  EXPECT_EQ(type_of(compare(s, "<", f, x)), "tile<16xi1>");
  EXPECT_EQ(type_of(call("where", {compare(s, "<", f, x), x, 0.0})), "tile<16xf8e4m3>");
  EXPECT_EQ(type_of(call("max", {x})), "f32");
  EXPECT_EQ(type_of(call("sum", {y}, {{"dtype", type(Elem::F32)}})), "f32");
  EXPECT_EQ(type_of(call("to", {f, type(Elem::F8E5M2), text("rtne")})), "tile<16xf8e5m2>");
  EXPECT_EQ(type_of(call("to", {x, type(Elem::U8)}, {{"bitcast", true}})), "tile<16xu8>");
  EXPECT_EQ(type_of(call("full", {shape({8}), 1e9, type(Elem::F8E4M3)})), "tile<8xf8e4m3>");
  EXPECT_EQ(describe(call("is_fp8", {type(Elem::F8E5M2)})), "True");
  EXPECT_EQ(describe(call("is_fp8", {type(Elem::F16)})), "False");
  EXPECT_EQ(describe(call("is_fp8e4nv", {type(Elem::F8E4M3)})), "True");
  EXPECT_EQ(describe(call("is_fp8e5", {type(Elem::F8E4M3)})), "False");
  ops();
  EXPECT_EQ(type_of(call("abs", {y})), "tile<16xf8e5m2>");
  EXPECT_EQ(ops(), "bitcast constant bit_and bitcast");
  EXPECT_EQ(describe(attribute(s, type(Elem::F8E4M3), "name")), "'fp8e4nv'");
  EXPECT_EQ(describe(attribute(s, type(Elem::BF16), "name")), "'bf16'");
  EXPECT_EQ(errors(), "");
  // It has no arithmetic of its own.
  const std::string hint =
      " (float8 numbers are loaded, stored, converted and multiplied by tl.dot: compute in .to(tl.float32))";
  binary(s, "+", x, x);
  EXPECT_EQ(errors(), "'+' is not defined for tile of [16] float8e4nv and tile of [16] float8e4nv" + hint);
  binary(s, "*", y, 2.0);
  EXPECT_EQ(errors(), "'*' is not defined for tile of [16] float8e5 and the float 2" + hint);
  compare(s, ">", x, Int(0));
  EXPECT_EQ(errors(), "'>' is not defined for tile of [16] float8e4nv and the int 0" + hint);
  binary(s, "+", x, tile(Elem::I32, {16}));
  EXPECT_EQ(errors(), "'+' is not defined for tile of [16] float8e4nv and tile of [16] int32" + hint);
  call("minimum", {x, x});
  EXPECT_EQ(errors(), "'minimum' is not defined for tile of [16] float8e4nv and tile of [16] float8e4nv" + hint);
  unary(s, "-", y);
  EXPECT_EQ(errors(), "unary '-' is not defined for float8e5" + hint);
  call("fdiv", {x, x});
  EXPECT_EQ(errors(), "fdiv is not defined for float8e4nv" + hint);
  call("argmax", {x, Int(0)});
  EXPECT_EQ(errors(), "argmax is not defined for float8e4nv" + hint);
  call("sum", {x});
  EXPECT_EQ(errors(), "sum of tile of [16] float8e4nv (give the type to sum in: dtype=tl.float32)");
  call("exp", {x});
  EXPECT_EQ(errors(),
            "exp takes float32 or float64, found tile of [16] float8e4nv (convert with .to(tl.float32) first)");
  call("to", {f, type(Elem::F8E4M3), text("rtz")});
  EXPECT_EQ(errors(),
            "a cast to float8e4nv rounds to nearest, found fp_downcast_rounding 'rtz' ('rtne', or leave it out)");
  call("atomic_add", {pointer(Elem::F8E5M2), 1.0});
  EXPECT_EQ(errors(), "atomic_add on float8e5 (it takes 32- and 64-bit integers and floats of 16 bits or more)");
}

TEST_F(SemanticsProducts, Float8Dot) {
  Val a = tile(Elem::F8E4M3, {32, 64}), b = tile(Elem::F8E5M2, {64, 16}), acc = tile(Elem::F32, {32, 16});
  ops();
  EXPECT_EQ(type_of(call("dot", {a, b, acc})), "tile<32x16xf32>");
  EXPECT_EQ(ops(), "dot");
  EXPECT_EQ(type_of(call("dot", {a, b}, {{"out_dtype", type(Elem::F16)}})), "tile<32x16xf16>");
  ops();
  EXPECT_EQ(last().get(ir::attr::imprecise), 0);
  for (auto [limit, products] : {std::pair(0, 32), {1, 32}, {32, 32}, {33, 64}, {64, 64}}) {
    EXPECT_EQ(type_of(call("dot", {a, b, acc}, {{"max_num_imprecise_acc", Int(limit)}})), "tile<32x16xf32>");
    EXPECT_EQ(last().get(ir::attr::imprecise), products);
    EXPECT_EQ(ops(), "dot");
  }
  call("dot", {tile(Elem::F16, {32, 64}), tile(Elem::F16, {64, 16}), acc}, {{"max_num_imprecise_acc", Int(32)}});
  EXPECT_EQ(ops(), "dot");
  EXPECT_EQ(errors(), "");
  call("dot", {a, b, acc}, {{"max_num_imprecise_acc", Int(128)}});
  EXPECT_EQ(
      errors(),
      "max_num_imprecise_acc of dot is 128, expected 0 to 64 (it is a number of products along K, all of which the "
      "dot has at most)");
  call("dot", {a, tile(Elem::F16, {64, 16})});
  EXPECT_EQ(
      errors(),
      "dot of tile of [32, 64] float8e4nv and tile of [64, 16] float16 (both operands must have the same type, one "
      "of float16, bfloat16, float32, float64, int8 and uint8, or both a float8; convert with .to(...))");
}

}  // namespace
TEST_F(SemanticsProducts, SumsOfDots) {
  const Val half = tile(Elem::F16, {16, 16}), brain = tile(Elem::BF16, {16, 16});
  EXPECT_TRUE(call("dot", {half, half}, {{"out_dtype", DType{ir::Type::scalar(Elem::I32)}}}).is_poison());
  EXPECT_EQ(errors(),
            "dot of float16 accumulates in float32 or float16, found out_dtype int32 (convert the result with "
            ".to(...))");
  EXPECT_EQ(type_of(call("dot", {brain, brain}, {{"out_dtype", DType{ir::Type::scalar(Elem::F16)}}})),
            "tile<16x16xf32>");
}

}  // namespace tegula::dsl
