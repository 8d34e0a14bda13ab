#include "dsl/language/source_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "dsl/language/module_plan.h"
#include "dsl/language/parser.h"
#include "dsl/language/splitter.h"

namespace tegula::language {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMaxFiles = 256;
constexpr uintmax_t kMaxBytes = uintmax_t(8) << 20;  // of a file
constexpr int kMaxFolders = 32;                      // above a file

/// Where the word stands in the text from `from` on, npos if it does not.
size_t find_word(std::string_view text, std::string_view word, size_t from = 0) {
  for (size_t at = text.find(word, from); at != text.npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_word_char(text[at - 1])) && (end == text.size() || !is_word_char(text[end]))) return at;
  }
  return text.npos;
}

/// "a.b" of "a.b.c" parts as a path: a/b.py or a/b/__init__.py below the folder; empty if neither is there.
fs::path module_file(const fs::path& folder, std::string_view module) {
  fs::path path = folder;
  for (std::string_view rest = module; !rest.empty();) {
    const size_t dot = std::min(rest.find('.'), rest.size());
    path /= std::string(rest.substr(0, dot));
    rest.remove_prefix(std::min(dot + 1, rest.size()));
  }
  std::error_code error;
  fs::path file = path;
  file += ".py";
  if (!module.empty() && fs::is_regular_file(file, error)) return file;
  file = path / "__init__.py";
  return fs::is_regular_file(file, error) ? file : fs::path();
}

/// Where absolute imports of a file may begin: above the outermost folder of its package; its own folder; and, for a
/// package without __init__.py, above the folder with the name of the package.
std::vector<fs::path> roots_of(const fs::path& folder, std::string_view package) {
  std::error_code error;
  std::vector<fs::path> roots;
  fs::path root = folder;
  for (int i = 0; i < kMaxFolders && fs::is_regular_file(root / "__init__.py", error); ++i) root = root.parent_path();
  roots.push_back(root);
  roots.push_back(folder);
  fs::path above = folder;
  for (int i = 0; i < kMaxFolders && above.has_relative_path(); ++i, above = above.parent_path())
    if (above.filename() == package) roots.push_back(above.parent_path());
  return roots;
}

fs::path find_module(const std::string& importing, std::string_view module, const std::vector<std::string>& folders) {
  const bool is_file = !importing.starts_with('<');  // else a text without a file
  std::error_code error;
  fs::path folder = is_file ? fs::absolute(importing, error).lexically_normal().parent_path() : fs::path();
  if (!module.starts_with('.')) {
    std::vector<fs::path> roots;
    if (is_file) roots = roots_of(folder, module.substr(0, module.find('.')));
    // The compiler is Triton here, but Triton's tools are files like any others.
    if (module != "triton" && (!module.starts_with("triton.") || module.starts_with("triton.tools.")))
      roots.insert(roots.end(), folders.begin(), folders.end());
    for (const fs::path& root : roots)
      if (fs::path file = module_file(root, module); !file.empty()) return file;
    return {};
  }
  if (!is_file) return {};
  size_t dots = std::min(module.find_first_not_of('.'), module.size());
  module.remove_prefix(dots);
  while (--dots > 0) folder = folder.parent_path();
  return module_file(folder, module);
}

}  // namespace

/// The files that a first one imports from, directly or not. They live as long as it does.
class ImportedFiles {
 public:
  ImportedFiles(std::vector<ConstexprArg> globals, std::vector<std::string> folders,
                std::vector<std::pair<std::string, std::string>> modules)
      : globals(std::move(globals)), folders(std::move(folders)), modules(std::move(modules)) {}

  const SourceFile* find(const std::string& importing, std::string_view module) {
    std::lock_guard lock(mutex_);
    auto [it, is_new] = found_.try_emplace({importing, std::string(module)});
    if (is_new) it->second = read(importing, module);
    return it->second;
  }

  bool any() {
    std::lock_guard lock(mutex_);
    return !files_.empty();
  }

  std::vector<std::pair<std::string, std::string>> from_disk() {
    std::lock_guard lock(mutex_);
    std::vector<std::pair<std::string, std::string>> all;
    for (const auto& [path, file] : files_)
      if (file && !given_.contains(path)) all.emplace_back(path, file->text());
    return all;
  }

  const std::vector<ConstexprArg> globals;
  const std::vector<std::string> folders;
  const std::vector<std::pair<std::string, std::string>> modules;

 private:
  const SourceFile* read(const std::string& importing, std::string_view module) {
    for (const auto& [name, text] : modules)
      if (name == module) return given(importing, name, text);
    const fs::path path = find_module(importing, module, folders);
    if (path.empty()) return nullptr;
    std::unique_ptr<SourceFile>& file = files_[path.string()];
    std::error_code error;
    if (file || files_.size() > kMaxFiles || fs::file_size(path, error) > kMaxBytes) return file.get();
    std::ifstream in(path, std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(in)), {});
    if (!in) return nullptr;
    const fs::path shown = fs::path(importing).is_absolute() ? path : fs::proximate(path, error);
    file = std::unique_ptr<SourceFile>(new SourceFile(std::move(text), shown.string(), *this));
    return file.get();
  }

  // A module whose text was given, as if it were a file beside the one that imports it.
  const SourceFile* given(const std::string& importing, const std::string& name, const std::string& text) {
    const std::string path = (fs::path(importing).parent_path() / (name + ".py")).string();
    std::unique_ptr<SourceFile>& file = files_[path];
    given_.insert(path);
    if (!file) file = std::unique_ptr<SourceFile>(new SourceFile(text, path, *this));
    return file.get();
  }

  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, const SourceFile*> found_;  ///< by the file that imports and the module
  std::map<std::string, std::unique_ptr<SourceFile>> files_;                ///< by path
  std::set<std::string> given_;                                             ///< those of `modules`
};

SourceFile::SourceFile(std::string text, std::string_view name, Diagnostics& diags, std::vector<ConstexprArg> globals,
                       std::vector<std::string> import_folders,
                       std::vector<std::pair<std::string, std::string>> modules)
    : text_(std::move(text)),
      module_(parse(text_, name, diags)),
      own_files_(std::make_unique<ImportedFiles>(std::move(globals), std::move(import_folders), std::move(modules))),
      files_(*own_files_) {}

SourceFile::SourceFile(std::string text, std::string_view name, ImportedFiles& files)
    : text_(std::move(text)), module_(parse(text_, name, mistakes_)), files_(files) {}

SourceFile::~SourceFile() = default;

Diagnostics SourceFile::diagnostics() const {
  Diagnostics diags;
  diags.sources().add(module_.file, text_);
  return diags;
}

const Constexpr* SourceFile::given(std::string_view name) const {
  for (const ConstexprArg& global : files_.globals)
    if (global.name == name) return &global.value;
  return nullptr;
}

const std::vector<ConstexprArg>& SourceFile::given() const { return files_.globals; }

const SourceFile* SourceFile::imported(std::string_view module) const { return files_.find(*module_.file, module); }

bool SourceFile::read_others() const { return files_.any(); }

std::vector<std::pair<std::string, std::string>> SourceFile::others() const { return files_.from_disk(); }

const std::vector<std::string>& SourceFile::import_folders() const { return files_.folders; }

const std::vector<std::pair<std::string, std::string>>& SourceFile::modules() const { return files_.modules; }

const ModulePlan& SourceFile::plan() const {
  std::lock_guard lock(mutex_);
  if (!plan_) plan_ = std::make_unique<const ModulePlan>(module_);
  return *plan_;
}

bool SourceFile::mentions(std::string_view keyword, std::string_view name) const {
  return text_.find(fmt::format("{} {}", keyword, name)) != std::string::npos;
}

bool SourceFile::is_around(std::string_view name, int line) const {
  const std::string_view text = text_;
  std::vector<std::pair<size_t, size_t>> functions;  // around the line: indentation and where they begin
  size_t begin = 0;
  for (int i = 1; i <= line; ++i) {
    const size_t word = text.find_first_not_of(" \t", begin);
    if (word == text.npos) return false;
    if (text[word] != '\n' && text[word] != '\r' && text[word] != '#')
      while (!functions.empty() && word - begin <= functions.back().first) functions.pop_back();
    if (i < line && (text.substr(word).starts_with("def ") || text.substr(word).starts_with("async def ")))
      functions.emplace_back(word - begin, begin);
    if (i == line) break;
    begin = text.find('\n', begin) + 1;
    if (begin == 0) return false;
  }
  if (functions.empty()) return false;
  const size_t first = functions.front().second;
  return find_word(text.substr(first, begin - first), name) != text.npos;
}

// What stands in brackets behind `environ`, where it is assigned or a method changes it: the name itself, or what is no
// string.
bool SourceFile::sets_variable(std::string_view name) const {
  const std::string_view text = text_;
  for (size_t at = find_word(text, "environ"); at != text.npos; at = find_word(text, "environ", at + 1)) {
    std::string_view rest = text.substr(at + std::string_view("environ").size());
    rest = rest.substr(0, rest.find('\n'));
    const size_t open = rest.find_first_of("[(");
    if (open == rest.npos) continue;
    const std::string_view method = rest.substr(0, open);
    const bool is_item = method.empty() && rest[open] == '[';
    if (!is_item && method != ".update" && method != ".setdefault" && method != ".pop" && method != ".clear") continue;
    if (is_item) {
      const size_t close = rest.find(']', open);
      const size_t next = close == rest.npos ? close : rest.find_first_not_of(" \t", close + 1);
      const std::string_view behind = next == rest.npos ? "" : rest.substr(next);
      if (!(behind.starts_with("=") || behind.starts_with("+=")) || behind.starts_with("==")) continue;
    }
    const std::string_view inner = rest.substr(open + 1);
    const size_t begin = inner.find_first_not_of(" \t");
    if (begin == inner.npos || (inner[begin] != '"' && inner[begin] != '\'')) return true;
    if (inner.substr(begin + 1).starts_with(name)) return true;
  }
  return false;
}

bool SourceFile::is_set_by_functions(std::string_view name) const {
  const std::string_view text = text_;
  for (size_t at = find_word(text, "global"); at != text.npos; at = find_word(text, "global", at + 1)) {
    const size_t begin = text.rfind('\n', at) + 1;
    const std::string_view line = text.substr(at, text.find('\n', at) - at);
    const bool is_statement = text.substr(begin, at - begin).find_first_not_of(" \t;") == text.npos;
    if (is_statement && find_word(line, name) != line.npos) return true;
  }
  return false;
}

const SourceFile::HostFunction* SourceFile::host_function(std::string_view name) const {
  std::lock_guard lock(mutex_);
  auto it = host_functions_.find(name);
  if (it == host_functions_.end()) {
    std::optional<HostFunction> found;
    Diagnostics diags;
    if (mentions("def", name))
      if (auto function = parse_host_function(text_, *module_.file, name, diags))
        found = HostFunction{std::move(*function), std::move(diags)};
    it = host_functions_.emplace(std::string(name), std::move(found)).first;
  }
  return it->second ? &*it->second : nullptr;
}

const Class* SourceFile::host_class(std::string_view name) const {
  std::lock_guard lock(mutex_);
  auto it = host_classes_.find(name);
  if (it == host_classes_.end()) {
    std::optional<Class> found;
    if (mentions("class", name)) found = parse_class(text_, *module_.file, name);
    it = host_classes_.emplace(std::string(name), std::move(found)).first;
  }
  return it->second ? &*it->second : nullptr;
}

}  // namespace tegula::language
