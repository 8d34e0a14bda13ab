// How products are multiplied. The instructions for it come in families (families.def), one file each. It says whether
// an instruction fits a product, where that has its operands, which layouts tiles have for it, what it costs, and how
// it is lowered. The pass plan_products makes one plan for each product and records it on the op; nothing else asks
// about instructions.
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

/// How a product is multiplied.
struct ProductPlan {
  const ProductFamily* family = nullptr;
  const MmaInstruction* instruction = nullptr;  ///< null: products of single elements
  /// How the program's warps, or the groups of them that multiply together, divide rows and columns of the sums.
  int parts_m = 1, parts_n = 1;
  int columns = 0;      ///< of an instruction, where the family has several widths
  int parts_batch = 1;  ///< how the warps divide the batch of products of rank 3
};

/// What a plan may depend on beside the product.
struct ProductContext {
  const Target& target;
  int num_warps;
  /// Numbers of rows of products some of whose sums are combined along rows. There every warp has whole rows, in all
  /// products with as many: then row statistics and products of products stay in their warps.
  std::set<int64_t> whole_rows;
};

/// What a product takes of a program, once.
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
  /// Runs beside the program, on operands in shared memory: as mma_start and mma_wait. Else: as dot, on registers.
  const bool asynchronous;

  /// The plan for a dot whose operands can be had in all forms; nullopt where its types, its shape, the number of warps
  /// or the target do not fit.
  virtual std::optional<ProductPlan> plan(const ir::Op& dot, const ProductContext& context) const = 0;

  /// The layout of sums of `shape`; nullopt where any will do.
  virtual std::optional<LinearLayout> sums_layout(const ProductPlan&, const ir::Shape& /*shape*/) const {
    return std::nullopt;
  }
  /// The layout of operand 0 or 1 in registers, of type `type`, for sums that lie as `sums`.
  virtual LinearLayout operand_layout(const ProductPlan& plan, int operand, const ir::Type& type,
                                      const LinearLayout& sums) const = 0;
  /// Of an asynchronous one: whether it takes an operand from registers as it comes. They are its fragments already, or
  /// nearly so.
  virtual bool takes_registers(const ir::Op& /*dot*/, int /*operand*/) const { return false; }
  /// Bytes of scratch by which the threads give each other the operands. These may then come in any layout, and nobody
  /// asks for operand_layout. 0: each thread has what it multiplies.
  virtual int64_t scratch_bytes(const ir::Op& /*dot*/) const { return 0; }
  /// Registers of a thread that one instruction has for its sums.
  virtual int registers(const ProductPlan&) const { return 0; }

  /// Of a laid-out product.
  virtual ProductCost cost(const ir::Op& product, const Target& target) const = 0;

  /// Lowers a dot or mma_start.
  virtual void lower(lower::Lowering& l, const ir::Op& product) const = 0;
  /// Lowers an mma_wait, for an asynchronous family.
  virtual void lower_wait(lower::Lowering& l, const ir::Op& wait) const;
  /// The row of that name among its hardware functions, which need not stand in hw.def.
  virtual std::optional<lower::HwInfo> hw_row(const std::string& name) const;
};

/// All rows of families.def, in their order.
const std::vector<const ProductFamily*>& product_families();

/// What is recorded on a dot or mma_start. Behind plan_products each has it.
ProductPlan plan_of(const ir::Op& product);
/// The family of a dot, mma_start or mma_wait.
const ProductFamily& family_of(const ir::Op& op);
void record_plan(ir::Op& product, const ProductPlan& plan);

/// Plans the dots of a function.
class ProductPlanner {
 public:
  ProductPlanner(const ir::Func& func, const Target& target);
  /// By the first family that fits the dot: of those that run beside the program too if `asynchronous` is true.
  void plan(ir::Op& dot, bool asynchronous = true) const;

 private:
  ProductContext context_;
};

/// Whether the target has instructions that run beside the program.
bool multiplies_asynchronously(const Target& target);
/// The part of K that is multiplied: of a dot all.
struct DepthRange {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};
DepthRange depth_of(const ir::Op& product);
/// 2 M N K.
double flops_of(const ir::Op& product);

}  // namespace tegula
