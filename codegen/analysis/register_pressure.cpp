#include "codegen/analysis/register_pressure.h"

#include <algorithm>

#include "codegen/analysis/equal_elements.h"
#include "codegen/ir/flow.h"
#include "codegen/product/plan.h"

namespace tegula {

using ir::Opcode;

namespace {

constexpr int kMaxRegisters = 255;  // an instruction names
constexpr int kBaseRegisters = 14;  // addresses, indices and what the assembler needs for itself

int words(const ir::Type& type, int64_t count) { return int((count * type.bits() + 31) / 32); }

// Ops that take each element by itself, as it comes.
bool takes_elements(Opcode opcode) {
  return opcode == Opcode::Reduce || opcode == Opcode::ConvertLayout || opcode == Opcode::Store ||
         opcode == Opcode::SharedStore || opcode == Opcode::BulkStore;
}

// What the block uses from outside.
void collect_outer(const ir::Block& block, std::unordered_set<const ir::Value*>& used) {
  std::unordered_set<const ir::Value*> inside;
  for (const auto& arg : block.args) inside.insert(arg.get());
  ir::walk(block, [&](const ir::Op& op) {
    for (const auto& region : op.regions)
      for (const auto& arg : region->args) inside.insert(arg.get());
    for (const auto& r : op.results) inside.insert(r.get());
  });
  ir::walk(block, [&](const ir::Op& op) {
    for (const ir::Value* x : op.operands)
      if (x && !inside.contains(x)) used.insert(x);
  });
}

}  // namespace

int64_t held_elements(const ir::Type& type) {
  if (!type.is_tile()) return 1;
  if (!type.layout) return type.num_elements();
  return type.layout->remove_zero_registers().in_size(Dim::Register);
}

int register_limit(const ir::Func& func, const Target& target) {
  const int64_t file = target.registers_per_sm / (32 * func.num_warps()) / 8 * 8;
  const int limit = int(std::min<int64_t>(kMaxRegisters, file));
  return func.maxnreg() ? std::min(limit, func.maxnreg()) : limit;
}

RegisterPressure::RegisterPressure(const ir::Func& func, const AxisAnalysis& axis, const LaunchValues& values)
    : func_(func), axis_(axis), values_(values) {
  ir::walk(func.body, [&](const ir::Op& op) {
    for (const ir::Value* x : op.operands)
      if (x) users_[x].push_back(&op);
  });
}

// The values that are live, and the registers that they take, which are summed up as values come and go: a function may
// have thousands of values live at thousands of places.
class RegisterPressure::Live {
 public:
  explicit Live(RegisterPressure& pressure) : pressure_(pressure) {}

  /// False if the value was live.
  bool insert(const ir::Value* v) {
    if (!values_.insert(v).second) return false;
    const ir::Value* variable = pressure_.variable(v);
    if (live_of_[variable]++ == 0) words_ += words_of(variable);
    return true;
  }
  /// False if the value was not live.
  bool erase(const ir::Value* v) {
    if (values_.erase(v) == 0) return false;
    const ir::Value* variable = pressure_.variable(v);
    if (--live_of_[variable] == 0) words_ -= words_of(variable);
    return true;
  }
  bool contains(const ir::Value* v) const { return values_.contains(v); }
  int words() const { return words_; }

 private:
  int words_of(const ir::Value* variable) {
    auto [it, is_new] = known_.try_emplace(variable, 0);
    if (is_new) it->second = pressure_.registers(variable);
    return it->second;
  }

  RegisterPressure& pressure_;
  std::unordered_set<const ir::Value*> values_;
  std::unordered_map<const ir::Value*, int> live_of_;  // how many values of a variable are live
  std::unordered_map<const ir::Value*, int> known_;    // registers of a variable
  int words_ = 0;
};

RegisterPressure::Peak RegisterPressure::peak() { return peak_without({}); }

RegisterPressure::Peak RegisterPressure::peak_without(const std::unordered_set<const ir::Value*>& values) {
  streamed_ = values;
  made_of_.clear();
  find_streamed(func_.body);
  ir::walk(func_.body, [&](const ir::Op& op) {
    if (ir::is_product(op)) fragments_.insert({op.operand(0), op.operand(1)});
    if (op.opcode == Opcode::MmaStart && op.get(ir::attr::waves)) find_waves(op);
  });
  peak_ = {};
  Live live(*this);
  walk_live(func_.body, live, 1);
  return {kBaseRegisters + peak_.words, peak_.times};
}

int64_t RegisterPressure::held(const ir::Type& type) {
  if (!type.is_tile() || !type.layout) return held_elements(type);
  const auto [at, is_new] = held_.try_emplace(type.layout.get(), 0);
  if (is_new) at->second = held_elements(type);
  return at->second;
}

// How many different registers an index or pointer tile takes, when those that differ by a constant are one: the
// constant goes into the instruction. Other values take one a register of their layout.
int64_t RegisterPressure::distinct_registers(const ir::Value* v) {
  if (auto it = distinct_.find(v); it != distinct_.end()) return it->second;
  distinct_[v] = held(v->type);  // for what a loop carries around
  const int64_t n = v->def ? distinct_of_result(v) : distinct_of_argument(v);
  return distinct_[v] = n;
}

int64_t RegisterPressure::distinct_of_argument(const ir::Value* v) {
  const int64_t all = held(v->type);
  const ir::Op* op = ir::for_of(v);
  if (!op) return all;
  const ir::ForLoop loop(*op);
  const auto number = loop.number(v);
  if (!number) return all;
  const ir::Value* init = loop.init(*number);
  const bool is_index = v->type.pointer || (v->type.is_integer() && !v->type.is_bool());
  const bool is_loaded_ahead = init->def && init->def->opcode == Opcode::Load;
  return is_index || is_loaded_ahead ? distinct_registers(init) : all;
}

int64_t RegisterPressure::distinct_of_result(const ir::Value* v) {
  const ir::Op& op = *v->def;
  const int64_t all = held(v->type);
  if (op.opcode == Opcode::Load && v->type.layout) return loaded_elements(op);
  auto of = [&](int i) { return distinct_registers(op.operand(i)); };
  const auto is_float = [](const ir::Value* x) { return x && x->type.is_float() && !x->type.pointer; };
  if (op.has(ir::Elementwise) && std::all_of(op.operands.begin(), op.operands.end(), is_float)) {
    int64_t n = 1;  // what is really different, as scales of rows and columns are
    for (int i = 0; i < int(op.operands.size()) && n < all; ++i) n = std::min(all, n * of(i));
    return n;
  }
  switch (op.opcode) {
    case Opcode::Constant:
    case Opcode::Arange:
    case Opcode::Splat:
      return 1;
    case Opcode::Broadcast:
    case Opcode::ExpandDims:
    case Opcode::Reshape:
    case Opcode::Trans:
    case Opcode::ConvertLayout:
    case Opcode::Hint:
      return std::min(all, of(0));
    case Opcode::Cast:  // a constant does not go through to a float
      return v->type.is_integer() || op.operand(0)->type.is_float() ? std::min(all, of(0)) : all;
    case Opcode::Add:
    case Opcode::Sub:
    case Opcode::AddPtr:
    case Opcode::BitAnd:
    case Opcode::BitOr:
    case Opcode::Lt:
    case Opcode::Le:
    case Opcode::Gt:
    case Opcode::Ge:
    case Opcode::Eq:
    case Opcode::Ne:
      return std::min(all, of(0) * of(1));
    case Opcode::Mul: {
      bool constant = axis_.info(op.operand(0)).constant || axis_.info(op.operand(1)).constant;
      bool both = op.operand(0)->def && op.operand(1)->def && op.operand(0)->def->opcode == Opcode::Splat &&
                  op.operand(1)->def->opcode == Opcode::Splat;
      return std::min(constant || both ? std::min(all, of(0) * of(1)) : all, different(v));
    }
    case Opcode::Div:
    case Opcode::Rem:
    case Opcode::Shr:
      return different(v);
    default:
      return all;
  }
}

// The elements of a thread, those of a run of equal ones counted once.
int64_t RegisterPressure::different(const ir::Value* v) {
  const AxisInfo::PerAxis& runs = axis_.info(v).constancy;
  const bool any = std::any_of(runs.begin(), runs.end(), [](int64_t run) { return run > 1; });
  return any && v->type.layout ? count_different(v->type, runs) : held(v->type);
}

// Values that elementwise ops make of others and that all end in the same reduction, conversion or store are never
// there as a whole: each element is computed where that takes it. Unless they are held while threads wait for another
// reduction. What a conversion takes is there beside its result.
void RegisterPressure::find_streamed(const ir::Block& block) {
  std::unordered_map<const ir::Op*, int> behind;  // how many reductions and scans of the block
  int combined = 0;
  for (const auto& op : block.ops) {
    behind[op.get()] = combined;
    combined += op->info().combines();
  }
  std::unordered_map<const ir::Op*, const ir::Op*> ends;  // where what the op makes ends
  // The op that all users of the value end in; null if they do not end in the same one.
  const auto end_of = [&](const ir::Value* v) -> const ir::Op* {
    const ir::Op* end = nullptr;
    for (const ir::Op* user : users_[v]) {
      const auto it = ends.find(user);
      if (user->parent != &block || behind[user] != behind[v->def] || it == ends.end()) return nullptr;
      if (end && end != it->second) return nullptr;
      end = it->second;
    }
    return end;
  };
  for (auto it = block.ops.rbegin(); it != block.ops.rend(); ++it) {
    const ir::Op& op = **it;
    for (const auto& region : op.regions)
      if (!op.info().isolates()) find_streamed(*region);
    if (takes_elements(op.opcode)) ends[&op] = &op;
    if (!op.has(ir::Elementwise) || op.result()->type.pointer) continue;
    const ir::Op* end = end_of(op.result());
    if (!end) continue;
    ends[&op] = end;
    streamed_.insert(op.result());
    if (end->opcode == Opcode::ConvertLayout)
      for (const ir::Value* x : op.operands)
        if (x) made_of_[end].push_back(x);
  }
}

// The sums of a product that goes in waves, and what follows from them up to what is kept.
void RegisterPressure::find_waves(const ir::Op& product) {
  const ProductPlan plan = plan_of(product);
  const int64_t sums = int64_t(plan.instruction->sums_packed()) * family_of(product).registers(plan);
  wave_[product.result()] = words(product.result()->type, sums);
  wave_[product.operand(2)] = 0;  // nothing: each wave begins anew
  for (const auto& op : product.parent->ops) {
    if (op->results.size() != 1) continue;
    const bool follows =
        std::any_of(op->operands.begin(), op->operands.end(), [&](const ir::Value* v) { return wave_.contains(v); });
    const bool kept = product.parent->terminator() && users_[op->result()].size() == 1 &&
                      std::count(product.parent->terminator()->operands.begin(),
                                 product.parent->terminator()->operands.end(), op->result()) > 0;
    if (follows && !kept && (op->opcode == Opcode::MmaWait || op->has(ir::Elementwise)))
      wave_[op->result()] = words(op->result()->type, sums);
  }
}

int RegisterPressure::registers(const ir::Value* v) {
  const ir::Type& type = v->type;
  if (streamed_.contains(v)) return 0;
  if (auto wave = wave_.find(v); wave != wave_.end()) return wave->second;
  if (!type.is_tile()) {
    bool param = !v->def && v->block == &func_.body;  // stays in constant memory
    return param ? 0 : words(type, 1);
  }
  if (v->def && v->def->opcode == Opcode::Constant) return 0;
  if (type.is_bool()) return int((std::min(distinct_registers(v), held(type)) + 15) / 16);
  int all = words(type, std::min(distinct_registers(v), held(type)));
  // The fragments of a product are fetched step by step.
  return fragments_.contains(v) ? (all + 1) / 2 : all;
}

// Products add to their sums in place: the sums before and after them, under way or waited for, from one iteration to
// the next, are one variable. Gives one value for all of them.
const ir::Value* RegisterPressure::variable(const ir::Value* v) const {
  const ir::Op* loop = ir::for_of(v);
  if (loop && v->def == loop) {
    const size_t i = *ir::ForLoop(*loop).number(v);
    const ir::Value* arg = ir::ForLoop(*loop).arg(i);
    return variable(ir::ForLoop(*loop).next(i)) == arg ? arg : v;
  }
  if (!v->def) return v;
  if (v->def->opcode == Opcode::MmaWait) return variable(v->def->operand(0));
  if (!ir::is_product(*v->def)) return v;
  const ir::Value* before = v->def->operand(2);
  const bool none = before->def && (before->def->opcode == Opcode::Constant || before->def->opcode == Opcode::Unset);
  return none ? v : variable(before);
}

void RegisterPressure::note_peak(int words, double times) {
  if (words <= peak_.words) return;
  peak_ = {words, times};
}

// `live`: after the block, which runs `times` times; becomes what is live before it.
void RegisterPressure::walk_live(const ir::Block& block, Live& live, double times) {
  for (auto it = block.ops.rbegin(); it != block.ops.rend(); ++it) {
    const ir::Op& op = **it;
    const int after = live.words();
    std::vector<const ir::Value*> begun;  // operands that are live up to here
    for (const auto& r : op.results) live.erase(r.get());
    for (const ir::Value* x : op.operands)
      if (x && live.insert(x)) begun.push_back(x);
    if (const auto it = made_of_.find(&op); it != made_of_.end())
      for (const ir::Value* x : it->second) live.insert(x);
    if (!op.regions.empty() && !op.info().isolates()) walk_regions(op, begun, live, times);
    note_peak(std::max(live.words(), after), times);
    if (op.opcode != Opcode::ConvertLayout && !ir::is_product(op)) continue;
    std::vector<const ir::Value*> written;  // while operands are still read
    for (const auto& r : op.results)
      if (live.insert(r.get())) written.push_back(r.get());
    note_peak(live.words(), times);
    for (const ir::Value* r : written) live.erase(r);
  }
}

// `live`: before an op with regions but for what these use from outside, which is added. `begun`: its operands that are
// not live after it.
void RegisterPressure::walk_regions(const ir::Op& op, const std::vector<const ir::Value*>& begun, Live& live,
                                    double times) {
  const bool loop = op.opcode != Opcode::If;
  std::unordered_set<const ir::Value*> outer;
  for (const auto& region : op.regions) collect_outer(*region, outer);
  std::vector<const ir::Value*> taken_over;  // what a loop begins with becomes its arguments
  if (op.opcode == Opcode::For)
    for (size_t i = 0; i < ir::ForLoop(op).carried(); ++i)
      if (const ir::Value* init = ir::ForLoop(op).init(i); std::find(begun.begin(), begun.end(), init) != begun.end())
        if (live.erase(init)) taken_over.push_back(init);
  if (loop)  // what the body uses from outside is live all the time
    for (const ir::Value* v : outer) live.insert(v);
  for (const auto& region : op.regions) {
    std::vector<const ir::Value*> added;  // what the region uses is live in it alone
    std::copy_if(outer.begin(), outer.end(), std::back_inserter(added),
                 [&](const ir::Value* v) { return !live.contains(v); });
    walk_live(*region, live, loop ? times * values_.trips(op) : times);
    for (const auto& arg : region->args) live.erase(arg.get());
    for (const ir::Value* v : added) live.erase(v);
  }
  for (const ir::Value* v : outer) live.insert(v);
  for (const ir::Value* v : taken_over) live.insert(v);
}

}  // namespace tegula
