#include "dsl/listing/record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <sstream>

#include "dsl/kernel_list.h"
#include "dsl/listing/resolve.h"
#include "runtime/base/files.h"
#include "runtime/base/messages.h"
#include "runtime/sealing.h"
#include "runtime/store/image_cache.h"

namespace tegula::dsl {

namespace fs = std::filesystem;

namespace {

std::string record_file() {
  const char* file = std::getenv("TEGULA_RECORD");
  return file ? file : "";
}

/// The lines that a file has; what other processes add meanwhile may stand there twice.
class Record {
 public:
  static Record& of_process() {
    static auto* record = new Record;
    return *record;
  }

  void add(const std::string& file, const std::string& line) {
    std::lock_guard lock(mutex_);
    if (file != file_) read(file);
    if (!lines_.insert(line).second) return;
    const std::string bytes = line + "\n";
    const int fd = open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    const bool written = fd >= 0 && write(fd, bytes.data(), bytes.size()) == ssize_t(bytes.size());
    const std::string why = std::strerror(errno);
    if (fd >= 0) close(fd);
    if (!written && !failed_)
      tell(MessageKind::Warning, fmt::format("TEGULA_RECORD: cannot write '{}': {}", file, why));
    failed_ = failed_ || !written;
  }

 private:
  void read(const std::string& file) {
    file_ = file;
    lines_.clear();
    failed_ = false;
    std::error_code error;
    if (!fs::is_regular_file(file, error)) return;
    std::istringstream text(read_file(file));
    for (std::string line; std::getline(text, line);) lines_.insert(line);
  }

  std::mutex mutex_;
  std::string file_;
  std::set<std::string> lines_;
  bool failed_ = false;
};

bool lies_on_disk(const SourceTexts& texts) {
  std::error_code error;
  return texts.modules.empty() && fs::is_regular_file(texts.file, error) && read_file(texts.file) == texts.text;
}

// Several processes may write the same bytes.
void save(const fs::path& file, const std::string& text) {
  std::error_code error;
  if (fs::exists(file, error)) return;
  fs::create_directories(file.parent_path(), error);
  replace_file(file, text);
}

// Writes the text beside the list; the line names it from then on.
void save_texts(const SourceTexts& texts, const std::string& list, ListedKernel& line) {
  const fs::path folder = list + ".texts";
  const std::string digest = content_key({texts.text}).substr(0, 16);
  const std::string stem = fs::path(texts.file).stem().string();
  const bool is_name = stem.find_first_of("<>") == stem.npos;
  const fs::path file = folder / fmt::format("{}-{}.py", is_name ? stem : "text", digest);
  save(file, texts.text);
  line.kernel = file.string();
  if (texts.modules.empty()) return;
  std::string all;
  for (const auto& [name, text] : texts.modules) all += content_key({name, text});
  const fs::path modules = folder / fmt::format("modules-{}", content_key({all}).substr(0, 16));
  for (const auto& [name, text] : texts.modules) save(modules / (name + ".py"), text);
  line.modules = modules.string();
}

// Where the source is, as a line names it; `list`: the file to write texts beside, empty for none.
void set_kernel(const KernelSource& source, const std::string& list, ListedKernel& line) {
  const auto texts = source.texts();
  if (!texts) {
    line.kernel = std::string(kFunctionPrefix) + source.name();
    return;
  }
  line.kernel = texts->file;
  if (!list.empty() && !lies_on_disk(*texts)) save_texts(*texts, list, line);
  line.kernel += "::" + source.name();
}

}  // namespace

bool is_recording() { return !sealed() && !record_file().empty(); }

void record(const KernelSource& source, const std::vector<ArgType>& types, const LaunchOptions& options,
            const PackagedChoice* choice) try {
  std::optional<ListedKernel> line = listed(source, types, options);
  if (!line) return record_missing(source, "its compile-time values cannot stand on a line");
  const std::string file = record_file();
  set_kernel(source, file, *line);
  if (choice) {
    line->gpu = choice->gpu;
    line->choice = choice->key;
    for (const ArgumentValue& value : choice->when) line->when.push_back(when_text(value));
  }
  Record::of_process().add(file, to_string(*line));
} catch (const FileError& e) {
  tell(MessageKind::Warning, fmt::format("TEGULA_RECORD: {}", e.what()));
}

void record_missing(const KernelSource& source, const std::string& why) {
  Record::of_process().add(record_file(), fmt::format("# kernel '{}' is not listed: {}", source.name(), why));
}

std::string line_of(const KernelSource& source, const std::vector<ArgType>& types, const LaunchOptions& options) {
  std::optional<ListedKernel> line = listed(source, types, options);
  if (!line) return fmt::format("# kernel '{}': its compile-time values cannot stand on a line", source.name());
  set_kernel(source, "", *line);
  return to_string(*line);
}

}  // namespace tegula::dsl
