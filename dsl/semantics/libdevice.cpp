// The functions of libdevice: which row of the table takes the arguments.
#include "codegen/ir/libdevice.h"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/semantics/internal.h"

namespace tegula::dsl {

namespace {

using ir::LibdeviceFunction;

/// Whether an argument can be had as `elem`: a number of the text in any type of its kind, an integer with the other
/// sign. Values of the kernel are not converted, as in Triton.
bool adapts(const Val& given, const ir::Value* value, Elem elem) {
  const ir::Type& type = value->type;
  if (type.pointer || type.is_bool()) return false;
  if (type.elem == elem) return true;
  if (type.is_float() != is_float(elem)) return false;
  return given.is_constant() || (type.is_integer() && type.bits() == elem_bits(elem));
}

const LibdeviceFunction* choose(std::string_view name, Args args, const std::vector<ir::Value*>& values) {
  auto all = [&](const LibdeviceFunction& f, auto takes) {
    for (size_t i = 0; i < values.size(); ++i)
      if (!takes(i, f.params[i])) return false;
    return f.params.size() == values.size();
  };
  for (const LibdeviceFunction& f : ir::libdevice_functions(name))
    if (all(f, [&](size_t i, Elem elem) { return !values[i]->type.pointer && values[i]->type.elem == elem; }))
      return &f;
  for (const LibdeviceFunction& f : ir::libdevice_functions(name))
    if (all(f, [&](size_t i, Elem elem) { return adapts(args[i], values[i], elem); })) return &f;
  return nullptr;
}

Val no_such_types(Sema& s, std::string_view name, Args args) {
  std::vector<std::string> taken, found;
  for (const LibdeviceFunction& f : ir::libdevice_functions(name)) {
    std::vector<std::string> types;
    for (Elem elem : f.params) types.push_back(elem_info(elem).tl);
    std::string list = fmt::format("{}", fmt::join(types, ", "));
    taken.push_back(f.params.size() == 1 ? list : fmt::format("({})", list));
  }
  for (const Val& arg : args) found.push_back(describe(arg));
  const bool narrow = std::any_of(args.begin(), args.end(), [](const Val& x) {
    return x.is_value() && !x.value()->type.pointer && x.value()->type.is_float() && x.value()->type.bits() < 32;
  });
  return s.error(fmt::format("libdevice.{} takes {}, found {}", name, fmt::join(taken, " or "), fmt::join(found, ", ")),
                 narrow ? "convert with .to(tl.float32) first" : "convert the arguments with .to(...) first");
}

}  // namespace

Val call_libdevice(Sema& s, std::string_view name, Args args) {
  std::vector<ir::Value*> values;
  for (const Val& arg : args) {
    values.push_back(to_value(s, arg, fmt::format("an argument of libdevice.{}", name)));
    if (!values.back()) return {};
  }
  const LibdeviceFunction* f = choose(name, args, values);
  if (!f) return no_such_types(s, name, args);
  for (size_t i = 0; i < values.size(); ++i) values[i] = cast_to(s, values[i], f->params[i]);
  // All to the shape of all: the first has it once it met each of the others.
  for (size_t round = 0; round < 2; ++round)
    for (size_t i = 1; i < values.size(); ++i)
      if (!broadcast_pair(s, values[0], values[i])) return {};
  const ir::Type type = values[0]->type.with_elem(f->result);
  return s.builder.create(ir::Opcode::Libdevice, std::move(values), {type}, {{"function", f->name}})->result();
}

}  // namespace tegula::dsl
