// What loops around a divided one load for its products, brought by the thread that copies.
#include <algorithm>
#include <iterator>

#include "codegen/analysis/shared_plan.h"
#include "codegen/ir/builder.h"
#include "codegen/ir/flow.h"
#include "codegen/pipeline/bulk_copies.h"
#include "codegen/pipeline/edit.h"
#include "codegen/pipeline/filled_places.h"
#include "codegen/pipeline/partition.h"

namespace tegula {

using namespace ir;

// Whether a product of the body is waited for later than in its iteration.
static bool keeps_in_flight(const Block& body) {
  bool later = false;
  walk(body, [&](const Op& op) { later |= op.opcode == Opcode::MmaWait && op.get(attr::pending) != 0; });
  return later;
}

//   for tile = ...                             for tile = ...                    copy_warps:
//     shared_store load(q), place      ->        phase_wait full[slot]             for tile = ...
//     for i = ...                                for i = ...                         phase_wait empty[slot]
//       use place                                  use place[slot]                   phase_arrive full[slot] {bytes}
//                                                phase_arrive empty[slot]            bulk_copy q, place[slot]
//
// So the program's warps do not wait for each other between the loops of two tiles either.
void Partition::feed_loops_around(const std::vector<Op*>& nest, std::vector<Transfer>& told) {
  if (nest.size() < 2 || func_.num_ctas() > 1) return;
  const std::vector<Op*> around(nest.begin(), std::prev(nest.end()));
  if (keeps_in_flight(*around.back()->regions[0])) return;
  const auto uses = count_uses(func_.body);
  std::vector<Op*> stores;
  for (auto& op : around.back()->regions[0]->ops) {
    if (op->opcode != Opcode::SharedStore) continue;
    const Op* load = op->operand(0)->def;
    const bool loaded = load && load->opcode == Opcode::Load && load->parent == op->parent &&
                        uses.at(load->result()) == 1 && (!load->operand(2) || is_zero(load->operand(2))) &&
                        !(load->get(attr::volatile_));
    if (loaded && op->operand(1)->def && op->operand(1)->def->opcode == Opcode::SharedAlloc &&
        op->operand(1)->def->get(attr::slots) == 1)
      stores.push_back(op.get());
  }
  for (Op* store : stores) {
    const Loc loc = store->operand(0)->def->loc;
    if (copy_ahead(around, *store))
      told.push_back({loc, "bulk copies ahead of the loops, issued by warps of their own", ""});
  }
  // The barriers after what was stored (begin_fills), if nothing is any more.
  auto& ops = around.back()->regions[0]->ops;
  if (std::none_of(ops.begin(), ops.end(), [](auto& op) { return op->opcode == Opcode::SharedStore; }))
    std::erase_if(ops, [](auto& op) { return op->opcode == Opcode::Barrier && op->get(attr::async_proxy); });
}

// Two where they leave room for the results, which are as large as what comes in: then the next tile's copy is not
// waited for.
int64_t Partition::slots_ahead(Op& alloc) const {
  for (int64_t slots : {2, 1}) {
    alloc.set(attr::slots, slots);
    const int64_t results = slots > 1 ? place_bytes(alloc.result()->type) : 0;
    if (plan_shared(func_).bytes + results <= target_.shared_per_program) return slots;
  }
  return 0;
}

bool Partition::copy_ahead(const std::vector<Op*>& nest, Op& store) {
  Op& load = *store.operand(0)->def;
  Value* place = store.operand(1);
  Builder here = before(store);
  std::vector<Op*> copies{here.create(Opcode::AsyncCopy, {load.operand(0), place, load.operand(1)})};
  Value* token = here.create(Opcode::AsyncCommit, {}, {Type::token(Completion::Group)})->result();
  here.create(Opcode::AsyncWait, {token});
  BulkForm form(func_, copies);
  std::vector<Fill> fills{{copies, nullptr, nullptr}};
  alloc_barriers(fills, 2, true);
  const Fill& fill = fills[0];
  int64_t slots = 0;
  {
    MovedAllocs allocs(copies, *nest.front());
    if (form.why_not().empty()) slots = slots_ahead(*place->def);
    for (const Value* barriers : {fill.full, fill.empty}) barriers->def->set(attr::slots, std::max<int64_t>(slots, 1));
    if (slots && !nest_.add_ahead(nest, fill, slots)) slots = 0;
    if (slots) allocs.keep();
  }
  if (!slots) {
    place->def->set(attr::slots, 1);
    erase(*fill.full->def), erase(*fill.empty->def);
    take_copy(*copies[0]);
    return false;
  }
  erase(store);
  erase(load);
  Builder first = before(*nest.front());
  for (int64_t slot = 0; slot < slots; ++slot)
    first.create(Opcode::PhaseArrive, {slot_of(first, fill.empty, number(first, slot))}, {},
                 {{attr::async_proxy, true}});
  const Turn turn = carry_turn(nest, {number(first, 0), number(first, 0)}, slots);
  Block& body = *nest.back()->regions[0];
  const Span span = span_of_uses(body, place);
  Builder begin = before(*span.first), end = behind(*span.last);
  begin.create(Opcode::PhaseWait, {slot_of(begin, fill.full, turn.slot), turn.phase});
  end.create(Opcode::PhaseArrive, {slot_of(end, fill.empty, turn.slot)});
  take_copy(*copies[0]);
  read_slot(body, place, turn.slot);
  return true;
}

}  // namespace tegula
