// Steps of optimisers over many tensors in one launch. The kernels stand in optimizer.py.
//
//   kernels::TensorLists lists(device, {parameters, gradients, moments, squares});  // once
//   kernels::gradient_norm(device, norm, lists, clip, 1.0f);
//   kernels::adamw(device, lists, step, {.rate = 3e-4f, .clip = clip});             // each step
//
// Throw LaunchError for tensors that do not fit, and what Kernel::launch throws.
#pragma once

#include <vector>

#include "kernels/entry.h"
#include "runtime/memory.h"

namespace tegula::kernels {

/// Where the tensors of an optimiser stand: their addresses in a table on the device. The tensors themselves must stay
/// where they are.
class TensorLists {
 public:
  /// Lists of equally many tensors: parameters, gradients, and the moments that the optimiser has. Tensors of one list
  /// have one element type (float, float16 or bfloat16), those of one place equally many elements without gaps. Throws
  /// LaunchError otherwise.
  TensorLists(Device& device, const std::vector<std::vector<Tensor>>& lists);

  Tensor table() const { return {table_.as<int64_t>(), {num_lists_, num_tensors_}}; }
  Tensor chunks() const { return {chunks_.as<int32_t>(), {num_chunks_, 2}}; }
  Tensor sizes() const { return {sizes_.as<int64_t>(), {num_tensors_}}; }
  /// Element type of a list, by its name in the kernel language.
  std::string_view elem(size_t list) const { return elem_info(elems_[list]).tl; }
  size_t size() const { return elems_.size(); }
  bool aligned() const { return aligned_; }  ///< whether all addresses are multiples of 16
  /// Throws LaunchError if there are not so many lists.
  void expect(const char* optimizer, size_t count) const;

 private:
  Buffer table_, chunks_, sizes_;
  int64_t num_lists_, num_tensors_, num_chunks_;
  std::vector<Elem> elems_;
  bool aligned_ = true;
};

struct AdamWOptions {
  float rate = 1e-3f;
  double beta1 = 0.9, beta2 = 0.999;
  float eps = 1e-8f;
  float decay = 0.01f;
  Vector<const float> clip = {};  ///< one number, by which gradients are multiplied: of gradient_norm()
};

/// Step number `step` (from 1) of AdamW, of lists {parameters p, gradients g, moments m, squares v}:
/// m += (1 - beta1) (g - m); v += (1 - beta2) (g^2 - v);
/// p = p (1 - rate decay) - rate m / (1 - beta1^step) / (sqrt(v / (1 - beta2^step)) + eps).
///
/// Arithmetic in fp32, rounded to the lists' types. Traffic: 7 elements for each of the parameters'. Loshchilov,
/// Hutter: Decoupled Weight Decay Regularization, 2019.
void adamw(Device& device, const TensorLists& lists, int64_t step, const AdamWOptions& options = {},
           StreamHandle stream = nullptr);

struct LionOptions {
  float rate = 1e-4f;
  double beta1 = 0.9, beta2 = 0.99;
  float decay = 0;
  Vector<const float> clip = {};
};

/// A step of Lion, of lists {parameters p, gradients g, moments m}: p = p (1 - rate decay) - rate sign(beta1 m + (1 -
/// beta1) g); m = beta2 m + (1 - beta2) g. Chen et al.: Symbolic Discovery of Optimization Algorithms, 2023.
void lion(Device& device, const TensorLists& lists, const LionOptions& options = {}, StreamHandle stream = nullptr);

struct SgdOptions {
  float rate = 1e-3f;
  float momentum = 0, dampening = 0, decay = 0;
  bool nesterov = false;
  bool first = false;  ///< the moments hold nothing yet
  Vector<const float> clip = {};
};

/// A step of gradient descent, of lists {parameters p, gradients g} or with momentum {p, g, moments m}: g += decay p;
/// m = momentum m + (1 - dampening) g, or g if `first`; p -= rate m, or with nesterov rate (g + momentum m).
void sgd(Device& device, const TensorLists& lists, const SgdOptions& options = {}, StreamHandle stream = nullptr);

/// norm[0] = the square root of the sum of squares of all gradients, the second list; clip[0] = min(1, most / (norm[0]
/// + 1e-6)), if given. In an order that does not depend on the run.
void gradient_norm(Device& device, Vector<float> norm, const TensorLists& lists, Vector<float> clip = {},
                   float most = 1, StreamHandle stream = nullptr);

}  // namespace tegula::kernels
