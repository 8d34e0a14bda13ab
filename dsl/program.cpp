#include "dsl/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>

#include "dsl/kernel_source.h"
#include "dsl/language/checker.h"
#include "dsl/language/entry_points.h"
#include "dsl/language/source_file.h"
#include "dsl/language/text_source.h"
#include "runtime/base/files.h"
#include "runtime/base/messages.h"

namespace tegula {

using language::SourceFile;

namespace detail {

struct ProgramState {
  std::shared_ptr<const SourceFile> file;
  std::map<std::string, Kernel, std::less<>> kernels;  ///< made once: what is ready is ready for every copy
};

}  // namespace detail

Program Program::load(const std::string& path, std::vector<ConstexprArg> globals,
                      std::vector<std::string> import_folders) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    throw FileError(fmt::format("cannot read '{}': it is a folder, expected a Triton source file", path));
  return parse(read_file(path), path, std::move(globals), std::move(import_folders));
}

Program Program::parse(std::string text, std::string name, std::vector<ConstexprArg> globals,
                       std::vector<std::string> import_folders) {
  return parse(std::move(text), std::move(name), std::move(globals), std::move(import_folders), {});
}

Program Program::parse(std::string text, std::string name, std::vector<ConstexprArg> globals,
                       std::vector<std::string> import_folders,
                       std::vector<std::pair<std::string, std::string>> modules) {
  Diagnostics diags;
  auto file = std::make_shared<const SourceFile>(std::move(text), name, diags, std::move(globals),
                                                 std::move(import_folders), std::move(modules));
  if (diags.has_errors()) throw CompileError(diags);
  auto state = std::make_shared<detail::ProgramState>();
  state->file = file;
  for (const language::Function& f : file->module().functions)  // the last one of a name counts, as in Python
    state->kernels.insert_or_assign(f.name, Kernel(language::text_source(file, f)));
  return Program(std::move(state));
}

std::vector<std::string> Program::kernels() const { return language::kernel_names(state_->file->module()); }

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

void Program::set_cache(Shared<ImageCache> cache) {
  for (auto& [name, kernel] : state_->kernels) kernel.set_cache(cache);
}

}  // namespace tegula
