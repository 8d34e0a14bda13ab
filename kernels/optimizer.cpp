#include "kernels/optimizer.h"

#include <fmt/format.h>

#include <cmath>

namespace tegula::kernels {

namespace {

constexpr int64_t kChunk = 1024;  // CHUNK of optimizer.py: elements of a program

void check(const std::vector<std::vector<Tensor>>& lists, size_t list, size_t i) {
  const Tensor& t = lists[list][i];
  auto refuse = [&](const std::string& why) {
    throw LaunchError(fmt::format("tensor {} of list {} {}", i, list, why));
  };
  if (t.elem != Elem::F32 && t.elem != Elem::F16 && t.elem != Elem::BF16)
    refuse(fmt::format("has elements of type {}, expected float32, float16 or bfloat16", elem_info(t.elem).tl));
  if (t.elem != lists[list][0].elem)
    refuse(fmt::format("has elements of type {}, but tensor 0 {}", elem_info(t.elem).tl,
                       elem_info(lists[list][0].elem).tl));
  if (t.elements() != lists[0][i].elements())
    refuse(fmt::format("has {} elements, but that of list 0 has {}", t.elements(), lists[0][i].elements()));
  if (t.bytes() != t.elements() * elem_bytes(t.elem)) refuse("has gaps between its elements");
  if (!t.address && t.elements() > 0) refuse("has no address");
}

}  // namespace

TensorLists::TensorLists(Device& device, const std::vector<std::vector<Tensor>>& lists)
    : num_lists_(int64_t(lists.size())), num_tensors_(lists.empty() ? 0 : int64_t(lists[0].size())) {
  if (num_lists_ == 0 || num_tensors_ == 0) throw LaunchError("lists of tensors without a tensor");
  std::vector<int64_t> addresses, sizes;
  std::vector<int32_t> chunks;
  for (size_t list = 0; list < lists.size(); ++list) {
    if (lists[list].size() != lists[0].size())
      throw LaunchError(
          fmt::format("list {} has {} tensors, but list 0 has {}", list, lists[list].size(), num_tensors_));
    elems_.push_back(lists[list][0].elem);
    for (size_t i = 0; i < lists[list].size(); ++i) {
      check(lists, list, i);
      addresses.push_back(int64_t(lists[list][i].address));
      aligned_ = aligned_ && lists[list][i].address % 16 == 0;
    }
  }
  for (size_t i = 0; i < lists[0].size(); ++i) {
    sizes.push_back(lists[0][i].elements());
    for (int64_t first = 0; first < sizes.back(); first += kChunk) {
      chunks.push_back(int32_t(i));
      chunks.push_back(int32_t(first / kChunk));
    }
  }
  num_chunks_ = int64_t(chunks.size() / 2);
  table_ = Buffer(device, addresses);
  sizes_ = Buffer(device, sizes);
  chunks_ = chunks.empty() ? Buffer(device, 8) : Buffer(device, chunks);
}

void TensorLists::expect(const char* optimizer, size_t count) const {
  if (size() != count)
    throw LaunchError(fmt::format("{} takes {} lists of tensors, found {}", optimizer, count, size()));
}

void adamw(Device& device, const TensorLists& lists, int64_t step, const AdamWOptions& options, StreamHandle stream) {
  lists.expect("adamw", 4);
  if (step < 1) throw LaunchError(fmt::format("adamw: step is {}, expected 1 or more", step));
  run<EntryId::adamw>(device, stream, lists.table(), lists.chunks(), lists.sizes(), options.rate, options.beta1,
                      options.beta2, options.eps, options.decay, 1 - std::pow(options.beta1, double(step)),
                      1 - std::pow(options.beta2, double(step)), options.clip, lists.elem(0), lists.elem(1),
                      lists.elem(2), lists.aligned());
}

void lion(Device& device, const TensorLists& lists, const LionOptions& options, StreamHandle stream) {
  lists.expect("lion", 3);
  run<EntryId::lion>(device, stream, lists.table(), lists.chunks(), lists.sizes(), options.rate, options.beta1,
                     options.beta2, options.decay, options.clip, lists.elem(0), lists.elem(1), lists.elem(2),
                     lists.aligned());
}

void sgd(Device& device, const TensorLists& lists, const SgdOptions& options, StreamHandle stream) {
  const bool moments = options.momentum != 0;
  lists.expect("sgd", moments ? 3 : 2);
  run<EntryId::sgd>(device, stream, lists.table(), lists.chunks(), lists.sizes(), options.rate, options.momentum,
                    options.dampening, options.decay, options.clip, lists.elem(0), lists.elem(1),
                    moments ? lists.elem(2) : std::string_view("None"), lists.aligned(), options.nesterov,
                    options.first);
}

void gradient_norm(Device& device, Vector<float> norm, const TensorLists& lists, Vector<float> clip, float most,
                   StreamHandle stream) {
  run<EntryId::gradient_norm>(device, stream, norm, lists.table(), lists.chunks(), lists.sizes(), clip, most,
                              lists.elem(1), lists.aligned());
}

}  // namespace tegula::kernels
