// The tl functions: result types, the ops that are made, and the text of errors.
#include <algorithm>
#include <limits>

#include "dsl/semantics/reference.h"
#include "tests/dsl/semantics/semantics_fixture.h"

namespace tegula::dsl {
namespace {

using SemanticsFunctions = Semantics;

// ---- Calls

TEST_F(SemanticsFunctions, Binding) {
  Val x = tile(Elem::F32, {16, 32});
  EXPECT_EQ(type_of(call("sum", {x, Int(1)})), "tile<16xf32>");
  EXPECT_EQ(type_of(call("sum", {x}, {{"axis", Int(0)}, {"keep_dims", true}})), "tile<1x32xf32>");
  EXPECT_EQ(errors(), "");
  call("exp", {x, x});
  EXPECT_EQ(errors(), "exp takes 1 argument, found 2 (it takes: x)");
  call("where", {x});
  EXPECT_EQ(errors(), "where lacks its argument 'x' (it takes: condition, x, y)");
  call("load", {pointer(Elem::F32)}, {{"masks", None{}}});
  EXPECT_EQ(errors(), "load has no argument 'masks' (did you mean 'mask'?)");
  call("sum", {x, Int(1)}, {{"axis", Int(0)}});
  EXPECT_EQ(errors(), "sum gets its argument 'axis' twice");
  call("sum", {x, scalar(Elem::I32)});
  EXPECT_EQ(errors(),
            "the axis of sum must be an int known at compile time, found int32 (declare the parameter it comes from as "
            "tl.constexpr)");
}

TEST_F(SemanticsFunctions, Table) {
  for (const char* name :
       {"exp", "load", "sum", "dot", "fma", "erf", "tanh", "pow", "reduce_or", "sqrt_rn", "umulhi", "item"})
    EXPECT_NE(find_function(name), nullptr) << name;
  EXPECT_EQ(find_function("lod"), nullptr);
  EXPECT_TRUE(find_function("exp")->method);
  EXPECT_FALSE(find_function("where")->method);
  EXPECT_TRUE(find_function("reshape")->params[1].rest);
  EXPECT_EQ(describe(find_function("load")->params[3].fallback), "()");
  EXPECT_EQ(describe(find_function("load")->params[4].fallback), "''");
  EXPECT_EQ(describe(find_function("pointer_type")->params[1].fallback), "the int 1");
  std::vector<std::string> names;
  for (const FunctionInfo& f : function_table()) names.push_back(f.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

// ---- Creation

TEST_F(SemanticsFunctions, Creation) {
  EXPECT_EQ(type_of(call("program_id", {Int(1)})), "i32");
  EXPECT_EQ(last().get(ir::attr::axis), 1);
  EXPECT_EQ(type_of(call("num_programs", {}, {{"axis", Int(2)}})), "i32");
  EXPECT_EQ(type_of(call("arange", {Int(0), Int(64)})), "tile<64xi32>");
  EXPECT_EQ(type_of(call("zeros", {shape({16, 32}), type(Elem::F16)})), "tile<16x32xf16>");
  EXPECT_EQ(type_of(call("zeros_like", {tile(Elem::I64, {8})})), "tile<8xi64>");
  EXPECT_EQ(type_of(call("full", {shape({16}), -std::numeric_limits<double>::infinity(), type(Elem::F32)})),
            "tile<16xf32>");
  EXPECT_EQ(type_of(call("full", {shape({16}), scalar(Elem::I32), type(Elem::F32)})), "tile<16xf32>");
  EXPECT_EQ(type_of(call("full", {shape({}), Int(1), type(Elem::F32)})), "f32");
  EXPECT_EQ(errors(), "");
  EXPECT_EQ(ops(), "program_id num_programs arange constant constant constant constant cast splat constant constant");
}

TEST_F(SemanticsFunctions, CreationErrors) {
  call("program_id", {Int(3)});
  EXPECT_EQ(errors(), "axis 3 of program_id is out of range (a grid has axes 0, 1 and 2)");
  call("arange", {Int(0), Int(74)});
  EXPECT_EQ(
      errors(),
      "the extent of arange is 74, which is no q * 2^k with odd q up to 31 (the nearest are 72 and 76: mask what is "
      "too much: mask = tl.arange(0, BLOCK) < n)");
  EXPECT_EQ(type_of(call("arange", {Int(0), Int(192)})), "tile<192xi32>");
  call("zeros", {shape({64, 66}), type(Elem::F32)});
  EXPECT_EQ(
      errors(),
      "extent 66 in the shape of zeros is no q * 2^k with odd q up to 31 (the nearest are 64 and 68: mask what is "
      "too much; triton.next_power_of_2(n) always works)");
  call("arange", {Int(4), Int(4)});
  EXPECT_EQ(errors(), "arange from 4 to 4 is empty");
  call("arange", {Int(0), scalar(Elem::I32)});
  EXPECT_EQ(errors(),
            "the end of arange must be an int known at compile time, found int32 (declare the parameter it comes from "
            "as tl.constexpr)");
  EXPECT_EQ(type_of(call("zeros", {Int(16), type(Elem::F32)})), "tile<16xf32>");
  call("zeros", {shape({2048, 1024}), type(Elem::F32)});
  EXPECT_EQ(errors(),
            "a tile of [2048, 1024] in zeros has more than 1048576 elements (take smaller blocks, by more programs or "
            "in a loop)");
  EXPECT_EQ(type_of(call("full", {shape({16}), 0.0, type(Elem::U32)})), "tile<16xu32>");  // as in Triton
  call("full", {shape({16}), 1.5, type(Elem::I32)});
  EXPECT_EQ(errors(), "the value of full, 1.5, is no int32 (take a float dtype)");
  call("full", {shape({16}), Int(300), type(Elem::I8)});
  EXPECT_EQ(errors(), "the number 300 does not fit int8 and wraps, as in Triton (take a wider dtype)");
  EXPECT_EQ(std::get<int64_t>(last().get(ir::attr::value)), 44);
  call("full", {shape({2}), Int(-1), type(Elem::U32)});
  EXPECT_EQ(errors(), "the number -1 does not fit uint32 (take a wider dtype)");
  call("full", {shape({16}), tile(Elem::F32, {16}), type(Elem::F32)});
  EXPECT_EQ(errors(), "full takes a scalar value, found tile of [16] float32");
}

// ---- Memory

TEST_F(SemanticsFunctions, Load) {
  Val p = pointers(Elem::F16, {16, 32}), mask = tile(Elem::I1, {16, 1});
  EXPECT_EQ(type_of(call("load", {p})), "tile<16x32xf16>");
  EXPECT_EQ(ops(), "load");
  EXPECT_EQ(type_of(call("load", {p, mask, 0.0})), "tile<16x32xf16>");
  EXPECT_EQ(ops(), "broadcast constant splat load");
  EXPECT_EQ(type_of(last().operand(2)), "tile<16x32xf16>");
  call("load", {p, mask}, {{"other", tile(Elem::F32, {32})}});
  EXPECT_EQ(ops(), "broadcast cast expand_dims broadcast load");
  call("load", {p, true}, {{"eviction_policy", text("evict_last")}, {"cache_modifier", text(".cg")}});
  EXPECT_EQ(ops(), "load");
  EXPECT_EQ(last().operand(1), nullptr);
  EXPECT_EQ(last().get(ir::attr::evict), "evict_last");
  EXPECT_EQ(last().get(ir::attr::cache), ".cg");
  EXPECT_EQ(type_of(call("load", {pointer(Elem::I1)})), "i1");
  EXPECT_EQ(type_of(call("load", {pointers(Elem::F32, {1, 32}), tile(Elem::I1, {16, 32})})), "tile<16x32xf32>");
  EXPECT_EQ(errors(), "");
}

TEST_F(SemanticsFunctions, LoadErrors) {
  Val p = pointers(Elem::F16, {32}), mask = tile(Elem::I1, {16});
  call("load", {tile(Elem::I32, {16})});
  EXPECT_EQ(errors(),
            "load takes a pointer or a tile of pointers, found tile of [16] int32 (an argument is a pointer "
            "if the launch gives an array; neither a number nor offsets alone are one)");
  call("load", {p, mask});
  EXPECT_EQ(errors(),
            "the mask of load has shape [16], the pointers have [32] (a mask has the pointers' shape, or extents of 1 "
            "that repeat)");
  call("load", {pointer(Elem::F32), mask});
  EXPECT_EQ(errors(),
            "the mask of load is a tile of [16] int1, but the pointer is a single one (add offsets to the pointer: p + "
            "tl.arange(0, BLOCK))");
  call("load", {p, pointers(Elem::F32, {32})});
  EXPECT_EQ(errors(), "the mask of load is a tile of [32] pointer to float32 (compare offsets: offsets < n)");
  call("load", {pointer(Elem::F32), pointer(Elem::F32)});
  EXPECT_EQ(errors(), "the mask of load is a pointer to float32 (compare offsets: offsets < n)");
  call("load", {p}, {{"other", 0.0}});
  EXPECT_EQ(errors(), "load has `other` without a mask (give mask=..., or leave `other` out)");
  call("load", {p}, {{"boundary_check", shape({0})}});
  EXPECT_EQ(
      errors(),
      "boundary_check of load belongs to block pointers (tl.make_block_ptr makes one; for other pointers compute a "
      "mask)");
  call("load", {p}, {{"padding_option", text("zero")}});
  EXPECT_EQ(
      errors(),
      "padding_option of load belongs to block pointers (tl.make_block_ptr makes one; for other pointers compute a "
      "mask)");
  call("load", {p}, {{"cache_modifier", text(".wb")}});
  EXPECT_EQ(errors(), "the cache_modifier of load is '.wb' (it is one of '.ca', '.cg', '.cs', '.cv')");
  EXPECT_EQ(ops(), "");
}

TEST_F(SemanticsFunctions, Store) {
  Val p = pointers(Elem::F16, {32}), x = tile(Elem::F32, {32}), mask = tile(Elem::I1, {32});
  EXPECT_TRUE(call("store", {p, x, mask}).is<None>());
  EXPECT_EQ(ops(), "cast store");
  call("store", {p, 1.0});
  EXPECT_EQ(ops(), "constant splat store");
  call("store", {pointer(Elem::F32), scalar(Elem::I32)});
  EXPECT_EQ(ops(), "cast store");
  call("store", {pointers(Elem::I1, {32}), mask});
  EXPECT_EQ(ops(), "store");
  call("store", {pointers(Elem::I1, {32}), x});  // a byte
  EXPECT_EQ(ops(), "cast bitcast store");
  call("store", {pointers(Elem::U64, {32}), pointer(Elem::F32)});  // an address
  EXPECT_EQ(ops(), "bitcast splat store");
  EXPECT_EQ(errors(), "");
  call("store", {pointers(Elem::I32, {32}), p});
  EXPECT_EQ(errors(), "the value of store is a tile of [32] pointer to float16 (load from it first: tl.load(p))");
  call("store", {pointer(Elem::F32), x});
  EXPECT_EQ(errors(),
            "the value of store is a tile of [32] float32, but the pointer is a single one (add offsets to the "
            "pointer: p + tl.arange(0, BLOCK))");
  call("store", {pointers(Elem::F32, {32, 1}), x});
  EXPECT_EQ(errors(),
            "the value of store has shape [32], the pointers have [32, 1] (they have one shape, or the value extents "
            "of 1 that "
            "repeat: x[:, None] adds one)");
  call("store", {p, x, tile(Elem::I1, {64})});
  EXPECT_EQ(errors(),
            "the mask of store has shape [64], the pointers have [32] (a mask has the pointers' shape, or extents of 1 "
            "that repeat)");
}

TEST_F(SemanticsFunctions, AtomicAdd) {
  EXPECT_EQ(type_of(call("atomic_add", {pointers(Elem::F32, {16}), Int(1)})), "tile<16xf32>");
  EXPECT_EQ(last().get(ir::attr::kind), "add");
  call("atomic_add", {pointer(Elem::I32), Int(1), scalar(Elem::I1)}, {{"sem", text("relaxed")}});
  EXPECT_EQ(last().get(ir::attr::sem), "relaxed");
  EXPECT_EQ(errors(), "");
  call("atomic_add", {pointers(Elem::I16, {16}), Int(1)});
  EXPECT_EQ(errors(), "atomic_add on int16 (it takes 32- and 64-bit integers and floats of 16 bits or more)");
  call("atomic_add", {pointers(Elem::I32, {16}), tile(Elem::I32, {32})});
  EXPECT_EQ(errors(),
            "the value of atomic_add has shape [32], the pointers have [16] (they have one shape, or the value extents "
            "of 1 that "
            "repeat: x[:, None] adds one)");
}

// ---- Elementwise functions

TEST_F(SemanticsFunctions, MathTypes) {
  for (std::string name :
       {"exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "erf", "tanh", "floor", "ceil"}) {
    EXPECT_EQ(type_of(call(name, {tile(Elem::F32, {16})})), "tile<16xf32>");
    EXPECT_EQ(ops(), name);
    EXPECT_EQ(type_of(call(name, {scalar(Elem::F64)})), "f64");
    EXPECT_EQ(errors(), "");
    EXPECT_TRUE(call(name, {tile(Elem::F16, {16})}).is_poison());
    EXPECT_EQ(errors(),
              name + " takes float32 or float64, found tile of [16] float16 (convert with .to(tl.float32) first)");
    ops();
  }
  call("exp", {pointer(Elem::F32)});
  EXPECT_EQ(errors(), "exp takes float32 or float64, found pointer to float32 (convert with .to(tl.float32) first)");
  EXPECT_EQ(type_of(call("pow", {scalar(Elem::F32), scalar(Elem::F64)})), "f64");
  EXPECT_EQ(type_of(call("fma", {tile(Elem::F16, {16}), scalar(Elem::F16), 1.0})), "tile<16xf32>");
  EXPECT_EQ(type_of(call("abs", {scalar(Elem::BF16)})), "bf16");
  ops();
  call("abs", {scalar(Elem::U8)});
  EXPECT_EQ(ops(), "");
  EXPECT_EQ(type_of(call("umulhi", {scalar(Elem::I32), scalar(Elem::I32)})), "i32");
  EXPECT_EQ(ops(), "umulhi");
  call("umulhi", {scalar(Elem::I8), scalar(Elem::I8)});
  EXPECT_EQ(errors(), "umulhi takes integers of 32 or 64 bits, found int8");
}

// Arguments of these are values first: unlike an operator's, a literal is not weak.
TEST_F(SemanticsFunctions, MinimumMaximum) {
  EXPECT_EQ(type_of(call("maximum", {tile(Elem::F16, {16}), 0.0})), "tile<16xf32>");
  EXPECT_EQ(type_of(call("maximum", {tile(Elem::F16, {16}), tile(Elem::F16, {16})})), "tile<16xf16>");
  EXPECT_EQ(type_of(call("minimum", {tile(Elem::BF16, {16}), tile(Elem::BF16, {16})})), "tile<16xf32>");
  EXPECT_FALSE(last().get(ir::attr::nan));
  call("maximum", {scalar(Elem::F32), 0.0}, {{"propagate_nan", text("ALL")}});
  EXPECT_TRUE(last().get(ir::attr::nan));
  ops();
  EXPECT_EQ(type_of(call("clamp", {tile(Elem::F32, {16}), 0.0, 1.0})), "tile<16xf32>");
  EXPECT_EQ(ops(), "constant splat maximum constant splat minimum");
  EXPECT_EQ(type_of(call("clamp", {tile(Elem::BF16, {16}), 0.0, 1.0})), "tile<16xf32>");
  EXPECT_EQ(type_of(call("clamp", {scalar(Elem::I32), Int(0), Int(1)})), "i32");
  EXPECT_EQ(errors(), "");
  call("maximum", {scalar(Elem::F32), 0.0}, {{"propagate_nan", text("SOME")}});
  EXPECT_EQ(errors(), "the propagate_nan of maximum is 'SOME' (it is tl.PropagateNan.ALL or tl.PropagateNan.NONE)");
}

TEST_F(SemanticsFunctions, Where) {
  Val c = tile(Elem::I1, {16, 1}), x = tile(Elem::F16, {32});
  EXPECT_EQ(type_of(call("where", {c, x, 0.0})), "tile<16x32xf16>");
  EXPECT_EQ(ops(), "constant splat broadcast expand_dims broadcast expand_dims broadcast select");
  EXPECT_EQ(type_of(call("where", {c, Int(1), 0.5})), "tile<16x1xf32>");
  EXPECT_EQ(type_of(call("where", {scalar(Elem::I1), pointer(Elem::F32), pointer(Elem::F32)})), "ptr<f32>");
  EXPECT_EQ(errors(), "");
  call("where", {scalar(Elem::I1), pointer(Elem::F32), Int(0)});
  EXPECT_EQ(errors(),
            "'where' is not defined for pointer to float32 and the int 0 (load from the pointer first: tl.load(p))");
}

TEST_F(SemanticsFunctions, ComposedFunctions) {
  EXPECT_EQ(call("cdiv", {Int(100), Int(32)}).as<Int>(), 4);
  EXPECT_EQ(ops(), "");
  EXPECT_EQ(type_of(call("cdiv", {scalar(Elem::I32), Int(32)})), "i32");
  EXPECT_EQ(ops(), "constant add constant div");
  EXPECT_EQ(type_of(call("sigmoid", {tile(Elem::F32, {16})})), "tile<16xf32>");
  EXPECT_EQ(ops(), "neg exp constant splat add constant splat div");
  EXPECT_EQ(type_of(call("softmax", {tile(Elem::F16, {16, 32}), Int(1)})), "tile<16x32xf32>");
  EXPECT_EQ(
      ops(),
      "cast reduce{maximum yield} expand_dims cast broadcast sub exp reduce{add yield} expand_dims broadcast div");
  EXPECT_EQ(type_of(call("fdiv", {scalar(Elem::F16), scalar(Elem::F16)})), "f16");
  EXPECT_EQ(type_of(call("add", {scalar(Elem::F16), Int(1)})), "f16");
  EXPECT_EQ(errors(), "");
  call("fdiv", {scalar(Elem::F16), Int(2)});
  EXPECT_EQ(
      errors(),
      "fdiv takes two floats of one type, found float16 and the int 2 (cast both to one float type, or write x / y)");
  call("sigmoid", {scalar(Elem::F16)});
  EXPECT_EQ(errors(), "exp takes float32 or float64, found float16 (convert with .to(tl.float32) first)");
}

// ---- Reductions

TEST_F(SemanticsFunctions, ReductionTypes) {
  struct Row {
    Elem e;
    const char *sum, *max, *max_with_index;
  };
  for (const Row& r :
       {Row{Elem::I1, "u32", "i32", "i1"}, Row{Elem::I8, "i32", "i32", "i8"}, Row{Elem::U16, "u32", "i32", "u16"},
        Row{Elem::I64, "i64", "i64", "i64"}, Row{Elem::F16, "f16", "f32", "f16"}, Row{Elem::BF16, "bf16", "f32", "f32"},
        Row{Elem::F32, "f32", "f32", "f32"}, Row{Elem::F64, "f64", "f64", "f64"}}) {
    SCOPED_TRACE(elem_info(r.e).tl);
    Val x = tile(r.e, {16, 32});
    EXPECT_EQ(type_of(call("sum", {x})), r.sum);
    EXPECT_EQ(type_of(call("sum", {x, Int(-1)})), fmt::format("tile<16x{}>", r.sum));
    EXPECT_EQ(type_of(call("max", {x})), r.max);
    EXPECT_EQ(type_of(call("min", {x, Int(0)})), fmt::format("tile<32x{}>", r.max));
    Val pair = call("max", {x, Int(1), true});
    EXPECT_EQ(type_of(item(pair, 0)), fmt::format("tile<16x{}>", r.max_with_index));
    EXPECT_EQ(type_of(item(pair, 1)), "tile<16xi32>");
    EXPECT_EQ(type_of(call("argmin", {x, Int(0)})), "tile<32xi32>");
  }
  EXPECT_EQ(type_of(call("sum", {tile(Elem::F16, {16})}, {{"dtype", type(Elem::F32)}})), "f32");
  EXPECT_EQ(errors(), "");
}

TEST_F(SemanticsFunctions, ReductionOps) {
  Val x = tile(Elem::F32, {4, 8, 16});
  call("sum", {x});
  EXPECT_EQ(ops(), "reshape reduce{add yield}");
  EXPECT_EQ(type_of(call("max", {x, None{}}, {{"keep_dims", true}})), "tile<1x1x1xf32>");
  EXPECT_EQ(ops(), "reshape reduce{maximum yield} splat");
  EXPECT_EQ(type_of(call("sum", {x, Int(1)}, {{"keep_dims", true}})), "tile<4x1x16xf32>");
  EXPECT_EQ(ops(), "reduce{add yield} expand_dims");
  EXPECT_EQ(type_of(call("argmax", {x, Int(1)})), "tile<4x16xi32>");
  EXPECT_EQ(ops(), "arange expand_dims expand_dims broadcast reduce{gt lt eq bit_and bit_or select select yield}");
  call("argmin", {x, Int(2)}, {{"tie_break_left", false}});
  EXPECT_EQ(ops(), "arange expand_dims expand_dims broadcast reduce{lt select select yield}");
  call("xor_sum", {tile(Elem::I32, {16}), Int(0)});
  EXPECT_EQ(ops(), "reduce{bit_xor yield}");
  EXPECT_EQ(errors(), "");
}

TEST_F(SemanticsFunctions, ReductionErrors) {
  Val x = tile(Elem::F32, {16});
  call("sum", {scalar(Elem::F32)});
  EXPECT_EQ(errors(), "sum takes a tile, found float32");
  call("max", {x, Int(1)});
  EXPECT_EQ(errors(), "axis 1 of max is out of range for a tile of rank 1 (axes are 0 to 0, or -1 to -1)");
  s.call = [](const FunctionRef&, std::vector<Val> args) { return args[0]; };
  call("reduce", {make_tuple({x, tile(Elem::F32, {32})}), Int(0), FunctionRef{FunctionRef::Kind::Jit, "f"}});
  EXPECT_EQ(errors(), "reduce takes tiles of one shape, found tile of [16] float32 and tile of [32] float32");
  call("xor_sum", {x});
  EXPECT_EQ(errors(), "xor_sum takes integers, found tile of [16] float32");
  call("reduce", {x, Int(0), Int(3)});
  EXPECT_EQ(
      errors(),
      "reduce combines by a @triton.jit function, found the int 3 (define one beside the kernel: @triton.jit, def "
      "add(a, b): return a + b)");
}

TEST_F(SemanticsFunctions, ReduceWithFunction) {
  Val f = FunctionRef{FunctionRef::Kind::Jit, "combine"};
  Val x = tile(Elem::F32, {16, 32}), i = tile(Elem::I32, {16, 32});
  s.call = [&](const FunctionRef&, std::vector<Val> args) { return binary(s, "*", args[0], args[1]); };
  EXPECT_EQ(type_of(call("reduce", {x, Int(1), f})), "tile<16xf32>");
  EXPECT_EQ(ops(), "reduce{mul yield}");
  s.call = [&](const FunctionRef&, std::vector<Val> args) {
    return make_tuple({binary(s, "+", args[0], args[2]), binary(s, "^", args[1], args[3])});
  };
  Val pair = call("reduce", {make_tuple({x, i}), Int(0), f});
  EXPECT_EQ(type_of(item(pair, 0)), "tile<32xf32>");
  EXPECT_EQ(type_of(item(pair, 1)), "tile<32xi32>");
  EXPECT_EQ(ops(), "reduce{add bit_xor yield}");
  EXPECT_EQ(errors(), "");
}

TEST_F(SemanticsFunctions, ReduceFunctionErrors) {
  Val f = FunctionRef{FunctionRef::Kind::Jit, "combine"};
  Val x = tile(Elem::F32, {16});
  s.call = [&](const FunctionRef&, std::vector<Val> args) { return compare(s, "<", args[0], args[1]); };
  EXPECT_TRUE(call("reduce", {x, Int(0), f}).is_poison());
  EXPECT_EQ(errors(),
            "the combine function 'combine' gives int1, expected float32 (it combines two values of one type to one of "
            "that type)");
  s.call = [&](const FunctionRef&, std::vector<Val> args) { return make_tuple({args[0], args[1]}); };
  EXPECT_TRUE(call("reduce", {x, Int(0), f}).is_poison());
  EXPECT_EQ(errors(), "the combine function 'combine' gives 2 values for 1 inputs");
  s.call = [&](const FunctionRef&, std::vector<Val>) { return Val(); };
  EXPECT_TRUE(call("reduce", {x, Int(0), f}).is_poison());
  EXPECT_EQ(errors(), "");
}

// ---- Shapes

TEST_F(SemanticsFunctions, Shapes) {
  Val x = tile(Elem::F32, {16, 32});
  EXPECT_EQ(type_of(call("reshape", {x, Int(8), Int(64)})), "tile<8x64xf32>");
  EXPECT_EQ(type_of(call("reshape", {x, shape({512})}, {{"can_reorder", true}})), "tile<512xf32>");
  EXPECT_EQ(type_of(call("view", {x, shape({4, 4, 32})})), "tile<4x4x32xf32>");
  EXPECT_EQ(type_of(call("ravel", {x})), "tile<512xf32>");
  EXPECT_EQ(type_of(call("trans", {x})), "tile<32x16xf32>");
  EXPECT_EQ(type_of(call("trans", {tile(Elem::F32, {2, 4, 8})})), "tile<2x8x4xf32>");
  EXPECT_EQ(type_of(call("permute", {tile(Elem::F32, {2, 4, 8}), Int(2), Int(0), Int(1)})), "tile<8x2x4xf32>");
  EXPECT_EQ(type_of(call("permute", {tile(Elem::F32, {2, 4, 8}), shape({1, 0, 2})})), "tile<4x2x8xf32>");
  EXPECT_EQ(type_of(call("expand_dims", {x, Int(-1)})), "tile<16x32x1xf32>");
  EXPECT_EQ(type_of(call("expand_dims", {tile(Elem::F32, {8}), shape({0, 2})})), "tile<1x8x1xf32>");
  EXPECT_EQ(type_of(call("broadcast_to", {tile(Elem::F32, {16, 1}), shape({16, 32})})), "tile<16x32xf32>");
  EXPECT_EQ(type_of(call("broadcast_to", {scalar(Elem::F32), Int(8), Int(8)})), "tile<8x8xf32>");
  Val pair = call("broadcast", {tile(Elem::F32, {16, 1}), tile(Elem::I32, {1, 8})});
  EXPECT_EQ(type_of(item(pair, 1)), "tile<16x8xi32>");
  EXPECT_EQ(type_of(call("item", {tile(Elem::F32, {1, 1})})), "f32");
  EXPECT_EQ(type_of(call("item", {pointers(Elem::F32, {1})})), "ptr<f32>");
  EXPECT_EQ(errors(), "");
}

TEST_F(SemanticsFunctions, ShapeErrors) {
  Val x = tile(Elem::F32, {16, 32});
  call("reshape", {x, shape({16, 16})});
  EXPECT_EQ(errors(), "cannot reshape [16, 32] to [16, 16]: 512 elements against 256");
  call("permute", {x, Int(0), Int(2)});
  EXPECT_EQ(errors(), "axis 2 of permute is out of range for a tile of rank 2 (axes are 0 to 1, or -2 to -1)");
  call("trans", {tile(Elem::F32, {16})});
  EXPECT_EQ(
      errors(),
      "trans swaps the last two dimensions, found tile of [16] float32 (x[:, None] is a column of a tile of rank 1, "
      "x[None, :] a row)");
  call("expand_dims", {x, Int(3)});
  EXPECT_EQ(errors(), "axis 3 of expand_dims is out of range for a tile of rank 3 (axes are 0 to 2, or -3 to -1)");
  call("broadcast_to", {tile(Elem::F32, {32}), shape({32, 16})});
  EXPECT_EQ(errors(), "cannot broadcast [32] to [32, 16] (only extents of 1 repeat)");
  call("item", {x});
  EXPECT_EQ(errors(), "item takes a tile of one element, found tile of [16, 32] float32");
}

// ---- Order, look-ups, random numbers

TEST_F(SemanticsFunctions, JoinErrors) {
  Val f = tile(Elem::F32, {16}), i = tile(Elem::I32, {16});
  call("join", {f, i});
  EXPECT_EQ(errors(),
            "join takes two tiles of one type, found tile of [16] float32 and tile of [16] int32 (convert one with "
            ".to(...))");
  call("split", {tile(Elem::F32, {2, 16})});
  EXPECT_EQ(errors(),
            "split takes a tile whose last extent is 2, found tile of [2, 16] float32 (reshape it: x.reshape(N, 2))");
  call("cat", {f, tile(Elem::F32, {32})});
  EXPECT_EQ(errors(), "cat takes two tiles of one shape, found tile of [16] float32 and tile of [32] float32");
  call("cat", {f, Int(2)});
  EXPECT_EQ(errors(), "cat takes two tiles, found the int 2");
  call("cat", {tile(Elem::F32, {4, 4}), tile(Elem::F32, {4, 4}), Val(false), Int(2)});
  EXPECT_EQ(errors(), "axis 2 of cat is out of range for a tile of rank 2 (axes are 0 to 1, or -2 to -1)");
  call("squeeze", {tile(Elem::F32, {4, 4}), Int(1)});
  EXPECT_EQ(errors(), "squeeze removes a dimension of extent 1, found 4 in tile of [4, 4] float32");
}

TEST_F(SemanticsFunctions, Order) {
  Val x = tile(Elem::F16, {8, 64});
  EXPECT_EQ(type_of(call("sort", {x})), "tile<8x64xf16>");
  EXPECT_FALSE(last().get(ir::attr::descending));
  EXPECT_EQ(type_of(call("sort", {x}, {{"descending", Int(1)}, {"dim", Int(-1)}})), "tile<8x64xf16>");
  EXPECT_TRUE(last().get(ir::attr::descending));
  EXPECT_EQ(type_of(call("topk", {x, Int(8)})), "tile<8x8xf32>");
  EXPECT_EQ(type_of(call("topk", {tile(Elem::U8, {64}), Int(64)})), "tile<64xu8>");
  EXPECT_EQ(type_of(call("topk", {tile(Elem::U8, {64}), Int(4)})), "tile<4xi32>");
  EXPECT_EQ(type_of(call("sort_impl", {tile(Elem::I64, {64})}, {{"k", Int(2)}})), "tile<2xi64>");
  EXPECT_EQ(errors(), "");
  call("sort", {x, Int(0)});
  EXPECT_EQ(errors(),
            "sort goes along the last dimension, found dim 0 of rank 2 (put it last with tl.permute, and back after)");
  call("sort", {tile(Elem::F32, {96})});
  EXPECT_EQ(
      errors(),
      "sort takes a last extent that is a power of two, found 96 (pad it: load a larger tile, with other= a value "
      "that comes last)");
  call("topk", {x, Int(3)});
  EXPECT_EQ(errors(), "the k of topk is 3, expected a power of two up to the extent, 64");
  call("topk", {x, Int(128)});
  EXPECT_EQ(errors(), "the k of topk is 128, expected a power of two up to the extent, 64");
  call("sort", {scalar(Elem::F32)});
  EXPECT_EQ(errors(), "sort takes a tile of numbers, found float32");
  call("sort", {x}, {{"descending", scalar(Elem::I1)}});
  EXPECT_EQ(errors(),
            "the descending of sort must be known at compile time, found int1 (True or False says which it is)");
}

TEST_F(SemanticsFunctions, LookUp) {
  Val x = tile(Elem::F16, {8, 64}), i = tile(Elem::I32, {8, 16});
  EXPECT_EQ(type_of(call("gather", {x, i, Int(1)})), "tile<8x16xf16>");
  EXPECT_EQ(type_of(call("flip", {x}, {{"dim", Int(0)}})), "tile<8x64xf16>");
  EXPECT_EQ(type_of(call("histogram", {tile(Elem::U8, {64}), Int(16)})), "tile<16xi32>");
  EXPECT_EQ(errors(), "");
  call("gather", {x, i, Int(0)});
  EXPECT_EQ(errors(),
            "gather of shape [8, 64] with indices of shape [8, 16] (they have one rank and, but for the axis, the same "
            "extents)");
  call("gather", {x, x, Int(0)});
  EXPECT_EQ(errors(), "the index of gather is a tile of integers, found tile of [8, 64] float16");
  call("flip", {x}, {{"dim", Int(2)}});
  EXPECT_EQ(errors(), "axis 2 of flip is out of range for a tile of rank 2 (axes are 0 to 1, or -2 to -1)");
  call("histogram", {i, Int(16)});
  EXPECT_EQ(errors(),
            "histogram takes a tile of integers of rank 1, found tile of [8, 16] int32 (x.ravel() has rank 1)");
  call("histogram", {tile(Elem::I32, {64}), Int(16), tile(Elem::I32, {64})});
  EXPECT_EQ(errors(), "the mask of histogram is tile of [64] int32, expected int1 (compare: offsets < n)");
  call("map_elementwise", {Int(3), x});
  EXPECT_EQ(errors(), "map_elementwise maps a @triton.jit function, found the int 3");
}

TEST_F(SemanticsFunctions, RandomErrors) {
  call("rand", {0.5, tile(Elem::I32, {16})});
  EXPECT_EQ(errors(), "the seed of philox is an integer, found the float 0.5");
  call("rand", {Int(1), tile(Elem::F64, {16})});
  EXPECT_EQ(errors(),
            "the offset of the random numbers is an integer or a float of up to 32 bits, found tile of [16] float64");
  call("randint", {Int(1), tile(Elem::I32, {16})}, {{"n_rounds", Int(-1)}});
  EXPECT_EQ(errors(), "n_rounds is -1, expected 0 to 64");
  Val w = tile(Elem::U32, {16});
  call("philox", {Int(1), w, w, w, tile(Elem::U64, {16})});
  EXPECT_EQ(errors(),
            "philox takes four counters of 32 bits or four of 64, found tile of [16] uint32 and tile of [16] uint64");
  call("philox_impl", {w, w, w, w, tile(Elem::U64, {16}), w});
  EXPECT_EQ(errors(), "philox_impl takes words of uint32 or of uint64, found tile of [16] uint64 for k0");
  call("uint_to_uniform_float", {tile(Elem::U16, {16})});
  EXPECT_EQ(errors(), "uint_to_uniform_float takes integers of 32 or 64 bits, found tile of [16] uint16");
}

// ---- Limits

TEST_F(SemanticsFunctions, TilesOfTooManyDimensions) {
  Val x = tile(Elem::F32, ir::Shape(20, 1));
  call("expand_dims", {x, Int(0)});
  EXPECT_EQ(errors(),
            "expand_dims gives a tile of 21 dimensions, tiles have at most 20 (join dimensions by tl.reshape)");
  call("zeros", {shape(std::vector<Int>(21, Int(1))), type(Elem::F32)});
  EXPECT_EQ(errors(), "the shape of zeros has 21 dimensions, tiles have at most 20");
  subscript(s, x, {None{}});
  EXPECT_EQ(errors(), "an index gives a tile of 21 dimensions, tiles have at most 20 (join dimensions by tl.reshape)");
}

TEST_F(SemanticsFunctions, LogicalMethods) {
  Val flags = tile(Elem::I1, {16});
  EXPECT_EQ(type_of(call("logical_and", {flags, true})), "tile<16xi1>");
  EXPECT_EQ(describe(call("logical_or", {false, true})), "True");
  call("logical_or", {flags, tile(Elem::I32, {16})});
  EXPECT_EQ(errors(),
            "logical_or takes int1, found tile of [16] int32 (compare first: x != 0, or use & and | of integers)");
  ASSERT_TRUE(find_method(flags, "logical_and"));
}

// ---- Hints and compile-time functions

TEST_F(SemanticsFunctions, Hints) {
  Val x = tile(Elem::I32, {16});
  EXPECT_EQ(type_of(call("multiple_of", {x, Int(8)})), "tile<16xi32>");
  EXPECT_EQ(last().get(ir::attr::divisibility), std::vector<int64_t>{8});
  call("max_contiguous", {tile(Elem::I32, {4, 8}), shape({1, 8})});
  EXPECT_EQ(last().get(ir::attr::contiguity), (std::vector<int64_t>{1, 8}));
  EXPECT_EQ(call("multiple_of", {Int(32), Int(8)}).as<Int>(), 32);
  EXPECT_TRUE(call("assume", {scalar(Elem::I1)}).is<None>());
  EXPECT_TRUE(call("debug_barrier", {}).is<None>());
  EXPECT_EQ(ops(), "hint hint barrier");
  EXPECT_EQ(errors(), "");
  call("multiple_of", {x, shape({8, 8})});
  EXPECT_EQ(errors(), "2 values for tile of [16] int32 (give one number a dimension)");
  call("assume", {scalar(Elem::I32)});
  EXPECT_EQ(errors(), "");
}

TEST_F(SemanticsFunctions, CompileTimeFunctions) {
  EXPECT_TRUE(call("static_assert", {true}).is<None>());
  EXPECT_EQ(call("next_power_of_2", {Int(100)}).as<Int>(), 128);
  EXPECT_EQ(describe(call("pointer_type", {type(Elem::F32)})), "the type pointer to float32");
  EXPECT_EQ(describe(call("get_int_dtype", {Int(16), false})), "the type uint16");
  EXPECT_EQ(errors(), "");
  call("static_assert", {Int(0), text("B is too small")});
  EXPECT_EQ(errors(), "static_assert failed: B is too small");
  call("static_assert", {scalar(Elem::I1)});
  EXPECT_EQ(errors(),
            "static_assert needs a condition known at compile time (declare the parameters it uses as tl.constexpr)");
}

TEST_F(SemanticsFunctions, Reference) {
  std::string page;
  for (const ReferenceTable& table : reference_tables()) page += table.markdown;
  for (const FunctionInfo& f : function_table()) {
    std::string row = f.name + "(";
    if (row.starts_with("libdevice.")) row = row.substr(10, row.size() - 11) + "`";
    if (row.starts_with("extra_cuda_")) row.replace(0, 11, "extra.cuda.");
    EXPECT_NE(page.find("| `" + row), std::string::npos) << f.name;
  }
  for (const ir::OpInfo& op : ir::op_table())
    EXPECT_NE(page.find(fmt::format("| `{}` |", op.text)), std::string::npos) << op.text;
}

}  // namespace
}  // namespace tegula::dsl
