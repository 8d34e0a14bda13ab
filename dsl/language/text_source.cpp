#include "dsl/language/text_source.h"

#include <fmt/format.h>

#include "dsl/language/checker.h"
#include "dsl/language/decorators.h"

namespace tegula::language {

namespace {

// The last name of an annotation: `tl.constexpr` -> "constexpr", `int` -> "int".
std::string annotation_name(const Expr* annotation) {
  if (!annotation) return {};
  using Kind = Expr::Kind;
  if (annotation->kind == Kind::Name || annotation->kind == Kind::Attribute || annotation->kind == Kind::String) {
    const std::string& text = annotation->text;
    return text.substr(text.rfind('.') + 1);
  }
  return {};
}

KernelParam make_param(const Param& param) {
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
  TextSource(std::shared_ptr<const SourceFile> file, const Function& function)
      : file_(std::move(file)), function_(function) {
    for (const auto& p : function.params) params_.push_back(make_param(p));
    read_jit_options(file_, function, params_);
  }

  const std::string& name() const override { return function_.name; }
  const std::vector<KernelParam>& params() const override { return params_; }
  std::unique_ptr<ir::Func> build(const dsl::Specialization& spec, Diagnostics& diags,
                                  std::vector<std::string>& prints) const override {
    return check(*file_, name(), spec, diags, &prints);
  }
  std::string identity() const override {
    std::string text = *file_->module().file + "\n" + file_->text();
    for (const ConstexprArg& global : file_->given())
      text += fmt::format("\n{}={}", global.name, tegula::to_string(global.value));
    return text;
  }
  bool reads_others() const override { return file_->read_others(); }
  std::optional<dsl::SourceTexts> texts() const override {
    return dsl::SourceTexts{*file_->module().file, file_->text(), file_->modules(), file_->given(),
                            file_->import_folders()};
  }
  std::vector<std::pair<std::string, std::string>> imported() const override { return file_->others(); }
  Diagnostics diagnostics() const override { return file_->diagnostics(); }
  std::optional<Autotune> autotune() const override { return find_autotune(file_, function_); }
  std::vector<ConstexprArg> globals() const override { return constant_globals(*file_); }
  std::vector<Heuristic> heuristics() const override { return find_heuristics(file_, function_); }

 private:
  std::shared_ptr<const SourceFile> file_;
  const Function& function_;
  std::vector<KernelParam> params_;
};

}  // namespace

std::shared_ptr<const dsl::KernelSource> text_source(std::shared_ptr<const SourceFile> file, const Function& function) {
  return std::make_shared<TextSource>(std::move(file), function);
}

}  // namespace tegula::language
