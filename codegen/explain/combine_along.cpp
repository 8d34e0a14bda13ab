// Reductions and scans of index arithmetic, element by element.
#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "codegen/explain/index_tile.h"

namespace tegula::explaining {

namespace {

using Group = std::vector<int64_t>;

// What the region makes of two groups; nullopt where it is no index arithmetic.
std::optional<Group> combined(const ir::Block& region, const Group& a, const Group& b) {
  std::unordered_map<const ir::Value*, int64_t> values;
  for (size_t i = 0; i < region.args.size(); ++i) values[region.args[i].get()] = i < a.size() ? a[i] : b[i - a.size()];
  for (const auto& op : region.ops) {
    Group in;
    for (const ir::Value* x : op->operands) in.push_back(values[x]);
    if (op->has(ir::Terminator)) return in;
    if (op->results.size() != 1 || !op->regions.empty()) return std::nullopt;
    const std::optional<int64_t> value = evaluate(*op, in.data());
    if (!value) return std::nullopt;
    values[op->result()] = *value;
  }
  return std::nullopt;
}

}  // namespace

std::vector<IndexTile> combine_along(const ir::Op& op, const std::vector<const IndexTile*>& operands) {
  std::vector<IndexTile> unknown(op.results.size());
  for (const IndexTile* x : operands)
    if (!x->known()) return unknown;
  const ir::Shape& shape = op.operand(0)->type.shape;
  const size_t axis = size_t(op.get(ir::attr::axis));
  const bool scans = op.info().combines_in_order();
  std::vector<int> all(shape.size());
  std::iota(all.begin(), all.end(), 0);
  std::vector<Group> tables;
  for (const IndexTile* x : operands) tables.push_back(x->table(all));

  int64_t below = 1;  // elements between neighbours along the axis
  for (size_t a = axis + 1; a < shape.size(); ++a) below *= shape[a];
  const int64_t n = shape[axis], count = int64_t(tables[0].size());
  std::vector<Group> out(operands.size(), Group(size_t(scans ? count : count / n)));
  const bool reverse = scans && op.get(ir::attr::reverse);
  for (int64_t line = 0; line < count / n; ++line) {
    const int64_t start = line / below * below * n + line % below;
    Group sum;
    for (int64_t k = 0; k < n; ++k) {
      const size_t at = size_t(start + (reverse ? n - 1 - k : k) * below);
      Group next;
      for (const Group& t : tables) next.push_back(t[at]);
      const std::optional<Group> value = k == 0 ? std::optional(next) : combined(*op.regions[0], sum, next);
      if (!value) return unknown;
      sum = *value;
      for (size_t i = 0; scans && i < out.size(); ++i) out[i][at] = sum[i];
    }
    for (size_t i = 0; !scans && i < out.size(); ++i) out[i][size_t(line)] = sum[i];
  }
  std::vector<IndexTile> results;
  for (size_t i = 0; i < op.results.size(); ++i) {
    const ir::Type& type = op.result(int(i))->type;
    if (type.shape.empty()) {
      results.push_back(IndexTile::scalar(out[i][0], {}, type.is_bool()));
      continue;
    }
    std::vector<int> axes(type.shape.size());
    std::iota(axes.begin(), axes.end(), 0);
    results.push_back(IndexTile::of_table(type.shape, axes, std::move(out[i]), type.is_bool()));
  }
  return results;
}

}  // namespace tegula::explaining
