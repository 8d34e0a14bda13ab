// How products are computed. Matrix instructions come in families (families.def), one file each. A family says whether
// an instruction fits a product, where the instruction reads its operands, which layouts it wants, what it costs, and
// how it is lowered. The pass plan_products makes one plan for each product and records it on the op; no other code
// asks about instructions.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "codegen/ir/ir.h"
#include "codegen/layout/linear_layout.h"
#include "codegen/product/instruction.h"
#include "codegen/target/target.h"

namespace tegula {

namespace lower {
class Lowering;
struct HwInfo;
}  // namespace lower

class ProductFamily;

/// Registers of a thread beside the sums of an asynchronous instruction, for operands and addresses.
inline constexpr int kBesideSums = 32;
/// Registers of a thread with which the others multiply.
inline constexpr int kToMultiply = 32;

/// How a product is multiplied.
struct ProductPlan {
  const ProductFamily* family = nullptr;
  const MmaInstruction* instruction = nullptr;  ///< null: products of single elements
  /// How the program's warps, or the groups of them that multiply together, divide rows and columns of the sums.
  int parts_m = 1, parts_n = 1;
  int columns = 0;      ///< of an instruction, where the family has several widths
  int parts_batch = 1;  ///< how the warps divide the batch of products of rank 3
};

/// What a plan may depend on besides the product.
struct ProductContext {
  const Target& target;
  int num_warps;
  int registers;  ///< that a thread may have, kToMultiply at least
  /// Row counts of products some of whose sums are combined along rows. Of all products with such a row count every
  /// warp gets whole rows, so that row statistics and products of products stay within a warp.
  std::set<int64_t> whole_rows;
};

/// The cost of one execution of a product, for one program.
struct ProductCost {
  double flops = 0;  ///< 2 M N K
  /// Work of the tensor cores in operations at their rate for fp16, what fills up the instruction's shape included.
  double tensor_flops = 0;
  double shared_bytes = 0;  ///< that the tensor cores read of operands in shared memory
  double steps = 0;         ///< instructions, of all warps or groups of warps
  double fmas = 0;          ///< instructions of a thread without tensor cores
};

class ProductFamily {
 public:
  ProductFamily(std::string name, bool asynchronous) : name(std::move(name)), asynchronous(asynchronous) {}
  virtual ~ProductFamily() = default;

  const std::string name;
  /// Whether its products run asynchronously on operands in shared memory, as mma_start and mma_wait. Otherwise they
  /// are dots on registers.
  const bool asynchronous;

  /// The plan for a dot, if its operands can be provided in every form; nullopt where its types, its shape, the number
  /// of warps or the target do not fit.
  virtual std::optional<ProductPlan> plan(const ir::Op& dot, const ProductContext& context) const = 0;

  /// The layout of the sums, of shape `shape`; nullopt if any layout will do.
  virtual std::optional<LinearLayout> sums_layout(const ProductPlan&, const ir::Shape& /*shape*/) const {
    return std::nullopt;
  }
  /// The register layout of operand 0 or 1, of type `type`, for sums in the layout `sums`.
  virtual LinearLayout operand_layout(const ProductPlan& plan, int operand, const ir::Type& type,
                                      const LinearLayout& sums) const = 0;
  /// For an asynchronous family: whether it can read an operand from registers in the layout that it has, because that
  /// is its fragment layout or nearly so.
  virtual bool takes_registers(const ir::Op& /*dot*/, int /*operand*/) const { return false; }
  /// Whether it can read an operand from registers that is computed, element by element, from bytes in shared memory.
  virtual bool can_widen(const ir::Op& /*dot*/, int /*operand*/) const { return false; }
  /// Bytes of scratch by which the threads give each other the operands. These may then come in any layout, and nobody
  /// asks for operand_layout. 0: each thread has what it multiplies.
  virtual int64_t scratch_bytes(const ir::Op& /*dot*/) const { return 0; }
  /// The registers of a thread that hold the sums of one instruction.
  virtual int registers(const ProductPlan&) const { return 0; }

  /// The cost of a laid-out product.
  virtual ProductCost cost(const ir::Op& product, const Target& target) const = 0;

  /// Lowers a dot or mma_start.
  virtual void lower(lower::Lowering& l, const ir::Op& product) const = 0;
  /// Lowers an mma_wait, for an asynchronous family.
  virtual void lower_wait(lower::Lowering& l, const ir::Op& wait) const;
  /// The row of that name among the family's own hardware functions, which need not be in hw.def; nullopt for other
  /// names.
  virtual std::optional<lower::HwInfo> hw_row(const std::string& name) const;
};

/// All rows of families.def, in their order.
const std::vector<const ProductFamily*>& product_families();

/// The plan recorded on a dot or mma_start; each has one after plan_products.
ProductPlan plan_of(const ir::Op& product);
/// The family of a dot, mma_start or mma_wait.
const ProductFamily& family_of(const ir::Op& op);
void record_plan(ir::Op& product, const ProductPlan& plan);

/// Plans the dots of a function.
class ProductPlanner {
 public:
  ProductPlanner(const ir::Func& func, const Target& target);
  /// Plans the dot by the first family that fits; with `asynchronous` also by families that run beside the program.
  void plan(ir::Op& dot, bool asynchronous = true) const;

 private:
  ProductContext context_;
};

/// Whether the target has instructions that run beside the program.
bool multiplies_asynchronously(const Target& target);
/// The part of K that is multiplied; for a dot all of it.
struct DepthRange {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};
DepthRange depth_of(const ir::Op& product);
/// 2 M N K.
double flops_of(const ir::Op& product);

}  // namespace tegula
