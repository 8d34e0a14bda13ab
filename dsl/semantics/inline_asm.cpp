// Inline assembly over tiles.
#include <fmt/format.h>

#include <bit>

#include "dsl/semantics/internal.h"

namespace tegula::dsl {

namespace {

constexpr int64_t kMostPacked = 32;

std::optional<std::string> text(Sema& s, const Val& x, const char* argument) {
  if (x.is<std::string>()) return x.as<std::string>();
  s.error(fmt::format("the {} of inline_asm_elementwise is {}, expected a string", argument, describe(x)));
  return std::nullopt;
}

// The args as values of one shape; nullopt after an error.
std::optional<std::vector<ir::Value*>> operands_of(Sema& s, const Val& args) {
  if (!args.is<TupleVal>()) {
    s.error(fmt::format("the args of inline_asm_elementwise are {}, expected a list", describe(args)),
            "args=[x, y], or args=[] for none");
    return std::nullopt;
  }
  std::vector<ir::Value*> values;
  for (const Val& x : *args.as<TupleVal>().items) {
    values.push_back(to_value(s, x, "an argument of inline_asm_elementwise"));
    if (!values.back()) return std::nullopt;
  }
  // The first has the shape of all once it met each of the others.
  for (int round = 0; round < 2; ++round)
    for (size_t i = 1; i < values.size(); ++i)
      if (!broadcast_pair(s, values[0], values[i])) return std::nullopt;
  return values;
}

// The constraints have to name as many registers as there are values to hold.
bool check_constraints(Sema& s, const std::string& constraints, const std::vector<ir::Value*>& arguments,
                       const std::vector<ir::Type>& results, int64_t pack) {
  int64_t of_results = 0, of_arguments = 0;
  for (const ir::Type& type : results) of_results += pack / ir::elements_of_register(type, pack);
  for (const ir::Value* x : arguments) of_arguments += pack / ir::elements_of_register(x->type, pack);
  const ir::AsmOperands found = ir::asm_operands(constraints);
  if (found.results == of_results && found.arguments == of_arguments) return true;
  auto count = [](int64_t n, const char* what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); };
  s.error(
      fmt::format("the constraints '{}' of inline_asm_elementwise name {} and {}, expected {} and {}", constraints,
                  count(found.results, "result"), count(found.arguments, "argument"), count(of_results, "result"),
                  count(of_arguments, "argument")),
      fmt::format("'=r' for a result, 'r' for an argument; with pack={} elements below 32 bits share registers", pack));
  return false;
}

}  // namespace

// args: asm, constraints, args, dtype, is_pure, pack
Val fn_inline_asm_elementwise(Sema& s, Args args) {
  auto assembly = text(s, args[0], "asm"), constraints = text(s, args[1], "constraints");
  if (!assembly || !constraints) return {};
  auto arguments = operands_of(s, args[2]);
  auto pack = to_int(s, args[5], "the pack of inline_asm_elementwise");
  if (!arguments || !pack) return {};
  if (*pack < 1 || *pack > kMostPacked || !std::has_single_bit(uint64_t(*pack)))
    return s.error(
        fmt::format("the pack of inline_asm_elementwise is {}, expected a power of two up to {}", *pack, kMostPacked));
  if (!args[4].is_constant())
    return s.error(fmt::format("the is_pure of inline_asm_elementwise is {}", describe(args[4])));
  const bool several = args[3].is<TupleVal>();
  const std::vector<Val> dtypes = several ? *args[3].as<TupleVal>().items : std::vector<Val>{args[3]};
  if (dtypes.empty())
    return s.error("inline_asm_elementwise without a result", "give it a dtype even if nothing uses the result");
  std::vector<ir::Type> results;
  for (const Val& dtype : dtypes) {
    auto elem = to_elem(s, dtype, "the dtype of inline_asm_elementwise");
    if (!elem) return {};
    ir::Shape shape = arguments->empty() ? ir::Shape() : arguments->front()->type.shape;
    results.push_back(ir::Type::tile(*elem, std::move(shape)));
  }
  if (!check_constraints(s, *constraints, *arguments, results, *pack)) return {};
  const ir::Op* op = s.builder.create(
      truth(args[4]) ? ir::Opcode::InlineAsm : ir::Opcode::InlineAsmEffects, std::move(*arguments), std::move(results),
      {{"assembly", *assembly}, {"constraints", *constraints}, {"pack", *pack}});
  if (!several) return op->result();
  std::vector<Val> items;
  for (const auto& r : op->results) items.push_back(r.get());
  return make_tuple(std::move(items));
}

}  // namespace tegula::dsl
