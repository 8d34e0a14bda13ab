#include "codegen/analysis/async_groups.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "codegen/ir/flow.h"

namespace tegula {

using namespace ir;

namespace {

bool is_group(const Value* v) { return v->type.completion == Completion::Group; }

// A forward data-flow analysis over the structure of the program. At joins the fewest groups count: to wait for more
// than necessary is safe.
class GroupCount {
 public:
  using Since = std::unordered_map<const Value*, int64_t>;  ///< groups committed since each token's own

  void block(const Block& block, Since& since) {
    for (auto& op : block.ops) visit(*op, since);
  }

  std::unordered_map<const Op*, int64_t> waits;

 private:
  void visit(const Op& op, Since& since) {
    switch (op.opcode) {
      case Opcode::AsyncCommit:
        if (!is_group(op.result())) return;
        for (auto& [token, groups] : since) ++groups;
        since[op.result()] = 0;
        return;
      case Opcode::AsyncWait:
        if (!is_group(op.operand(0))) return;
        waits[&op] = since.at(op.operand(0));
        for (const Value* token : op.operands) waits[&op] = std::min(waits[&op], since.at(token));
        return;
      case Opcode::For:
      case Opcode::While:
        return loop(op, since);
      case Opcode::If: {
        Since other = since;
        for (int side : {0, 1}) {
          Since& branch = side ? other : since;
          block(*op.regions[side], branch);
          hand_on(*op.regions[side]->terminator(), branch, branch);
        }
        join(since, other);
        return;
      }
      case Opcode::CopyWarps: {  // they count their own
        Since none;
        return block(*op.regions[0], none);
      }
      default:
        return;
    }
  }

  // Numbers only fall from round to round.
  void loop(const Op& op, Since& since) {
    hand_on(op, since, since);
    Since left;  // the results, as the regions hand them on
    for (bool changed = true; changed;) {
      const Since before = since;
      Since after = since;
      for (auto& region : op.regions) {
        block(*region, after);
        hand_on(*region->terminator(), after, after);
        for (auto& result : op.results)
          if (auto token = after.extract(result.get())) left[result.get()] = token.mapped();
      }
      join(since, after);
      changed = since != before;
    }
    for (auto& [result, groups] : left) {
      auto known = since.try_emplace(result, groups).first;
      known->second = std::min(known->second, groups);
    }
  }

  // What receives tokens of the op: since when these are.
  static void hand_on(const Op& op, const Since& from, Since& into) {
    std::vector<std::pair<const Value*, int64_t>> passed;  // at a time: a token may move on to where another one was
    for (const Flow& flow : flows(op.has(Terminator) ? *op.parent->parent : op))
      for (const Flow::From& source : flow.from)
        for (size_t i = 0; source.op == &op && i < source.size(); ++i)
          if (is_group(source[i]))
            for (const Flow::To& to : flow.to) passed.emplace_back(to[i], from.at(source[i]));
    for (auto& [value, groups] : passed) into[value] = groups;
  }

  static void join(Since& into, const Since& other) {
    for (auto& [token, groups] : into)
      if (auto it = other.find(token); it != other.end()) groups = std::min(groups, it->second);
  }
};

}  // namespace

std::unordered_map<const Op*, int64_t> groups_since(const Func& func) {
  GroupCount count;
  GroupCount::Since none;
  count.block(func.body, none);
  return std::move(count.waits);
}

}  // namespace tegula
