// Lists of kernels as text.
#include <fmt/format.h>

#include <algorithm>

#include "dsl/kernel_list.h"
#include "dsl/launch_options.h"
#include "dsl/listing/texts.h"
#include "runtime/base/diag.h"

namespace tegula {

namespace {

/// An option of a line that takes a text.
struct TextOption {
  const char* flag;
  std::string ListedKernel::*one = nullptr;
  std::vector<std::string> ListedKernel::*many = nullptr;
};
constexpr TextOption kTextOptions[] = {
    {"--name", &ListedKernel::name},
    {"--arg", nullptr, &ListedKernel::args},
    {"--constexpr", nullptr, &ListedKernel::constexprs},
    {"--global", nullptr, &ListedKernel::globals},
    {"--import", nullptr, &ListedKernel::import_folders},
    {"--modules", &ListedKernel::modules},
    {"--when", nullptr, &ListedKernel::when},
    {"--gpu", &ListedKernel::gpu},
    {"--choice", &ListedKernel::choice},
    {"--grid", &ListedKernel::grid},
};

/// An option of a line without a value, and what it sets.
struct Switch {
  const char* flag;
  bool LaunchOptions::*field;
  bool value;
};
constexpr Switch kSwitches[] = {
    {"--no-dependent-launch", &LaunchOptions::dependent_launch, false},
    {"--cooperative-grid", &LaunchOptions::cooperative_grid, true},
    {"--no-fp-fusion", &LaunchOptions::enable_fp_fusion, false},
    {"--no-sanitize-overflow", &LaunchOptions::sanitize_overflow, false},
};

std::string flag_of(const dsl::LaunchOption& option) {
  std::string flag = fmt::format("--{}", option.info.name);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

[[noreturn]] void unknown(const std::string& word) {
  std::vector<std::string> flags;
  for (const TextOption& o : kTextOptions) flags.emplace_back(o.flag);
  for (const Switch& s : kSwitches) flags.emplace_back(s.flag);
  for (const dsl::LaunchOption& o : dsl::launch_options()) flags.push_back(flag_of(o));
  const auto near = nearest_name(word, flags);
  throw dsl::TextError(
      fmt::format("unknown option '{}'{}", word, near ? fmt::format(", did you mean '{}'?", *near) : ""));
}

/// Takes the words of a line.
class LineReader {
 public:
  explicit LineReader(std::vector<std::string> words) : words_(std::move(words)) {}

  ListedKernel read() {
    while (next_ < words_.size()) take();
    if (kernel_.kernel.empty()) throw dsl::TextError("expected FILE::KERNEL");
    return std::move(kernel_);
  }

 private:
  void take() {
    std::string word = words_[next_++];
    if (!word.starts_with("--")) {
      if (!kernel_.kernel.empty())
        throw dsl::TextError(fmt::format("'{}' stands behind '{}', expected one kernel a line", word, kernel_.kernel));
      kernel_.kernel = std::move(word);
      return;
    }
    std::optional<std::string> attached;  // "--num-warps=8"
    if (const size_t equals = word.find('='); equals != word.npos) {
      attached = word.substr(equals + 1);
      word.resize(equals);
    }
    for (const Switch& s : kSwitches)
      if (word == s.flag) {
        kernel_.options.*s.field = s.value;
        return;
      }
    for (const TextOption& o : kTextOptions)
      if (word == o.flag) {
        std::string text = value_of(word, std::move(attached));
        if (o.one)
          kernel_.*o.one = std::move(text);
        else
          (kernel_.*o.many).push_back(std::move(text));
        return;
      }
    for (const dsl::LaunchOption& o : dsl::launch_options())
      if (word == flag_of(o)) {
        kernel_.options.*o.launch = number(word, value_of(word, std::move(attached)));
        return;
      }
    unknown(word);
  }

  std::string value_of(const std::string& flag, std::optional<std::string> attached) {
    if (attached) return *attached;
    if (next_ == words_.size()) throw dsl::TextError(fmt::format("'{}' takes a value", flag));
    return words_[next_++];
  }

  static int number(const std::string& flag, const std::string& text) {
    const Constexpr value = dsl::parse_constexpr(text);
    if (const auto* i = std::get_if<int64_t>(&value); i && *i == int(*i)) return int(*i);
    throw dsl::TextError(fmt::format("'{} {}': expected an integer", flag, text));
  }

  std::vector<std::string> words_;
  size_t next_ = 0;
  ListedKernel kernel_;
};

}  // namespace

std::vector<ListedKernel> parse_kernel_list(std::string_view text, std::string_view name) {
  std::vector<ListedKernel> all;
  int number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line(text.substr(begin, end - begin));
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    const size_t first = line.find_first_not_of(" \t");
    if (first == std::string::npos || line[first] == '#') continue;
    std::string place = fmt::format("{}:{}", name, number);
    try {
      all.push_back(LineReader(dsl::split_words(line)).read());
    } catch (const dsl::TextError& e) {
      throw LaunchError(fmt::format("{}: {}\n  {}", place, e.what(), line));
    }
    all.back().place = std::move(place);
  }
  return all;
}

std::vector<ListedKernel> read_kernel_list(const std::string& file) {
  return parse_kernel_list(dsl::read_text(file), file);
}

std::string to_string(const ListedKernel& kernel) {
  std::string line = dsl::quoted_word(kernel.kernel);
  for (const TextOption& o : kTextOptions) {
    const std::vector<std::string> one =
        o.one && !(kernel.*o.one).empty() ? std::vector{kernel.*o.one} : std::vector<std::string>();
    for (const std::string& text : o.many ? kernel.*o.many : one)
      line += fmt::format(" {} {}", o.flag, dsl::quoted_word(text));
  }
  for (const dsl::LaunchOption& o : dsl::launch_options())
    if (const int value = kernel.options.*o.launch; value != o.info.fallback)
      line += fmt::format(" {} {}", flag_of(o), value);
  for (const Switch& s : kSwitches)
    if (kernel.options.*s.field == s.value) line += fmt::format(" {}", s.flag);
  return line;
}

}  // namespace tegula
