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

bool Checker::is_of_files(const std::string& name) {
  if (file_->host_class(name)) return true;
  return std::any_of(module().imports.begin(), module().imports.end(), [&](const ImportBinding& import) {
    return import.name == name && import.path.find('.') != import.path.npos &&
           (file_->imported(import.path) || file_->imported(module_and_name(import.path).first));
  });
}

// ---- Classes

std::optional<Val> Checker::class_value(const std::string& name) {
  const Class* type = file_->host_class(name);
  if (!type) return std::nullopt;
  if (const std::optional<Loc> other = other_definition(name, type->loc))
    return error(*other,
                 fmt::format("the class '{}' is defined more than once, and which one counts is not followed", name));
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

// ---- Aggregates

const Method* Checker::find_method(const ClassObject& type, std::string_view name, Loc use) {
  for (const Method& method : type.type->methods) {
    if (method.function.name != name) continue;
    for (const Diag& d : method.mistakes.list())
      diags_.add(d).with_note(use, fmt::format("in the method '{}', which is called here", name));
    return &method;
  }
  return nullptr;
}

Val Checker::make_object(const Val& type, std::vector<Argument> args, Loc loc) {
  const ClassObject& of = *get_host<ClassObject>(type);
  auto fields = std::make_shared<dsl::TupleFields>();
  fields->type = of.type->name;
  fields->methods = type.as<dsl::HostRef>();
  for (const Global& field : of.type->fields)
    if (field.annotation) fields->names.push_back(field.name);
  const Method* constructor = find_method(of, "__init__", loc);
  if (!constructor || constructor->function.params.empty())
    return error(loc, fmt::format("{} has no constructor __init__(self, ...)", of.describe()));
  const std::vector<Val> unset(fields->names.size(), make_host(UnsetField()));
  args.insert(args.begin(), Argument{{}, dsl::make_tuple(unset, fields), loc});
  Val made;
  in_file(of.file, [&] { return inline_jit(constructor->function, std::move(args), loc, &made); });
  const auto* object = made.get_if<dsl::TupleVal>();
  if (!object) return Val();
  for (size_t i = 0; i < fields->names.size(); ++i)
    if (get_host<UnsetField>((*object->items)[i]))
      return error(loc,
                   fmt::format("the constructor of '{}' gives the field '{}' no value", fields->type, fields->names[i]),
                   fmt::format("write self.{} = ... in it", fields->names[i]));
  return made;
}

bool Checker::assign_field(const Expr& target, const Val& value) {
  const Expr& base = *target.children[0];
  const Function* function = frame_->function;
  if (!function || function->name != "__init__" || base.kind != Expr::Kind::Name || function->params.empty() ||
      base.text != function->params.front().name)
    return false;
  const Val self = lookup(base);
  const auto* object = self.get_if<dsl::TupleVal>();
  const auto* type = object && object->fields ? get_host<ClassObject>(object->fields->methods) : nullptr;
  if (!type) return self.is_poison();
  const std::vector<std::string>& names = object->fields->names;
  const auto it = std::find(names.begin(), names.end(), target.text);
  if (it == names.end()) {
    error(target.loc, fmt::format("{} has no field '{}'", type->describe(), target.text),
          nearest_hint(target.text, names, fmt::format("annotate it in the class: {}: tl.tensor", target.text)));
    return true;
  }
  const auto is_field = [&](const Global& g) { return g.name == target.text && g.annotation; };
  const Global& field = *std::find_if(type->type->fields.begin(), type->type->fields.end(), is_field);
  std::vector<Val> items = *object->items;
  // A number is a scalar of the kernel unless the field is a constexpr.
  items[size_t(it - names.begin())] = is_constexpr_annotation(field.annotation.get()) ? value : dsl::as_scalars(value);
  bind(base.text, dsl::with_items(*object, std::move(items)), target.loc);
  return true;
}

std::optional<Val> Checker::call_own_method(const Val& object, std::string_view name, std::vector<Argument> args,
                                            Loc loc) {
  const auto* tuple = object.get_if<dsl::TupleVal>();
  const auto* type =
      tuple && tuple->fields ? get_host<ClassObject>(tuple->fields->methods) : get_host<ClassObject>(object);
  const Method* method = type ? find_method(*type, name, loc) : nullptr;
  if (!method) return std::nullopt;
  if (tuple && !method->is_static) args.insert(args.begin(), Argument{{}, object, loc});
  return in_file(type->file, [&] { return inline_jit(method->function, std::move(args), loc); });
}

Checker::Fields& Checker::fields_of(const ClassObject& type) {
  const auto [found, is_new] = classes_.try_emplace(type.type.get());
  Fields& fields = found->second;
  if (!is_new) return fields;
  Frame frame, *caller = std::exchange(frame_, &frame);
  frame.parent = caller;
  const int unknown = std::exchange(unknown_, 0);
  in_file(type.file, [&] {
    return as_host([&] {
      for (const Global& field : type.type->fields) {
        if (!field.value) continue;
        Field made;
        made.why = capture([&] {
          if (type.type->not_followed.contains(field.name))
            error(field.loc, fmt::format("what the body of the class makes of '{}' is not followed", field.name));
          else if (changes_behind(*field.value, field.loc))
            error(field.loc, fmt::format("'{}' depends on names that have other values behind the class", field.name));
          else
            made.value = eval(*field.value);
        });
        frame.scope[field.name] = Binding{made.value, {}, field.loc};
        if (!is_run(type)) keep_field(field.name, made.value);
        fields[field.name] = std::move(made);
      }
      return Val(dsl::None{});
    });
  });
  unknown_ = unknown;
  frame_ = caller;
  return fields;
}

void Checker::keep_field(const std::string& name, const Val& value) {
  keep(value, fmt::format("the '{}' of a class", name));
}

bool Checker::is_run(const ClassObject& type) const {
  const auto group = type.file->plan().group_of(type.type->name);
  const auto run = group ? runs_.find({type.file, *group}) : runs_.end();
  return run != runs_.end() && !run->second.is_finished;
}

const std::vector<Reported>* Checker::change_of_field(const ClassObject& type, const std::string& name,
                                                      const Val& value) {
  const auto group = type.file ? type.file->plan().group_of(type.type->name) : std::nullopt;
  if (!group) return nullptr;
  ModuleRun& run = in_file(type.file, [&]() -> std::reference_wrapper<ModuleRun> { return module_run(*group); });
  const auto spoiled = run.spoiled.find(type.type->name);
  if (spoiled == run.spoiled.end()) return nullptr;
  const bool may_change = !changeable_in(value).empty() || type.file->plan().assigns_attribute(name);
  return may_change ? &spoiled->second : nullptr;
}

Val Checker::class_attribute(const ClassObject& type, const Expr& e) {
  if (const Method* method = find_method(type, e.text, e.loc))
    return FunctionRef{FunctionRef::Kind::Jit, e.text, &method->function, type.file};
  std::vector<std::string> names;
  std::vector<Val> all;
  for (const Global& field : type.type->fields) {
    names.push_back(field.name);
    all.emplace_back(field.name);
  }
  if (const auto given = std::find(names.rbegin(), names.rend(), e.text); given != names.rend()) {
    Fields& fields = fields_of(type);
    if (const auto field = fields.find(e.text); field != fields.end()) {
      const std::vector<Reported>* why = &field->second.why;
      if (!field->second.value.is_poison()) why = change_of_field(type, e.text, field->second.value);
      if (!why) return field->second.value;
      return with_note(e.loc, fmt::format("in the value of '{}' of {}", e.text, type.describe()), [&] {
        report(*why);
        return Val();
      });
    }
  }
  if (type.is_tuple && e.text == "_fields") return dsl::make_tuple(std::move(all));
  return error(e.loc, fmt::format("{} has no constant '{}'", type.describe(), e.text), nearest_hint(e.text, names));
}

}  // namespace tegula::language
