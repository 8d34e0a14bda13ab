#include "dsl/semantics/reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/ir/libdevice.h"
#include "dsl/semantics/sema.h"

namespace tegula::dsl {

namespace {

std::string signature(const FunctionInfo& f) {
  constexpr std::string_view kCuda = "extra_cuda_";  // tl.extra.cuda's functions are called through that module
  std::string out = (f.name.starts_with(kCuda) ? "extra.cuda." + f.name.substr(kCuda.size()) : f.name) + "(";
  const char* separator = "";
  for (const FunctionParam& p : f.params) {
    out += separator + std::string(p.rest ? "*" : "") + p.name;
    separator = ", ";
    if (p.required || p.rest) continue;
    if (p.fallback.is<None>())
      out += "=None";
    else if (p.fallback.is<bool>())
      out += p.fallback.as<bool>() ? "=True" : "=False";
    else if (p.fallback.is<Int>())
      out += fmt::format("={}", p.fallback.as<Int>());
    else if (p.fallback.is<std::string>())
      out += fmt::format("='{}'", p.fallback.as<std::string>());
    else
      out += "=()";
  }
  return out + ")";
}

// For a cell of a table.
std::string escaped(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

std::string regions_text(const ir::OpInfo& op) {
  static constexpr const char* kKinds[] = {"combine", "elements", "body", "test", "branch", "beside"};
  std::string out;
  for (const ir::RegionInfo& region : op.regions)
    out += fmt::format("{}{} ({}): {}", out.empty() ? "" : " ", kKinds[int(region.kind)],
                       ir::op_info(region.terminator).text, region.doc);
  return escaped(out);
}

// "`axis` = 0 (0 to 2): ..."
std::string attribute_text(const ir::AttrInfo& attr) {
  struct Default {
    std::string operator()(bool v) const { return v ? " = true" : " = false"; }
    std::string operator()(int64_t v) const { return fmt::format(" = {}", v); }
    std::string operator()(double v) const { return fmt::format(" = {}", v); }
    std::string operator()(const std::string& v) const { return v.empty() ? "?" : fmt::format(" = {}", v); }
    std::string operator()(const ir::Ints&) const { return "?"; }
  };
  std::string limits;
  if (attr.low > INT32_MIN && attr.high < INT32_MAX)
    limits = fmt::format(" ({} to {})", attr.low, attr.high);
  else if (!attr.choices.empty())
    limits = fmt::format(" ({})", fmt::join(attr.choices, ", "));
  return fmt::format("`{}`{}{}: {}", attr.name, attr.required ? "" : std::visit(Default{}, attr.fallback), limits,
                     attr.doc);
}

std::string attributes_text(const ir::OpInfo& op) {
  std::string out;
  for (const ir::AttrInfo& attr : op.attrs) out += (out.empty() ? "" : " ") + attribute_text(attr);
  return escaped(out);
}

// Rows of one name and meaning together.
std::string libdevice_table() {
  std::string out = "| function | types | meaning |\n|---|---|---|\n";
  const std::vector<ir::LibdeviceFunction>& all = ir::libdevice_functions();
  for (size_t i = 0; i < all.size();) {
    std::string types;
    size_t end = i;
    for (; end < all.size() && all[end].name == all[i].name && std::string_view(all[end].doc) == all[i].doc; ++end)
      types += (end > i ? ", " : "") + all[end].signature();
    out += fmt::format("| `{}` | {} | {} |\n", all[i].name, types, escaped(all[i].doc));
    i = end;
  }
  return out;
}

std::string elements_table() {
  std::string out = "| name | short | bits |\n|---|---|---|\n";
  for (int i = 0; i <= int(Elem::F64); ++i) {
    const ElemInfo& e = elem_info(Elem(i));
    out += fmt::format("| tl.{} | {} | {} |\n", e.tl, e.text, e.bits);
  }
  return out;
}

std::string functions_table() {
  std::vector<const FunctionInfo*> sorted;
  for (const FunctionInfo& f : function_table())
    if (!f.name.starts_with("libdevice.")) sorted.push_back(&f);
  std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->name < b->name; });
  std::string out = "| function | | meaning |\n|---|---|---|\n";
  for (const FunctionInfo* f : sorted)
    out += fmt::format("| `{}` | {} | {} |\n", signature(*f), f->method ? "x." : "", escaped(f->doc));
  return out;
}

std::string descriptor_methods_table() {
  std::string out = "| method | meaning |\n|---|---|\n";
  for (const FunctionInfo& f : descriptor_methods())
    out += fmt::format("| `desc.{}` | {} |\n", std::string(signature(f)).replace(f.name.size() + 1, 6, ""), f.doc);
  return out;
}

std::string operations_table() {
  std::string out = "| op | operands | regions | attributes | meaning |\n|---|---|---|---|---|\n";
  for (const ir::OpInfo& op : ir::op_table()) {
    std::string operands;
    for (size_t i = 0; i < op.operands.size(); ++i)
      operands += (i ? ", " : "") + op.operands[i] + (int(i) >= op.required && !op.variadic ? "?" : "");
    out += fmt::format("| `{}` | {} | {} | {} | {} |\n", op.text, operands, regions_text(op), attributes_text(op),
                       escaped(op.doc));
  }
  return out;
}

}  // namespace

std::vector<ReferenceTable> reference_tables() {
  return {{"element types", elements_table()},
          {"functions", functions_table()},
          {"libdevice", libdevice_table()},
          {"descriptor methods", descriptor_methods_table()},
          {"operations", operations_table()}};
}

}  // namespace tegula::dsl
