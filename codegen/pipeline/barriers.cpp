#include "codegen/pipeline/barriers.h"

#include "codegen/layout/makers.h"
#include "codegen/pipeline/edit.h"

namespace tegula {

using namespace ir;

Value* make_barriers(Builder& build, int64_t slots, int64_t arrivals) {
  Attrs attrs{{attr::slots, slots}, {attr::barriers, true}};
  if (arrivals) attrs[attr::arrivals] = arrivals;
  Value* barriers = build.create(Opcode::SharedAlloc, {}, {Type::place(Elem::I64, {1})}, std::move(attrs))->result();
  barriers->type.layout = std::make_shared<LinearLayout>(swizzled_shared_layout({1}, {0}, 1, 1, 1));
  return barriers;
}

Value* alloc_barriers(Func& func, int64_t slots, int64_t arrivals) {
  Builder first = before(*func.body.ops.front());
  return make_barriers(first, slots, arrivals);
}

}  // namespace tegula
