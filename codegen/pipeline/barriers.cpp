#include "codegen/pipeline/barriers.h"

#include "codegen/layout/makers.h"
#include "codegen/pipeline/edit.h"

namespace tegula {

using namespace ir;

Value* alloc_barriers(Func& func, int64_t slots, int64_t arrivals) {
  Builder first = before(*func.body.ops.front());
  Value* barriers = first
                        .create(Opcode::SharedAlloc, {}, {Type::place(Elem::I64, {1})},
                                {{attr::slots, slots}, {attr::barriers, true}, {attr::arrivals, arrivals}})
                        ->result();
  barriers->type.layout = std::make_shared<LinearLayout>(swizzled_shared_layout({1}, {0}, 1, 1, 1));
  return barriers;
}

}  // namespace tegula
