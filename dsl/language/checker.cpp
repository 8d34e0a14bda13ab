// Entry points of the checker: specialisation and diagnostics.
#include "dsl/language/checker.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/analysis/pointer_base.h"
#include "codegen/ir/flow.h"
#include "dsl/language/checker_impl.h"
#include "dsl/language/source_file.h"
#include "runtime/base/check.h"

namespace tegula::language {

Checker::Checker(const SourceFile& file, Code code) : root_(file), file_(&file), sema_{{}, diags_, {}, {}} {
  diags_.set_page(code == Code::Host ? dsl::page::kDecorators : dsl::page::kStatements);
  if (code == Code::Host) {
    host_ = true;
    sema_.builder.set_end(&scratch_);
  }
  sema_.call = [this](const FunctionRef& function, std::vector<Val> values) {
    Loc loc = sema_.loc;
    std::vector<Argument> args;
    for (Val& value : values) args.push_back({{}, std::move(value), loc});
    if (function.kind == FunctionRef::Kind::Jit && !takes(function, args.size())) return Val();
    if (function.kind == FunctionRef::Kind::Jit) return call_jit(function, std::move(args), loc);
    if (const dsl::FunctionInfo* info = dsl::find_function(function.name))
      return call_table(*info, std::move(args), loc);
    return error(loc, fmt::format("'{}' cannot be used as a function value", function.name),
                 "pass a @triton.jit function");
  };
}

Val Checker::error(Loc loc, std::string message, std::string hint) {
  sema_.at(loc);
  return sema_.error(std::move(message), std::move(hint));
}

Val Checker::with_note(Loc loc, const std::string& message, const std::function<Val()>& body) {
  size_t before = diags_.size();
  Val result = body();
  for (size_t i = before; i < diags_.size(); ++i) {
    std::vector<Note>& notes = notes_[i];  // one note for the same call over and over, of a function that calls itself
    if (notes.empty() || notes.back().loc != loc || notes.back().message != message) notes.push_back({loc, message});
  }
  return result;
}

void Checker::publish(Diagnostics& out) {
  auto known = [&](const Diag& d) {
    return std::any_of(out.list().begin(), out.list().end(), [&](const Diag& o) {
      return o.severity == d.severity && o.loc == d.loc && o.message == d.message;
    });
  };
  for (size_t i = 0; i < diags_.size(); ++i) {
    const Diag& d = diags_.list()[i];
    if (known(d)) continue;
    Diag& copy = out.add(d);
    if (auto it = notes_.find(i); it != notes_.end())
      copy.notes.insert(copy.notes.end(), it->second.begin(), it->second.end());
  }
}

const Function* Checker::find_kernel(std::string_view kernel) {
  if (const Function* function = find_jit(kernel)) return function;
  std::vector<std::string> names;
  for (const Function& f : module().functions) names.push_back(f.name);
  error(Loc{module().file}, fmt::format("no @triton.jit function '{}' in {}", kernel, *module().file),
        nearest_hint(
            kernel, names,
            names.empty() ? "the file has no @triton.jit function" : fmt::format("it has {}", fmt::join(names, ", "))));
  return nullptr;
}

Val Checker::argument_of(const Param& p, const Specialization& spec) {
  auto arg = std::find_if(spec.args.begin(), spec.args.end(), [&](const ArgSpec& a) { return a.name == p.name; });
  const bool is_given = arg != spec.args.end(), is_constexpr = is_constexpr_annotation(p.annotation.get());
  if (p.annotation && !is_constexpr) check_annotation(*p.annotation);
  if (is_given && arg->constant) return *arg->constant;
  if (is_given && is_constexpr)
    return error(
        p.loc,
        fmt::format("'{}' is a tl.constexpr argument, but only its type {} is given", p.name, arg->type.to_string()),
        "give its value");
  if (is_given) return dsl::add_param(*func_, sema_.builder, *arg);
  if (p.default_value) return default_value(p);
  return error(
      p.loc,
      fmt::format("argument '{}' of kernel '{}' has no {}", p.name, func_->name, is_constexpr ? "value" : "type"),
      is_constexpr ? "it is a tl.constexpr argument without a default: give its value"
                   : "give its type, or a value to compile it in");
}

std::unique_ptr<ir::Func> Checker::check_kernel(std::string_view kernel, const Specialization& spec) {
  const Function* function = find_kernel(kernel);
  if (!function) return nullptr;
  func_ = std::make_unique<ir::Func>();
  func_->name = function->name;
  func_->loc = function->loc;
  capability_ = spec.capability;
  spec.set_options(*func_, sema_);
  sema_.builder.set_end(&func_->body);

  std::vector<std::string> names;
  for (const Param& p : function->params) names.push_back(p.name);
  for (const ArgSpec& arg : spec.args)
    if (std::find(names.begin(), names.end(), arg.name) == names.end())
      error(function->loc, fmt::format("kernel '{}' has no argument '{}'", kernel, arg.name),
            nearest_hint(arg.name, names, fmt::format("its arguments are {}", fmt::join(names, ", "))));

  if (function->rest)
    error(function->rest->loc, "a kernel cannot take a variable number of arguments", "name each parameter");

  Frame frame;
  frame.function = function;
  frame.is_kernel = true;
  for (const Param& p : function->params) frame.scope[p.name] = Binding{argument_of(p, spec), {}, p.loc};

  frame_ = &frame;
  watch_parameters();
  execute(Continuation{function->body});
  frame_ = nullptr;
  sema_.at(function->loc);
  sema_.builder.create(ir::Opcode::Return, {});
  if (!diags_.has_errors()) check_constants(*function);
  if (diags_.has_errors()) return nullptr;
  return std::move(func_);
}

namespace {

// The pointers that may come from the given ones by address arithmetic, choices, branches and loops, each with the name
// of the one that it comes from.
std::map<const ir::Value*, std::string> derived_pointers(ir::Func& func,
                                                         std::map<const ir::Value*, std::string> known) {
  bool grown = true;
  auto derive = [&](const ir::Value* to, const ir::Value* from) {
    auto found = to->type.pointer ? known.find(from) : known.end();
    if (found != known.end()) grown |= known.emplace(to, found->second).second;
  };
  while (grown) {
    grown = false;
    ir::walk(func.body, [&](ir::Op& op) {
      const std::vector<ir::Flow> flows = ir::flows(op);
      for (const ir::Flow& flow : flows)
        for (const ir::Flow::From& from : flow.from)
          for (const ir::Flow::To& to : flow.to)
            for (size_t i = 0; i < std::min(from.size(), to.size()); ++i) derive(to[i], from[i]);
      if (!flows.empty()) return;
      for (const auto& result : op.results)
        for (const ir::Value* operand : op.operands) derive(result.get(), operand);
    });
  }
  return known;
}

}  // namespace

// What a tl.const parameter points to is only read.
void Checker::check_constants(const Function& function) {
  std::map<const ir::Value*, std::string> constant;
  for (const Param& p : function.params)
    if (p.annotation && dotted_name(*p.annotation).ends_with("const"))
      for (const auto& arg : func_->body.args)
        if (arg->name == p.name) constant[arg.get()] = p.name;
  if (constant.empty()) return;
  constant = derived_pointers(*func_, std::move(constant));
  ir::walk(func_->body, [&](ir::Op& op) {
    if (op.opcode != ir::Opcode::Store && op.opcode != ir::Opcode::AtomicRmw) return;
    auto found = constant.find(op.operand(0));
    if (found == constant.end()) return;
    const char* what = pointer_base(op.operand(0)) ? "writes" : "may write";
    error(op.loc, fmt::format("this {} through '{}', which is a tl.const pointer", what, found->second),
          "drop the annotation tl.const of the parameter");
  });
}

// A combine function takes the elements of two groups.
bool Checker::takes(const FunctionRef& combine, size_t count) {
  const auto& function = *static_cast<const Function*>(combine.function);
  const auto required = size_t(
      std::count_if(function.params.begin(), function.params.end(), [](const Param& p) { return !p.default_value; }));
  if ((required <= count && count <= function.params.size()) || function.rest) return true;
  error(sema_.loc, fmt::format("the combine function '{}' takes {} values, expected {}: two for each input",
                               function.name, function.params.size(), count));
  return false;
}

void Checker::check_function(const Function& function) {
  func_ = std::make_unique<ir::Func>();
  func_->name = function.name;
  untyped_ = true;
  sema_.builder.set_end(&func_->body);
  Frame frame;
  frame.function = &function;
  for (const Param& p : function.params) {
    if (p.default_value) default_value(p);
    frame.scope[p.name] = Binding{Val(), {}, p.loc};
  }
  if (function.rest) frame.scope[function.rest->name] = Binding{Val(), {}, function.rest->loc};
  frame_ = &frame;
  execute(Continuation{function.body});
  frame_ = nullptr;
}

namespace {

// The last function of a name counts, as in Python: mostly a slip, unless a condition of the module chooses.
void warn_of_duplicates(const Module& module, Diagnostics& diags) {
  std::map<std::string_view, const Function*> seen;
  for (const Function& function : module.functions) {
    const Function*& earlier = seen[function.name];
    if (earlier && function.conditions.empty() && earlier->conditions.empty())
      diags.warning(function.loc, fmt::format("kernel function '{}' is defined again: this one counts", function.name))
          .with_note(earlier->loc, "the first one is here");
    earlier = &function;
  }
}

}  // namespace

std::unique_ptr<ir::Func> check(const SourceFile& file, std::string_view kernel, const Specialization& spec,
                                Diagnostics& diags, std::vector<std::string>* prints) {
  Checker checker(file, Checker::Code::Kernels);
  std::unique_ptr<ir::Func> func = checker.check_kernel(kernel, spec);
  checker.publish(diags);
  if (prints) *prints = checker.take_prints();
  return func;
}

void check_all(const SourceFile& file, Diagnostics& diags) {
  if (file.module().functions.empty())
    diags.warning({file.module().file}, "the file has no @triton.jit function")
        .with_hint("kernels are functions under @triton.jit");
  warn_of_duplicates(file.module(), diags);
  for (const Function& function : file.module().functions) {
    Checker checker(file, Checker::Code::Kernels);
    checker.check_function(function);
    checker.publish(diags);
  }
}

}  // namespace tegula::language
