// The verifier's rules for single ops, and how it reports. Private to codegen/ir.
#pragma once

#include <fmt/format.h>

#include "codegen/ir/verifier.h"

namespace tegula::ir {

/// "an integer", "a list of integers", ...
std::string_view attr_kind(const Attr& attr);

class OpRules {
 public:
  OpRules(const Func& func, Stage stage, Diagnostics& diags) : func_(func), stage_(stage), diags_(diags) {}

 protected:
  // ---- Reports, about op_
  void report(const std::string& message);
  bool want(bool condition, const std::string& message);
  // Two types that have to be one.
  bool want_same(const Type& found, const Type& expected, std::string_view what);
  bool want_same_shape(const Type& found, const Type& expected, std::string_view what);

  // ---- Attributes of op_: null and a report if missing or of another type
  template <class T>
  const T* attr(std::string_view name, bool required = true) {
    auto it = op_->attrs.find(name);
    if (it == op_->attrs.end()) {
      want(!required, fmt::format("attribute '{}' is missing", name));
      return nullptr;
    }
    const T* value = std::get_if<T>(&it->second);
    if (!value) report(fmt::format("attribute '{}' is {}, expected {}", name, attr_kind(it->second), attr_kind(T())));
    return value;
  }
  const int64_t* attr_in(std::string_view name, int64_t low, int64_t high);
  void attr_one_of(std::string_view name, const std::vector<std::string>& choices, bool required = false);

  // ---- Rules
  // All rules of op_, whose operands are defined and whose regions are as many as they should be and terminated.
  void semantics();
  void elementwise();
  void inline_asm();
  void libdevice();
  void constant();
  void shape_op();
  void reduce();
  void dot();
  void memory();
  void atomic();
  void shared_memory();
  void for_loop();
  void while_loop();

  std::string operand_name(size_t i) const;
  bool laid_out(const Value* a, const Value* b) const;
  // Layouts of operands (from `begin` on) and results are one.
  void one_layout(size_t begin = 0);
  void follows(const LinearLayout& found, const LinearLayout& expected, std::string_view what);
  const Type& in(int i) const;
  const Type& out(int i = 0) const;
  void mask(const Value* m, const Type& like, std::string_view what = "the mask");
  // `from` passes on its operands from `begin` on, which have these types.
  void passes_on(const Op& from, size_t begin, const std::vector<Type>& types, std::string_view what);
  static std::vector<Type> types_of(const std::vector<std::unique_ptr<Value>>& values, size_t begin = 0);

  const Func& func_;
  Stage stage_;
  Diagnostics& diags_;
  const Op* op_ = nullptr;  // the op being checked; null: the function
  bool good_ = true;
};

}  // namespace tegula::ir
