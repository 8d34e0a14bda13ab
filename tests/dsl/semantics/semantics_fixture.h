// A function under construction, with short ways to make operands, call tl functions and look at what came of it.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dsl/semantics/sema.h"

namespace tegula::dsl {

class Semantics : public ::testing::Test {
 protected:
  ir::Func func_;
  Diagnostics diags_;
  Sema s{ir::Builder(&func_.body), diags_, {}, {}};

  Val scalar(Elem e) { return func_.add_param(ir::Type::scalar(e), ""); }
  Val pointer(Elem e) { return func_.add_param(ir::Type::pointer_to(e), ""); }
  Val tile(Elem e, ir::Shape shape) { return func_.add_param(ir::Type::tile(e, std::move(shape)), ""); }
  Val pointers(Elem e, ir::Shape shape) { return func_.add_param(ir::Type{e, true, std::move(shape), nullptr}, ""); }
  static Val type(Elem e) { return DType{ir::Type::scalar(e)}; }
  static Val shape(std::vector<Int> extents) { return make_tuple(std::vector<Val>(extents.begin(), extents.end())); }
  static Val text(const char* t) { return std::string(t); }

  Val call(const std::string& name, std::vector<Val> args, std::vector<std::pair<std::string, Val>> keywords = {}) {
    const FunctionInfo* f = find_function(name);
    if (!f) return ADD_FAILURE() << "no function " << name, Val();
    return call_function(s, *f, std::move(args), std::move(keywords));
  }
  /// Ops made since the last call, regions in braces: "cast reduce{add yield}".
  std::string ops() {
    std::string made = list(func_.body, seen_);
    seen_ = func_.body.ops.size();
    return made;
  }
  /// Messages, each with its hint, of the diagnostics since the last call.
  std::string errors() {
    std::string all;
    for (; reported_ < diags_.list().size(); ++reported_) {
      const Diag& d = diags_.list()[reported_];
      all += (all.empty() ? "" : "; ") + d.message + (d.hint.empty() ? "" : " (" + d.hint + ")");
    }
    return all;
  }
  const ir::Op& last() { return *func_.body.ops.back(); }
  static std::string type_of(const Val& v) { return v.is_value() ? v.value()->type.to_string() : describe(v); }
  static std::string type_of(const ir::Value* v) { return v ? v->type.to_string() : "null"; }
  static const Val& item(const Val& tuple, size_t i) { return tuple.as<TupleVal>().items->at(i); }

 private:
  static std::string list(const ir::Block& block, size_t skip) {
    std::string made;
    for (auto& op : block.ops) {
      if (skip > 0) {
        --skip;
        continue;
      }
      made += (made.empty() ? "" : " ") + std::string(op->info().text);
      for (auto& region : op->regions) made += fmt::format("{{{}}}", list(*region, 0));
    }
    return made;
  }
  size_t seen_ = 0, reported_ = 0;
};

}  // namespace tegula::dsl
