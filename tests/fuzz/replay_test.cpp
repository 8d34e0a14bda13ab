// Replays the fuzzer's corpus, and some of the kernels and golden texts that it starts from: whole, cut off, and with
// bytes changed, always in the same way.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "tests/fuzz/front_end.h"

namespace tegula {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> texts_of(const std::string& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(TEGULA_SOURCE_DIR) / folder))
    if (entry.is_regular_file() && entry.path().extension() != ".cpp" && entry.path().extension() != ".h")
      paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const fs::path& path : paths) {
    std::ifstream in(path, std::ios::binary);
    texts.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return texts;
}

class Replay : public testing::TestWithParam<const char*> {};

TEST_P(Replay, LeavesNothingButErrors) {
  std::mt19937 random(1);
  for (std::string text : texts_of(GetParam())) {
    fuzz::run_front_end(text);
    if (text.empty()) continue;
    fuzz::run_front_end(std::string_view(text).substr(0, random() % text.size()));
    static constexpr char kBytes[] = "()[]{}:,=*.+-'\"\n\t#@0a \\";
    for (int i = 0; i < 4; ++i) text[random() % text.size()] = kBytes[random() % (sizeof kBytes - 1)];
    fuzz::run_front_end(text);
  }
}

INSTANTIATE_TEST_SUITE_P(Folders, Replay,
                         testing::Values("tests/fuzz/corpus", "tests/golden/parser", "tests/golden/language",
                                         "tests/golden/decorators", "kernels"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '/', '_');
                           return name;
                         });

}  // namespace
}  // namespace tegula
