// Golden files: tests/golden/FOLDER/*.tile.
//
// FOLDER is the pass that runs on the text above the line `// ---- expected`; the text below is what must come out.
// Where the pass wants more than a kernel's tile IR, and the text has no layouts, the passes ahead of it run first. ir/
// runs nothing: its files show the canonical text. Files of verify/ have no such line: behind an offending line stands
// `// error: part of the message` for each message; `// stage: laid_out` asks for that stage.
// `// completion: barrier` asks for copies that complete on barriers. TEGULA_BLESS=1 writes what came out into
// the files. All files together name every op and every attribute of the op table, and no pass changes anything when it
// runs again.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "codegen/analysis/shared_hazards.h"
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

/// A golden file of a pass: what stands above and below the marker.
struct Texts {
  std::string input, expected;
};
Texts texts_of(const std::filesystem::path& path) {
  const std::string text = slurp(path);
  const size_t marker = text.find(kMarker);
  return {text.substr(0, marker), marker == text.npos ? "" : text.substr(marker + sizeof kMarker - 1)};
}

PassContext context_of(const std::string& input, Diagnostics& diags) {
  PassContext context{target_for_sm(90), diags};
  if (input.find("// completion: barrier\n") != input.npos) context.completion = ir::Completion::Barrier;
  return context;
}

void check_pass(const std::string& pass, const std::filesystem::path& path) {
  const auto [input, expected] = texts_of(path);
  Diagnostics diags;
  auto func = read_round_trip(input, path.filename(), diags);
  ASSERT_TRUE(func) << diags.render();
  if (pass != "ir") {
    auto info = std::find_if(pass_table().begin(), pass_table().end(), [&](auto& row) { return row.name == pass; });
    ASSERT_NE(info, pass_table().end()) << "no pass is called " << pass;
    PassContext context = context_of(input, diags);
    if (info->before != ir::Stage::Tile && input.find("= layout {") == input.npos)  // the text is that of a kernel
      for (auto ahead = pass_table().begin(); ahead != info; ++ahead) ahead->run(*func, context);
    ASSERT_TRUE(ir::verify(*func, info->before, diags)) << diags.render();
    info->run(*func, context);
    ASSERT_TRUE(ir::verify(*func, info->after, diags)) << diags.render() << ir::print(*func);
    ASSERT_TRUE(info->after != ir::Stage::Ordered || verify_order(*func, diags)) << diags.render() << ir::print(*func);
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

// ---- What all files together show

/// Calls `f` with each function of the golden files that is valid tile IR at some stage: inputs and expectations.
void for_functions(const std::function<void(const std::string& file, const std::string& input, ir::Func&)>& f) {
  for (const std::string& file : files()) {
    if (file.starts_with("verify/")) continue;
    const auto [input, expected] = texts_of(kRoot / file);
    for (const std::string& text : {input, expected}) {
      Diagnostics diags;
      if (auto func = ir::read(text, file, diags)) f(file, input, *func);
    }
  }
}

/// Likewise with the tile IR of kernels, which stands in comments behind the lines `# check`.
void for_kernels(const std::function<void(ir::Func&)>& f) {
  for (auto& entry : std::filesystem::directory_iterator(kRoot / "language")) {
    if (entry.path().extension() != ".py") continue;
    std::istringstream lines(slurp(entry.path()));
    std::string text;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("# func @")) text.clear();
      text += line.substr(std::min<size_t>(2, line.size())) + "\n";
      if (line != "# }") continue;
      Diagnostics diags;
      auto func = ir::read(text, entry.path().string(), diags);
      ASSERT_TRUE(func) << entry.path() << "\n" << diags.render();
      f(*func);
    }
  }
}

TEST(Goldens, HaveEveryOpAndAttribute) {
  std::map<ir::Opcode, std::set<std::string>> found;
  const auto note = [&](ir::Func& func) {
    ir::walk(func.body, [&](ir::Op& op) {
      auto& names = found[op.opcode];
      for (auto& [name, value] : op.attrs) names.insert(name);
    });
  };
  for_functions([&](const std::string&, const std::string&, ir::Func& func) { note(func); });
  for_kernels(note);
  for (const ir::OpInfo& info : ir::op_table()) {
    EXPECT_TRUE(found.contains(info.opcode)) << "no golden file has the op '" << info.text << "'";
    for (const ir::AttrInfo& attr : info.attrs)
      EXPECT_TRUE(!found.contains(info.opcode) || found[info.opcode].contains(std::string(attr.name)))
          << "in no golden file '" << info.text << "' has the attribute '" << attr.name << "'";
  }
}

// Without any one barrier that was put in, an access would need one.
TEST(Goldens, NeedEachBarrier) {
  for_functions([](const std::string& file, const std::string&, ir::Func& func) {
    if (!file.starts_with("insert_barriers/")) return;
    std::vector<ir::Op*> barriers;
    ir::walk(func.body, [&](ir::Op& op) {
      if (op.opcode == ir::Opcode::Barrier) barriers.push_back(&op);
    });
    for (ir::Op* barrier : barriers) {
      auto& ops = barrier->parent->ops;
      auto at = std::find_if(ops.begin(), ops.end(), [&](auto& op) { return op.get() == barrier; });
      auto behind = std::next(at);
      std::unique_ptr<ir::Op> removed = std::move(*at);
      ops.erase(at);
      EXPECT_FALSE(find_shared_hazards(func, plan_shared(func)).barrier_before.empty())
          << file << ": no access needs the barrier before " << ir::print(func);
      ops.insert(behind, std::move(removed));
    }
  });
}

class Pass : public testing::TestWithParam<size_t> {};

TEST_P(Pass, HasGoldenFilesAndIsIdempotent) {
  const PassInfo& pass = pass_table()[GetParam()];
  const auto all = files();
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](auto& f) { return f.starts_with(pass.name + std::string("/")); }))
      << "tests/golden/" << pass.name << " has no file";
  for_functions([&](const std::string& file, const std::string& input, ir::Func& func) {
    Diagnostics diags;
    if (!ir::verify(func, pass.before, diags)) return;
    PassContext context = context_of(input, diags);
    pass.run(func, context);
    const std::string once = ir::print(func);
    if (diags.has_errors() || !ir::verify(func, pass.before, diags)) return;  // what it makes is no input of it
    pass.run(func, context);
    EXPECT_EQ(ir::print(func), once) << file << ": a second run of " << pass.name << " changes the function";
  });
}

INSTANTIATE_TEST_SUITE_P(, Pass, testing::Range(size_t(0), pass_table().size()),
                         [](const auto& info) { return pass_table()[info.param].name; });

}  // namespace
}  // namespace tegula
