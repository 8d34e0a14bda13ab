// A Triton file in memory: its text and its syntax tree, and the files that it imports from.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsl/config.h"
#include "dsl/language/ast.h"
#include "runtime/base/diag.h"

namespace tegula::language {

class ImportedFiles;
class ModulePlan;

/// The syntax tree of a file, and the functions of its host code that decorators ask for, parsed when they do.
class SourceFile {
 public:
  /// Parses; mistakes go to `diags`. `globals` are values of names of the module, here and in the files that it imports
  /// from, instead of those that the files give them. `import_folders`: see imported(). `modules`: texts of modules by
  /// their names, in place of files.
  SourceFile(std::string text, std::string_view name, Diagnostics& diags, std::vector<ConstexprArg> globals = {},
             std::vector<std::string> import_folders = {},
             std::vector<std::pair<std::string, std::string>> modules = {});
  ~SourceFile();
  SourceFile(const SourceFile&) = delete;

  const std::string& text() const { return text_; }
  const Module& module() const { return module_; }
  /// What its statements have to do with each other. Any thread may ask.
  const ModulePlan& plan() const;
  /// A list with the text in it, for diagnostics made later.
  Diagnostics diagnostics() const;

  struct HostFunction {
    Function function;
    Diagnostics diags;  ///< what is wrong with it
  };
  /// A module-level function that is no kernel; null if there is none. Any thread may ask.
  const HostFunction* host_function(std::string_view name) const;
  /// A class of the module; null if there is none. Any thread may ask.
  const Class* host_class(std::string_view name) const;

  /// The value that the user gave a name of the module; null if there is none.
  const Constexpr* given(std::string_view name) const;
  const std::vector<ConstexprArg>& given() const;
  /// Folders and modules as they were given.
  const std::vector<std::string>& import_folders() const;
  const std::vector<std::pair<std::string, std::string>>& modules() const;
  /// The file of a module as an import of this one names it: "package.module", ".module", "..package". Found from the
  /// root of the package that this file belongs to, from its own folder, and from the import folders, the first that
  /// has it; parsed once. Null if there is no such file. Any thread may ask.
  const SourceFile* imported(std::string_view module) const;
  /// Whether any file but the first has been read.
  bool read_others() const;
  /// Path and text of the files on disk that have been read besides the first.
  std::vector<std::pair<std::string, std::string>> others() const;
  /// Whether the functions around the line say the name before it.
  bool is_around(std::string_view name, int line) const;
  /// Whether the file gives a variable of the environment a value, or takes it away.
  bool sets_variable(std::string_view name) const;
  /// Whether a function of the file says `global name`.
  bool is_set_by_functions(std::string_view name) const;
  /// What is wrong with the text of an imported file.
  const Diagnostics& mistakes() const { return mistakes_; }

 private:
  friend class ImportedFiles;
  SourceFile(std::string text, std::string_view name, ImportedFiles& files);
  /// Whether "def name" or the like is in the text: else its lines are not worth a look.
  bool mentions(std::string_view keyword, std::string_view name) const;

  std::string text_;
  Diagnostics mistakes_;  // of an imported file; made before the module is parsed
  Module module_;
  std::unique_ptr<ImportedFiles> own_files_;  ///< of the first file
  ImportedFiles& files_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<const ModulePlan> plan_;
  mutable std::map<std::string, std::optional<HostFunction>, std::less<>> host_functions_;
  mutable std::map<std::string, std::optional<Class>, std::less<>> host_classes_;
};

}  // namespace tegula::language
