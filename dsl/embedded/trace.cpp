#include "dsl/embedded/trace.h"

#include <fmt/format.h>

#include <functional>
#include <span>

#include "dsl/embedded/operand_value.h"
#include "dsl/semantics/control.h"
#include "runtime/base/error.h"

namespace tegula {

namespace detail {

namespace {

thread_local Trace* recording = nullptr;

}  // namespace

// ---- Slots

Slot::Slot(Trace& t) : trace(&t), birth(t.next_id_++), id(birth), loc(t.sema_.loc) { t.slots_[id] = this; }

Slot::~Slot() {
  if (!trace) return;
  trace->slots_.erase(id);
  trace->ended_[id] = value;
  if (!heir) return;
  const auto found = trace->slots_.find(*heir);  // which has its first id, as it has taken no other's place
  if (found == trace->slots_.end() || found->second->birth != *heir) return;
  Slot* next = found->second;
  trace->slots_.erase(found);
  next->id = id;
  trace->slots_[id] = next;
}

// ---- Trace

Trace::Trace(std::string kernel, Loc loc, LoopTiles loop_tiles)
    : sema_{{}, diags_, loc, {}}, func_(std::make_unique<ir::Func>()), loop_tiles_(std::move(loop_tiles)) {
  if (recording)
    throw Error(
        fmt::format("kernel '{}' is to be recorded while kernel '{}' is\n  hint: launch kernels outside the "
                    "functions that are kernels",
                    kernel, recording->func_->name));
  diags_.set_page(dsl::page::kCpp);
  func_->name = std::move(kernel);
  func_->loc = loc;
  sema_.builder.set_end(&func_->body);
  sema_.at(loc);
  sema_.call = [this](const dsl::FunctionRef& function, std::vector<dsl::Val> values) -> dsl::Val {
    if (const dsl::FunctionInfo* info = dsl::find_function(function.name); info && !function.function)
      return dsl::call_function(sema_, *info, std::move(values), {});
    return combine(*static_cast<const Combine*>(function.function), std::move(values));
  };
  recording = this;
}

dsl::Val Trace::combine(const Combine& function, std::vector<dsl::Val> values) {
  // It becomes a region that sees its arguments alone.
  std::map<uint64_t, Held> before;
  for (auto& [id, slot] : slots_) {
    before[id] = *slot;
    if (!slot->value.is_constant()) slot->unusable = "the combine function uses a Tile that is not among its arguments";
  }
  uint64_t first_id = next_id_;
  std::vector<dsl::Val> results;
  {
    std::vector<Tile> args;
    for (dsl::Val& v : values) args.push_back(make(std::move(v)));
    for (const Tile& t : function(args)) results.push_back(read(Access::slot(t).get()));
  }
  for (auto& [id, held] : before) {
    auto it = slots_.find(id);
    if (it == slots_.end()) continue;
    bool assigned = held.value.is_constant() ? !dsl::same(held.value, it->second->value)
                                             : held.unusable.empty() && it->second->unusable.empty();
    if (assigned) sema_.error("the combine function assigns a Tile that is not its own");
    static_cast<Held&>(*it->second) = std::move(held);
  }
  retire(first_id, "this Tile has a value only inside the combine function that made it");
  return results.size() == 1 ? results[0] : dsl::make_tuple(std::move(results));
}

Trace::~Trace() {
  recording = nullptr;
  for (auto& [id, slot] : slots_) slot->trace = nullptr;
}

Trace& Trace::current() {
  if (recording) return *recording;
  throw Error(
      "a Tile outside of a kernel\n  hint: Tiles exist while a kernel is recorded: use them in the function that is "
      "given "
      "to tegula::kernel, and in what it calls");
}

int Trace::begin_loop() {
  int loop = next_loop_++;
  for (auto& [id, slot] : slots_) {
    if (!loop_tiles_.contains({loop, id}) || !slot->unusable.empty()) continue;
    std::vector<ir::Value*> values;
    size_t next = 0;
    if (!dsl::can_be_value(slot->value))
      slot->unusable =
          fmt::format("this Tile is {} before the loop and gets another value in its body, so it has no one value here",
                      dsl::describe(slot->value));
    else if (dsl::flatten(sema_, slot->value, "value", values))
      slot->value = dsl::rebuild(slot->value, values, next);
    else
      slot->value = {};
  }
  return loop;
}

// What was recorded after the beginning of the first of these loops will be another.
std::optional<Trace::LoopTiles> Trace::repeat_with() const {
  if (changed_.empty()) return std::nullopt;
  int loop = changed_.begin()->first;
  LoopTiles out;
  for (const LoopTiles* tiles : {&loop_tiles_, &changed_})
    for (const auto& tile : *tiles)
      if (tile.first <= loop) out.insert(tile);
  return out;
}

void Trace::retire(uint64_t first_id, const std::string& why) {
  for (auto it = slots_.lower_bound(first_id); it != slots_.end(); ++it) it->second->unusable = why;
}

dsl::Val Trace::read(const Slot* slot) {
  if (slot->trace != this)
    throw Error("a Tile of another kernel\n  hint: a Tile lives as long as the recording that it was made in");
  if (!slot->unusable.empty()) return sema_.error(slot->unusable);
  return slot->value;
}

dsl::Val Trace::value_of(const Operand& operand) {
  if (!operand.value()) return dsl::None{};
  return std::visit(
      [&](const auto& v) -> dsl::Val {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, None>) return dsl::None{};
        if constexpr (std::is_same_v<T, All>) return dsl::Slice{};
        if constexpr (std::is_same_v<T, Elem>) return dsl::DType{ir::Type::scalar(v)};
        if constexpr (std::is_same_v<T, Shared<Slot>>) return read(v.get());
        if constexpr (std::is_same_v<T, Operand::List>) {
          std::vector<dsl::Val> items;
          for (const Operand& item : v) items.push_back(value_of(item));
          return dsl::make_tuple(std::move(items));
        }
        if constexpr (std::is_same_v<T, Combine>)
          return dsl::FunctionRef{dsl::FunctionRef::Kind::Jit, "of the reduction", &v, nullptr};
        if constexpr (std::is_same_v<T, bool> || std::is_integral_v<T> || std::is_same_v<T, double> ||
                      std::is_same_v<T, std::string>)
          return v;
        return {};
      },
      operand.value()->held);
}

Tile Trace::make(dsl::Val value) {
  Tile tile;
  assign(tile, std::move(value));
  return tile;
}

void Trace::assign(Tile& tile, dsl::Val value, dsl::Val number) {
  auto& slot = Access::slot(tile);
  if (slot->trace != this) throw Error("an assignment to a Tile of another kernel");
  slot->value = std::move(value);
  slot->number = std::move(number);
  slot->unusable.clear();
  slot->heir.reset();
  slot->loc = sema_.loc;
}

std::unique_ptr<ir::Func> Trace::finish(Diagnostics& out) {
  sema_.at(func_->loc);
  sema_.builder.create(ir::Opcode::Return, {});
  for (const Diag& d : diags_.list()) out.add(d);
  return diags_.has_errors() ? nullptr : std::move(func_);
}

// ---- What tile.h calls

namespace {

Tile record(const Operand& place, const std::function<dsl::Val(Trace&, dsl::Sema&)>& body) {
  Trace& trace = Trace::current();
  trace.at(place.file(), place.line());
  return trace.make(body(trace, trace.sema()));
}

dsl::Val bind_and_call(Trace& trace, const dsl::FunctionInfo& function, std::span<const Argument> args,
                       std::vector<dsl::Val> positional = {}) {
  std::vector<std::pair<std::string, dsl::Val>> keywords;
  for (const Argument& a : args) {
    if (!a.value.value()) continue;
    dsl::Val v = trace.value_of(a.value);
    if (a.name.empty())
      positional.push_back(std::move(v));
    else
      keywords.emplace_back(a.name, std::move(v));
  }
  return dsl::call_function(trace.sema(), function, std::move(positional), std::move(keywords));
}

}  // namespace

Tile call(const char* name, const std::vector<Argument>& args) {
  return record(args.front().value, [&](Trace& trace, dsl::Sema&) {
    std::string function = name;
    if (function.back() == '_') function.pop_back();
    return bind_and_call(trace, *dsl::find_function(function), args);
  });
}

Tile binary(const char* op, const Operand& lhs, const Operand& rhs) {
  return record(lhs, [&](Trace& t, dsl::Sema& s) { return dsl::binary(s, op, t.value_of(lhs), t.value_of(rhs)); });
}
Tile compare(const char* op, const Operand& lhs, const Operand& rhs) {
  return record(lhs, [&](Trace& t, dsl::Sema& s) {
    const dsl::Val x = t.value_of(lhs), y = t.value_of(rhs);
    const bool with_none = x.is<dsl::None>() || y.is<dsl::None>();  // Python says `is`, which C++ lacks
    const std::string_view known = op;
    return dsl::compare(s, with_none && known == "==" ? "is" : with_none && known == "!=" ? "is not" : known, x, y);
  });
}
Tile logical(const char* op, const Operand& lhs, const Operand& rhs) {
  return record(lhs, [&](Trace& t, dsl::Sema& s) { return dsl::logical(s, op, t.value_of(lhs), t.value_of(rhs)); });
}
Tile unary(const char* op, const Operand& x) {
  return record(x, [&](Trace& t, dsl::Sema& s) { return dsl::unary(s, op, t.value_of(x)); });
}

}  // namespace detail

// ---- Tile

using detail::Access;
using detail::OperandValue;
using detail::Trace;

namespace {

template <class T>
Shared<const OperandValue> holding(T value) {
  return Shared<const OperandValue>::make(std::move(value));
}

}  // namespace

Operand::Operand(const Tile& tile, const char* file, int line)
    : value_(holding(Access::slot(tile))), file_(file), line_(line) {}
Operand::Operand(detail::Absent, const char* file, int line) : file_(file), line_(line) {}
Operand::Operand(None, const char* file, int line) : value_(holding(None{})), file_(file), line_(line) {}
Operand::Operand(All, const char* file, int line) : value_(holding(All{})), file_(file), line_(line) {}
Operand::Operand(const char* text, const char* file, int line) : Operand(std::string(text), file, line) {}
Operand::Operand(std::string text, const char* file, int line)
    : value_(holding(std::move(text))), file_(file), line_(line) {}
Operand::Operand(Elem elem, const char* file, int line) : value_(holding(elem)), file_(file), line_(line) {}
Operand::Operand(std::initializer_list<Operand> items, const char* file, int line) : Operand(List(items), file, line) {}
Operand::Operand(List items, const char* file, int line)
    : value_(holding(std::move(items))), file_(file), line_(line) {}
Operand::Value Operand::number(bool value) { return holding(value); }
Operand::Value Operand::number(int64_t value) { return holding(value); }
Operand::Value Operand::number(uint64_t value) { return value >> 63 ? holding(value) : holding(int64_t(value)); }
Operand::Value Operand::number(double value) { return holding(value); }
Operand::Value Operand::combination(detail::Combine function) { return holding(std::move(function)); }
Operand::Operand(const Operand&) = default;
Operand::Operand(Operand&&) noexcept = default;
Operand& Operand::operator=(const Operand&) = default;
Operand& Operand::operator=(Operand&&) noexcept = default;
Operand::~Operand() = default;

Keyword KeywordName::operator=(Operand value) const { return {std::string(name), std::move(value)}; }
Argument::Argument(Keyword keyword) : name(std::move(keyword.name)), value(std::move(keyword.value)) {}

#define TEGULA_PLAIN(name) \
  Tile name(const char* file, int line) { return name(Operand(detail::Absent(), file, line)); }
TEGULA_PLAIN(debug_barrier)
TEGULA_PLAIN(extra_cuda_globaltimer)
TEGULA_PLAIN(extra_cuda_smid)
TEGULA_PLAIN(extra_cuda_gdc_wait)
TEGULA_PLAIN(extra_cuda_gdc_launch_dependents)
#undef TEGULA_PLAIN

Operand list(std::initializer_list<Operand> items, const char* file, int line) { return Operand(items, file, line); }

Tile::Tile() : slot_(Shared<detail::Slot>::make(Trace::current())) { slot_->unusable = "this Tile has no value yet"; }

Tile::Tile(const Operand& value) : Tile() {
  Trace& trace = Trace::current();
  trace.at(value.file(), value.line());
  dsl::Val v = trace.value_of(value), number;
  // A number becomes a value of the kernel, which loops and branches may change.
  if (v.is<bool>() || v.is<dsl::Int>() || v.is<double>()) {
    ir::Value* constant = dsl::to_value(trace.sema(), v);
    number = std::exchange(v, constant ? dsl::Val(constant) : dsl::Val());
  }
  trace.assign(*this, std::move(v), std::move(number));
}

Tile::Tile(const Tile& other) : Tile() { *this = other; }

// A new Tile of the same value. If the old one ends before it gets another value (elements of a vector that grows do),
// the new one takes its place in loops and branches too.
Tile::Tile(Tile&& other) noexcept : slot_(other.slot_) {
  if (!slot_->trace) return;
  slot_ = Shared<detail::Slot>::make(*other.slot_->trace);
  static_cast<detail::Held&>(*slot_) = *other.slot_;
  slot_->loc = other.slot_->loc;
  other.slot_->heir = slot_->birth;
}

Tile& Tile::operator=(const Tile& other) {
  if (this == &other) return *this;
  Trace& trace = Trace::current();
  const auto& from = other.slot_;
  if (from->trace == &trace && !from->unusable.empty()) {
    trace.assign(*this, {});
    slot_->unusable = from->unusable;  // told when it is read
    return *this;
  }
  trace.assign(*this, trace.read(from.get()), from->number);
  return *this;
}

Tile& Tile::assign(const char* op, const Operand& x) {
  Trace& trace = Trace::current();
  trace.at(x.file(), x.line());
  trace.assign(*this, dsl::binary(trace.sema(), op, trace.read(slot_.get()), trace.value_of(x)));
  return *this;
}

Tile Tile::operator[](const Operand& indices) const {
  Trace& trace = Trace::current();
  trace.at(indices.file(), indices.line());
  std::vector<dsl::Val> values;
  if (const auto* list = indices.value() ? std::get_if<Operand::List>(&indices.value()->held) : nullptr)
    for (const Operand& i : *list) values.push_back(trace.value_of(i));
  else
    values.push_back(trace.value_of(indices));
  return trace.make(dsl::subscript(trace.sema(), trace.read(slot_.get()), values));
}

Tile Tile::attribute(const char* name, const char* file, int line) const {
  Trace& trace = Trace::current();
  trace.at(file, line);
  return trace.make(dsl::attribute(trace.sema(), trace.read(slot_.get()), name));
}

Tile Tile::call_method(const char* name, std::vector<Argument> args) const {
  return detail::record(args.front().value, [&](Trace& trace, dsl::Sema& s) -> dsl::Val {
    const dsl::Val self = trace.read(slot_.get());
    if (self.is_poison()) return self;
    const dsl::FunctionInfo* method = dsl::find_method(self, name);
    if (!method) return s.error(fmt::format("{} has no method '{}'", dsl::describe(self), name));
    return detail::bind_and_call(trace, *method, args, {self});
  });
}

}  // namespace tegula
