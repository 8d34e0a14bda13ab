// Names of other files, found by the imports of the file at hand, and classes, as far as they are data: named tuples
// and names of constants. What a name of another file stands for is evaluated there.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "dsl/language/checker_impl.h"
#include "dsl/language/host_values.h"
#include "dsl/language/source_file.h"

namespace tegula::language {

namespace {

constexpr int kMaxImports = 32;  // files that hand a name on

/// The module that an import's path names, and the name in it: "a.b" and "c" of "a.b.c", "." and "c" of ".c".
std::pair<std::string, std::string> module_and_name(std::string_view path) {
  const size_t dot = path.rfind('.');
  std::string module(path.substr(0, dot));
  if (module.find_first_not_of('.') == std::string::npos) module += '.';
  return {std::move(module), std::string(path.substr(dot + 1))};
}

}  // namespace

const Module& Checker::module() const { return file_->module(); }

std::optional<Val> Checker::imported(std::string_view path, const Expr& use) {
  if (imports_ >= kMaxImports || path.find('.') == path.npos) return std::nullopt;
  ++imports_;
  std::optional<Val> value;
  const auto [module, name] = module_and_name(path);
  if (const SourceFile* file = file_->imported(module))
    value = in_file(file, [&, name = name] { return module_name(name, use); });
  if (const SourceFile* file = value ? nullptr : file_->imported(path))
    value = FunctionRef{FunctionRef::Kind::Module, std::string(path), nullptr, file};
  --imports_;
  return value;
}

// What is wrong between the function's first line and the next function.
bool Checker::check_text(const Function& function, Loc use) {
  if (!file_->mistakes().has_errors()) return true;
  int end = INT32_MAX;
  for (const Function& f : module().functions)
    if (f.loc.line > function.loc.line) end = std::min(end, f.loc.line);
  bool ok = true;
  for (const Diag& d : file_->mistakes().list()) {
    if (d.loc.line < function.loc.line || d.loc.line >= end) continue;
    diags_.add(d).with_note(use, fmt::format("in the function '{}', which is called here", function.name));
    ok = ok && d.severity != Severity::Error;
  }
  return ok;
}

// ---- Classes

std::optional<Val> Checker::class_value(const std::string& name) {
  const Class* type = file_->host_class(name);
  if (!type) return std::nullopt;
  ClassObject object;
  object.file = file_;
  object.type = std::shared_ptr<const Class>(std::shared_ptr<const Class>(), type);
  object.is_tuple = std::any_of(type->bases.begin(), type->bases.end(), [](const std::string& base) {
    return base == "NamedTuple" || base.ends_with(".NamedTuple");
  });
  return make_host(std::move(object));
}

Val Checker::make_named_tuple(const ClassObject& type, const std::vector<Argument>& args, Loc loc) {
  if (!type.is_tuple)
    return error(loc, fmt::format("{} makes no values here", type.describe()),
                 "named tuples do: classes of typing.NamedTuple and collections.namedtuple");
  auto fields = std::make_shared<dsl::TupleFields>();
  fields->type = type.type->name;
  std::vector<const char*> names;
  size_t required = 0;
  for (const Global& field : type.type->fields) {
    fields->names.push_back(field.name);
    names.push_back(field.name.c_str());
    if (!field.value) required = names.size();
  }
  auto matched = match_arguments(fields->type, names, required, args, loc);
  if (!matched) return Val();
  std::vector<Val> items;
  for (size_t i = 0; i < names.size(); ++i) {
    const Argument* a = (*matched)[i];
    const Global& field = type.type->fields[i];
    items.push_back(a ? a->value : in_file(type.file, [&] { return as_host([&] { return eval(*field.value); }); }));
    if (items.back().is_poison()) return Val();
  }
  return dsl::make_tuple(std::move(items), std::move(fields));
}

Val Checker::class_attribute(const ClassObject& type, const Expr& e) {
  std::vector<std::string> names;
  std::vector<Val> all;
  for (const Global& field : type.type->fields) {
    names.push_back(field.name);
    all.emplace_back(field.name);
    if (field.name == e.text && field.value)
      return in_file(type.file, [&] { return as_host([&] { return eval(*field.value); }); });
  }
  if (type.is_tuple && e.text == "_fields") return dsl::make_tuple(std::move(all));
  return error(e.loc, fmt::format("{} has no constant '{}'", type.describe(), e.text), nearest_hint(e.text, names));
}

}  // namespace tegula::language
