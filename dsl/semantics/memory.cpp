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
  const bool integers = x.is_value() && x.value()->type.is_integer();
  if (!x.is_poison())
    s.error(fmt::format("{} takes a pointer or a tile of pointers, found {}", function, describe(x)),
            x.is<None>() ? "the argument is None: test `p is not None` first"
            : integers
                ? "an argument is a pointer if the launch gives an array; neither a number nor offsets alone are one"
            : !x.is_value()                         ? ""
            : function == std::string_view("load")  ? "it holds elements already, and needs no load"
            : function == std::string_view("store") ? "the pointers come first: tl.store(p + offsets, value)"
                                                    : "the pointers come first: p + offsets");
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
            ptr->type.is_scalar() && m->type.is_tile()
                ? "offsets are added to the pointer, p + offsets; a mask compares: offsets < n"
                : "compare: offsets < n, or mask != 0 of a mask of numbers");
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

// A value for the pointers' elements: converted to their type, brought to their shape; null after an error. Pointers
// become their addresses where the elements are integers of 64 bits.
ir::Value* element_value(Sema& s, const Val& x, const ir::Value* ptr, Elem elem, const char* what) {
  if (x.is_value() && x.value()->type.is_tile() && ptr->type.is_scalar()) {
    s.error(fmt::format("{} is a {}, but the pointer is a single one", what, describe(x)),
            "add offsets to the pointer: p + tl.arange(0, BLOCK)");
    return nullptr;
  }
  if (x.is_value() && x.value()->type.pointer) {
    if (elem == Elem::I64 || elem == Elem::U64)
      return broadcast_value(s, s.builder.bitcast(x.value(), ir::Type::scalar(elem)), ptr->type.shape);
    s.error(fmt::format("{} is a {}", what, describe(x)), "load from it first: tl.load(p)");
    return nullptr;
  }
  ir::Value* v = x.is_value() || !x.is_constant() ? to_value(s, x, what) : nullptr;
  if (!v && x.is_constant()) {
    if (!x.is<bool>() && !x.is<Int>() && !x.is<double>()) return to_value(s, x, what);
    v = check_literal(s, x) ? constant(s, ir::Type::scalar(elem), in_own_type(x)) : nullptr;
  }
  if (!v) return nullptr;
  if (!repeats_to(v->type.shape, ptr->type.shape)) {
    s.error(fmt::format("{} has shape {}, the pointers have {}", what, ir::shape_to_string(v->type.shape),
                        ir::shape_to_string(ptr->type.shape)),
            "they have one shape, or the value extents of 1 that repeat: x[:, None] adds one");
    return nullptr;
  }
  return broadcast_value(s, cast_to(s, v, elem), ptr->type.shape);
}

// One of a few strings; the attribute without its default is left out.
bool choice(Sema& s, const Val& x, const char* function, const char* argument,
            std::initializer_list<std::string> allowed, ir::Attrs& attrs, ir::attr::Key<std::string> attribute) {
  if (x.is_constant() && !truth(x)) return true;  // None, '', False, as in Triton
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
      !choice(s, args[5], "load", "cache_modifier", {".ca", ".cg", ".cs", ".cv"}, attrs, ir::attr::cache) ||
      !choice(s, args[6], "load", "eviction_policy", {"evict_first", "evict_last", "evict_normal"}, attrs,
              ir::attr::evict))
    return {};
  const auto is_volatile = to_flag(s, args[7], "the volatile of load");
  if (!is_volatile) return {};
  // What is to be fetched again each time is asked for by loops that wait for another program.
  const auto cache = attrs.find(ir::attr::cache.name);
  if (*is_volatile || (cache != attrs.end() && cache->second == ir::Attr(std::string(".cv"))))
    attrs[ir::attr::volatile_] = true;
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
      !choice(s, args[4], "store", "cache_modifier", {".wb", ".cg", ".cs", ".wt"}, attrs, ir::attr::cache) ||
      !choice(s, args[5], "store", "eviction_policy", {"evict_first", "evict_last", "evict_normal"}, attrs,
              ir::attr::evict))
    return {};
  auto mask = mask_for(s, args[2], p, "store");
  // Memory holds an int1 as a byte, and numbers of other types are stored there as that byte.
  bool is_bool = args[1].is<bool>() || (args[1].is_value() && args[1].value()->type.is_bool());
  bool byte = p->type.elem == Elem::I1 && !is_bool;
  ir::Value* value = element_value(s, args[1], p, byte ? Elem::I8 : p->type.elem, "the value of store");
  if (!mask || !value) return {};
  if (byte) p = s.builder.bitcast(p, ir::Type::pointer_to(Elem::I8));
  watch_access(s, "store", p, value, *mask);
  s.builder.store(p, value, *mask, std::move(attrs));
  return None{};
}

namespace {

// The attributes of an atomic operation; nullopt after an error.
std::optional<ir::Attrs> atomic_order(Sema& s, const std::string& function, const Val& sem, const Val& scope) {
  ir::Attrs attrs;
  if (!choice(s, sem, function.c_str(), "sem", {"relaxed", "acquire", "release", "acq_rel"}, attrs, ir::attr::sem) ||
      !choice(s, scope, function.c_str(), "scope", {"cta", "gpu", "sys"}, attrs, ir::attr::scope))
    return std::nullopt;
  return attrs;
}

// Which elements `kind` takes: false after an error.
bool check_atomic_type(Sema& s, const std::string& kind, Elem elem) {
  const int bits = elem_bits(elem);
  const bool wide = bits >= 32, real = is_float(elem);
  const char* taken = nullptr;
  if (kind == "cas" && bits < 16) taken = "elements of 16, 32 or 64 bits";
  if (kind == "add" && bits < (real ? 16 : 32)) taken = "32- and 64-bit integers and floats of 16 bits or more";
  if (kind == "xchg" && !wide) taken = "elements of 32 or 64 bits";
  if ((kind == "min" || kind == "max") && !wide && !(real && bits == 16))
    taken = "32- and 64-bit integers and floats of 16 bits or more";
  if ((kind == "and" || kind == "or" || kind == "xor") && !wide) taken = "elements of 32 or 64 bits";
  if (!taken) return true;
  s.error(fmt::format("atomic_{} on {}", kind, elem_info(elem).tl), fmt::format("it takes {}", taken));
  return false;
}

// The bits of floats as integers are in order for numbers without sign, and in the opposite order, above those, for
// numbers with one: so a maximum is one of signed integers for the former and a minimum of unsigned ones for the
// latter.
Val atomic_float_extreme(Sema& s, bool larger, ir::Value* p, ir::Value* value, ir::Value* mask,
                         const ir::Attrs& attrs) {
  ir::Builder& b = s.builder;
  const bool narrow = value->type.bits() == 32;
  const Elem with_sign = narrow ? Elem::I32 : Elem::I64, without_sign = narrow ? Elem::U32 : Elem::U64;
  ir::Value* bits = b.bitcast(value, ir::Type::scalar(with_sign));
  ir::Value* positive = b.ge(bits, b.constant(bits->type, 0));
  ir::Value* negative = b.lt(bits, b.constant(bits->type, 0));
  auto half = [&](Elem elem, bool max, ir::Value* chosen) {
    ir::Value* to = b.bitcast(p, ir::Type::pointer_to(elem));
    ir::Value* with = elem == with_sign ? bits : b.bitcast(value, ir::Type::scalar(elem));
    return b.atomic_rmw(max ? "max" : "min", to, with, mask ? b.bit_and(mask, chosen) : chosen, attrs);
  };
  ir::Value* of_positive = half(with_sign, larger, positive);
  ir::Value* of_negative = b.bitcast(half(without_sign, !larger, negative), ir::Type::scalar(with_sign));
  return b.bitcast(b.select(positive, of_positive, of_negative), ir::Type::scalar(value->type.elem));
}

// On the bits of floats.
Val atomic_bitwise(Sema& s, const std::string& kind, ir::Value* p, ir::Value* value, ir::Value* mask, ir::Attrs attrs) {
  ir::Builder& b = s.builder;
  const Elem bits = value->type.bits() == 32 ? Elem::I32 : Elem::I64;
  ir::Value* to = b.bitcast(p, ir::Type::pointer_to(bits));
  ir::Value* with = b.bitcast(value, ir::Type::scalar(bits));
  return b.bitcast(b.atomic_rmw(kind, to, with, mask, std::move(attrs)), ir::Type::scalar(value->type.elem));
}

// args: pointer, val, mask, sem, scope
Val atomic(Sema& s, Args args, const std::string& kind) {
  const std::string function = "atomic_" + kind;
  ir::Value* p = pointer(s, args[0], function.c_str());
  if (!p || !check_atomic_type(s, kind, p->type.elem)) return {};
  auto attrs = atomic_order(s, function, args[3], args[4]);
  if (!attrs) return {};
  auto mask = mask_for(s, args[2], p, function.c_str());
  ir::Value* value = element_value(s, args[1], p, p->type.elem, ("the value of " + function).c_str());
  if (!mask || !value) return {};
  watch_access(s, "atomic", p, value, *mask);
  if (value->type.is_float() && value->type.bits() > 16 && (kind == "min" || kind == "max"))
    return atomic_float_extreme(s, kind == "max", p, value, *mask, *attrs);
  if (value->type.is_float() && (kind == "and" || kind == "or" || kind == "xor"))
    return atomic_bitwise(s, kind, p, value, *mask, std::move(*attrs));
  return s.builder.atomic_rmw(kind, p, value, *mask, std::move(*attrs));
}

}  // namespace

Val fn_atomic_add(Sema& s, Args args) { return atomic(s, args, "add"); }
Val fn_atomic_max(Sema& s, Args args) { return atomic(s, args, "max"); }
Val fn_atomic_min(Sema& s, Args args) { return atomic(s, args, "min"); }
Val fn_atomic_and(Sema& s, Args args) { return atomic(s, args, "and"); }
Val fn_atomic_or(Sema& s, Args args) { return atomic(s, args, "or"); }
Val fn_atomic_xor(Sema& s, Args args) { return atomic(s, args, "xor"); }
Val fn_atomic_xchg(Sema& s, Args args) { return atomic(s, args, "xchg"); }

Val fn_atomic_cas(Sema& s, Args args) {
  ir::Value* p = pointer(s, args[0], "atomic_cas");
  if (!p || !check_atomic_type(s, "cas", p->type.elem)) return {};
  auto attrs = atomic_order(s, "atomic_cas", args[3], args[4]);
  ir::Value* compare = element_value(s, args[1], p, p->type.elem, "the cmp of atomic_cas");
  ir::Value* value = compare ? element_value(s, args[2], p, p->type.elem, "the value of atomic_cas") : nullptr;
  if (!attrs || !value) return {};
  watch_access(s, "atomic", p, value, nullptr);
  ir::Value* found = s.builder.atomic_rmw("cas", p, value, nullptr, std::move(*attrs), compare);
  // As in Triton, what was found has the type of val: int32 for a number, where memory holds uint32.
  const Elem given = args[2].is_value() ? args[2].value()->type.elem : literal_type(args[2]), held = p->type.elem;
  const bool of_other_sign =
      given != held && is_integer(given) && is_integer(held) && elem_bits(given) == elem_bits(held);
  return of_other_sign ? s.builder.bitcast(found, found->type.with_elem(given)) : found;
}

Val fn_debug_barrier(Sema& s, Args) {
  ir::Attrs attrs;
  attrs[ir::attr::whole_program] = true;
  s.builder.create(ir::Opcode::Barrier, {}, {}, std::move(attrs));
  return None{};
}

}  // namespace tegula::dsl
