#include "codegen/analysis/async_groups.h"

#include <algorithm>

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
        return loop(op, *op.regions[0], 1, since);
      case Opcode::While:
        return loop(op, *op.regions[0], 0, since);
      case Opcode::If: {
        Since other = since;
        for (int side : {0, 1}) {
          Since& branch = side ? other : since;
          block(*op.regions[side], branch);
          pass(op.regions[side]->terminator()->operands, 0, op.results, 0, branch, branch);
        }
        join(since, other);
        return;
      }
      default:
        return;
    }
  }

  // Numbers only fall from round to round.
  void loop(const Op& op, const Block& head, size_t first_arg, Since& since) {
    const size_t first_init = op.opcode == Opcode::For ? kForBounds : 0;
    pass(op.operands, first_init, head.args, first_arg, since, since);
    for (;;) {
      Since after = since;
      block(head, after);
      const Block* last = &head;
      if (op.opcode == Opcode::While) {
        last = op.regions[1].get();
        pass(head.terminator()->operands, 1, last->args, 0, after, after);
        pass(head.terminator()->operands, 1, op.results, 0, after, results_);
        block(*last, after);
      }
      Since around = after;
      pass(last->terminator()->operands, 0, head.args, first_arg, after, around);
      const Since before = since;
      join(since, around);
      if (since == before) break;
    }
    if (op.opcode == Opcode::For) {
      for (size_t i = 0; i < op.results.size(); ++i)
        if (is_group(op.result(int(i)))) since[op.result(int(i))] = since.at(head.args[first_arg + i].get());
    } else {
      for (auto& result : op.results)
        if (is_group(result.get())) since[result.get()] = results_.at(result.get());
    }
  }

  // What receives tokens: since when these are.
  static void pass(const std::vector<Value*>& tokens, size_t begin, const std::vector<std::unique_ptr<Value>>& to,
                   size_t first, const Since& from, Since& into) {
    std::vector<std::pair<const Value*, int64_t>> passed;  // at a time: a token may move on to where another one was
    for (size_t i = begin; i < tokens.size(); ++i)
      if (is_group(tokens[i])) passed.emplace_back(to[first + i - begin].get(), from.at(tokens[i]));
    for (auto& [value, groups] : passed) into[value] = groups;
  }

  static void join(Since& into, const Since& other) {
    for (auto& [token, groups] : into)
      if (auto it = other.find(token); it != other.end()) groups = std::min(groups, it->second);
  }

  Since results_;  // of While loops: of their last rounds
};

}  // namespace

std::unordered_map<const Op*, int64_t> groups_since(const Func& func) {
  GroupCount count;
  GroupCount::Since none;
  count.block(func.body, none);
  return std::move(count.waits);
}

}  // namespace tegula
