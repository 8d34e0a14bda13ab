#include "kernels/spread_weights.h"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>

#include "kernels/gemm_kernel.h"
#include "kernels/library.h"

namespace tegula::kernels::detail {

namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The kernel of spread_weights.py for what a call's weights are, made at its first use.
const FlaggedKernel& spreading(const BoundCall& call) {
  constexpr size_t kFormats = 3, kGroups = 4;
  struct Slot {
    std::once_flag once;
    std::unique_ptr<FlaggedKernel> kernel;
  };
  static std::array<Slot, kFormats * kGroups> slots;
  Slot& slot = slots[size_t(call.choice("packed")) * kGroups + size_t(call.choice("group"))];
  std::call_once(slot.once, [&] {
    const std::vector<ConstexprArg> flags{{"PACKED", call.choice_name("packed")},
                                          {"GROUP", int64_t(std::stoll(call.choice_name("group")))}};
    slot.kernel = std::make_unique<FlaggedKernel>("spread_weights.py", "spread_weights", flags);
  });
  return *slot.kernel;
}

// activation(a b * scale + offset): a scale and, if it is there, an offset a column.
template <Activation activation>
const auto& scaled_product() {
  static const auto kernel =
      gemm_kernel("scaled_product", [](Tile acc, const GemmTile& at, Ptr<"scale_ptr"> scale, Ptr<"offset_ptr"> offset) {
        const Tile scaled = acc * at.of_columns(scale);
        const Tile sum = if_(
            offset != none, [&] { return scaled + at.of_columns(offset); }, [&] { return scaled; });
        return activated(sum, activation);
      });
  return kernel;
}

// What the columns of c from `first` on take of the call's operands.
struct Columns {
  Columns(const BoundCall& call, int64_t first, int64_t count)
      : c(part(*call.tensor("out"), first, 1, count)),
        b(part(*call.tensor("b"), first, 0, count)),
        scales(part(*call.tensor("scales"), first, 0, count)) {
    if (const Tensor* t = call.tensor("zeros")) zeros = part(*t, first, 0, count);
    if (const Tensor* t = call.tensor("bias")) bias = part(*t, first, 0, count);
  }

  Tensor c, b, scales, zeros = {}, bias = {};

 private:
  static Tensor part(Tensor t, int64_t first, size_t dim, int64_t count) {
    t.address += uint64_t(first * t.strides[dim]) * elem_bytes(t.elem);
    t.shape[dim] = count;
    return t;
  }
};

void multiply_columns(Device& device, const BoundCall& call, StreamHandle stream, const Columns& of) {
  const Tensor& a = *call.tensor("a");
  const bool grouped = call.choice_name("group") != "0";
  const int64_t rows = of.c.shape[1], depth = a.shape[1];
  const AnyMatrix weights(0, a.elem, rows, depth, depth);
  AnyGemmOptions options;
  options.transpose_b = true;
  options.make_b = [&](uint64_t address) {
    AnyMatrix made = weights;
    made.address = address;
    auto stride = [](const Tensor& t) { return integer(t.address ? t.strides[0] : 0); };
    const auto grid = [&](const Config& config) {
      return Grid{unsigned(ceil_div(rows, config["ROWS"]) * ceil_div(depth, config["COLS"]))};
    };
    spreading(call).launch(
        device, tegula::detail::GridRef(grid), stream,
        std::array<Arg, 10>{pointer(made), pointer(&of.b), pointer(&of.scales), pointer(&of.zeros), integer(rows),
                            integer(depth), integer(made.stride), stride(of.b), stride(of.scales), stride(of.zeros)});
  };
  const auto activation = Activation(call.choice("epilogue"));
  if (grouped) {
    options.epilogue = activation;
    if (of.bias.address) options.bias = {of.bias.address, of.bias.elem, rows};
    gemm(device, matrix(of.c), matrix(a), weights, options, stream);
    return;
  }
  with_activation(activation, [&](auto chosen_one) {
    scaled_product<chosen_one()>().launch_any(device, matrix(of.c), matrix(a), weights, options, stream,
                                              pointer(&of.scales), pointer(&of.bias));
  });
}

}  // namespace

bool has_scales_of_a(const BoundCall& call) {
  const Elem a = call.tensor("a")->elem, scales = call.tensor("scales")->elem;
  return scales == a || (scales == Elem::U8 && a == Elem::BF16);
}

bool can_spread_weights(const BoundCall& call) {
  const Tensor &a = *call.tensor("a"), &scales = *call.tensor("scales");
  if (a.shape[0] <= 64 || a.shape[1] % 8 || !a.shape[1])
    return false;  // rows of weights begin at multiples of 16 bytes
  if (call.choice_name("group") != "0") return has_scales_of_a(call);
  return scales.elem != Elem::U8 && (scales.shape[0] <= 1 || scales.strides[0] == 1);
}

void multiply_spread_weights(Device& device, const BoundCall& call, StreamHandle stream, int64_t most_bytes) {
  constexpr int64_t kUnit = 256;  // columns of whole tiles
  const int64_t columns = call.extent("N"), bytes = call.extent("K") * 2;
  const int64_t at_once = std::max(most_bytes / bytes / kUnit * kUnit, kUnit);
  for (int64_t first = 0; first < columns; first += at_once)
    multiply_columns(device, call, stream, Columns(call, first, std::min(at_once, columns - first)));
}

// What products gain by weights of 16 bits, and what these cost, on an H200. Warps convert integers and float8 beside
// the products; e2m1 takes them longer than these.
bool spread_weights(Device& device, const BoundCall& call, StreamHandle stream) {
  if (!can_spread_weights(call)) return false;
  constexpr double kLaunch = 3, kWritten = 3.5e6;  // microseconds, bytes a microsecond
  const Tensor& b = *call.tensor("b");
  const double weights = double(call.extent("N")) * double(call.extent("K")), rows = double(call.extent("M"));
  const bool packed = b.elem == Elem::U8;
  const bool beside = !packed || call.choice_name("packed") != "e2m1";
  const double saved = 2 * rows * weights * (!beside ? 4.5e-10 : packed ? 0.8e-10 : 0.5e-10);
  if (saved < kLaunch + weights * (packed ? 2.5 : 3) / kWritten) return false;
  multiply_spread_weights(device, call, stream);
  return true;
}

}  // namespace tegula::kernels::detail
