// The kernel library through the C interface: entries and their operands by name.
#include <fmt/ranges.h>

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "bindings/runtime/common.h"
#include "bindings/tegula.h"
#include "kernels/entry.h"
#include "runtime/base/diag.h"

using namespace tegula;
using namespace tegula::bindings;

namespace {

const kernels::Entry& entry_at(size_t index) {
  const auto all = kernels::entries();
  if (index >= all.size()) throw UsageError(fmt::format("entry {} of a library with {}", index, all.size()));
  return all[index];
}

tegula_kind kind_of(kernels::OperandInfo::Kind kind) {
  using Kind = kernels::OperandInfo::Kind;
  switch (kind) {
    case Kind::Tensor:
      return TEGULA_TENSOR;
    case Kind::Int:
      return TEGULA_INT;
    case Kind::Float:
      return TEGULA_DOUBLE;
    case Kind::Bool:
      return TEGULA_BOOL;
    case Kind::Choice:
      return TEGULA_STRING;
  }
  return TEGULA_NONE;
}

kernels::Tensor tensor_of(const tegula_value& value) {
  const tegula_tensor& given_tensor = given(value.as.n, "as.n");
  const int rank = given_tensor.rank;
  if (rank < 0 || rank > kernels::Tensor::kMaxRank)
    throw UsageError(fmt::format("a tensor of rank {}, expected 0 to {}", rank, kernels::Tensor::kMaxRank));
  kernels::Tensor t;
  t.address = given_tensor.address;
  t.elem = elem_of(value.dtype);
  t.rank = rank;
  if (rank) given(given_tensor.shape, "shape");
  int64_t stride = 1;
  for (size_t i = size_t(rank); i-- > 0;) {
    t.shape[i] = given_tensor.shape[i];
    t.strides[i] = given_tensor.strides ? given_tensor.strides[i] : stride;
    stride *= t.shape[i];
  }
  if (rank == 0) {  // a number in memory
    t.rank = 1;
    t.shape[0] = t.strides[0] = 1;
  }
  return t;
}

kernels::Operand operand_of(const tegula_value& value) {
  switch (value.kind) {
    case TEGULA_NONE:
      return {};
    case TEGULA_TENSOR:
      return tensor_of(value);
    case TEGULA_INT:
      return value.as.i;
    case TEGULA_UINT:  // a seed of 64 bits
      return int64_t(value.as.u);
    case TEGULA_DOUBLE:
      return value.as.d;
    case TEGULA_BOOL:
      return value.as.i != 0;
    case TEGULA_STRING:
      return std::string_view(&given(value.as.s, "as.s"));
  }
  throw UsageError(fmt::format(
      "a value of tegula_kind {}, expected an operand: none, tensor, int, double, bool or string", value.kind));
}

// The operand's number; the error for a name that the entry lacks has the nearest one.
size_t number_of(const kernels::Entry& entry, std::string_view name) {
  const int number = entry.find_operand(name);
  if (number >= 0) return size_t(number);
  std::vector<std::string> names;
  for (const kernels::OperandInfo& info : entry.operands) names.push_back(info.name);
  const auto nearest = nearest_name(name, names);
  throw LaunchError(fmt::format(
      "{} has no operand '{}'\n  hint: {}", entry.name, name,
      nearest ? fmt::format("did you mean '{}'?", *nearest) : fmt::format("it has {}", fmt::join(names, ", "))));
}

}  // namespace

extern "C" {

size_t tegula_num_entries(void) { return kernels::entries().size(); }

tegula_status tegula_entry(size_t index, tegula_entry_facts* facts) {
  return guarded([&] {
    const kernels::Entry& entry = entry_at(index);
    fill(facts, {0, entry.name, entry.formula, entry.signature, entry.operands.size()});
  });
}

tegula_status tegula_entry_operand(size_t index, size_t operand, tegula_operand_facts* facts) {
  return guarded([&] {
    const kernels::Entry& entry = entry_at(index);
    if (operand >= entry.operands.size())
      throw UsageError(fmt::format("operand {} of {}, which has {}", operand, entry.name, entry.operands.size()));
    const kernels::OperandInfo& info = entry.operands[operand];
    fill(facts, {0, info.name.c_str(), kind_of(info.kind), info.written, info.optional});
  });
}

tegula_status tegula_call(tegula_device* device, const char* entry, tegula_stream stream,
                          const tegula_operand* operands, size_t num_operands) {
  return guarded([&] {
    const kernels::Entry& found = kernels::find_entry(&given(entry, "entry"));
    if (num_operands) given(operands, "operands");
    std::array<kernels::Operand, kernels::BoundCall::kMaxOperands> values;
    for (size_t i = 0; i < num_operands; ++i)
      values[number_of(found, &given(operands[i].name, "operands[].name"))] = operand_of(operands[i].value);
    kernels::run(*given(device, "device").device, found, std::span(values).first(found.operands.size()), stream);
  });
}

}  // extern "C"
