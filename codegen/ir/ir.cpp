#include "codegen/ir/ir.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "codegen/ir/options.h"
#include "runtime/base/check.h"

namespace tegula::ir {

int64_t Type::num_elements() const {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}

bool Type::operator==(const Type& o) const {
  if (!same_shape_and_elem(o)) return false;
  if (layout == o.layout) return true;
  return layout && o.layout && *layout == *o.layout;
}

std::string Type::to_string() const {
  if (is_token()) return fmt::format("token<{}>", completion == Completion::Group ? "group" : "barrier");
  std::string e = elem_info(elem).text;
  if (pointer) e = fmt::format("ptr<{}>", e);
  if (is_scalar()) return e;
  const char* what = is_place() ? "shared" : is_in_flight() ? "in_flight" : is_map() ? "tensor_map" : "tile";
  return fmt::format("{}<{}x{}>", what, fmt::join(shape, "x"), e);
}

std::string shape_to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

namespace {

/// The words of a text with a blank between them.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

// A row of the op table: of constants alone, so that the table is data and not code.
struct OpRow {
  Opcode opcode;
  const char *text, *operands;
  ResultRule rule;
  uint32_t traits;
  const char *language_name, *doc;
};
constexpr OpRow kRows[] = {
#define TEGULA_UNARY(Name, text, rule, traits, lang, doc) \
  {Opcode::Name, #text, "x", ResultRule::rule, (traits) | Elementwise, lang, doc},
#define TEGULA_BINARY(Name, text, rule, traits, lang, doc) \
  {Opcode::Name, #text, "lhs rhs", ResultRule::rule, (traits) | Elementwise, lang, doc},
#define TEGULA_TERNARY(Name, text, names, rule, traits, lang, doc) \
  {Opcode::Name, #text, names, ResultRule::rule, (traits) | Elementwise, lang, doc},
#define TEGULA_OP(Name, text, operands, rule, traits, lang, doc) \
  {Opcode::Name, #text, operands, ResultRule::rule, traits, lang, doc},
#include "codegen/ir/ops.def"
};

OpInfo make_info(const OpRow& row) {
  OpInfo info{row.opcode, row.text, {}, 0, false, row.rule, row.traits, row.language_name, row.doc};
  for (std::string& name : words_of(row.operands)) {
    if (name.ends_with("...")) {
      info.variadic = true;
      name.resize(name.size() - 3);
    } else if (name.ends_with("?")) {
      name.pop_back();
    } else {
      ++info.required;
    }
    info.operands.push_back(std::move(name));
  }
  return info;
}

// What a row of TEGULA_ATTR says of the values.
struct Schema {
  Attr fallback;
  bool is_required = false;
  int64_t low = INT64_MIN, high = INT64_MAX;
  std::vector<std::string> choices = {};

  Schema in(int64_t lowest, int64_t highest) && {
    low = lowest, high = highest;
    return std::move(*this);
  }
  Schema in(const OptionInfo& option) && { return std::move(*this).in(option.low, option.high); }
  Schema one_of(const char* words) && {
    choices = words_of(words);
    return std::move(*this);
  }
};
Schema required() { return {false, true}; }
Schema optional(Attr fallback) { return {std::move(fallback)}; }

template <class T>
AttrInfo make_attr(attr::Key<T> key, Schema schema, const char* doc) {
  constexpr bool number = std::is_same_v<T, Attr>;
  if constexpr (!number)
    if (schema.is_required) schema.fallback = T();
  return {key.name,   number,      std::move(schema.fallback), schema.is_required,
          schema.low, schema.high, std::move(schema.choices),  doc};
}

// Each attribute is made by a function of its own: compilers take long over one that makes them all.
struct AttrRow {
  Opcode opcode;
  AttrInfo (*make)();
};
constexpr AttrRow kAttributes[] = {
#define TEGULA_OP(...)
#define TEGULA_ATTR(Name, name, schema, doc) {Opcode::Name, [] { return make_attr(attr::name, schema, doc); }},
#include "codegen/ir/ops.def"
};

struct RegionRow {
  Opcode opcode;
  RegionInfo region;
};
constexpr RegionRow kRegions[] = {
#define TEGULA_OP(...)
#define TEGULA_REGION(Name, kind, terminator, doc) {Opcode::Name, {RegionKind::kind, Opcode::terminator, doc}},
#include "codegen/ir/ops.def"
};

std::vector<OpInfo> make_table() {
  std::vector<OpInfo> table;
  table.reserve(std::size(kRows));
  for (const OpRow& row : kRows) table.push_back(make_info(row));
  for (const auto& [opcode, attribute] : kAttributes) table[int(opcode)].attrs.push_back(attribute());
  for (const auto& [opcode, region] : kRegions) table[int(opcode)].regions.push_back(region);
  return table;
}

}  // namespace

const std::vector<OpInfo>& op_table() {
  static const std::vector<OpInfo> table = make_table();
  return table;
}

const OpInfo& op_info(Opcode opcode) { return op_table()[int(opcode)]; }

const AttrInfo* OpInfo::attr(std::string_view name) const {
  auto it = std::find_if(attrs.begin(), attrs.end(), [&](const AttrInfo& info) { return info.name == name; });
  return it == attrs.end() ? nullptr : &*it;
}

std::optional<Opcode> opcode_from_text(std::string_view text) {
  for (const OpInfo& info : op_table())
    if (text == info.text) return info.opcode;
  return std::nullopt;
}

const Attr& Op::attribute(std::string_view name) const {
  auto it = attrs.find(name);
  if (it != attrs.end()) return it->second;
  const AttrInfo* row = info().attr(name);
  TEGULA_CHECK(row, "the row of '{}' has no attribute '{}'", info().text, name);
  return row->fallback;
}

Value* Block::add_arg(Type type, std::string name) {
  args.push_back(std::make_unique<Value>(Value{std::move(type), nullptr, this, int(args.size()), std::move(name)}));
  return args.back().get();
}

namespace {
int option_of(const Func& func, const OptionInfo& option) {
  auto it = func.attrs.find(option.name);
  const auto* value = it == func.attrs.end() ? nullptr : std::get_if<int64_t>(&it->second);
  return value ? int(*value) : option.fallback;
}
}  // namespace

int Func::num_warps() const { return option_of(*this, option::num_warps); }
int Func::num_ctas() const { return option_of(*this, option::num_ctas); }
int Func::warp_specialize() const { return option_of(*this, option::warp_specialize); }
int Func::bulk_copies() const { return option_of(*this, option::bulk_copies); }
int Func::program_loop() const { return option_of(*this, option::program_loop); }
bool Func::debug() const { return option_of(*this, option::debug) != 0; }
bool Func::watched() const { return option_of(*this, option::debug) > 1; }
int Func::num_stages() const { return option_of(*this, option::num_stages); }
int Func::maxnreg() const { return option_of(*this, option::maxnreg); }

namespace {
bool unless_false(const Func& func, std::string_view name) {
  auto it = func.attrs.find(name);
  return it == func.attrs.end() || std::get<bool>(it->second);
}
}  // namespace

bool Func::dependent_launch() const { return unless_false(*this, "dependent_launch"); }
bool Func::fp_fusion() const { return unless_false(*this, "fp_fusion"); }

Value* Func::add_param(Type type, std::string param_name, int64_t divisible_by) {
  divisibility.push_back(divisible_by);
  return body.add_arg(std::move(type), std::move(param_name));
}

std::unique_ptr<Func> Func::clone() const {
  auto copy = std::make_unique<Func>();
  copy->name = name;
  copy->attrs = attrs;
  copy->loc = loc;
  ValueMap map;
  for (size_t i = 0; i < body.args.size(); ++i)
    map[body.args[i].get()] = copy->add_param(body.args[i]->type, body.args[i]->name, divisibility[i]);
  for (auto& op : body.ops) {
    auto cloned = clone_op(*op, map);
    cloned->parent = &copy->body;
    copy->body.ops.push_back(std::move(cloned));
  }
  return copy;
}

void walk(Block& block, const std::function<void(Op&)>& visit) {
  for (auto& op : block.ops) {
    visit(*op);
    for (auto& region : op->regions) walk(*region, visit);
  }
}

void walk(const Block& block, const std::function<void(const Op&)>& visit) {
  walk(const_cast<Block&>(block), [&](Op& op) { visit(op); });
}

void replace_uses(Block& scope, Value* from, Value* to) { replace_uses(scope, ValueMap{{from, to}}); }

void replace_uses(Block& scope, const ValueMap& map) {
  walk(scope, [&](Op& op) {
    for (Value*& operand : op.operands)
      for (auto it = map.find(operand); it != map.end() && it->second != operand; it = map.find(operand))
        operand = it->second;
  });
}

std::unordered_map<const Value*, int> count_uses(const Block& scope) {
  std::unordered_map<const Value*, int> uses;
  walk(scope, [&](const Op& op) {
    for (const Value* operand : op.operands)
      if (operand) ++uses[operand];
  });
  return uses;
}

std::optional<int64_t> constant_integer(const Value* value) {
  if (!value || !value->def || value->def->opcode != Opcode::Constant) return std::nullopt;
  const Attr constant = value->def->get(attr::value);
  const auto* number = std::get_if<int64_t>(&constant);
  return number ? std::optional(*number) : std::nullopt;
}

std::unique_ptr<Op> clone_op(const Op& op, ValueMap& map) {
  auto copy = std::make_unique<Op>();
  copy->opcode = op.opcode;
  copy->attrs = op.attrs;
  copy->loc = op.loc;
  for (Value* operand : op.operands) {
    auto it = map.find(operand);
    copy->operands.push_back(it == map.end() ? operand : it->second);
  }
  for (auto& r : op.results) {
    copy->results.push_back(std::make_unique<Value>(Value{r->type, copy.get(), nullptr, r->index, r->name}));
    map[r.get()] = copy->results.back().get();
  }
  for (auto& region : op.regions) {
    auto block = std::make_unique<Block>();
    block->parent = copy.get();
    for (auto& arg : region->args) map[arg.get()] = block->add_arg(arg->type, arg->name);
    for (auto& inner : region->ops) {
      auto cloned = clone_op(*inner, map);
      cloned->parent = block.get();
      block->ops.push_back(std::move(cloned));
    }
    copy->regions.push_back(std::move(block));
  }
  return copy;
}

int64_t elements_of_register(const Type& type, int64_t pack) {
  const int64_t bits = type.pointer ? 64 : std::max(8, type.bits());
  return std::min<int64_t>(std::max<int64_t>(32 / bits, 1), pack);
}

AsmOperands asm_operands(std::string_view constraints) {
  AsmOperands out;
  while (!constraints.empty()) {
    const size_t comma = constraints.find(',');
    std::string_view part = constraints.substr(0, comma);
    part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
    if (part.starts_with('='))
      ++out.results;
    else if (!part.empty() && part[0] != '~')
      ++out.arguments;
    constraints = comma == constraints.npos ? std::string_view() : constraints.substr(comma + 1);
  }
  return out;
}

}  // namespace tegula::ir
