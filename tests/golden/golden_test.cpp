// Golden files: tests/golden/FOLDER/*.tile.
//
// FOLDER is the pass that runs on the text above the line `// ---- expected`; the text below is what must come out.
// ir/ runs nothing: its files show the canonical text. Files of verify/ have no such line: behind an offending line
// stands `// error: part of the message` for each message; `// stage: laid_out` asks for that stage.
// TEGULA_BLESS=1 writes what came out into the files.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "codegen/ir/printer.h"
#include "codegen/ir/reader.h"
#include "codegen/passes/passes.h"

namespace tegula {
namespace {

const std::filesystem::path kRoot = TEGULA_SOURCE_DIR "/tests/golden";
constexpr char kMarker[] = "// ---- expected\n";

std::string slurp(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Reads a function and checks that its text, printed and read again, is the same.
std::unique_ptr<ir::Func> read_round_trip(const std::string& text, const std::string& file, Diagnostics& diags) {
  auto func = ir::read(text, file, diags);
  if (!func) return nullptr;
  for (bool locations : {false, true}) {
    std::string printed = ir::print(*func, {locations});
    Diagnostics again_diags;
    auto again = ir::read(printed, "printed", again_diags);
    EXPECT_EQ(again ? ir::print(*again, {locations}) : again_diags.render(), printed);
  }
  return func;
}

void check_pass(const std::string& pass, const std::filesystem::path& path) {
  std::string text = slurp(path);
  size_t marker = text.find(kMarker);
  std::string input = text.substr(0, marker);
  std::string expected = marker == text.npos ? "" : text.substr(marker + sizeof kMarker - 1);
  Diagnostics diags;
  auto func = read_round_trip(input, path.filename(), diags);
  ASSERT_TRUE(func) << diags.render();
  if (pass != "ir") {
    auto info = std::find_if(pass_table().begin(), pass_table().end(), [&](auto& row) { return row.name == pass; });
    ASSERT_NE(info, pass_table().end()) << "no pass is called " << pass;
    PassContext context{*find_target("sm_90a"), diags};
    if (info->before != ir::Stage::Tile)  // the text is that of a kernel: the passes ahead run first
      for (const PassInfo& ahead : pass_table()) {
        if (&ahead == &*info) break;
        if (input.find("= layout {") == input.npos) ahead.run(*func, context);
      }
    ASSERT_TRUE(ir::verify(*func, info->before, diags)) << diags.render();
    info->run(*func, context);
    ASSERT_TRUE(ir::verify(*func, info->after, diags)) << diags.render() << ir::print(*func);
    std::string once = ir::print(*func);
    if (pass == "canonicalize") info->run(*func, context);
    EXPECT_EQ(ir::print(*func), once) << "a second run changes the function";
  }
  std::string actual = ir::print(*func, {pass == "ir"});
  if (std::getenv("TEGULA_BLESS"))
    std::ofstream(path, std::ios::binary) << input << kMarker << actual;
  else
    EXPECT_EQ(actual, expected) << path << ": TEGULA_BLESS=1 accepts the new text";
}

void check_errors(const std::filesystem::path& path) {
  std::string text = slurp(path);
  std::multimap<int, std::string> expected;
  std::istringstream lines(text);
  int number = 1;
  for (std::string line; std::getline(lines, line); ++number)
    for (size_t at = line.find("// error: "), next; at != line.npos; at = next) {
      next = line.find(" // error: ", at);
      expected.emplace(number, line.substr(at + 10, next == line.npos ? next : next - at - 10));
      if (next != line.npos) ++next;
    }
  Diagnostics diags;
  auto func = ir::read(text, path.filename().string(), diags, {.text_locations = true});
  if (func) {
    bool laid_out = text.find("// stage: laid_out") != text.npos;
    EXPECT_EQ(ir::verify(*func, laid_out ? ir::Stage::LaidOut : ir::Stage::Tile, diags), expected.empty());
    EXPECT_EQ(ir::print(*read_round_trip(ir::print(*func), "printed", diags)), ir::print(*func));
  }
  for (const Diag& diag : diags.list()) {
    auto [begin, end] = expected.equal_range(diag.loc.line);
    auto match = std::find_if(begin, end, [&](auto& e) { return diag.message.find(e.second) != std::string::npos; });
    if (match == end)
      ADD_FAILURE() << "not expected: " << diag.loc.to_string() << ": " << diag.message;
    else
      expected.erase(match);
  }
  for (auto& [line, message] : expected) ADD_FAILURE() << path << ":" << line << ": no error with: " << message;
}

class Golden : public testing::TestWithParam<std::string> {};
TEST_P(Golden, File) {
  std::filesystem::path path = kRoot / GetParam();
  std::string folder = path.parent_path().filename();
  folder == "verify" ? check_errors(path) : check_pass(folder, path);
}

std::vector<std::string> files() {
  std::vector<std::string> found;
  for (auto& entry : std::filesystem::recursive_directory_iterator(kRoot))
    if (entry.path().extension() == ".tile") found.push_back(std::filesystem::relative(entry.path(), kRoot));
  std::sort(found.begin(), found.end());
  return found;
}

INSTANTIATE_TEST_SUITE_P(Tile, Golden, testing::ValuesIn(files()), [](const auto& info) {
  std::string name = info.param.substr(0, info.param.size() - 5);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

}  // namespace
}  // namespace tegula
