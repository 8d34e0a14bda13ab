#include "dsl/grid.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dsl/language/checker_impl.h"
#include "dsl/language/host_values.h"
#include "dsl/language/source_file.h"

namespace tegula {

namespace {

// The expression as the body of a host function whose parameters are the names.
std::string as_function(const std::string& text, const std::vector<std::string>& names) {
  return fmt::format("import triton\nfrom triton import cdiv, next_power_of_2\ndef grid({}):\n    return ({})\n",
                     fmt::join(names, ", "), text);
}

// What is wrong with an expression that was taken for a function of a file: the user wrote no file.
CompileError in_expression(const std::string& text, const std::vector<std::string>& names, const Diagnostics& diags) {
  Diagnostics out;
  for (const Diag& diag : diags.list())
    if (diag.severity == Severity::Error) {
      const bool is_strange = diag.hint.empty() && diag.message.starts_with("unknown name");
      out.error({}, fmt::format("the grid '{}': {}", text, diag.message))
          .with_hint(is_strange ? fmt::format("it may name {}", fmt::join(names, ", ")) : diag.hint);
    }
  return CompileError(out);
}

}  // namespace

GridExpression::GridExpression(std::string text) : text_(std::move(text)) {
  Diagnostics diags;
  language::SourceFile file(as_function(text_, {}), "<grid>", diags);
  const auto* function = file.host_function("grid");
  if (diags.has_errors() || !function || function->diags.has_errors()) {
    Diagnostics out;
    out.error({}, fmt::format("'{}' is no grid", text_))
        .with_hint("expected 1 to 3 integers, such as 64 or cdiv(n, BLOCK) or rows, batch");
    throw CompileError(out);
  }
}

Grid GridExpression::operator()(const LaunchArgs& args) const {
  std::vector<std::string> names;
  std::vector<language::Argument> values;
  for (const auto& [name, value] : args.items()) {
    names.push_back(name);
    values.push_back({{}, language::launch_value(name, value), {}});
  }
  Diagnostics diags;
  language::SourceFile file(as_function(text_, names), "<grid>", diags);
  language::Checker checker(file, language::Checker::Code::Host);
  dsl::Val result = checker.evaluate([&] {
    language::FunctionObject function;
    function.function = &file.host_function("grid")->function;
    return checker.call_host(function, std::move(values), {});
  });
  std::vector<int64_t> extents;
  auto add = [&](const dsl::Val& v) {
    if (const auto* i = v.get_if<dsl::Int>()) extents.push_back(i->clamped());
  };
  if (const auto* tuple = result.get_if<dsl::TupleVal>()) {
    for (const dsl::Val& v : *tuple->items) add(v);
    if (extents.size() != tuple->items->size()) extents.clear();
  } else {
    add(result);
  }
  Diagnostics out;
  checker.publish(out);
  if (out.has_errors()) throw in_expression(text_, names, out);
  bool fits = extents.size() >= 1 && extents.size() <= 3;
  for (int64_t e : extents) fits = fits && e >= 0 && e <= INT32_MAX;
  if (!fits) {
    out.error({}, fmt::format("the grid '{}' is {}, expected 1 to 3 integers from 0 to 2^31 - 1", text_,
                              dsl::describe(result)));
    throw CompileError(out);
  }
  extents.resize(3, 1);
  return {unsigned(extents[0]), unsigned(extents[1]), unsigned(extents[2])};
}

}  // namespace tegula
