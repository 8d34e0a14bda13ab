#include "codegen/product/plan.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "codegen/analysis/register_pressure.h"
#include "codegen/lower/hw.h"
#include "runtime/base/check.h"

namespace tegula {

using namespace ir;

#define TEGULA_PRODUCT_FAMILY(name) const ProductFamily& name##_family();
#include "codegen/product/families.def"

const std::vector<const ProductFamily*>& product_families() {
  static const std::vector<const ProductFamily*> families = {
#define TEGULA_PRODUCT_FAMILY(name) &name##_family(),
#include "codegen/product/families.def"
  };
  return families;
}

void ProductFamily::lower_wait(lower::Lowering&, const Op&) const {
  TEGULA_UNREACHABLE("{} does not run beside the program", name);
}
std::optional<lower::HwInfo> ProductFamily::hw_row(const std::string&) const { return std::nullopt; }

namespace {

// What the attribute `instruction` may name: an instruction, or a family that has none.
struct Named {
  const ProductFamily* family;
  const MmaInstruction* instruction;
};
const std::unordered_map<std::string, Named>& named() {
  static const std::unordered_map<std::string, Named> all = [] {
    std::unordered_map<std::string, Named> names;
    for (const ProductFamily* family : product_families()) {
      bool has_instructions = false;
      for (const MmaInstruction& row : mma_instructions())
        if (row.family == family->name) names[row.name()] = {family, &row}, has_instructions = true;
      if (!has_instructions) names[family->name] = {family, nullptr};
    }
    return names;
  }();
  return all;
}

const Named& named_by(const Op& op) {
  const auto found = named().find(op.get(attr::instruction));
  TEGULA_CHECK(found != named().end(), "{} by '{}', which is no instruction", op.info().text,
               op.get(attr::instruction));
  return found->second;
}

}  // namespace

const ProductFamily& family_of(const Op& op) { return *named_by(op).family; }

ProductPlan plan_of(const Op& product) {
  const Named& by = named_by(product);
  const Ints parts = product.get(attr::parts);
  ProductPlan plan{by.family, by.instruction};
  if (parts.size() >= 2) plan.parts_m = int(parts[0]), plan.parts_n = int(parts[1]);
  if (parts.size() == 3) plan.parts_batch = int(parts[2]);
  plan.columns = int(product.get(attr::columns));
  return plan;
}

void record_plan(Op& product, const ProductPlan& plan) {
  for (const auto& key : {std::string(attr::parts), std::string(attr::columns)}) product.attrs.erase(key);
  product.set(attr::instruction, plan.instruction ? plan.instruction->name() : plan.family->name);
  if (plan.instruction) {
    Ints parts = {plan.parts_m, plan.parts_n};
    if (plan.parts_batch > 1) parts.push_back(plan.parts_batch);
    product.set(attr::parts, parts);
  }
  if (plan.columns) product.set(attr::columns, plan.columns);
}

ProductPlanner::ProductPlanner(const Func& func, const Target& target)
    : context_{target, func.num_warps(), std::max(register_limit(func, target), kToMultiply), {}} {
  std::map<Shape, std::set<int>> combined_axes;
  std::vector<const Op*> products;
  walk(func.body, [&](const Op& op) {
    if (is_product(op)) products.push_back(&op);
    if (op.info().combines()) combined_axes[op.operand(0)->type.shape].insert(int(op.get(attr::axis)));
    if (op.opcode == Opcode::Sort) combined_axes[op.operand(0)->type.shape].insert(op.operand(0)->type.rank() - 1);
  });
  for (const Op* product : products) {
    const Type& sums = product->result()->type;
    const auto axes = combined_axes.find(sums.shape);
    if (axes != combined_axes.end() && axes->second.contains(sums.rank() - 1))
      context_.whole_rows.insert(sums.shape[size_t(sums.rank()) - 2]);
  }
}

void ProductPlanner::plan(Op& dot, bool asynchronous) const {
  for (const ProductFamily* family : product_families()) {
    if (family->asynchronous && !asynchronous) continue;
    if (const auto plan = family->plan(dot, context_)) return record_plan(dot, *plan);
  }
  TEGULA_UNREACHABLE("no family multiplies {} with {}", dot.operand(0)->type.to_string(),
                     dot.operand(1)->type.to_string());
}

bool multiplies_asynchronously(const Target& target) {
  return std::any_of(mma_instructions().begin(), mma_instructions().end(), [&](const MmaInstruction& row) {
    return target.has(row.feature) && named().at(row.name()).family->asynchronous;
  });
}

DepthRange depth_of(const Op& product) {
  const int64_t k = product.operand(0)->type.shape.back();
  if (product.opcode != Opcode::MmaStart) return {0, k};
  const int64_t first = product.get(attr::first), depth = product.get(attr::depth);
  return {first, depth ? first + depth : k};
}

double flops_of(const Op& product) {
  return 2.0 * double(product.result()->type.num_elements()) * double(depth_of(product).size());
}

}  // namespace tegula
