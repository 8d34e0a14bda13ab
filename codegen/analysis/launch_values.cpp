#include "codegen/analysis/launch_values.h"

#include <algorithm>
#include <cmath>

#include "codegen/ir/flow.h"

namespace tegula {

using ir::Opcode;

std::vector<std::array<int64_t, 3>> sample_of_programs(const CostInputs& inputs) {
  constexpr int64_t kSamples = 8;
  const std::array<int64_t, 3> grid = inputs.grid.value_or(std::array<int64_t, 3>{1, 1, 1});
  const int64_t programs = std::max<int64_t>(1, grid[0] * grid[1] * grid[2]);
  const int64_t samples = std::min(kSamples, programs);
  std::vector<std::array<int64_t, 3>> sample;
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t n = (2 * i + 1) * programs / (2 * samples);
    sample.push_back({n % grid[0], n / grid[0] % grid[1], n / grid[0] / grid[1]});
  }
  return sample;
}

bool follows_from_ticket(const ir::Value* condition) {
  const ir::Op* op = condition->def;
  while (op && op->opcode != Opcode::AtomicRmw) {
    if (op->operands.empty() || !op->regions.empty() || !op->operand(0)->type.is_scalar()) return false;
    op = op->operand(0)->def;
  }
  return op != nullptr;
}

LaunchValues::LaunchValues(const ir::Func& func, const AxisAnalysis& axis, const CostInputs& inputs)
    : func_(func), axis_(axis), inputs_(inputs) {
  find_dependent(func.body);
}

std::optional<int64_t> LaunchValues::integer(const ir::Value* v, const Program& program, int depth,
                                             Found& found) const {
  // A value that many follow from is looked at once. (Few are more than one or two steps away: those need no memory.)
  constexpr int kNear = 3;
  if (depth < kNear) return find_integer(v, program, depth, found);
  if (const auto known = found.find(v); known != found.end()) return known->second;
  const auto value = find_integer(v, program, depth, found);
  found.emplace(v, value);
  return value;
}

std::optional<int64_t> LaunchValues::find_integer(const ir::Value* v, const Program& program, int depth,
                                                  Found& found) const {
  if (auto constant = axis_.info(v).constant) return constant;
  if (!v->type.is_scalar() || !v->type.is_integer() || depth > 32) return std::nullopt;
  if (auto known = numbers_.find(v); known != numbers_.end()) return known->second;
  if (!v->def) {
    if (v->block != &func_.body) return std::nullopt;
    auto it = inputs_.arguments.find(v->name);
    return it == inputs_.arguments.end() ? inputs_.extent : it->second;
  }
  const ir::Op& op = *v->def;
  if (op.opcode == Opcode::BlockId) return 0;
  if (op.opcode == Opcode::GroupId) return group_;
  if (op.opcode == Opcode::ProgramId) return program[size_t(op.get(ir::attr::axis))];
  if (op.opcode == Opcode::NumPrograms) {
    const auto axis = size_t(op.get(ir::attr::axis));
    return inputs_.grid ? (*inputs_.grid)[axis] : axis == 0 ? inputs_.programs : 1;
  }
  if (op.operands.empty() || !op.regions.empty() || op.has(ir::Reads)) return std::nullopt;
  std::optional<int64_t> a = integer(op.operand(0), program, depth + 1, found);
  if (op.opcode == Opcode::Cast || op.opcode == Opcode::Hint) return a;
  if (op.opcode == Opcode::Select) {
    return a ? integer(op.operand(*a ? 1 : 2), program, depth + 1, found) : std::nullopt;
  }
  std::optional<int64_t> b = op.operand(1) ? integer(op.operand(1), program, depth + 1, found) : std::nullopt;
  if (!a || !b) return std::nullopt;
  switch (op.opcode) {
    case Opcode::Add:
      return int64_t(uint64_t(*a) + uint64_t(*b));
    case Opcode::Sub:
      return int64_t(uint64_t(*a) - uint64_t(*b));
    case Opcode::BitAnd:
      return *a & *b;
    case Opcode::BitOr:
      return *a | *b;
    case Opcode::Mul:
      return int64_t(uint64_t(*a) * uint64_t(*b));
    case Opcode::Div:
      return *b > 0 ? std::optional(*a / *b) : std::nullopt;
    case Opcode::Rem:
      return *b > 0 ? std::optional(*a % *b) : std::nullopt;
    case Opcode::Minimum:
      return std::min(*a, *b);
    case Opcode::Maximum:
      return std::max(*a, *b);
    case Opcode::Lt:
      return *a < *b;
    case Opcode::Le:
      return *a <= *b;
    case Opcode::Gt:
      return *a > *b;
    case Opcode::Ge:
      return *a >= *b;
    case Opcode::Eq:
      return *a == *b;
    case Opcode::Ne:
      return *a != *b;
    default:
      return std::nullopt;
  }
}

std::optional<double> LaunchValues::counted_trips(const ir::Op& loop, const Program& program) const {
  const ir::ForLoop parts(loop);
  const auto lower = integer(parts.lower(), program), upper = integer(parts.upper(), program),
             step = integer(parts.step(), program);
  if (!lower || !upper || !step || !*step) return std::nullopt;
  return std::max(0.0, std::ceil((double(*upper) - double(*lower)) / double(*step)));
}

double LaunchValues::trips(const ir::Op& loop) const {
  if (loop.opcode == Opcode::For) {
    constexpr int64_t kOther = 1 << 16;
    const bool is_launch_known = inputs_.grid || !inputs_.arguments.empty();
    if (const auto counted = counted_trips(loop, program_)) {
      const bool is_typical = is_launch_known || counted_trips(loop, {kOther, kOther, kOther}) == counted;
      return is_typical ? *counted : std::max(*counted, double(inputs_.trips));
    }
  }
  if (loop.info().runs_beside()) return 1;
  const auto counted = inputs_.control ? inputs_.control->average(loop.loc) : std::nullopt;
  return counted.value_or(double(inputs_.trips));
}

std::vector<int64_t> LaunchValues::deciding_numbers(const ir::Op& loop) {
  constexpr double kMost = 32;
  if (loop.opcode != Opcode::For) return {};
  const ir::ForLoop parts(loop);
  const auto lower = integer(parts.lower()), upper = integer(parts.upper()), step = integer(parts.step());
  if (!lower || !upper || !step || *step <= 0 || trips(loop) > kMost) return {};
  auto known = [&] {
    int count = 0;
    ir::walk(parts.body(), [&](const ir::Op& op) {
      if (op.opcode == Opcode::For) count += integer(ir::ForLoop(op).lower()) && integer(ir::ForLoop(op).upper());
      if (op.opcode == Opcode::If) count += integer(op.operand(0)).has_value();
    });
    return count;
  };
  const int before = known();
  set_number(loop, lower);
  const bool decides = known() > before;
  set_number(loop, std::nullopt);
  std::vector<int64_t> numbers;
  for (int64_t number = *lower; decides && number < *upper; number += *step) numbers.push_back(number);
  return numbers;
}

void LaunchValues::set_number(const ir::Op& loop, std::optional<int64_t> value) {
  const ir::Value* number = ir::ForLoop(loop).induction();
  if (value)
    numbers_[number] = *value;
  else
    numbers_.erase(number);
}

std::optional<int> LaunchValues::branch(const ir::Op& op) const {
  if (!decides()) return std::nullopt;
  const auto condition = integer(op.operand(0));
  return condition ? std::optional(*condition ? 0 : 1) : std::nullopt;
}

double LaunchValues::share_taken(const ir::Op& op, int i) const {
  const auto first = inputs_.control ? inputs_.control->average(op.loc) : std::nullopt;
  return !first ? 1 : i == 0 ? *first : 1 - *first;
}

bool LaunchValues::is_off(const ir::Value* mask) const {
  while (mask && mask->def && (mask->def->opcode == Opcode::Splat || mask->def->opcode == Opcode::ConvertLayout))
    mask = mask->def->operand(0);
  return decides() && mask && mask->type.is_scalar() && integer(mask) == 0;
}

void LaunchValues::find_dependent(const ir::Block& block) {
  for (int round = 0; round < 2; ++round) {  // twice: what a loop carries
    ir::walk(block, [&](const ir::Op& op) {
      // What writes to memory gives other programs other values, if any.
      bool depends = op.opcode == Opcode::ProgramId || op.opcode == Opcode::BlockId || op.opcode == Opcode::GroupId ||
                     op.has(ir::WritesGlobal);
      for (const ir::Value* x : op.operands) depends = depends || (x && dependent_.contains(x));
      if (op.opcode == Opcode::For && dependent_.contains(ir::ForLoop(op).lower()))
        dependent_.insert(ir::ForLoop(op).induction());
      for (const ir::Flow& flow : ir::flows(op))
        for (const ir::Flow::From& from : flow.from)
          for (size_t i = 0; i < from.size(); ++i) {
            if (!dependent_.contains(from[i])) continue;
            depends = true;
            for (const ir::Flow::To& to : flow.to) dependent_.insert(to[i]);
          }
      if (depends)
        for (const auto& r : op.results) dependent_.insert(r.get());
    });
  }
}

}  // namespace tegula
