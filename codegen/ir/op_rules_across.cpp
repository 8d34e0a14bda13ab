// Rules of ops across elements: reductions, scans, order, products.
#include <algorithm>

#include "codegen/ir/flow.h"
#include "codegen/ir/op_rules.h"

namespace tegula::ir {

void OpRules::combine() {
  const size_t n = op_->operands.size();
  if (!want(n > 0, [&] { return fmt::format("{} without operands", op_->info().text); })) return;
  if (!want(in(0).is_tile(), [&] { return fmt::format("operand 0 is {}, expected a tile", in(0).to_string()); }))
    return;
  axis_below(in(0).rank());
  const Block& region = *op_->regions[0];
  const bool args = want(region.args.size() == 2 * n, [&] {
    return fmt::format("the region takes {} values, expected {}", region.args.size(), 2 * n);
  });
  std::vector<Type> elements;
  for (size_t i = 0; i < n; ++i) {
    elements.push_back(in(int(i)).element());
    elements.back().layout = nullptr;
    want_same_shape(in(int(i)), in(0), fmt::format("operand {}", i));
    if (laid_out(op_->operands[0], op_->operands[i]))
      want(*in(0).layout == *in(int(i)).layout, "the operands must share one layout");
    for (size_t side = 0; args && side < 2; ++side)
      want_same(region.args[side * n + i]->type, elements[i], fmt::format("the region's argument {}", side * n + i));
  }
  passes_on(*region.terminator(), 0, elements, "the region's value");
  scalar_ops(region);
}

void OpRules::scalar_ops(const Block& region) {
  const Op* op = op_;
  walk(region, [&](const Op& inner) {
    bool scalar = inner.has(Pure) || inner.has(Control) || inner.has(Terminator);
    for (auto& r : inner.results) scalar &= r->type.is_scalar();
    op_ = &inner;
    want(scalar,
         [&] { return fmt::format("the region of {} holds scalar ops without effects alone", op->info().text); });
  });
  op_ = op;
}

void OpRules::reduce() {
  const int64_t axis = op_->get(attr::axis);
  if (op_->operands.empty() || axis < 0 || axis >= in(0).rank()) return;
  for (size_t i = 0; i < op_->operands.size(); ++i) {
    Type expected = in(int(i)).with_shape(in(int(i)).shape);
    expected.shape.erase(expected.shape.begin() + axis);
    want(out(int(i)).same_shape_and_elem(expected), [&] {
      return fmt::format("result {} is {}, expected {} of shape {}", i, out(int(i)).to_string(),
                         expected.element().to_string(), shape_to_string(expected.shape));
    });
    if (laid_out(op_->operands[i], op_->result(int(i))) && out(int(i)).shape == expected.shape)
      follows(*out(int(i)).layout, in(int(i)).layout->drop_tile_dim(int(axis)), fmt::format("result {}", i));
  }
}

void OpRules::exchange_blocks() {
  const Type& x = in(0);
  if (!want(x.is_tile(), [&] { return fmt::format("operand 'x' is {}, expected a tile", x.to_string()); })) return;
  const int64_t blocks = func_.num_ctas();
  Shape shape = x.shape;
  if (op_->get(attr::axis) >= 0) {
    const auto axis = axis_below(x.rank());
    if (!axis) return;
    int64_t& extent = shape[size_t(*axis)];
    if (!want(extent % blocks == 0 && (extent & (extent - 1)) == 0, [&] {
          return fmt::format("dimension {} of {} elements, expected a power of two and {} or more", *axis, extent,
                             blocks);
        }))
      return;
    extent /= blocks;
  }
  shape.insert(shape.begin(), blocks);
  want(out().same_shape_and_elem(x.with_shape(shape)), [&] {
    return fmt::format("the result is {}, expected {}", out().to_string(), x.with_shape(shape).to_string());
  });
}

void OpRules::asynchronous_product() {
  const int64_t columns = op_->get(attr::columns);
  want(columns % 8 == 0 && out().shape.back() % columns == 0, [&] {
    return fmt::format("attribute 'columns' is {}, expected a multiple of 8 that divides {}", columns,
                       out().shape.back());
  });
  const int64_t first = op_->get(attr::first), depth = op_->get(attr::depth), k = in(0).shape.back();
  want(first < k && first + depth <= k, [&] {
    return fmt::format("attributes 'first' and 'depth' are {} and {}, expected a part of K, {}", first, depth, k);
  });
  if (op_->get(attr::waves))
    want(op_->operand(3) && constant_integer(op_->operand(3)) == 0, "a product in waves begins with sums of its own");
}

void OpRules::parts_of_product() {
  const Ints parts = op_->get(attr::parts);
  if (parts.empty()) return;
  int64_t product = 1;
  for (int64_t part : parts) product *= part;
  const bool batch = out().rank() == 3;
  want((parts.size() == 2 || (batch && parts.size() == 3)) && func_.num_warps() % product == 0, [&] {
    return fmt::format("attribute 'parts' is {}, expected two {}numbers whose product divides {}",
                       shape_to_string(parts), batch ? "or three " : "", func_.num_warps());
  });
}

void OpRules::sort() {
  const Type &x = in(0), &r = out();
  if (!want(x.is_tile() && !x.pointer && !is_float8(x.elem),
            [&] { return fmt::format("operand 'x' is {}, expected a tile of numbers", x.to_string()); }))
    return;
  auto is_power = [](int64_t n) { return n > 0 && (n & (n - 1)) == 0; };
  Shape shape = x.shape;
  if (want(r.rank() == x.rank(),
           [&] { return fmt::format("the result has rank {}, expected {}", r.rank(), x.rank()); }))
    shape.back() = r.shape.back();
  want(r.same_shape_and_elem(x.with_shape(shape)),
       [&] { return fmt::format("the result is {}, expected what is left of {}", r.to_string(), x.to_string()); });
  want(is_power(x.shape.back()) && is_power(shape.back()) && shape.back() <= x.shape.back(),
       [&] { return fmt::format("sort of extent {} to {}, expected powers of two", x.shape.back(), shape.back()); });
  if (op_->get(attr::merge)) want(shape == x.shape, "a merge keeps all elements");
}

void OpRules::gather() {
  const Type &x = in(0), &index = in(1);
  if (!want(x.is_tile() && !x.pointer,
            [&] { return fmt::format("operand 'x' is {}, expected a tile of numbers", x.to_string()); }))
    return;
  auto axis = axis_below(x.rank());
  if (!axis) return;
  want(index.is_integer(), [&] { return fmt::format("operand 'index' is {}, expected integers", index.to_string()); });
  if (!want(index.rank() == x.rank(),
            [&] { return fmt::format("operand 'index' has rank {}, expected {}", index.rank(), x.rank()); }))
    return;
  Shape shape = x.shape;
  shape[size_t(*axis)] = index.shape[size_t(*axis)];
  want_same_shape(index, x.with_shape(shape), "operand 'index'");
  want(out().same_shape_and_elem(x.with_shape(shape)), [&] {
    return fmt::format("the result is {}, expected {}", out().to_string(), x.with_shape(shape).to_string());
  });
  if (laid_out(op_->operands[1], op_->result()))
    want(*index.layout == *out().layout, "operand 'index' and the result must share one layout");
}

void OpRules::histogram() {
  want(in(0).rank() == 1 && in(0).elem == Elem::I32 && !in(0).pointer,
       [&] { return fmt::format("operand 'x' is {}, expected i32 of rank 1", in(0).to_string()); });
  want(out().rank() == 1 && out().elem == Elem::I32 && !out().pointer,
       [&] { return fmt::format("the result is {}, expected i32 of rank 1", out().to_string()); });
}

void OpRules::map_elementwise() {
  const size_t pack = size_t(op_->get(attr::pack)), n = op_->operands.size(), m = op_->results.size();
  if (!want(n > 0 && m > 0, "map_elementwise without operands or results")) return;
  const Block& region = *op_->regions[0];
  if (!want(region.args.size() == n * pack,
            [&] { return fmt::format("the region takes {} values, expected {}", region.args.size(), n * pack); }))
    return;
  for (size_t i = 0; i < n * pack; ++i) {
    Type element = in(int(i / pack)).element();
    element.layout = nullptr;
    want_same(region.args[i]->type, element, fmt::format("the region's argument {}", i));
  }
  std::vector<Type> elements;
  for (size_t i = 0; i < m * pack; ++i) {
    elements.push_back(out(int(i / pack)).element());
    elements.back().layout = nullptr;
  }
  passes_on(*region.terminator(), 0, elements, "the region's value");
  for (size_t i = 0; i < n; ++i) want_same_shape(in(int(i)), in(0), fmt::format("operand {}", i));
  for (size_t i = 0; i < m; ++i) want_same_shape(out(int(i)), in(0), fmt::format("result {}", i));
  one_layout();
  scalar_ops(region);
}

void OpRules::dot() {
  const Type &a = in(0), &b = in(1), &acc = in(2);
  const int m = acc.rank() - 2, n = acc.rank() - 1;
  if (want(m >= 0 && m <= 1 && a.rank() == acc.rank() && b.rank() == acc.rank(), "dot wants tiles of rank 2 or 3"))
    want(a.shape[m] == acc.shape[m] && a.shape[n] == b.shape[m] && b.shape[n] == acc.shape[n] &&
             (m == 0 || (a.shape[0] == acc.shape[0] && b.shape[0] == acc.shape[0])),
         [&] {
           return fmt::format("dot of {} and {} into {}: expected M x K, K x N, M x N", shape_to_string(a.shape),
                              shape_to_string(b.shape), shape_to_string(acc.shape));
         });
  const bool both_float8 = is_ocp_float8(a.elem) && is_ocp_float8(b.elem);
  want((a.elem == b.elem || both_float8) && !a.pointer && !b.pointer,
       [&] { return fmt::format("operand 'b' is {}, expected elements as of 'a', {}", b.to_string(), a.to_string()); });
  std::vector<Elem> allowed;
  switch (a.elem) {
    case Elem::F8E4M3:
    case Elem::F8E5M2:
    case Elem::F16:
      allowed = {Elem::F32, Elem::F16};
      break;
    case Elem::BF16:
    case Elem::F32:
      allowed = {Elem::F32};
      break;
    case Elem::F64:
      allowed = {Elem::F64};
      break;
    case Elem::I8:
    case Elem::U8:
      allowed = {Elem::I32};
      break;
    default:
      report(fmt::format("dot of {}, expected f8e4m3, f8e5m2, f16, bf16, f32, f64, i8 or u8", elem_info(a.elem).text));
      break;
  }
  if (op_->opcode == Opcode::MmaStart) {
    want(b.is_place(),
         [&] { return fmt::format("operand 'b' is {}, expected a place in shared memory", b.to_string()); });
    if (op_->operand(3)) want_same(in(3), Type::scalar(Elem::I1), "operand 'accumulate'");
  } else {
    want(!a.is_place() && !b.is_place(), "the operands of dot are tiles; mma_start takes places in shared memory");
  }
  want(!acc.is_place(), "operand 'acc' is a place in shared memory, expected a tile");
  if (!allowed.empty())
    want(std::find(allowed.begin(), allowed.end(), acc.elem) != allowed.end() && !acc.pointer, [&] {
      return fmt::format("operand 'acc' is {}, expected elements {}", acc.to_string(), elem_info(allowed[0]).text);
    });
  want_same(out(), op_->opcode == Opcode::Dot ? acc : acc.with_kind(Kind::InFlight), "the result");
  parts_of_product();
  if (op_->opcode == Opcode::MmaStart)
    asynchronous_product();
  else if (stage_ >= Stage::Planned)
    want(op_->has(attr::instruction), "nothing says what multiplies: attribute 'instruction' is missing");
}

}  // namespace tegula::ir
