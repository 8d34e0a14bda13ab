// The verifier's rules for single ops, and how it reports. Private to codegen/ir.
#pragma once

#include <fmt/format.h>

#include <type_traits>

#include "codegen/ir/verifier.h"

namespace tegula::ir {

/// "an integer", "a list of integers", ...
std::string_view attr_kind(const Attr& attr);

class OpRules {
 public:
  OpRules(const Func& func, Stage stage, Diagnostics& diags) : func_(func), stage_(stage), diags_(diags) {}

 protected:
  // ---- Reports, about op_
  Diag& diagnose(const std::string& message);
  void report(const std::string& message) { diagnose(message); }
  /// `message` is a text, or a function that makes it: most conditions hold, and texts take longer than rules.
  template <class Message>
  bool want(bool condition, const Message& message) {
    if (condition) return true;
    if constexpr (std::is_invocable_v<Message>)
      report(message());
    else
      report(message);
    return false;
  }
  // Requires two types to be equal.
  bool want_same(const Type& found, const Type& expected, std::string_view what);
  bool want_same_shape(const Type& found, const Type& expected, std::string_view what);

  // ---- Rules of every op, from its row
  // Each attribute is one of the row's, of its type and within its limits; none that is required is missing.
  bool attributes();

  // ---- Rules
  // What goes beyond the row of op_, whose operands are defined, whose attributes are good and whose regions are as
  // many as they should be and terminated.
  void semantics();
  void types_of_results();
  void elementwise();
  void inline_asm();
  void libdevice();
  void constant();
  void arange();
  void shape_op();
  void broadcast(const LinearLayout* source);
  void expand_dims(const LinearLayout* source);
  void trans(const LinearLayout* source);
  void reduce();
  void exchange_blocks();
  void sort();
  void gather();
  void histogram();
  void map_elementwise();
  // The region of an op that combines: it takes two groups of the operands' elements and gives one. The operands are
  // tiles of one shape and layout.
  void combine();
  // What a region for single elements holds: scalar ops without effects, and control flow of these.
  void scalar_ops(const Block& region);
  void dot();
  void asynchronous_product();
  void parts_of_product();
  void product_wait();
  void memory();
  void atomic();
  void vector_of_access();
  void shared_memory();
  void allocation();
  void barriers();
  void async_copy();
  void async_commit();
  void async_wait();
  bool want_place(const Type& t, std::string_view what);
  void want_barriers(size_t operand);
  void copy_warps();
  void tensor_map();
  void bulk_copy();
  void bulk_store();
  bool coordinates(const Type& map, size_t first);
  // The copy_warps that the op stands in has one thread.
  void want_parts_of_threads(const Type& tile, const Type& place, std::string_view what);
  void want_one_thread(std::string_view what);
  // Values that pass between blocks have the types of what receives them.
  void flow();
  void for_loop();
  void condition();
  void convert_layout();

  std::string operand_name(size_t i) const;
  // The attribute `axis` is one of so many; null and a report if not.
  std::optional<int> axis_below(int count);
  bool laid_out(const Value* a, const Value* b) const;
  // The operands from `begin` on and the results share one layout.
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
