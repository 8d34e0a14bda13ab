#include "codegen/explain/access_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "codegen/analysis/pointer_base.h"
#include "codegen/ir/flow.h"

namespace tegula::explaining {

using ir::Opcode;

namespace {

constexpr int64_t kUnknownTrips = 8;
constexpr int64_t kMostTrips = 1 << 22;  // of a loop that does not end

const ir::Value* mask_of(const ir::Op& op) { return op.operand(op.opcode == Opcode::Load ? 1 : 2); }

bool is_index(const ir::Type& type) { return type.pointer || type.is_integer(); }

}  // namespace

AccessTrace::AccessTrace(const ir::Func& func, const LaunchFacts& launch) : func_(func), launch_(launch) {
  for (size_t i = 0; i < func.body.args.size(); ++i) parameters_[func.body.args[i].get()] = int(i);
  ir::walk(func.body, [&](const ir::Op& op) {
    if (!is_access(op)) return;
    const auto base = parameters_.find(pointer_base(op.operand(0)));
    arrays_[&op] = base == parameters_.end() ? -1 : base->second;
  });
  find_needed();
}

bool AccessTrace::need(const ir::Value* value) { return value && needed_.insert(value).second; }

// Everything that addresses, masks and control follow from, through loops and branches.
void AccessTrace::find_needed() {
  for (bool more = true; more;) {
    more = false;
    ir::walk(func_.body, [&](const ir::Op& op) {
      if (is_access(op)) more |= need(op.operand(0)), more |= need(mask_of(op));
      if (op.opcode == Opcode::For)
        for (const ir::Value* bound : ir::ForLoop(op).bounds()) more |= need(bound);
      if (op.opcode == Opcode::If || op.opcode == Opcode::Condition) more |= need(op.operand(0));
      for (const ir::Flow& flow : ir::flows(op))
        for (size_t i = 0; i < flow.size(); ++i)
          if (std::any_of(flow.to.begin(), flow.to.end(),
                          [&](const ir::Flow::To& to) { return needed_.contains(to[i]); }))
            for (const ir::Flow::From& from : flow.from) more |= need(from[i]);
      const bool wanted =
          std::any_of(op.results.begin(), op.results.end(), [&](const auto& r) { return needed_.contains(r.get()); });
      if (!wanted) return;
      if (op.opcode == Opcode::Load) loads_needed_ = true, more |= need(op.operand(2));
      if (op.opcode == Opcode::AtomicRmw)
        loads_needed_ = true, more |= need(op.operand(1)), more |= need(op.operand(3));
      if ((op.regions.empty() || op.info().combines()) && !is_access(op))
        for (const ir::Value* x : op.operands) more |= need(x);
    });
  }
  if (!loads_needed_) return;
  ir::walk(func_.body, [&](const ir::Op& op) {  // what programs hand each other through memory
    if (op.opcode == Opcode::Store && op.operand(1)->type.is_integer() && op.operand(1)->type.is_scalar())
      needed_.insert(op.operand(1));
  });
}

const IndexTile& AccessTrace::get(const ir::Value* value) const {
  static const IndexTile unknown;
  const auto it = values_.find(value);
  return it == values_.end() ? unknown : it->second;
}

void AccessTrace::assume(const ir::Op& op, const char* text) {
  if (assumptions_.size() < 8) assumptions_.insert(fmt::format("{}: {}", op.loc.to_string(), text));
}

void AccessTrace::run(std::array<int64_t, 3> program, const std::function<void(const Access&)>& visit) {
  program_ = program;
  visit_ = &visit;
  values_.clear();
  for (size_t i = 0; i < func_.body.args.size(); ++i)
    if (is_index(func_.body.args[i]->type))
      values_[func_.body.args[i].get()] =
          IndexTile::scalar(launch_.arguments[i], {}, func_.body.args[i]->type.is_bool());
  run_block(func_.body);
}

void AccessTrace::run_block(const ir::Block& block) {
  for (const auto& op : block.ops) run_op(*op);
}

void AccessTrace::run_op(const ir::Op& op) {
  switch (op.opcode) {
    case Opcode::Load:
    case Opcode::Store:
    case Opcode::AtomicRmw:
      return access(op);
    case Opcode::For:
      return run_for(op);
    case Opcode::While:
      return run_while(op);
    case Opcode::If: {
      const IndexTile& condition = get(op.operand(0));
      if (condition.is_uniform())
        control_.add(op.loc, condition.base() ? 1 : 0);
      else
        assume(op, "a branch that data decides is taken to be taken");
      const ir::Block& taken = *op.regions[condition.is_uniform() && !condition.base() ? 1 : 0];
      run_block(taken);
      const std::vector<IndexTile> results = handed_on(taken, 0, op.results.size());
      for (size_t i = 0; i < results.size(); ++i) values_[op.result(int(i))] = results[i];
      return;
    }
    default:
      break;
  }
  if (op.info().combines()) return run_combine(op);
  if (op.results.size() != 1 || !op.regions.empty() || !needed_.contains(op.result())) return;
  IndexTile& out = values_[op.result()];
  const ir::Type& type = op.result()->type;
  out = IndexTile();
  if (!is_index(type)) return;
  if (op.opcode == Opcode::Constant) {
    const ir::Attr value = op.get(ir::attr::value);
    if (const auto* i = std::get_if<int64_t>(&value)) out = IndexTile::scalar(*i, type.shape, type.is_bool());
    if (const auto* b = std::get_if<bool>(&value)) out = IndexTile::scalar(*b, type.shape, true);
  } else if (op.opcode == Opcode::ProgramId) {
    out = IndexTile::scalar(program_[size_t(op.get(ir::attr::axis))]);
  } else if (op.opcode == Opcode::NumPrograms) {
    out = IndexTile::scalar(launch_.grid[size_t(op.get(ir::attr::axis))]);
  } else if (op.opcode == Opcode::Arange) {
    out = IndexTile::arange(op.get(ir::attr::start), op.get(ir::attr::end));
  } else if (!op.operands.empty()) {
    std::vector<const IndexTile*> operands;
    for (const ir::Value* x : op.operands) operands.push_back(&get(x));
    out = IndexTile::apply(op, operands);
  }
}

void AccessTrace::run_combine(const ir::Op& op) {
  const bool wanted =
      std::any_of(op.results.begin(), op.results.end(), [&](const auto& r) { return needed_.contains(r.get()); });
  if (!wanted) return;
  std::vector<const IndexTile*> operands;
  for (const ir::Value* x : op.operands) operands.push_back(&get(x));
  std::vector<IndexTile> results = combine_along(op, operands);
  for (size_t i = 0; i < results.size(); ++i) values_[op.result(int(i))] = std::move(results[i]);
}

std::vector<IndexTile> AccessTrace::handed_on(const ir::Block& block, size_t first, size_t count) {
  std::vector<IndexTile> values;
  const ir::Op& end = *block.terminator();
  for (size_t i = 0; i < count && first + i < end.operands.size(); ++i) values.push_back(get(end.operands[first + i]));
  values.resize(count);
  return values;
}

void AccessTrace::run_for(const ir::Op& op) {
  const ir::ForLoop loop(op);
  const IndexTile lower = get(loop.lower()), upper = get(loop.upper()), step = get(loop.step());
  const bool known = lower.is_uniform() && upper.is_uniform() && step.is_uniform() && step.base() != 0;
  if (!known) assume(op, "a loop whose bounds follow from data is taken to run 8 times");
  const size_t n = loop.carried();
  std::vector<IndexTile> carried;
  for (size_t i = 0; i < n; ++i) carried.push_back(get(loop.init(i)));
  const int64_t first = known ? lower.base() : 0, by = known ? step.base() : 1;
  const int64_t end = known ? upper.base() : kUnknownTrips;
  int64_t trips = 0;
  for (int64_t i = first; (by > 0 ? i < end : i > end) && trips < kMostTrips; i += by, ++trips) {
    values_[loop.induction()] = IndexTile::scalar(i);
    for (size_t k = 0; k < n; ++k) values_[loop.arg(k)] = std::move(carried[k]);
    run_block(loop.body());
    carried = handed_on(loop.body(), 0, n);
  }
  if (known) control_.add(op.loc, double(trips));
  for (size_t k = 0; k < n; ++k) values_[loop.result(k)] = std::move(carried[k]);
}

void AccessTrace::run_while(const ir::Op& op) {
  const ir::WhileLoop loop(op);
  for (size_t i = 0; i < loop.num_tested(); ++i) values_[loop.tested(i)] = get(loop.init(i));
  bool known = true;
  for (int64_t trips = 0; trips < kMostTrips; ++trips) {
    run_block(loop.test());
    const IndexTile condition = get(loop.condition());
    known &= condition.is_uniform();
    if (!condition.is_uniform()) assume(op, "a loop that data ends is taken to run 8 times");
    const std::vector<IndexTile> passed = handed_on(loop.test(), 1, loop.num_passed());
    const bool goes_on = condition.is_uniform() ? condition.base() != 0 : trips < kUnknownTrips;
    for (size_t k = 0; k < passed.size(); ++k) values_[goes_on ? loop.taken(k) : loop.result(k)] = passed[k];
    if (!goes_on) {
      if (known) control_.add(op.loc, double(trips));
      return;
    }
    run_block(loop.body());
    const std::vector<IndexTile> next = handed_on(loop.body(), 0, loop.num_tested());
    for (size_t i = 0; i < next.size(); ++i) values_[loop.tested(i)] = next[i];
  }
}

// --------------------------------------------------------------------------------------------------------- Memory

void AccessTrace::access(const ir::Op& op) {
  const ir::Value* mask = mask_of(op);
  const IndexTile* where = mask ? &get(mask) : nullptr;
  const Access access{&op, arrays_.at(&op), std::max(1, elem_bits(op.operand(0)->type.elem) / 8), &get(op.operand(0)),
                      where};
  if (!access.pointers->known()) assume(op, "addresses follow from data: taken to lie apart");
  if (where && !where->known()) assume(op, "a mask that data decides is taken to hold");
  const bool nowhere = where && where->is_uniform() && !where->base();
  if (!nowhere) (*visit_)(access);
  if (!op.results.empty() && needed_.contains(op.result())) {
    IndexTile value = loaded(access, op.result()->type);
    values_[op.result()] = std::move(value);
  }
  if (loads_needed_ && op.opcode != Opcode::Load && !nowhere) stored(access, op);
}

int64_t AccessTrace::read_element(uint64_t address, const ir::Type& type) {
  if (const auto it = written_.find(address); it != written_.end()) return it->second;
  const size_t bytes = size_t(type.pointer ? 8 : elem_bytes(type.elem));
  int64_t value = 0;
  if (!launch_.read || !launch_.read(address, &value, bytes)) return 0;
  if (bytes < 8 && is_signed(type.elem)) {
    const int unused = int(64 - 8 * bytes);
    value = int64_t(uint64_t(value) << unused) >> unused;
  }
  return value;
}

// The integers that a load gives, where what follows needs them.
IndexTile AccessTrace::loaded(const Access& access, const ir::Type& type) {
  if (!is_index(type) || !access.pointers->known() || (access.mask && !access.mask->known())) return {};
  if (!launch_.read && access.op->opcode == Opcode::Load)
    assume(*access.op, "no data is given for what is loaded here: taken to be 0");
  std::vector<int> axes = access.pointers->axes();
  if (access.mask) {
    const std::vector<int> more = access.mask->axes();
    axes.insert(axes.end(), more.begin(), more.end());
    std::sort(axes.begin(), axes.end());
    axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  }
  std::vector<int64_t> values = access.pointers->table(axes);
  const std::vector<int64_t> holds = access.mask ? access.mask->table(axes) : std::vector<int64_t>(values.size(), 1);
  elements_read_ += int64_t(values.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] = holds[i] ? read_element(uint64_t(values[i]), type) : 0;
  if (axes.empty()) return IndexTile::scalar(values[0], type.shape, type.is_bool());
  return IndexTile::of_table(type.shape, axes, std::move(values), type.is_bool());
}

// Tickets and flags: scalars that programs hand each other.
void AccessTrace::stored(const Access& access, const ir::Op& op) {
  const ir::Value* value = op.operand(1);
  if (!value->type.is_scalar() || !value->type.is_integer() || !access.pointers->is_uniform()) return;
  const IndexTile& given = get(value);
  if (!given.is_uniform()) return;
  const uint64_t address = uint64_t(access.pointers->base());
  if (op.opcode == Opcode::Store) {
    written_[address] = given.base();
    return;
  }
  const int64_t old = read_element(address, value->type), x = given.base();
  const std::string kind = op.get(ir::attr::kind);
  const IndexTile& compare = op.operand(3) ? get(op.operand(3)) : given;
  written_[address] = kind == "add"   ? old + x
                      : kind == "min" ? std::min(old, x)
                      : kind == "max" ? std::max(old, x)
                      : kind == "and" ? (old & x)
                      : kind == "or"  ? (old | x)
                      : kind == "xor" ? (old ^ x)
                      : kind == "cas" ? (compare.is_uniform() && compare.base() == old ? x : old)
                                      : x;
}

}  // namespace tegula::explaining
