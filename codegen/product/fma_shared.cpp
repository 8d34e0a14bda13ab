// Products element by element, where threads would need more of the operands than their registers hold.
//
// The threads put both operands into shared memory. Each then goes along K in a loop, a few elements at a time: it
// reads those of the rows and columns of its own sums.
//
//   for k in 0, STEP, 2 STEP, ...:
//     a = A[rows of my sums, k : k + STEP], b = B[k : k + STEP, columns of my sums]
//     sums += a x b
//
// So code is as long as a step, whatever K. Operands for which there is not as much room come slice by slice of K.
#include <algorithm>
#include <map>
#include <numeric>

#include "codegen/product/element_product.h"
#include "codegen/product/operands.h"

namespace tegula {

namespace {

using lower::ElementProduct;
using lower::Lowering;
using lower::Regs;

// Products of a thread from which on its operands fill registers: with 16 sums and a K of 16, 128 of them. What lies in
// places in shared memory is read from there when it is multiplied, without a copy and a barrier in between, and fills
// registers later.
constexpr int64_t kLeastProducts = 256, kLeastOfPlaces = 4096;
constexpr int64_t kMostBytes = 64 << 10;
// Rows of A begin in other banks, as lanes read elements of several rows at a time.
constexpr int64_t kAccessBytes = 16;
constexpr int64_t kMostSteps = 8;
// Slices of K begin where accesses of all element types do.
constexpr int64_t kLeastSlice = 16;

int64_t element_bytes(const ir::Type& type) { return std::max(8, type.bits()) / 8; }
// Of `depth` elements along K.
int64_t bytes_of_row_a(const ir::Type& a, int64_t depth) { return depth * element_bytes(a) + kAccessBytes; }
int64_t bytes_of_row_b(const ir::Type& b) { return b.shape.back() * element_bytes(b); }
int64_t bytes_of_a(const ir::Type& a, int64_t depth) {
  const int64_t bytes = a.num_elements() / a.shape.back() * bytes_of_row_a(a, depth);
  return (bytes + kAccessBytes - 1) / kAccessBytes * kAccessBytes;
}
int64_t bytes_of(const ir::Op& dot, int64_t depth) {
  const ir::Type &a = dot.operand(0)->type, &b = dot.operand(1)->type;
  return bytes_of_a(a, depth) + b.num_elements() / a.shape.back() * depth * element_bytes(b);
}

// The extent of K that is in shared memory at a time; all of K if no slice is small enough.
int64_t depth_of_slice(const ir::Op& dot) {
  const int64_t all = dot.operand(0)->type.shape.back();
  for (int64_t depth = all; depth > 0; depth = (depth - 1) / kLeastSlice * kLeastSlice)
    if (all % depth == 0 && bytes_of(dot, depth) <= kMostBytes) return depth;
  return all;
}

class SharedProduct {
 public:
  SharedProduct(Lowering& l, const ir::Op& dot)
      : l_(l),
        dot_(dot),
        a_(dot.operand(0)->type),
        b_(dot.operand(1)->type),
        sums_(dot.result()->type),
        depth_(depth_of_slice(dot)),
        step_(std::gcd(depth_, std::min(kMostSteps, kAccessBytes / element_bytes(a_)))),
        product_(l, dot) {}

  void run() {
    llvm::Value* base = l_.shared_address(l_.shared.offset.at(&dot_));
    llvm::Value* base_b = l_.b.CreateAdd(base, l_.i32(bytes_of_a(a_, depth_)));
    Sums sums;
    for (int r = 0; r < Lowering::num_registers(sums_); ++r)
      if (Lowering::canonical_register(sums_, r) == r) sums[r] = product_.widen(l_.get(dot_.operand(2))[size_t(r)]);
    for (int64_t first = 0; first < a_.shape.back(); first += depth_) {
      if (first > 0) l_.barrier(dot_.loc);  // all have read the slice before
      put(dot_.operand(0), a_.rank() - 1, first, base, bytes_of_row_a(a_, depth_));
      put(dot_.operand(1), b_.rank() - 2, first, base_b, bytes_of_row_b(b_));
      l_.barrier(dot_.loc);
      if (first == 0) find_lines(base, base_b);
      sums = multiply(sums);
    }
    l_.set(dot_.result(), l_.map_registers(sums_, [&](int r) { return product_.finish(sums.at(r)); }));
  }

 private:
  using Coordinates = LinearLayout::Basis;
  using Sums = std::map<int, llvm::Value*>;  // by register

  // A row of A, or a run of elements of a row of B, that some sums of a thread take, and where it begins.
  struct Line {
    llvm::Value* address;
    std::vector<Regs> steps = {};  // elements of the step at hand: of A, one line of them; of B, one for each k
  };
  // What register r of the sums is made of: lines by number, and which element of B's run.
  struct Terms {
    size_t row, run;
    int column;
  };

  // Stores the slice of an operand that begins at `first` along axis `k` to shared memory, row by row.
  void put(const ir::Value* tile, int k, int64_t first, llvm::Value* base, int64_t row_bytes) {
    const ir::Type& type = tile->type;
    const Regs& regs = l_.get(tile);
    llvm::Value* owner = l_.is_owner(type.layout.get());
    const bool whole = type.shape[size_t(k)] == depth_;
    const int most = int(kAccessBytes / element_bytes(type));
    const int width = std::min(type.layout->contiguous_registers(type.rank() - 1), most);
    for (int r = 0; r < int(regs.size()); r += width) {
      if (Lowering::canonical_register(type, r) != r) continue;
      std::vector<llvm::Value*> at;
      for (int axis = 0; axis < type.rank(); ++axis) at.push_back(coordinate(type, axis, r));
      llvm::Value* stores = owner;
      if (!whole) {
        llvm::Value*& along = at[size_t(k)];
        along = l_.b.CreateSub(along, l_.i32(first));
        llvm::Value* inside = l_.b.CreateICmpULT(along, l_.i32(depth_));
        stores = owner ? l_.b.CreateAnd(owner, inside) : inside;
      }
      llvm::Value* row = l_.i32(0);
      for (int axis = 0; axis + 1 < type.rank(); ++axis)
        row = next_index(row, axis == k ? depth_ : type.shape[size_t(axis)], at[size_t(axis)]);
      llvm::Value* column = l_.b.CreateMul(at.back(), l_.i32(element_bytes(type)));
      llvm::Value* address = l_.b.CreateAdd(l_.b.CreateAdd(base, l_.b.CreateMul(row, l_.i32(row_bytes))), column);
      l_.store_shared(address, llvm::ArrayRef(regs).slice(size_t(r), size_t(width)), stores, dot_.loc);
    }
  }

  llvm::Value* coordinate(const ir::Type& type, int axis, int r) {
    return l_.coordinate(*type.layout, tile_dim(axis), r);
  }
  llvm::Value* next_index(llvm::Value* index, int64_t extent, llvm::Value* at) {
    return l_.b.CreateAdd(l_.b.CreateMul(index, l_.i32(extent)), at);
  }

  // Which lines the sums of a thread take. Sums with the same part of their coordinates from registers share them.
  void find_lines(llvm::Value* base_a, llvm::Value* base_b) {
    const int m = sums_.rank() - 2, n = sums_.rank() - 1;
    width_ = std::min(sums_.layout->contiguous_registers(n), int(kAccessBytes / element_bytes(b_)));
    std::map<Coordinates, size_t> rows, runs;
    for (int r = 0; r < Lowering::num_registers(sums_); ++r) {
      const int first = r - r % width_;
      Coordinates row = sums_.layout->apply({{Dim::Register, r}}), run = sums_.layout->apply({{Dim::Register, first}});
      row[size_t(n)] = run[size_t(m)] = 0;
      if (rows.try_emplace(row, rows_.size()).second) rows_.push_back({row_address(base_a, r)});
      if (runs.try_emplace(run, runs_.size()).second) runs_.push_back({run_address(base_b, first)});
      terms_.push_back({rows.at(row), runs.at(run), r % width_});
    }
  }

  llvm::Value* batch_index(int r) {
    llvm::Value* index = l_.i32(0);
    for (int axis = 0; axis + 2 < sums_.rank(); ++axis)
      index = next_index(index, sums_.shape[size_t(axis)], coordinate(sums_, axis, r));
    return index;
  }
  llvm::Value* row_address(llvm::Value* base, int r) {
    const int m = sums_.rank() - 2;
    llvm::Value* at = coordinate(sums_, m, r);
    llvm::Value* row = next_index(batch_index(r), sums_.shape[size_t(m)], at);
    return l_.b.CreateAdd(base, l_.b.CreateMul(row, l_.i32(bytes_of_row_a(a_, depth_))));
  }
  llvm::Value* run_address(llvm::Value* base, int r) {
    llvm::Value* row = l_.b.CreateMul(batch_index(r), l_.i32(depth_));
    llvm::Value* column = coordinate(sums_, sums_.rank() - 1, r);
    column = l_.b.CreateMul(column, l_.i32(element_bytes(b_)));
    return l_.b.CreateAdd(l_.b.CreateAdd(base, l_.b.CreateMul(row, l_.i32(bytes_of_row_b(b_)))), column);
  }

  // Adds the products of the slice that is in shared memory to the sums.
  Sums multiply(const Sums& starts) {
    llvm::BasicBlock* before = l_.b.GetInsertBlock();
    auto* body = llvm::BasicBlock::Create(l_.context, "product", before->getParent());
    auto* after = llvm::BasicBlock::Create(l_.context, "product_end", before->getParent());
    l_.b.CreateBr(body);
    l_.b.SetInsertPoint(body);
    auto carried = [&](llvm::Value* start) {
      llvm::PHINode* phi = l_.b.CreatePHI(start->getType(), 2);
      phi->addIncoming(start, before);
      return phi;
    };
    llvm::PHINode* k = carried(l_.i32(0));
    std::map<int, llvm::PHINode*> sums;
    for (auto [r, start] : starts) sums[r] = carried(start);
    read_step(k);
    Sums next;
    for (auto [r, sum] : sums) sum->addIncoming(next[r] = add_step(sum, terms_[size_t(r)]), body);
    llvm::Value* next_k = l_.b.CreateAdd(k, l_.i32(step_));
    k->addIncoming(next_k, body);
    l_.b.CreateCondBr(l_.b.CreateICmpSLT(next_k, l_.i32(depth_)), body, after);
    l_.b.SetInsertPoint(after);
    return next;
  }

  void read_step(llvm::Value* k) {
    llvm::Value* along_a = l_.b.CreateMul(k, l_.i32(element_bytes(a_)));
    llvm::Value* along_b = l_.b.CreateMul(k, l_.i32(bytes_of_row_b(b_)));
    for (Line& row : rows_) row.steps = {read(a_, l_.b.CreateAdd(row.address, along_a), int(step_))};
    for (Line& run : runs_) {
      llvm::Value* begin = l_.b.CreateAdd(run.address, along_b);
      run.steps.clear();
      for (int64_t i = 0; i < step_; ++i)
        run.steps.push_back(read(b_, l_.b.CreateAdd(begin, l_.i32(i * bytes_of_row_b(b_))), width_));
    }
  }
  Regs read(const ir::Type& type, llvm::Value* address, int count) {
    const Regs x = l_.load_shared(address, l_.element_type(type), count, dot_.loc);
    return is_float8(type.elem) ? l_.widen_float8(type.elem, x) : x;
  }

  llvm::Value* add_step(llvm::Value* sum, const Terms& terms) {
    const Regs& row = rows_[terms.row].steps[0];
    const std::vector<Regs>& run = runs_[terms.run].steps;
    for (size_t i = 0; i < size_t(step_); ++i) sum = product_.add(sum, row[i], run[i][size_t(terms.column)]);
    return sum;
  }

  Lowering& l_;
  const ir::Op& dot_;
  const ir::Type &a_, &b_, &sums_;
  const int64_t depth_, step_;  // of a slice, and of what is multiplied at a time
  ElementProduct product_;
  int width_ = 1;  // of a run
  std::vector<Line> rows_, runs_;
  std::vector<Terms> terms_;  // of each register
};

class FmaShared final : public ProductFamily {
 public:
  FmaShared() : ProductFamily("fma_shared", false) {}

  std::optional<ProductPlan> plan(const ir::Op& dot, const ProductContext& context) const override {
    constexpr int kThreadsPerWarp = 32;
    const bool places = is_place_read(untransposed(dot.operands[0])) && is_place_read(untransposed(dot.operands[1]));
    const int64_t products = dot.result()->type.num_elements() * dot.operand(0)->type.shape.back();
    const int64_t least = (places ? kLeastOfPlaces : kLeastProducts) * kThreadsPerWarp * context.num_warps;
    if (products < least || scratch_bytes(dot) > kMostBytes) return std::nullopt;
    return ProductPlan{this};
  }

  int64_t scratch_bytes(const ir::Op& dot) const override { return bytes_of(dot, depth_of_slice(dot)); }

  LinearLayout operand_layout(const ProductPlan&, int, const ir::Type&, const LinearLayout&) const override {
    TEGULA_UNREACHABLE("{} takes operands in any layout", name);
  }

  ProductCost cost(const ir::Op& dot, const Target&) const override { return lower::cost_by_elements(dot); }
  void lower(Lowering& l, const ir::Op& dot) const override { SharedProduct(l, dot).run(); }
};

}  // namespace

const ProductFamily& fma_shared_family() {
  static const FmaShared family;
  return family;
}

}  // namespace tegula
