#include "kernels/lambda_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "kernels/launch_rules.h"
#include "kernels/library.h"
#include "kernels/recording.h"
#include "runtime/base/check.h"

namespace tegula::kernels::detail {

using tegula::detail::TracedArgs;
using tegula::detail::TracedParam;
using Kind = TracedParam::Kind;

SpaceRecording::SpaceRecording(const TracedArgs& args, const std::vector<TracedParam>& params, int rank, size_t outputs,
                               size_t inputs)
    : args_(args),
      params_(params),
      rank_(rank),
      outputs_(outputs),
      inputs_(inputs),
      same_(constant<int64_t>("SAME")),
      eights_(constant<bool>("EIGHTS")) {}

namespace {

// A value of the kernel is one that is not 1, which is known when it is compiled.
Tile hinted(const Tile& x, bool eights) { return eights && recorded_type(x) ? multiple_of(x, 8) : x; }

}  // namespace

Tile SpaceRecording::extent(int dim) const {
  return hinted(args_.tile(tensors() + size_t(dim)), eights_ && dim == rank_ - 1);
}

Tile SpaceRecording::stride(size_t tensor, int dim) const {
  return hinted(args_.tile(tensors() + size_t(rank_) * (1 + tensor) + size_t(dim)), eights_);
}

Elem SpaceRecording::elem(size_t tensor) const {
  const std::optional<ir::Type> type = recorded_type(pointer(tensor));
  return type ? type->elem : Elem::F32;
}

size_t SpaceRecording::index_of(std::string_view name) const {
  const auto at =
      std::ranges::find(params_, name, [](const TracedParam& p) -> std::string_view { return p.param.name; });
  TEGULA_CHECK(at != params_.end(), "a kernel of a C++ function has no parameter '{}'", name);
  return size_t(at - params_.begin());
}

SpaceKernel::SpaceKernel(Form form, bool numbered, std::vector<const char*> constants)
    : form_(std::move(form)), numbered_(numbered), constants_(std::move(constants)) {}

bool SpaceKernel::in_eights(const IterationSpace& space) {
  const size_t rank = size_t(space.rank);
  bool all = space.extents[rank - 1] % 8 == 0;
  for (size_t i = 0; i < space.tensors; ++i)
    for (size_t d = 0; d < rank; ++d) all = all && (space.strides[i][d] == 1 || space.strides[i][d] % 8 == 0);
  return all;
}

size_t SpaceKernel::first_own(int rank) const {
  const size_t tensors = form_.outputs + form_.inputs;
  return tensors + size_t(rank) * (1 + tensors + (numbered_ ? 1 : 0)) + 4;
}

// Pointers, extents, strides by tensor, what tuning tells launches apart by, the function's own ones, constants. The
// first input is called x_ptr, as the library's texts call it, since their rules of tuning ask for it.
std::vector<TracedParam> SpaceKernel::params(int rank) const {
  std::vector<TracedParam> all;
  std::vector<std::string> names;
  for (size_t i = 0; i < form_.outputs; ++i) names.push_back(fmt::format("out{}", i));
  for (size_t i = 0; i < form_.inputs; ++i) names.push_back(i == 0 ? "x" : fmt::format("in{}", i));
  for (const std::string& name : names) all.push_back({{name + "_ptr"}, Kind::Pointer});
  for (int d = 0; d < rank; ++d) all.push_back({{fmt::format("extent{}", d)}, Kind::Int});
  if (numbered_) names.push_back("number");
  for (const std::string& name : names)
    for (int d = 0; d < rank; ++d) all.push_back({{fmt::format("{}_stride{}", name, d)}, Kind::Int});
  for (const char* name : {"rows", "cols", "rows_class", "cols_class"}) all.push_back({{name}, Kind::Int});
  all.insert(all.end(), form_.own.begin(), form_.own.end());
  for (const char* name : constants_) all.push_back({{name, true}, Kind::Constant});
  return all;
}

Kernel SpaceKernel::make(int rank, bool in_place) const {
  auto all = params(rank);
  auto body = [this, rank, all](const TracedArgs& args) {
    record(SpaceRecording(args, all, rank, form_.outputs, form_.inputs));
  };
  Autotune how = tuning();
  if (in_place)
    for (size_t i = 0; i < form_.outputs; ++i) how.restore_value.push_back(all[i].param.name);
  return Kernel(tegula::detail::traced_source(form_.name, std::move(all), std::move(body), form_.file, form_.line))
      .autotune(std::move(how))
      .heuristics(heuristics());
}

const Kernel& SpaceKernel::kernel(int rank, bool in_place) const {
  Slot& slot = slots_[size_t(rank)][in_place];
  std::call_once(slot.once, [&] { slot.kernel = std::make_unique<Kernel>(make(rank, in_place)); });
  return *slot.kernel;
}

std::vector<Arg> SpaceKernel::arguments(const IterationSpace& space, std::span<const Tensor> outputs,
                                        std::span<const Tensor> inputs, int num_sms, std::span<const Arg> own) const {
  std::vector<Arg> args;
  args.reserve(first_own(space.rank) + own.size());
  for (const Tensor& t : outputs) args.push_back(pointer(&t));
  for (const Tensor& t : inputs) args.push_back(pointer(&t));
  const size_t rank = size_t(space.rank);
  for (size_t d = 0; d < rank; ++d) args.push_back(integer(space.extents[d]));
  for (size_t i = 0; i < space.tensors; ++i)
    for (size_t d = 0; d < rank; ++d) args.push_back(integer(space.strides[i][d]));
  const auto [rows, cols, work] = sizes(space);
  args.insert(args.end(), {integer(rows), integer(cols), integer(rows_class(num_sms, work)),
                           integer(int64_t(std::bit_ceil(uint64_t(cols))))});
  args.insert(args.end(), own.begin(), own.end());
  return args;
}

void SpaceKernel::launch(Device& device, std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         StreamHandle stream, std::span<const Arg> own) const {
  const IterationSpace space = arranged(outputs, inputs);
  if (space.elements() == 0) return;
  bool in_place = false;
  for (const Tensor& out : outputs)
    for (const Tensor& in : inputs) in_place = in_place || out.address == in.address;
  const int num_sms = device.info().num_sms;
  auto programs = [&](const Config& config) { return grid(space, config, num_sms); };
  const LaunchOptions options{.constexprs = flags(space), .stream = stream};
  kernel(space.rank, in_place)
      .launch(device, tegula::detail::GridRef(programs), options, arguments(space, outputs, inputs, num_sms, own));
}

}  // namespace tegula::kernels::detail
