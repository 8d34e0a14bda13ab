// What a program asks about its own values and about its target: isinstance, getattr, hasattr, type, tl.target_info.
#include <fmt/format.h>

#include <algorithm>

#include "dsl/hooks.h"
#include "dsl/language/checker_impl.h"
#include "dsl/language/default_capability.h"
#include "dsl/language/grammar_support.h"
#include "dsl/language/host_values.h"

namespace tegula::language {

namespace {

// The classes of a value, the narrowest first, by the names of their functions. In a kernel a number with a type is a
// tensor, and lists are Triton's tuples.
std::vector<std::string> classes_of(const Val& v, bool host) {
  const auto* view = v.get_if<dsl::BlockView>();
  if (view && !view->is_pointer()) return {"tl.tensor_descriptor", "tl.tensor_descriptor_base", "tl.base_value"};
  if (view || v.is_value() || v.typed) return {"tl.tensor", "tl.base_value"};
  if (v.is<bool>()) return {"python.bool", "python.int"};
  if (v.is<dsl::Int>()) return {"python.int"};
  if (v.is<double>()) return {"python.float"};
  if (v.is<std::string>()) return {"python.str"};
  const auto* tuple = v.get_if<dsl::TupleVal>();
  if (tuple && host) return {tuple->is_list ? "python.list" : "python.tuple"};
  if (tuple) return {"tl.tuple", "python.tuple", "python.list", "tl.base_value"};
  if (get_host<DictObject>(v)) return {"python.dict"};
  if (get_host<ConfigObject>(v)) return {"triton.Config"};
  if (const auto* memory = get_host<PointerObject>(v)) {
    const bool descriptor = memory->launch && memory->launch->is_descriptor(memory->name);
    return {descriptor ? "triton.tools.tensor_descriptor.TensorDescriptor" : "torch.Tensor"};
  }
  const auto* type = v.get_if<dsl::DType>();
  if (!type) return {};
  if (type->type.is_tile() && !type->to_block) return {"tl.block_type", "tl.dtype"};
  return type->type.pointer || type->to_block ? std::vector<std::string>{"pointer_type", "tl.dtype"}
                                              : std::vector<std::string>{"tl.dtype"};
}

}  // namespace

std::optional<Val> Checker::reflect(const FunctionRef& function, const Expr& call) {
  const std::string& name = function.name;
  const bool attribute = name == "python.getattr" || name == "python.hasattr";
  if (!attribute && name != "python.isinstance" && name != "python.type") return std::nullopt;
  const size_t count = call.children.size() - 1, least = name == "python.type" ? 1 : 2;
  const size_t most = name == "python.getattr" ? 3 : least;
  if (count < least || count > most || !call.keywords.empty())
    return error(call.loc, fmt::format("{} takes {} argument{}, found {}", name.substr(7), most, most == 1 ? "" : "s",
                                       count + call.keywords.size()));
  const Expr& object = *call.children[1];
  if (attribute) {
    Val text = eval(*call.children[2]);
    if (text.is_poison()) return Val();
    if (!text.is<std::string>())
      return error(call.children[2]->loc,
                   fmt::format("{} takes the name of an attribute, found {}", name.substr(7), dsl::describe(text)));
    Expr access;
    access.kind = Expr::Kind::Attribute;
    access.loc = call.loc;
    access.text = text.as<std::string>();
    access.children.push_back(clone(object));
    if (name == "python.getattr" && count == 2) return eval_attribute(access);
    bool poison = false;
    const bool has = trial([&] { poison = eval_base(object).is_poison() || eval_attribute(access).is_poison(); });
    if (has && poison) return Val();  // of an unknown value
    if (name == "python.hasattr") return Val(has);
    return has ? eval_attribute(access) : eval(*call.children[3]);
  }
  const Val value = eval_base(object);
  if (value.is_poison()) return Val();
  const std::vector<std::string> classes = classes_of(value, host_);
  if (name == "python.type") {
    if (classes.empty()) return error(call.loc, fmt::format("type() does not know {}", dsl::describe(value)));
    return function_ref(classes.front());
  }
  const Val wanted = eval(*call.children[2]);
  if (wanted.is_poison()) return Val();
  const auto* several = wanted.get_if<dsl::TupleVal>();
  bool found = false;
  for (const Val& w : several ? *several->items : std::vector<Val>{wanted}) {
    if (const auto* type = get_host<ClassObject>(w)) {
      const auto* tuple = value.get_if<dsl::TupleVal>();
      found = found || (tuple && tuple->fields && tuple->fields->type == type->type->name);
      continue;
    }
    const auto* f = w.get_if<FunctionRef>();
    if (!f || f->kind != FunctionRef::Kind::Builtin)
      return error(call.children[2]->loc,
                   fmt::format("isinstance takes a type or a tuple of types, found {}", dsl::describe(w)));
    found = found || std::find(classes.begin(), classes.end(), f->name) != classes.end();
  }
  return Val(found);
}

std::optional<int> Checker::capability() const {
  return capability_ || func_ || !host_ || untyped_ ? capability_ : default_capability();
}

Val Checker::target_query(const std::string& name, const std::vector<Argument>& args, Loc loc) {
  if (name == "is_cuda") return true;
  if (name == "current_target") return module_ref("triton target");
  if (name != "cuda_capability_geq") return false;  // is_hip and its kin
  static constexpr const char* kParams[] = {"major", "minor"};
  auto matched = match_arguments(name, kParams, 1, args, loc);
  if (!matched) return Val();
  int64_t wanted = 0;
  for (const Argument* a : *matched) {
    if (a && !a->value.is<dsl::Int>())
      return error(a->loc, fmt::format("{} takes compile-time integers, found {}", name, dsl::describe(a->value)));
    wanted = wanted * 10 + (a ? a->value.as<dsl::Int>().clamped() : 0);
  }
  const std::optional<int> found = capability();
  return found ? Val(*found >= wanted) : Val();
}

}  // namespace tegula::language
