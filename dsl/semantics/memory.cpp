// Loads, stores, atomics.
#include <fmt/format.h>

#include <algorithm>

#include "dsl/semantics/blocks.h"

namespace tegula::dsl {

namespace {

// A pointer operand, or null after an error.
ir::Value* pointer(Sema& s, const Val& x, const char* function) {
  if (const auto* tuple = x.get_if<TupleVal>(); tuple && tuple->items->size() == 1)
    return pointer(s, tuple->items->front(), function);
  if (x.is_value() && x.value()->type.pointer) return x.value();
  if (!x.is_poison())
    s.error(fmt::format("{} takes a pointer or a tile of pointers, found {}", function, describe(x)),
            x.is<None>() ? "the argument is None: test `p is not None` first" : "");
  return nullptr;
}

// Whether extents of 1 of `from` can be repeated to `to`.
bool repeats_to(const ir::Shape& from, const ir::Shape& to) {
  if (from.size() > to.size()) return false;
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] != to[i + to.size() - from.size()] && from[i] != 1) return false;
  return true;
}

// The mask, brought to the pointers' shape; nullopt after an error, null where there is none or it is True.
std::optional<ir::Value*> mask_for(Sema& s, const Val& mask, const ir::Value* ptr, const char* function) {
  if (mask.is<None>() || (mask.is<bool>() && mask.as<bool>())) return nullptr;
  ir::Value* m = mask.is<bool>() ? constant(s, ir::Type::scalar(Elem::I1), mask) : to_value(s, mask, "a mask");
  if (!m) return std::nullopt;
  if (m->type.pointer) {
    s.error(fmt::format("the mask of {} is a {}", function, describe(m)), "compare offsets: offsets < n");
    return std::nullopt;
  }
  if (!m->type.is_bool()) {
    s.error(fmt::format("the mask of {} is {}, expected int1", function, describe(mask)),
            "compare: offsets < n, or mask != 0 of a mask of numbers");
    return std::nullopt;
  }
  const ir::Shape& shape = ptr->type.shape;
  if (ptr->type.is_scalar() && m->type.is_tile()) {
    s.error(fmt::format("the mask of {} is a {}, but the pointer is a single one", function, describe(m)),
            "add offsets to the pointer: p + tl.arange(0, BLOCK)");
    return std::nullopt;
  }
  if (!repeats_to(m->type.shape, shape)) {
    s.error(fmt::format("the mask of {} has shape {}, the pointers have {}", function,
                        ir::shape_to_string(m->type.shape), ir::shape_to_string(shape)),
            "a mask has the pointers' shape, or extents of 1 that repeat");
    return std::nullopt;
  }
  return broadcast_value(s, m, shape);
}

// A value for the pointers' elements: converted to their type, brought to their shape; null after an error.
ir::Value* element_value(Sema& s, const Val& x, const ir::Value* ptr, Elem elem, const char* what) {
  if (x.is_value() && x.value()->type.is_tile() && ptr->type.is_scalar()) {
    s.error(fmt::format("{} is a {}, but the pointer is a single one", what, describe(x)),
            "add offsets to the pointer: p + tl.arange(0, BLOCK)");
    return nullptr;
  }
  if (x.is_value() && x.value()->type.pointer) {
    s.error(fmt::format("{} is a {}", what, describe(x)), "load from it first: tl.load(p)");
    return nullptr;
  }
  ir::Value* v = x.is_value() || !x.is_constant() ? to_value(s, x, what) : nullptr;
  if (!v && x.is_constant()) {
    if (!x.is<bool>() && !x.is<Int>() && !x.is<double>()) return to_value(s, x, what);
    v = constant(s, ir::Type::scalar(elem), x);
  }
  if (!v) return nullptr;
  return broadcast_value(s, cast_to(s, v, elem), ptr->type.shape);
}

// One of a few strings; the attribute without its default is left out.
bool choice(Sema& s, const Val& x, const char* function, const char* argument,
            std::initializer_list<std::string> allowed, ir::Attrs& attrs, const char* attribute) {
  if (x.is<None>()) return true;
  std::string text = x.is<std::string>() ? x.as<std::string>() : describe(x);
  if (text.empty()) return true;
  if (std::find(allowed.begin(), allowed.end(), text) == allowed.end()) {
    s.error(fmt::format("the {} of {} is '{}'", argument, function, text),
            fmt::format("it is one of '{}'", fmt::join(allowed, "', '")));
    return false;
  }
  if (text != "evict_normal") attrs[attribute] = text;
  return true;
}

// Whether an argument that only block pointers have is left out; false after an error.
bool left_out(Sema& s, const Val& argument, const char* name, const char* function) {
  if (argument.is<None>() || (argument.is_constant() && !truth(argument))) return true;
  s.error(fmt::format("{} of {} belongs to block pointers", name, function),
          "tl.make_block_ptr makes one; for other pointers compute a mask");
  return false;
}

}  // namespace

Val fn_load(Sema& s, Args args) {
  if (const auto* view = args[0].get_if<BlockView>()) return load_block(s, *view, args);
  ir::Value* p = pointer(s, args[0], "load");
  ir::Attrs attrs;
  if (!p || !left_out(s, args[3], "boundary_check", "load") || !left_out(s, args[4], "padding_option", "load") ||
      !choice(s, args[5], "load", "cache_modifier", {".ca", ".cg", ".cs", ".cv"}, attrs, "cache") ||
      !choice(s, args[6], "load", "eviction_policy", {"evict_first", "evict_last", "evict_normal"}, attrs, "evict"))
    return {};
  if (truth(args[7])) attrs["volatile"] = true;
  // Pointers repeat to the mask, too.
  if (const ir::Value* m = args[1].value(); m && m->type.rank() == p->type.rank()) {
    ir::Shape common = p->type.shape;
    for (size_t i = 0; i < common.size(); ++i) common[i] = std::max(common[i], m->type.shape[i]);
    if (repeats_to(p->type.shape, common) && repeats_to(m->type.shape, common)) p = broadcast_value(s, p, common);
  }
  auto mask = mask_for(s, args[1], p, "load");
  if (!mask) return {};
  ir::Value* other = nullptr;
  if (!args[2].is<None>()) {
    if (args[1].is<None>()) return s.error("load has `other` without a mask", "give mask=..., or leave `other` out");
    if (*mask) other = element_value(s, args[2], p, p->type.elem, "`other` of load");
    if (*mask && !other) return {};
  }
  return s.builder.load(p, *mask, other, std::move(attrs));
}

Val fn_store(Sema& s, Args args) {
  if (const auto* view = args[0].get_if<BlockView>()) return store_block(s, *view, args);
  ir::Value* p = pointer(s, args[0], "store");
  ir::Attrs attrs;
  if (!p || !left_out(s, args[3], "boundary_check", "store") ||
      !choice(s, args[4], "store", "cache_modifier", {".wb", ".cg", ".cs", ".wt"}, attrs, "cache") ||
      !choice(s, args[5], "store", "eviction_policy", {"evict_first", "evict_last", "evict_normal"}, attrs, "evict"))
    return {};
  auto mask = mask_for(s, args[2], p, "store");
  // Memory holds an int1 as a byte, and numbers of other types are stored there as that byte.
  bool is_bool = args[1].is<bool>() || (args[1].is_value() && args[1].value()->type.is_bool());
  bool byte = p->type.elem == Elem::I1 && !is_bool;
  ir::Value* value = element_value(s, args[1], p, byte ? Elem::I8 : p->type.elem, "the value of store");
  if (!mask || !value) return {};
  if (byte) p = s.builder.bitcast(p, ir::Type::pointer_to(Elem::I8));
  s.builder.store(p, value, *mask, std::move(attrs));
  return None{};
}

Val fn_atomic_add(Sema& s, Args args) {
  ir::Value* p = pointer(s, args[0], "atomic_add");
  ir::Attrs attrs;
  if (!p || !choice(s, args[3], "atomic_add", "sem", {"relaxed", "acquire", "release", "acq_rel"}, attrs, "sem") ||
      !choice(s, args[4], "atomic_add", "scope", {"cta", "gpu", "sys"}, attrs, "scope"))
    return {};
  Elem elem = p->type.elem;
  if (elem_bits(elem) < (is_float(elem) ? 16 : 32))
    return s.error(fmt::format("atomic_add on {}", elem_info(elem).tl),
                   "it takes 32- and 64-bit integers and floats of 16 bits or more");
  auto mask = mask_for(s, args[2], p, "atomic_add");
  ir::Value* value = element_value(s, args[1], p, elem, "the value of atomic_add");
  if (!mask || !value) return {};
  return s.builder.atomic_rmw("add", p, value, *mask, std::move(attrs));
}

Val fn_debug_barrier(Sema& s, Args) {
  s.builder.create(ir::Opcode::Barrier, {});
  return None{};
}

}  // namespace tegula::dsl
