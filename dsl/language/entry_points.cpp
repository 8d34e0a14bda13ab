#include "dsl/language/entry_points.h"

#include <algorithm>
#include <set>
#include <utility>

#include "dsl/language/source_file.h"

namespace tegula::language {

namespace {

using Names = std::set<std::string, std::less<>>;

void collect(const Expr* e, Names& names) {
  if (!e) return;
  if (e->kind == Expr::Kind::Name) names.insert(e->text);
  for (const ExprPtr& child : e->children) collect(child.get(), names);
  for (const Keyword& k : e->keywords) collect(k.value.get(), names);
}

void collect(const std::vector<StmtPtr>& body, Names& names, bool& returns) {
  for (const StmtPtr& s : body) {
    for (const ExprPtr& target : s->targets) collect(target.get(), names);
    for (const Expr* e : {s->annotation.get(), s->value.get(), s->message.get()}) collect(e, names);
    returns = returns || (s->kind == Stmt::Kind::Return && s->value && s->value->kind != Expr::Kind::None);
    collect(s->body, names, returns);
    collect(s->orelse, names, returns);
  }
}

}  // namespace

std::vector<std::string> entry_points(const Module& module) {
  Names named, returning;
  for (const Function& f : module.functions) {
    Names names;
    bool returns = false;
    collect(f.body, names, returns);
    for (const Param& p : f.params) collect(p.default_value.get(), names);
    names.erase(f.name);
    named.merge(names);
    if (returns) returning.insert(f.name);
  }
  std::vector<std::string> out;
  for (const Function& f : module.functions)
    if (!named.contains(f.name) && !returning.contains(f.name) &&
        std::find(out.begin(), out.end(), f.name) == out.end())
      out.push_back(f.name);
  return out;
}

std::vector<std::string> kernel_names(const Module& module) {
  std::vector<std::string> names;
  for (const Function& f : module.functions)
    if (std::find(names.begin(), names.end(), f.name) == names.end()) names.push_back(f.name);
  return names;
}

std::vector<std::string> kernel_names(std::string text, std::string_view name) {
  Diagnostics mistakes;
  return kernel_names(SourceFile(std::move(text), name, mistakes).module());
}

}  // namespace tegula::language
