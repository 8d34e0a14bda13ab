// What kernels tell of values when they run.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "dsl/semantics/internal.h"

namespace tegula::dsl {

namespace {

bool is_printable(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return c < 128 && (std::isprint(c) || std::isspace(c)); });
}

/// " prefix: " for values, " prefix" without.
std::string spaced(std::string prefix, bool values) {
  if (values) {
    if (!prefix.ends_with(" ")) prefix += ' ';
    if (!prefix.ends_with(": ")) prefix.replace(prefix.size() - 1, 1, ": ");
  }
  if (prefix.size() > 2 && !prefix.starts_with(" ")) prefix.insert(0, 1, ' ');
  return prefix;
}

// Whether ops that tell of values may stand where the builder is: not where elements are computed, in no order.
bool may_tell(const Sema& s) {
  for (const ir::Block* block = s.builder.block(); block && block->parent; block = block->parent->parent)
    if (block->parent->info().isolates()) return false;
  return !s.maps_elements;
}
bool may_watch(const Sema& s) { return s.watched && may_tell(s); }

void create_assert(Sema& s, ir::Value* condition, std::string text) {
  ir::Attrs attrs;
  attrs[ir::attr::text] = std::move(text);
  s.builder.create(ir::Opcode::DeviceAssert, {condition}, {}, std::move(attrs));
}

void create_watch(Sema& s, std::string text, std::vector<ir::Value*> values) {
  ir::Attrs attrs;
  attrs[ir::attr::text] = std::move(text);
  s.builder.create(ir::Opcode::Watch, std::move(values), {}, std::move(attrs));
}

}  // namespace

void watch_statement(Sema& s, const std::string& function) {
  if (may_watch(s)) create_watch(s, function.empty() ? "statement" : "statement " + function, {});
}

void watch_call(Sema& s, const std::string& function) {
  if (may_watch(s)) create_watch(s, "call " + function, {});
}

void watch_name(Sema& s, const std::string& name, const Val& value) {
  if (!may_watch(s)) return;
  if (ir::Value* made = value.value()) {
    create_watch(s, "assign " + name, {made});
  } else if (const auto* tuple = value.get_if<TupleVal>()) {
    for (size_t i = 0; i < tuple->items->size(); ++i)
      watch_name(s,
                 tuple->fields ? fmt::format("{}.{}", name, tuple->fields->names[i]) : fmt::format("{}[{}]", name, i),
                 (*tuple->items)[i]);
  } else if (value.is<bool>() || value.is<Int>() || value.is<double>() || value.is<std::string>() ||
             value.is<DType>()) {
    create_watch(s, fmt::format("constant {} {}", name, text_of(value)), {});
  }
}

void watch_access(Sema& s, const char* what, ir::Value* pointers, ir::Value* values, ir::Value* mask) {
  if (!may_watch(s)) return;
  std::vector<ir::Value*> operands{pointers, values};
  if (mask) operands.push_back(mask);
  create_watch(s, what, std::move(operands));
}

Val fn_device_print(Sema& s, Args args) {
  if (!args[0].is<std::string>())
    return s.error(fmt::format("device_print begins with a string, found {}", describe(args[0])),
                   "print('x', x) prints x");
  const std::string& prefix = args[0].as<std::string>();
  if (!is_printable(prefix)) return s.error(fmt::format("device_print prints ASCII text, found '{}'", prefix));
  if (!args[2].is<bool>())
    return s.error(fmt::format("the hex of device_print is True or False, found {}", describe(args[2])));
  std::vector<ir::Value*> values;
  for (const Val& arg : *args[1].as<TupleVal>().items) {
    ir::Value* value = to_value(s, arg, "an argument of device_print");
    if (!value) return {};
    values.push_back(value);
  }
  ir::Attrs attrs;
  attrs[ir::attr::text] = spaced(prefix, !values.empty());
  if (args[2].as<bool>()) attrs[ir::attr::hex] = true;
  s.builder.create(ir::Opcode::DevicePrint, std::move(values), {}, std::move(attrs));
  return None{};
}

Val fn_device_assert(Sema& s, Args args) {
  if (args[1].is_value())
    return s.error(fmt::format("the msg of device_assert is a string, found {}", describe(args[1])));
  if (!s.debug) return None{};
  ir::Value* condition = to_value(s, args[0], "the cond of device_assert");
  if (condition) condition = to_bool(s, condition);
  if (!condition) return {};
  if (!args[2].is<None>()) {
    ir::Value* mask = to_value(s, args[2], "the mask of device_assert");
    if (mask) mask = to_bool(s, mask);
    if (!mask || !broadcast_pair(s, condition, mask)) return {};
    ir::Value* others = to_value(s, unary(s, "not", Val(mask)));
    if (!others) return {};
    condition = s.builder.bit_or(condition, others);
  }
  create_assert(s, condition, text_of(args[1]));
  return None{};
}

void assert_promised(Sema& s, ir::Value* condition) {
  if (!s.debug || s.watched || !may_tell(s)) return;
  if (ir::Value* holds = to_bool(s, condition)) create_assert(s, holds, "an assumption does not hold");
}

void assert_within(Sema& s, ir::Value* index, int64_t extent, int axis) {
  if (!s.debug || s.watched || !may_tell(s)) return;
  index = cast_to(s, index, Elem::I64);
  ir::Value* within = s.builder.bit_and(s.builder.ge(index, s.builder.constant(index->type, 0)),
                                        s.builder.lt(index, s.builder.constant(index->type, extent)));
  create_assert(s, within, fmt::format("the index is out of range for the extent {} of dimension {}", extent, axis));
}

void assert_no_overflow(Sema& s, std::string_view op, ir::Value* a, ir::Value* b) {
  const ir::Type& type = a->type;
  if (!s.sanitizes_overflow || !type.is_integer() || type.is_bool() || type.bits() >= 64 || !may_tell(s)) return;
  const int bits = type.bits() - is_signed(type.elem);
  const int64_t most = (int64_t(1) << bits) - 1, least = is_signed(type.elem) ? -most - 1 : 0;
  ir::Value *wide_a = cast_to(s, a, Elem::I64), *wide_b = cast_to(s, b, Elem::I64);
  ir::Value* exact = op == "+"   ? s.builder.add(wide_a, wide_b)
                     : op == "-" ? s.builder.sub(wide_a, wide_b)
                                 : s.builder.mul(wide_a, wide_b);
  ir::Value* fits = s.builder.bit_and(s.builder.le(exact, s.builder.constant(exact->type, most)),
                                      s.builder.ge(exact, s.builder.constant(exact->type, least)));
  create_assert(s, fits,
                fmt::format("{}int{} overflow detected for operation {}", is_signed(type.elem) ? "" : "u", type.bits(),
                            op == "+"   ? "add"
                            : op == "-" ? "sub"
                                        : "mul"));
}

}  // namespace tegula::dsl
