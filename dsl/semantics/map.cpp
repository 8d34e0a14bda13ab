// A function of scalars for each element of tiles: map_elementwise.
#include <fmt/format.h>

#include "dsl/semantics/internal.h"

namespace tegula::dsl {

namespace {

/// The function's inputs as tiles of one shape; nullopt after an error.
std::optional<std::vector<ir::Value*>> inputs_of_one_shape(Sema& s, const std::vector<Val>& args) {
  std::vector<ir::Value*> inputs;
  for (const Val& arg : args) {
    inputs.push_back(to_value(s, arg, "an argument of map_elementwise"));
    if (!inputs.back()) return std::nullopt;
  }
  if (inputs.empty()) {
    s.error("map_elementwise needs a tile to map", "map_elementwise(function, x, ...)");
    return std::nullopt;
  }
  for (ir::Value*& x : inputs)
    if (!broadcast_pair(s, inputs[0], x)) return std::nullopt;
  for (ir::Value*& x : inputs) x = broadcast_value(s, x, inputs[0]->type.shape);
  return inputs;
}

/// What the function gives for the arguments of `region`, whose end the builder is at; nullopt after an error.
std::optional<std::vector<ir::Value*>> elements(Sema& s, const FunctionRef& function, const ir::Block& region,
                                                int64_t pack, bool& single) {
  std::vector<Val> scalars;
  for (auto& arg : region.args) scalars.emplace_back(arg.get());
  Val given = s.call(function, std::move(scalars));
  if (given.is_poison()) return std::nullopt;
  single = !given.is<TupleVal>();
  std::vector<ir::Value*> out;
  for (const Val& item : single ? std::vector<Val>{given} : *given.as<TupleVal>().items) {
    ir::Value* v = to_value(s, item, fmt::format("a result of '{}'", function.name));
    if (!v) return std::nullopt;
    if (v->type.is_tile()) {
      s.error(fmt::format("'{}' gives {}, expected scalars", function.name, describe(v)),
              "map_elementwise calls it for one element at a time");
      return std::nullopt;
    }
    out.push_back(v);
  }
  if (out.empty() || int64_t(out.size()) % pack != 0) {
    s.error(fmt::format("'{}' gives {} values for {} elements at a time", function.name, out.size(), pack),
            "it gives all elements of the first result, then those of the next");
    return std::nullopt;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    const ir::Value* first = out[i / size_t(pack) * size_t(pack)];
    if (out[i]->type.same_shape_and_elem(first->type)) continue;
    s.error(fmt::format("'{}' gives {} and {} for elements of one result", function.name,
                        describe(const_cast<ir::Value*>(first)), describe(out[i])));
    return std::nullopt;
  }
  return out;
}

}  // namespace

Val fn_map_elementwise(Sema& s, Args args) {
  if (!args[0].is<FunctionRef>() || !s.call)
    return s.error(fmt::format("map_elementwise maps a @triton.jit function, found {}", describe(args[0])));
  auto packed = to_int(s, args[2], "the pack of map_elementwise");
  if (!packed) return {};
  const int64_t pack = *packed;
  if (pack < 1 || pack > 16)
    return s.error(fmt::format("the pack of map_elementwise is {}, expected 1 to 16", *packed));
  auto inputs = inputs_of_one_shape(s, *args[1].as<TupleVal>().items);
  if (!inputs) return {};
  auto region = std::make_unique<ir::Block>();
  for (const ir::Value* x : *inputs)
    for (int64_t i = 0; i < pack; ++i) region->add_arg(x->type.element());
  const ir::Builder outside = s.builder;
  s.builder.set_end(region.get());
  s.maps_elements = true;
  bool single = false;
  auto given = elements(s, args[0].as<FunctionRef>(), *region, pack, single);
  if (given) s.builder.create(ir::Opcode::Yield, *given);
  s.builder = outside;
  s.maps_elements = false;
  if (!given || !check_elements_region(s, *region, {}, args[0].as<FunctionRef>().name, "map_elementwise")) return {};
  std::vector<ir::Type> types;
  for (size_t i = 0; i < given->size(); i += size_t(pack)) {
    types.push_back((*inputs)[0]->type.with_elem((*given)[i]->type.elem));
    types.back().pointer = (*given)[i]->type.pointer;
  }
  ir::Op* op = s.builder.create(ir::Opcode::MapElementwise, *inputs, std::move(types), {{"pack", pack}});
  region->parent = op;
  op->regions[0] = std::move(region);
  std::vector<Val> results;
  for (auto& r : op->results) results.emplace_back(r.get());
  return single ? results[0] : make_tuple(std::move(results));
}

}  // namespace tegula::dsl
