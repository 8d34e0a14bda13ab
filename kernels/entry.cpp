#include "kernels/entry.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "kernels/launch_rules.h"
#include "kernels/products.h"
#include "kernels/signature.h"
#include "runtime/base/check.h"
#include "runtime/base/diag.h"

namespace tegula::kernels {

using detail::shape_text;

namespace {

std::vector<Entry> read_entries() {
  using namespace rules;
  std::vector<Entry> all{
#define TEGULA_KERNEL(name, formula, file, kernel, fixed, rule, signature) \
  Entry{#name, formula, signature, file, kernel, fixed, &rule, nullptr},
#define TEGULA_FUNCTION(name, formula, function, signature) \
  Entry{#name, formula, signature, nullptr, nullptr, "", nullptr, &function},
#include "kernels/kernels.def"
  };
  for (Entry& entry : all) detail::read_signature(entry);
  return all;
}

std::string elems_text(const OperandInfo& info) {
  std::vector<std::string> names;
  if (info.variable && info.variable != 'H') names.emplace_back("float32");
  if (info.variable) names.insert(names.end(), {"float16", "bfloat16"});
  for (Elem elem : info.elems) names.emplace_back(elem_info(elem).tl);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Joins the first two extents if their elements lie as those of one do.
bool join_leading(Tensor& t) {
  const bool joined = t.shape[0] == 1 || t.shape[1] == 1 || t.strides[0] == t.strides[1] * t.shape[1];
  if (!joined) return false;
  const int64_t stride = t.shape[1] == 1 ? t.strides[0] : t.strides[1];
  t.shape[1] *= t.shape[0];
  t.strides[1] = stride;
  std::copy(t.shape.begin() + 1, t.shape.end(), t.shape.begin());
  std::copy(t.strides.begin() + 1, t.strides.end(), t.strides.begin());
  --t.rank;
  return true;
}

void add_leading(Tensor& t) {
  std::copy_backward(t.shape.begin(), t.shape.end() - 1, t.shape.end());
  std::copy_backward(t.strides.begin(), t.strides.end() - 1, t.strides.end());
  t.shape[0] = 1;
  t.strides[0] = t.rank > 0 ? t.shape[1] * t.strides[1] : 1;
  ++t.rank;
}

}  // namespace

std::string detail::shape_text(const Tensor& t) {
  if (t.rank <= 1) return fmt::format("has {} elements", t.elements());
  return fmt::format("is {}", fmt::join(t.shape.begin(), t.shape.begin() + t.rank, " x "));
}

Tensor::Tensor(uint64_t address, Elem elem, std::initializer_list<int64_t> extents) : address(address), elem(elem) {
  if (extents.size() > kMaxRank)
    throw LaunchError(fmt::format("a tensor of {} extents, expected {} at most", extents.size(), kMaxRank));
  rank = int(extents.size());
  std::copy(extents.begin(), extents.end(), shape.begin());
  int64_t stride = 1;
  for (int i = rank - 1; i >= 0; --i) {
    strides[size_t(i)] = stride;
    stride *= shape[size_t(i)];
  }
}

bool Tensor::same_layout(const Tensor& other) const {
  if (elem != other.elem || rank != other.rank || shape != other.shape) return false;
  for (size_t i = 0; i < size_t(rank); ++i)
    if (shape[i] > 1 && strides[i] != other.strides[i]) return false;
  return true;
}

int Entry::find_operand(std::string_view operand) const {
  const auto at = std::ranges::find(operands, operand, &OperandInfo::name);
  return at == operands.end() ? -1 : int(at - operands.begin());
}

int Entry::find_dim(std::string_view dim) const {
  const auto at = std::ranges::find(dims, dim);
  return at == dims.end() ? -1 : int(at - dims.begin());
}

std::span<const Entry> entries() {
  static const std::vector<Entry> all = read_entries();
  return all;
}

const Entry& find_entry(std::string_view name) {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) {
    if (entry.name == name) return entry;
    names.emplace_back(entry.name);
  }
  const auto nearest = nearest_name(name, names);
  throw LaunchError(fmt::format(
      "the kernel library has no '{}'\n  hint: {}", name,
      nearest ? fmt::format("did you mean '{}'?", *nearest) : fmt::format("it has {}", fmt::join(names, ", "))));
}

BoundCall::BoundCall(const Entry& entry, std::span<const Operand> operands) : entry_(entry) {
  if (operands.size() > entry.operands.size())
    refuse(fmt::format("takes {} operands, found {}", entry.operands.size(), operands.size()));
  extent_from_.fill(-1);
  elem_from_.fill(-1);
  extents_.fill(0);
  for (size_t i = 0; i < entry.operands.size(); ++i) bind(i, i < operands.size() ? operands[i] : Operand());
  if (!empty()) settle_addresses();
  check_sharing();
}

// Refuses tensors without memory. One without elements needs none; to a kernel an address that is not null says that it
// is there.
void BoundCall::settle_addresses() {
  uint64_t written = 0;
  for (size_t i = 0; i < entry_.operands.size() && !written; ++i)
    if (const Tensor* t = tensor(i); t && entry_.operands[i].written) written = t->address;
  for (size_t i = 0; i < entry_.operands.size(); ++i) {
    Tensor* t = std::get_if<Tensor>(&operands_[i].value);
    if (!t || t->address) continue;
    if (t->elements() > 0) refuse(fmt::format("{} has no address", entry_.operands[i].name));
    if (entry_.kernel) t->address = written;
  }
}

void BoundCall::refuse(const std::string& why) const { throw LaunchError(fmt::format("{}: {}", entry_.name, why)); }

void BoundCall::bind(size_t i, const Operand& given) {
  using Kind = OperandInfo::Kind;
  const OperandInfo& info = entry_.operands[i];
  if (!given.given()) {
    // A matrix without extents and address counts as given: there is nothing to do.
    const bool required = !info.optional;
    if (required && info.kind == Kind::Tensor && i == 0) {
      Tensor nothing;
      nothing.rank = int(info.extents.size());
      return bind_tensor(i, nothing);
    }
    if (required && !(info.kind == Kind::Tensor && empty())) refuse(fmt::format("{} is not given", info.name));
    operands_[i] = info.fallback;
    return;
  }
  const char* expected = "a tensor";
  switch (info.kind) {
    case Kind::Tensor:
      if (const Tensor* t = std::get_if<Tensor>(&given.value)) return bind_tensor(i, *t);
      break;
    case Kind::Choice:
      return bind_choice(i, given);
    case Kind::Int:
      expected = "an integer";
      if (const int64_t* n = std::get_if<int64_t>(&given.value)) return bind_number(i, double(*n), given);
      break;
    case Kind::Float:
      expected = "a number";
      if (const double* f = std::get_if<double>(&given.value)) return bind_number(i, *f, given);
      if (const int64_t* n = std::get_if<int64_t>(&given.value)) return bind_number(i, double(*n), double(*n));
      break;
    case Kind::Bool:
      expected = "a bool";
      if (std::holds_alternative<bool>(given.value)) return void(operands_[i] = given);
      if (const int64_t* n = std::get_if<int64_t>(&given.value); n && (*n == 0 || *n == 1))
        return void(operands_[i] = Operand(*n == 1));
      break;
  }
  refuse(fmt::format("{} is not {}", info.name, expected));
}

void BoundCall::bind_number(size_t i, double value, const Operand& given) {
  const OperandInfo& info = entry_.operands[i];
  if ((info.least && !(value >= *info.least)) || (info.most && !(value <= *info.most)))
    refuse(fmt::format("{} is {}, expected {} {}", info.name, value, info.least.value_or(-INFINITY),
                       info.most ? fmt::format("to {}", *info.most) : "or more"));
  operands_[i] = given;
}

void BoundCall::bind_choice(size_t i, const Operand& given) {
  const OperandInfo& info = entry_.operands[i];
  if (const auto* choice = std::get_if<Operand::Choice>(&given.value);
      choice && choice->index >= 0 && choice->index < int64_t(info.choices.size()))
    return void(operands_[i] = given);
  std::optional<std::string> text;
  if (const auto* name = std::get_if<std::string_view>(&given.value)) text = *name;
  if (const auto* number = std::get_if<int64_t>(&given.value))
    text = std::to_string(*number);  // choices may be numbers
  if (text)
    if (const auto at = std::ranges::find(info.choices, *text); at != info.choices.end())
      return void(operands_[i].value = Operand::Choice{at - info.choices.begin()});
  refuse(fmt::format("{} is {}, expected one of {}", info.name, text ? fmt::format("'{}'", *text) : "no such choice",
                     fmt::join(info.choices, ", ")));
}

void BoundCall::bind_tensor(size_t i, Tensor t) {
  const OperandInfo& info = entry_.operands[i];
  const Tensor given = t;
  while (t.rank > int(info.extents.size()) && t.rank > 1)
    if (!join_leading(t))
      refuse(fmt::format("{} {}, but its elements do not lie as those of a tensor of {} extents", info.name,
                         shape_text(given), info.extents.size()));
  while (t.rank < int(info.extents.size())) add_leading(t);
  bind_elem(info, t);
  bind_extents(info, t);
  check_memory(info, t);
  operands_[i].value = t;
}

void BoundCall::bind_elem(const OperandInfo& info, const Tensor& t) {
  if (std::ranges::find(info.elems, t.elem) != info.elems.end()) return;
  const bool floating = (t.elem == Elem::F32 && info.variable != 'H') || t.elem == Elem::F16 || t.elem == Elem::BF16;
  if (!info.variable || !floating)
    refuse(fmt::format("{} has elements of type {}, expected {}", info.name, elem_info(t.elem).tl, elems_text(info)));
  int& from = elem_from_[size_t(info.variable - 'A')];
  const Tensor* first = from < 0 ? nullptr : tensor(size_t(from));
  if (first && first->elem != t.elem)
    refuse(fmt::format("{} has elements of type {}, but {} has elements of type {}", info.name, elem_info(t.elem).tl,
                       entry_.operands[size_t(from)].name, elem_info(first->elem).tl));
  if (!first) from = int(&info - entry_.operands.data());
}

void BoundCall::bind_extents(const OperandInfo& info, const Tensor& t) {
  for (size_t d = 0; d < info.extents.size(); ++d)
    if (t.shape[d] < 0 || t.shape[d] > Tensor::kMostExtent)
      refuse(fmt::format("{} {}, expected extents from 0 to {}", info.name, shape_text(t), Tensor::kMostExtent));
  for (size_t d = 0; d < info.extents.size(); ++d) {
    const auto [dim, count] = info.extents[d];
    if (dim < 0) {
      if (t.shape[d] != count)
        refuse(fmt::format("extent {} of {} is {}, expected {}", d, info.name, t.shape[d], count));
      continue;
    }
    int& from = extent_from_[size_t(dim)];
    if (from < 0) {
      from = int(&info - entry_.operands.data());
      extents_[size_t(dim)] = t.shape[d];
    } else if (extents_[size_t(dim)] != t.shape[d]) {
      const Tensor* first = from == int(&info - entry_.operands.data()) ? &t : tensor(size_t(from));
      refuse(fmt::format("{} {}, but {} {}\n  hint: both have the same number of {}", info.name, shape_text(t),
                         entry_.operands[size_t(from)].name, shape_text(*first), entry_.dims[size_t(dim)]));
    }
  }
}

void BoundCall::check_memory(const OperandInfo& info, const Tensor& t) const {
  if (t.elements() == 0) return;
  const size_t last = size_t(t.rank) - 1;
  if (!info.any_strides && t.rank > 0 && t.shape[last] > 1 && t.strides[last] != 1)
    refuse(
        fmt::format("the elements of a row of {} lie {} apart, expected side by side\n  hint: pass a contiguous copy",
                    info.name, t.strides[last]));
  for (size_t d = 0; d < size_t(t.rank); ++d)
    if (t.strides[d] < 0)
      refuse(fmt::format("{} has the negative stride {}\n  hint: pass a contiguous copy", info.name, t.strides[d]));
  if (info.any_strides) return;
  for (size_t d = 0; d < last && t.rank > 0; ++d)
    if (t.shape[d] > 1 && t.strides[d] < t.shape[last])
      refuse(fmt::format("the rows of {} overlap: they have {} elements and lie {} apart", info.name, t.shape[last],
                         t.strides[d]));
}

void BoundCall::check_sharing() {
  for (size_t w = 0; w < entry_.operands.size(); ++w) {
    const Tensor* written = tensor(w);
    if (!entry_.operands[w].written || !written || !written->address || written->elements() == 0) continue;
    for (size_t i = 0; i < entry_.operands.size(); ++i) {
      const Tensor* other = tensor(i);
      if (i == w || !other || other->address != written->address || other->elements() == 0) continue;
      if (entry_.operands[i].written) {
        if (i > w)
          refuse(fmt::format("{} and {} are the same memory", entry_.operands[w].name, entry_.operands[i].name));
        continue;
      }
      if (entry_.operands[w].alone)
        refuse(
            fmt::format("{} is {}, which other programs still read", entry_.operands[w].name, entry_.operands[i].name));
      in_place_ = true;
      if (!written->same_layout(*other))
        refuse(fmt::format("{} is {} in place, which needs equal types and strides", entry_.operands[w].name,
                           entry_.operands[i].name));
    }
  }
}

size_t BoundCall::index_of(std::string_view name) const {
  const int i = entry_.find_operand(name);
  TEGULA_CHECK(i >= 0, "the library's entry '{}' has no operand '{}'", entry_.name, name);
  return size_t(i);
}

int64_t BoundCall::extent(std::string_view dim) const {
  const int i = entry_.find_dim(dim);
  TEGULA_CHECK(i >= 0, "the library's entry '{}' has no extent '{}'", entry_.name, dim);
  return extents_[size_t(i)];
}

const Tensor* BoundCall::tensor(std::string_view name) const { return tensor(index_of(name)); }
int64_t BoundCall::integer(std::string_view name) const { return std::get<int64_t>(operands_[index_of(name)].value); }
double BoundCall::number(std::string_view name) const { return std::get<double>(operands_[index_of(name)].value); }
bool BoundCall::flag(std::string_view name) const { return std::get<bool>(operands_[index_of(name)].value); }
int64_t BoundCall::choice(std::string_view name) const {
  return std::get<Operand::Choice>(operands_[index_of(name)].value).index;
}
const std::string& BoundCall::choice_name(std::string_view name) const {
  return entry_.operands[index_of(name)].choices[size_t(choice(name))];
}

std::vector<Operand> BoundCall::part(std::string_view dim, int64_t first, int64_t count) const {
  const int divided = entry_.find_dim(dim);
  std::vector<Operand> all(operands_.begin(), operands_.begin() + std::ptrdiff_t(entry_.operands.size()));
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& extents = entry_.operands[i].extents;
    if (!tensor(i) || extents.empty() || extents[0].dim != divided) continue;
    Tensor t = *tensor(i);
    t.address += uint64_t(first * t.strides[0]) * elem_bytes(t.elem);
    t.shape[0] = count;
    all[i] = t;
  }
  return all;
}

bool BoundCall::empty() const {
  for (size_t i = 0; i < entry_.operands.size(); ++i)
    if (const Tensor* t = tensor(i); t && entry_.operands[i].written && t->elements() > 0) return false;
  return true;
}

}  // namespace tegula::kernels
