// Inline assembly over tiles.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>

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

// Each '$' of the text stands before the number of a register, alone or within braces, or is one of LLVM's own signs.
// False after an error.
bool check_registers(Sema& s, std::string_view assembly, std::string_view constraints) {
  const ir::AsmOperands named = ir::asm_operands(constraints);
  const int64_t registers = named.results + named.arguments;
  for (size_t at = assembly.find('$'); at != assembly.npos; at = assembly.find('$', at)) {
    std::string_view rest = assembly.substr(++at);
    if (rest.starts_with("{:")) continue;
    if (!rest.empty() && std::string_view("$(|)").find(rest[0]) != rest.npos) {
      ++at;
      continue;
    }
    if (rest.starts_with('{')) rest.remove_prefix(1);
    const size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    const int64_t number = digits > 0 && digits < 6 ? std::stoi(std::string(rest.substr(0, digits))) : registers;
    if (number < registers) continue;
    const std::string found(rest.substr(0, std::max<size_t>(digits, 1)));
    s.error(fmt::format("the assembly of inline_asm_elementwise has '${}', but its constraints name {} register{}",
                        found, registers, registers == 1 ? "" : "s"),
            fmt::format("'$0' is the first, '${}' the last of them; a '$' of PTX is written '$$'", registers - 1));
    return false;
  }
  return true;
}

// The constraints, one for each register, without blanks around.
std::vector<std::string> split_constraints(std::string_view constraints) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t comma = constraints.find(',');
    std::string_view part = constraints.substr(0, comma);
    part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
    parts.emplace_back(part.substr(0, part.find_last_not_of(' ') + 1));
    if (comma == constraints.npos) return parts;
    constraints.remove_prefix(comma + 1);
  }
}

bool is_immediate(const std::string& constraint) { return constraint == "n" || constraint == "i"; }

// A constraint names a register of 16, 32 or 64 bits, of an integer or a float; that of an argument may also be an
// immediate or the number of the result whose register it shares. False after an error.
bool check_letters(Sema& s, const std::string& constraints) {
  for (const std::string& part : split_constraints(constraints)) {
    if (part.empty() || part[0] == '~') continue;
    const bool is_result = part[0] == '=';
    const std::string letter = part.substr(std::min(part.find_first_not_of("=&"), part.size()));
    const bool is_register =
        letter.size() == 1 && std::string_view("bchrlNfd").find(letter[0]) != std::string_view::npos;
    const bool is_tied = !letter.empty() && letter.find_first_not_of("0123456789") == letter.npos;
    if (is_register || (!is_result && (is_immediate(part) || is_tied))) continue;
    s.error(fmt::format("the constraint '{}' of inline_asm_elementwise names no register", part),
            fmt::format("'{0}h', '{0}r' and '{0}l' are registers of 16, 32 and 64 bits, '{0}f' and '{0}d' of floats",
                        is_result ? "=" : ""));
    return false;
  }
  return true;
}

// What stands in the text for a register of so many elements of the number.
std::string immediate_text(const Int& number, const ir::Type& type, int64_t elements) {
  if (elements == 1) return number.to_string();
  const int bits = std::max(8, type.bits());
  uint64_t word = 0;
  for (int64_t i = 0; i < elements; ++i)
    word |= (uint64_t(number.clamped()) & ((uint64_t(1) << bits) - 1)) << (uint64_t(i) * uint64_t(bits));
  return fmt::format("{}", word);
}

// The text with other registers, or numbers, in place of its own; what check_registers() takes.
std::string renamed_registers(std::string_view assembly, const std::vector<std::string>& names) {
  std::string out;
  while (!assembly.empty()) {
    const size_t at = assembly.find('$');
    out += assembly.substr(0, at);
    if (at == assembly.npos) break;
    assembly.remove_prefix(at);
    const bool braced = assembly.substr(1).starts_with('{');
    const std::string_view number = assembly.substr(braced ? 2 : 1);
    const size_t digits = std::min(number.find_first_not_of("0123456789"), number.size());
    if (digits == 0) {  // a sign of LLVM's own
      out += assembly.substr(0, 2);
      assembly.remove_prefix(std::min<size_t>(2, assembly.size()));
      continue;
    }
    const std::string& name = names[size_t(std::stoi(std::string(number.substr(0, digits))))];
    const bool is_register = name.starts_with('$');
    assembly = number.substr(digits);
    if (braced && is_register)
      out += "${" + name.substr(1);  // the rest follows
    else
      out += name;
    if (braced && !is_register) assembly.remove_prefix(std::min(assembly.find('}') + 1, assembly.size()));
  }
  return out;
}

// Arguments whose constraint is 'n' are numbers in the text, and no registers any more. False after an error.
bool place_immediates(Sema& s, const std::vector<Val>& given, int64_t pack, std::string& assembly,
                      std::string& constraints, std::vector<ir::Value*>& arguments) {
  std::vector<std::string> parts = split_constraints(constraints), names, kept;
  if (std::none_of(parts.begin(), parts.end(), is_immediate)) return true;
  const auto is_operand = [](const std::string& part) { return !part.empty() && part[0] != '~'; };
  const auto end = std::stable_partition(parts.begin(), parts.end(), is_operand);
  const std::vector<std::string> clobbered(end, parts.end());
  parts.erase(end, parts.end());
  auto keep = [&](const std::string& part) {
    names.push_back(fmt::format("${}", kept.size()));
    kept.push_back(part);
  };
  size_t next = 0;
  while (parts[next].starts_with('=')) keep(parts[next++]);
  std::vector<ir::Value*> others;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const int64_t elements = ir::elements_of_register(arguments[i]->type, pack);
    const auto first = parts.begin() + long(next), last = first + long(pack / elements);
    next += size_t(pack / elements);
    if (std::none_of(first, last, is_immediate)) {
      std::for_each(first, last, keep);
      others.push_back(arguments[i]);
      continue;
    }
    const bool is_number = given[i].is<Int>() || given[i].is<bool>();
    if (!is_number || !std::all_of(first, last, is_immediate)) {
      s.error(fmt::format("the constraint '{}' of inline_asm_elementwise takes an integer known at compile time, "
                          "argument {} is {}",
                          *std::find_if(first, last, is_immediate), i, describe(given[i])),
              "'r' takes it in a register of 32 bits, 'l' in one of 64");
      return false;
    }
    const Int number = given[i].is<bool>() ? Int(given[i].as<bool>()) : given[i].as<Int>();
    for (auto part = first; part != last; ++part) names.push_back(immediate_text(number, arguments[i]->type, elements));
  }
  std::for_each(parts.begin() + long(next), parts.end(), keep);
  kept.insert(kept.end(), clobbered.begin(), clobbered.end());
  assembly = renamed_registers(assembly, names);
  constraints = fmt::format("{}", fmt::join(kept, ","));
  arguments = std::move(others);
  return true;
}

bool is_pointer(const Val& dtype) { return dtype.is<DType>() && dtype.as<DType>().type.pointer; }

// A block without arguments.
ir::Value* one_block(Sema& s, ir::Opcode opcode, const char* assembly, const char* constraints, Elem elem) {
  return s.builder
      .create(opcode, {}, {ir::Type::scalar(elem)},
              {{ir::attr::assembly, std::string(assembly)},
               {ir::attr::constraints, std::string(constraints)},
               {ir::attr::pack, int64_t(1)}})
      ->result();
}

}  // namespace

Val fn_extra_cuda_globaltimer(Sema& s, Args) {
  return one_block(s, ir::Opcode::InlineAsmEffects, "mov.u64 $0, %globaltimer;", "=l", Elem::I64);
}
Val fn_extra_cuda_smid(Sema& s, Args) {
  return one_block(s, ir::Opcode::InlineAsm, "mov.u32 $0, %smid;", "=r", Elem::I32);
}
Val fn_extra_cuda_gdc_wait(Sema& s, Args) {
  one_block(s, ir::Opcode::InlineAsmEffects, "griddepcontrol.wait; // $0", "=r", Elem::I32);
  return None{};
}
Val fn_extra_cuda_gdc_launch_dependents(Sema& s, Args) {
  one_block(s, ir::Opcode::InlineAsmEffects, "griddepcontrol.launch_dependents; // $0", "=r", Elem::I32);
  return None{};
}

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
    auto elem = is_pointer(dtype) ? Elem::I64 : to_elem(s, dtype, "the dtype of inline_asm_elementwise");
    if (!elem) return {};
    ir::Shape shape = arguments->empty() ? ir::Shape() : arguments->front()->type.shape;
    results.push_back(ir::Type::tile(*elem, std::move(shape)));
  }
  if (!check_constraints(s, *constraints, *arguments, results, *pack) || !check_letters(s, *constraints) ||
      !check_registers(s, *assembly, *constraints))
    return {};
  if (!place_immediates(s, *args[2].as<TupleVal>().items, *pack, *assembly, *constraints, *arguments)) return {};
  const ir::Op* op = s.builder.create(
      truth(args[4]) ? ir::Opcode::InlineAsm : ir::Opcode::InlineAsmEffects, std::move(*arguments), std::move(results),
      {{ir::attr::assembly, *assembly}, {ir::attr::constraints, *constraints}, {ir::attr::pack, *pack}});
  std::vector<Val> items;
  for (size_t i = 0; i < dtypes.size(); ++i) {
    ir::Value* result = op->results[i].get();
    items.push_back(is_pointer(dtypes[i]) ? s.builder.bitcast(result, dtypes[i].as<DType>().type.element()) : result);
  }
  return several ? make_tuple(std::move(items)) : std::move(items.front());
}

}  // namespace tegula::dsl
