// Support for the tests of kernels that are written in both front ends: text and C++.
#pragma once

#include "codegen/ir/printer.h"
#include "codegen/passes/passes.h"
#include "codegen/target/target.h"
#include "dsl/tegula.h"
#include "tests/codegen/lower/ops_support.h"
#include "tests/message_of.h"

namespace tegula::front_ends {

using ops::Array;
using ops::device;

/// f(0) to f(n - 1).
inline std::vector<double> each(size_t n, const std::function<double(size_t)>& f) {
  std::vector<double> out;
  for (size_t i = 0; i < n; ++i) out.push_back(f(i));
  return out;
}

inline std::vector<float> floats(size_t n, unsigned seed) { return ops::small_values<float>(n, seed); }

/// Brings ops without effects, and loads with no write between, into the order in which they are needed: C++ leaves
/// open in which order it evaluates operands and arguments.
inline void sort_by_need(ir::Block& block) {
  std::map<const ir::Op*, std::unique_ptr<ir::Op>> ops;
  std::vector<ir::Op*> order;
  for (auto& op : block.ops) order.push_back(op.get()), ops[op.get()] = std::move(op);
  block.ops.clear();
  std::function<void(ir::Op*)> take = [&](ir::Op* op) {
    auto it = ops.find(op);
    if (it == ops.end()) return;
    auto held = std::move(it->second);
    ops.erase(it);
    auto need = [&](const ir::Op& user) {
      for (ir::Value* v : user.operands)
        if (v && v->def) take(v->def);
    };
    need(*op);
    for (auto& region : op->regions) {
      sort_by_need(*region);
      ir::walk(std::as_const(*region), need);
    }
    block.ops.push_back(std::move(held));
  };
  std::vector<ir::Op*> loads;
  for (ir::Op* op : order) {
    if (op->opcode == ir::Opcode::Load) loads.push_back(op);
    if (op->has(ir::Pure) || op->opcode == ir::Opcode::Load) continue;
    // Loads stay before what may write, in the order of their need if there is one.
    for (ir::Value* v : op->operands)
      if (v && v->def) take(v->def);
    for (ir::Op* load : loads) take(load);
    loads.clear();
    take(op);
  }
}

/// Tile IR in a form that does not depend on how values are called: folded, dead ops removed, in the order of need,
/// values numbered.
inline std::string canonical_ir(const Kernel& kernel, std::span<const ArgType> types, const LaunchOptions& options) {
  auto func = kernel.tile_func(types, options);
  Diagnostics diags;
  PassContext context{*find_target("sm_90a"), diags};
  passes::canonicalize(*func, context);
  sort_by_need(func->body);
  return ir::print(*func);
}

/// Both kernels, whose first argument is an array `out` as large as `expected` and zero at first, have the same IR for
/// these further arguments and give what is expected, up to `tolerance` relative to the values.
template <class T, class... Args>
void expect_agree(const std::string& body, const Kernel& cpp, const LaunchOptions& options, Grid grid,
                  const std::vector<double>& expected, double tolerance, const Args&... args) {
  try {
    Program program = Program::parse("import triton\nimport triton.language as tl\n\n" + body, "kernel.py");
    Kernel text = program.kernel("kernel");
    for (bool from_text : {true, false}) {
      SCOPED_TRACE(from_text ? "text" : "C++");
      Array<T> out(expected.size(), 0);
      const Kernel& kernel = from_text ? text : cpp;
      if (from_text) {
        std::vector<Arg> list{Arg(out), Arg(args)...};
        auto types = text.classify(list, options);
        EXPECT_EQ(canonical_ir(text, types, options), canonical_ir(cpp, cpp.classify(list, options), options));
      }
      kernel.launch(device(), grid, options, out, Arg(args)...);
      device().synchronize();
      std::vector<T> got = out.values();
      int wrong = 0;
      for (size_t i = 0; i < got.size(); ++i) {
        double x = double(ops::wide(got[i])), e = expected[i];
        bool equal = x == e || (std::isnan(x) && std::isnan(e)) || std::fabs(x - e) <= tolerance * (1 + std::fabs(e));
        if (!equal && ++wrong <= 4) ADD_FAILURE() << "[" << i << "]: got " << x << ", expected " << e;
      }
      EXPECT_EQ(wrong, 0);
    }
  } catch (const Error& error) {
    ADD_FAILURE() << error.what() << "\n" << body;
  }
}

}  // namespace tegula::front_ends
