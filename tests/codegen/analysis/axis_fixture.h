// A function whose values axis analysis is asked about.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/usual_distance.h"
#include "codegen/ir/builder.h"

namespace tegula::axis {

using ir::Builder;
using ir::Opcode;
using ir::Shape;
using ir::Type;
using ir::Value;

using Numbers = std::vector<int64_t>;

class Axis : public testing::Test {
 protected:
  ir::Func func;
  Builder b{&func.body};

  Value* param(Type type, int64_t divisor) { return func.add_param(type, "p", divisor); }
  Value* i32(int64_t divisor = 1) { return param(Type::scalar(Elem::I32), divisor); }
  Value* pointer(Elem e = Elem::F32, int64_t divisor = 16) { return param(Type::pointer_to(e), divisor); }
  Value* c(int64_t v) { return b.constant(Type::scalar(Elem::I32), v); }
  Value* all(int64_t v, Shape shape) { return b.constant(Type::tile(Elem::I32, shape), v); }
  Value* row(Value* base, int64_t n) { return b.add(b.splat(base, {n}), b.arange(0, n)); }

  void expect(const Value* v, Numbers contiguity, Numbers divisibility, Numbers constancy) {
    AxisAnalysis analysis(func);
    const AxisInfo& info = analysis.info(v);
    EXPECT_EQ(AxisQuery(func).info(v), info) << "asked for alone";
    EXPECT_EQ(info.contiguity, contiguity) << "contiguity";
    for (auto& d : divisibility) d = std::min<int64_t>(d, kAll);
    AxisInfo::PerAxis found = info.divisibility;
    for (auto& d : found) d = std::min<int64_t>(d, kAll);
    EXPECT_EQ(found, divisibility) << "divisibility";
    EXPECT_EQ(info.constancy, constancy) << "constancy";
  }
  int width(const Value* ptr, const Value* mask, int axis = 0) {
    return AxisAnalysis(func).vector_width(ptr, mask, axis);
  }
  std::vector<int> fastest(const Value* ptr) {
    const AxisAnalysis axes(func);
    return fastest_axes(axes.info(ptr), UsualDistances(axes).of(ptr));
  }
  static constexpr int64_t kAll = int64_t(1) << 30;  // of zero
};

}  // namespace tegula::axis
