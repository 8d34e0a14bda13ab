#include "dsl/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <system_error>

#include "dsl/kernel_source.h"
#include "dsl/language/checker.h"
#include "dsl/language/decorators.h"
#include "dsl/language/entry_points.h"
#include "dsl/language/source_file.h"
#include "runtime/base/messages.h"

namespace tegula {

namespace {

using language::SourceFile;

// The last name of an annotation: `tl.constexpr` -> "constexpr", `int` -> "int".
std::string annotation_name(const language::Expr* annotation) {
  if (!annotation) return {};
  using Kind = language::Expr::Kind;
  if (annotation->kind == Kind::Name || annotation->kind == Kind::Attribute || annotation->kind == Kind::String) {
    const std::string& text = annotation->text;
    return text.substr(text.rfind('.') + 1);
  }
  return {};
}

KernelParam make_param(const language::Param& param) {
  std::string annotation = annotation_name(param.annotation.get());
  KernelParam out{param.name, annotation == "constexpr", param.default_value != nullptr};
  if (annotation == "int")
    out.annotated = Elem::I32;
  else if (annotation == "float")
    out.annotated = Elem::F32;
  else if (auto elem = elem_from_text(annotation))
    out.annotated = elem;
  return out;
}

/// A @triton.jit function of a file.
class TextSource : public dsl::KernelSource {
 public:
  TextSource(std::shared_ptr<const SourceFile> file, const language::Function& function)
      : file_(std::move(file)), function_(function) {
    for (const auto& p : function.params) params_.push_back(make_param(p));
    language::read_jit_options(file_, function, params_);
  }

  const std::string& name() const override { return function_.name; }
  const std::vector<KernelParam>& params() const override { return params_; }
  std::unique_ptr<ir::Func> build(const dsl::Specialization& spec, Diagnostics& diags,
                                  std::vector<std::string>& prints) const override {
    return language::check(*file_, name(), spec, diags, &prints);
  }
  std::string identity() const override {
    std::string text = *file_->module().file + "\n" + file_->text();
    for (const ConstexprArg& global : file_->given())
      text += fmt::format("\n{}={}", global.name, to_string(global.value));
    return text;
  }
  bool reads_others() const override { return file_->read_others(); }
  Diagnostics diagnostics() const override { return file_->diagnostics(); }
  std::optional<Autotune> autotune() const override { return language::find_autotune(file_, function_); }
  std::vector<ConstexprArg> globals() const override { return language::constant_globals(*file_); }
  std::vector<Heuristic> heuristics() const override { return language::find_heuristics(file_, function_); }

 private:
  std::shared_ptr<const SourceFile> file_;
  const language::Function& function_;
  std::vector<KernelParam> params_;
};

}  // namespace

namespace detail {

struct ProgramState {
  std::shared_ptr<const SourceFile> file;
  std::map<std::string, Kernel, std::less<>> kernels;  ///< made once: what is ready is ready for every copy
};

}  // namespace detail

Program Program::load(const std::string& path, std::vector<ConstexprArg> globals) {
  auto refuse = [&](const std::string& why) { throw FileError(fmt::format("cannot read '{}': {}", path, why)); };
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) refuse("it is a folder, expected a Triton source file");
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::string text;
  if (in) text.assign(std::istreambuf_iterator<char>(in), {});
  if (!in) refuse(std::generic_category().message(errno ? errno : EIO));
  return parse(std::move(text), path, std::move(globals));
}

Program Program::parse(std::string text, std::string name, std::vector<ConstexprArg> globals) {
  Diagnostics diags;
  auto file = std::make_shared<const SourceFile>(std::move(text), name, diags, std::move(globals));
  if (diags.has_errors()) throw CompileError(diags);
  auto state = std::make_shared<detail::ProgramState>();
  state->file = file;
  for (const language::Function& f : file->module().functions)  // the last one of a name counts, as in Python
    state->kernels.insert_or_assign(f.name, Kernel(std::make_shared<TextSource>(file, f)));
  return Program(std::move(state));
}

std::vector<std::string> Program::kernels() const {
  std::vector<std::string> names;
  for (const auto& f : state_->file->module().functions)
    if (std::find(names.begin(), names.end(), f.name) == names.end()) names.push_back(f.name);
  return names;
}

std::vector<std::string> Program::entry_points() const { return language::entry_points(state_->file->module()); }

Kernel Program::kernel(std::string_view name) const {
  if (auto it = state_->kernels.find(name); it != state_->kernels.end()) return it->second;
  Diagnostics diags;
  Diag& diag = diags.error({state_->file->module().file, 0, 0, 0}, fmt::format("no @triton.jit function '{}'", name));
  if (auto near = nearest_name(name, kernels()))
    diag.with_hint(fmt::format("did you mean '{}'?", *near));
  else if (!kernels().empty())
    diag.with_hint(fmt::format("the file has {}", fmt::join(kernels(), ", ")));
  else
    diag.with_hint("the file has none at all: kernels are functions under @triton.jit");
  throw CompileError(diags);
}

void Program::check() const {
  Diagnostics diags = state_->file->diagnostics();
  language::check_all(*state_->file, diags);
  if (diags.has_errors()) throw CompileError(diags);
  for (const Diag& d : diags.list()) tell(MessageKind::Warning, dsl::warning_text(d, state_->file->diagnostics()));
}

void Program::set_cache(std::shared_ptr<ImageCache> cache) {
  for (auto& [name, kernel] : state_->kernels) kernel.set_cache(cache);
}

}  // namespace tegula
