#include "codegen/explain/byte_runs.h"

#include <algorithm>
#include <optional>

namespace tegula::explaining {

using Term = IndexTile::Term;

namespace {

// The axis along which elements lie side by side while nothing else varies along it, with the elements of it that the
// mask leaves.
struct Line {
  int axis;
  int64_t step, low, high;
};

bool along(const Term& term, int axis) {
  return std::find(term.axes.begin(), term.axes.end(), axis) != term.axes.end();
}

std::optional<Line> find_line(const Access& access) {
  for (const Term& t : access.pointers->terms()) {
    if (t.form != Term::Form::Affine || std::abs(t.step) != access.element_bytes) continue;
    Line line{t.axes[0], t.step, 0, access.pointers->shape()[size_t(t.axes[0])]};
    bool alone = true;
    for (const Term& other : access.pointers->terms()) alone &= &other == &t || !along(other, line.axis);
    if (access.mask)
      for (const Term& m : access.mask->terms()) {
        if (!along(m, line.axis)) continue;
        if (m.form == Term::Form::Interval)
          line.low = m.low, line.high = m.high;
        else
          alone = false;
      }
    if (alone) return line;
  }
  return std::nullopt;
}

std::vector<int> axes_but(const Access& access, int axis) {
  std::vector<int> axes = access.pointers->axes();
  if (access.mask)
    for (int a : access.mask->axes()) axes.push_back(a);
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  std::erase(axes, axis);
  return axes;
}

void sort_and_join(std::vector<Interval>& runs) {
  if (!std::is_sorted(runs.begin(), runs.end())) std::sort(runs.begin(), runs.end());
  size_t kept = 0;
  for (const Interval& r : runs) {
    if (kept && r.first <= runs[kept - 1].second)
      runs[kept - 1].second = std::max(runs[kept - 1].second, r.second);
    else
      runs[kept++] = r;
  }
  runs.resize(kept);
}

// The tile without what varies along `axis`.
IndexTile without(const IndexTile& tile, int axis) {
  IndexTile rest = IndexTile::scalar(tile.base(), tile.shape(), tile.is_bool());
  for (const Term& t : tile.terms())
    if (!along(t, axis)) rest.append(t);
  return rest;
}

}  // namespace

std::vector<Interval> byte_runs(const Access& access, int64_t& useful) {
  std::vector<Interval> runs;
  const std::optional<Line> line = find_line(access);
  const int axis = line ? line->axis : -1;
  const std::vector<int> axes = axes_but(access, axis);
  const IndexTile pointers = line ? without(*access.pointers, axis) : *access.pointers;
  const std::vector<int64_t> begins = pointers.table(axes);
  std::vector<int64_t> holds;
  if (access.mask) holds = (line ? without(*access.mask, axis) : *access.mask).table(axes);
  const int64_t first = !line ? 0 : line->step > 0 ? line->low * line->step : (line->high - 1) * line->step;
  const int64_t bytes = line ? (line->high - line->low) * access.element_bytes : access.element_bytes;
  for (size_t i = 0; i < begins.size(); ++i)
    if (holds.empty() || holds[i]) runs.emplace_back(begins[i] + first, begins[i] + first + bytes);
  sort_and_join(runs);
  useful = total(runs);
  return runs;
}

std::vector<Interval> in_units(const std::vector<Interval>& runs, int64_t unit) {
  std::vector<Interval> whole = runs;
  for (Interval& r : whole) r = {r.first / unit * unit, (r.second + unit - 1) / unit * unit};
  sort_and_join(whole);
  return whole;
}

int64_t total(const std::vector<Interval>& runs) {
  int64_t bytes = 0;
  for (const Interval& r : runs) bytes += r.second - r.first;
  return bytes;
}

int64_t ByteSet::insert(Interval interval) {
  int64_t inside = 0;
  auto at = ends_.upper_bound(interval.first);
  if (at != ends_.begin()) {
    const auto before = std::prev(at);
    if (before->second >= interval.second) return 0;
    if (before->second >= interval.first) at = before;
  }
  auto [begin, end] = interval;
  while (at != ends_.end() && at->first <= interval.second) {
    inside += std::min(at->second, interval.second) - std::max(at->first, interval.first);
    begin = std::min(begin, at->first), end = std::max(end, at->second);
    at = ends_.erase(at);
  }
  ends_.emplace_hint(at, begin, end);
  const int64_t added = interval.second - interval.first - inside;
  size_ += added;
  return added;
}

bool ByteSet::intersects(Interval interval) const {
  auto at = ends_.lower_bound(interval.second);
  return at != ends_.begin() && std::prev(at)->second > interval.first;
}

std::vector<Interval> ByteSet::intervals() const { return {ends_.begin(), ends_.end()}; }

}  // namespace tegula::explaining
