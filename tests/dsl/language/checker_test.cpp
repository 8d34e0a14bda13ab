// The checker on kernel texts: tests/golden/language/*.py give tile IR, errors/*.py give messages.
//
// A line `# check KERNEL name=value ...` asks for the tile IR of a kernel: a value is a type (*f32, i32, *f16/16 for a
// divisibility) or a constant: float16 for the type itself, the rest as Python writes it. The comment lines behind it
// are the expected text; TEGULA_BLESS=1 writes what came out. A line `# accept KERNEL ...` asks that the kernel has no
// error and that its tile IR verifies. In errors/ the first `# check` line (or `# check all`) says what is checked, and
// behind each offending line stands `# error: part of message (hint)`, once for each message.
#include "dsl/language/checker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <sstream>
#include <utility>

#include "codegen/ir/printer.h"
#include "codegen/ir/verifier.h"
#include "dsl/language/parser.h"
#include "dsl/semantics/sema.h"
#include "runtime/base/elem.h"
#include "tests/expect_contains.h"

namespace tegula::language {
namespace {

namespace fs = std::filesystem;

const fs::path& root() {
  static const fs::path path = fs::path(TEGULA_SOURCE_DIR) / "tests/golden/language";
  return path;
}

std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

ArgSpec parse_arg(const std::string& text) {
  size_t equals = text.find('=');
  ArgSpec arg{text.substr(0, equals), std::nullopt, {}, 1};
  std::string value = text.substr(equals + 1);
  if (size_t slash = value.find('/'); slash != value.npos) {
    arg.divisible_by = std::stoll(value.substr(slash + 1));
    value.resize(slash);
  }
  bool pointer = value.starts_with('*');
  if (auto elem = elem_from_text(pointer ? value.substr(1) : value)) {
    arg.type = pointer ? ir::Type::pointer_to(*elem) : ir::Type::scalar(*elem);
    if (elem_info(*elem).tl == value) arg.constant = dsl::DType{arg.type};
  } else if (value == "None") {
    arg.constant = dsl::None{};
  } else if (value == "True" || value == "False") {
    arg.constant = value == "True";
  } else if (value.starts_with('\'')) {
    arg.constant = value.substr(1, value.size() - 2);
  } else if (value.find('.') != value.npos) {
    arg.constant = std::stod(value);
  } else {
    arg.constant = dsl::Int(std::stoll(value));
  }
  return arg;
}

/// "KERNEL name=value ..." to the name and the specialisation.
std::pair<std::string, Specialization> parse_spec(const std::string& line) {
  std::istringstream words(line);
  std::string kernel, word;
  words >> kernel;
  Specialization spec;
  while (words >> word) spec.args.push_back(parse_arg(word));
  return {kernel, spec};
}

/// Tile IR of a kernel, or the rendered diagnostics.
std::string check_text(const std::string& text, const std::string& spec_line, const std::string& file = "test.py") {
  Diagnostics diags;
  SourceFile source(text, file, diags);
  auto [kernel, spec] = parse_spec(spec_line);
  auto func = diags.has_errors() ? nullptr : check(source, kernel, spec, diags);
  EXPECT_EQ(!func, diags.has_errors());
  if (!func) return diags.render();
  EXPECT_TRUE(ir::verify(*func, ir::Stage::Tile, diags)) << diags.render() << ir::print(*func);
  return ir::print(*func);
}

constexpr char kCheck[] = "# check ";
constexpr char kAccept[] = "# accept ";

void run_golden(const fs::path& path) {
  std::string text = slurp(path), rewritten;
  std::istringstream lines(text);
  std::string line;
  std::vector<std::string> rest;
  while (std::getline(lines, line)) rest.push_back(line);
  int specs = 0;
  for (size_t i = 0; i < rest.size(); ++i) {
    rewritten += rest[i] + "\n";
    if (rest[i].starts_with(kAccept)) {
      std::string out = check_text(text, rest[i].substr(sizeof kAccept - 1), path.filename().string());
      EXPECT_TRUE(out.starts_with("func @")) << out;
      ++specs;
    }
    if (!rest[i].starts_with(kCheck)) continue;
    ++specs;
    std::string expected;
    while (i + 1 < rest.size() && rest[i + 1].starts_with("#") && !rest[i + 1].starts_with(kCheck) &&
           !rest[i + 1].starts_with(kAccept)) {
      ++i;
      expected += rest[i].substr(std::min<size_t>(2, rest[i].size())) + "\n";
    }
    size_t at = rewritten.rfind(kCheck) + sizeof kCheck - 1;
    std::string spec = rewritten.substr(at, rewritten.size() - at - 1);
    std::string actual = check_text(text, spec, path.filename().string());
    std::istringstream out(actual);
    for (std::string l; std::getline(out, l);) rewritten += l.empty() ? "#\n" : "# " + l + "\n";
    if (!std::getenv("TEGULA_BLESS")) {
      EXPECT_EQ(actual, expected) << path << ": TEGULA_BLESS=1 accepts the new text";
    }
  }
  EXPECT_GT(specs, 0) << path << " has no line '# check KERNEL ...'";
  if (std::getenv("TEGULA_BLESS")) std::ofstream(path, std::ios::binary) << rewritten;
}

void run_errors(const fs::path& path) {
  constexpr char kError[] = "# error: ";
  std::string text = slurp(path), spec_line;
  std::multimap<int, std::string> expected;
  std::istringstream lines(text);
  int number = 1;
  for (std::string line; std::getline(lines, line); ++number) {
    if (line.starts_with(kCheck) && spec_line.empty()) spec_line = line.substr(sizeof kCheck - 1);
    for (size_t at = line.find(kError), next; at != line.npos; at = next) {
      next = line.find(kError, at + 1);
      size_t from = at + sizeof kError - 1;
      std::string part = line.substr(from, next == line.npos ? next : next - from);
      while (part.ends_with(' ')) part.pop_back();
      expected.emplace(number, part);
    }
  }
  ASSERT_FALSE(spec_line.empty());
  Diagnostics diags;
  SourceFile source(text, path.filename().string(), diags);
  if (spec_line == "all") {
    check_all(source, diags);
  } else {
    auto [kernel, spec] = parse_spec(spec_line);
    EXPECT_EQ(check(source, kernel, spec, diags), nullptr);
  }
  for (const Diag& diag : diags.list()) {
    std::string message = diag.message + (diag.hint.empty() ? "" : " (" + diag.hint + ")");
    for (const Note& note : diag.notes) message += " [" + note.message + "]";
    auto [begin, end] = expected.equal_range(diag.loc.line);
    auto match = std::find_if(begin, end, [&](auto& e) { return message.find(e.second) != std::string::npos; });
    if (match == end) {
      ADD_FAILURE() << "not expected: " << diag.loc.to_string() << ": " << message;
    } else {
      expected.erase(match);
    }
  }
  for (auto& [line, message] : expected) ADD_FAILURE() << path << ":" << line << ": no error with: " << message;
}

class Language : public testing::TestWithParam<std::string> {};

TEST_P(Language, File) {
  fs::path path = root() / GetParam();
  path.parent_path().filename() == "errors" ? run_errors(path) : run_golden(path);
}

std::vector<std::string> files() {
  std::vector<std::string> found;
  for (auto& entry : fs::recursive_directory_iterator(root()))
    if (entry.path().extension() == ".py") found.push_back(fs::relative(entry.path(), root()));
  std::sort(found.begin(), found.end());
  return found;
}

INSTANTIATE_TEST_SUITE_P(Golden, Language, testing::ValuesIn(files()), [](const auto& info) {
  std::string name = info.param.substr(0, info.param.size() - 3);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

// ---- That every function of the language is called by a kernel whose tile IR is a golden text

/// The rows of both tables of functions, with their functions replaced by ones that note the call.
class CountedFunctions {
 public:
  CountedFunctions() { replace(std::make_index_sequence<kMost>()); }
  ~CountedFunctions() {
    for (size_t i = 0; i < rows_.size(); ++i) rows_[i]->call = originals_[i];
  }
  /// Names of rows that were not called, but for libdevice's.
  std::vector<std::string> not_called() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < rows_.size(); ++i)
      if (!called_[i] && !rows_[i]->name.starts_with("libdevice."))
        names.push_back((i < dsl::function_table().size() ? "tl." : "descriptor.") + rows_[i]->name);
    return names;
  }

 private:
  using Call = decltype(dsl::FunctionInfo::call);
  static constexpr size_t kMost = 640;

  template <size_t i>
  static dsl::Val call(dsl::Sema& s, std::span<const dsl::Val> args) {
    called_[i] = true;
    return originals_[i](s, args);
  }
  template <size_t... i>
  void replace(std::index_sequence<i...>) {
    for (auto* table : {&dsl::function_table(), &dsl::descriptor_methods()})
      for (const dsl::FunctionInfo& row : *table) rows_.push_back(const_cast<dsl::FunctionInfo*>(&row));
    ASSERT_LE(rows_.size(), kMost);
    static constexpr Call replacements[] = {&call<i>...};
    for (size_t k = 0; k < rows_.size(); ++k) {
      called_[k] = false;
      originals_[k] = rows_[k]->call;
      rows_[k]->call = replacements[k];
    }
  }

  std::vector<dsl::FunctionInfo*> rows_;
  static inline Call originals_[kMost];
  static inline bool called_[kMost];
};

TEST(Checker, EveryFunctionIsCalledByAGolden) {
  CountedFunctions functions;
  for (const std::string& file : files())
    if (!file.starts_with("errors/")) run_golden(root() / file);
  for (const std::string& name : functions.not_called())
    if (name != "tl.static_assert")  // the checker's own, which knows of conditions that it cannot evaluate
      ADD_FAILURE() << "no kernel of tests/golden/language/*.py calls " << name;
}

std::unique_ptr<ir::Func> check_ok(const std::string& text, const std::string& kernel, const Specialization& spec) {
  Diagnostics diags;
  SourceFile source(text, "test.py", diags);
  auto func = check(source, kernel, spec, diags);
  EXPECT_TRUE(func) << diags.render();
  return func;
}

TEST(Checker, FunctionHasParametersLocationsAndOptions) {
  Specialization spec;
  spec.args = {parse_arg("n=i64"), parse_arg("x=*f16/16"), parse_arg("B=64")};
  spec.options.num_warps = 8;
  spec.options.num_stages = 5;
  auto func = check_ok(
      "import triton\nimport triton.language as tl\n\n@triton.jit\n"
      "def k(x, n, B: tl.constexpr):\n    i = tl.arange(0, B)\n    tl.store(x + i, i, mask=i < n)\n",
      "k", spec);
  ASSERT_TRUE(func);
  EXPECT_EQ(func->name, "k");
  EXPECT_EQ(func->num_warps(), 8);
  EXPECT_EQ(func->num_stages(), 5);
  ASSERT_EQ(func->body.args.size(), 2u);  // in the order of the signature
  EXPECT_EQ(func->body.args[0]->name, "x");
  EXPECT_EQ(func->divisibility[0], 16);
  EXPECT_EQ(func->body.args[1]->type.to_string(), "i64");
  EXPECT_EQ(func->loc.line, 5);
  ir::walk(func->body, [](const ir::Op& op) { EXPECT_GT(op.loc.line, 0) << ir::print_line(op); });
  EXPECT_EQ(func->body.ops.front()->result()->name, "i");
  EXPECT_EQ(func->body.ops.front()->loc.line, 6);
}

TEST(Checker, ValuesCarryTheNamesOfTheProgram) {
  auto func = check_ok(
      "import triton\nimport triton.language as tl\n@triton.jit\ndef k(x, n):\n"
      "    s = 0.0\n    for i in range(n):\n        s += tl.load(x + i)\n    t = 1\n    if n > 3:\n        t = n\n"
      "    tl.store(x, s + t)\n",
      "k", {.args = {parse_arg("x=*f32"), parse_arg("n=i32")}, .options = {}});
  ASSERT_TRUE(func);
  std::vector<std::string> names;
  ir::walk(func->body, [&](const ir::Op& op) {
    if (!op.has(ir::Control)) return;
    for (auto& result : op.results) names.push_back(result->name);
    for (auto& region : op.regions)
      for (auto& arg : region->args) names.push_back(arg->name);
  });
  EXPECT_EQ(names, (std::vector<std::string>{"s", "i", "s", "t"}));
}

TEST(Checker, UnknownKernelNamesTheNearest) {
  std::string out = check_text("import triton\n@triton.jit\ndef softmax(x):\n    pass\n", "sofmax x=*f32");
  EXPECT_NE(out.find("no @triton.jit function 'sofmax'"), out.npos) << out;
  EXPECT_NE(out.find("did you mean 'softmax'?"), out.npos) << out;
}

TEST(Checker, ArgumentsOfTheSpecialisation) {
  std::string text =
      "import triton\nimport triton.language as tl\n@triton.jit\n"
      "def k(x, n, B: tl.constexpr, C: tl.constexpr = 4):\n    pass\n";
  std::string out = check_text(text, "k x=*f32 n=i32");
  EXPECT_NE(out.find("argument 'B' of kernel 'k' has no value"), out.npos) << out;
  out = check_text(text, "k x=*f32 B=4");
  EXPECT_NE(out.find("argument 'n' of kernel 'k' has no type"), out.npos) << out;
  out = check_text(text, "k x=*f32 n=i32 B=i32");
  EXPECT_NE(out.find("'B' is a tl.constexpr argument, but only its type i32 is given"), out.npos) << out;
  out = check_text(text, "k x=*f32 n=i32 B=4 Cx=5");
  EXPECT_NE(out.find("kernel 'k' has no argument 'Cx'"), out.npos) << out;
}

TEST(Checker, ErrorInAHelperNamesTheCallOnce) {
  std::string out = check_text(
      "import triton\nimport triton.language as tl\n@triton.jit\ndef h(x):\n    return x + wrong\n"
      "@triton.jit\ndef k(x):\n    for i in tl.static_range(4):\n        h(i)\n",
      "k x=*f32");
  EXPECT_NE(out.find("test.py:5:16: error: unknown name 'wrong'"), out.npos) << out;
  EXPECT_NE(out.find("in the call from test.py:9"), out.npos) << out;
  EXPECT_EQ(out.find("unknown name"), out.rfind("unknown name")) << out;
}

TEST(Checker, GlobalsMadeByPythonsFunctions) {
  const std::string out = check_text(
      "import numpy as np\nimport triton\nimport triton.language as tl\n"
      "DX = np.array([3, -1, 2], dtype=np.int32)\n"
      "T = tl.constexpr(tuple(int(v) for v in DX))\n"
      "U = tl.constexpr(tuple(sorted(DX.tolist(), reverse=True)))\n"
      "V = tl.constexpr(tuple(map(lambda a, b: a * b, DX, reversed(T))))\n"
      "W = tl.constexpr(tuple(map(int, triton.__version__.split('.')[:2])) >= (3, 5))\n"
      "@triton.jit\ndef k(x):\n"
      "    tl.static_assert(T == (3, -1, 2))\n    tl.static_assert(U == (3, 2, -1))\n"
      "    tl.static_assert(V == (6, 1, 6))\n    tl.static_assert(W)\n    tl.store(x, T[1])\n",
      "k x=*i32");
  EXPECT_NE(out.find("value = -1"), out.npos) << out;
  EXPECT_EQ(out.find("error"), out.npos) << out;
}

TEST(Checker, GlobalsUnderConditions) {
  setenv("TEGULA_TEST_NAME", "7", 1);
  const std::string text =
      "import os\nimport triton\nimport triton.language as tl\n"
      "A = 1\nif 'TEGULA_TEST_NAME' in os.environ: A = int(os.environ['TEGULA_TEST_NAME']) + round(1.6)\n"
      "B = 1\nif 'TEGULA_TEST_OTHER' not in os.environ:\n    B = 3\nelse: B = 4\n"
      "C = 5\nif unknown_library.is_there():\n    C = 6\n"
      "@triton.jit\ndef k(x):\n    tl.static_assert(A == 9)\n    tl.static_assert(B == 3)\n    tl.store(x, C)\n";
  Diagnostics diags;
  SourceFile source(text, "test.py", diags);
  const auto [kernel, spec] = parse_spec("k x=*i32");
  const auto func = check(source, kernel, spec, diags);
  ASSERT_TRUE(func) << diags.render();
  const std::string out = ir::print(*func) + diags.render();
  EXPECT_NE(out.find("value = 5"), out.npos) << out;
  EXPECT_NE(out.find("test.py:12:5: warning: this value of 'C' is left out: its condition cannot be evaluated\n"),
            out.npos)
      << out;
  EXPECT_NE(out.find("hint: --global C=VALUE gives the value"), out.npos) << out;
  unsetenv("TEGULA_TEST_NAME");
}

// Helpers whose condition other files decide: the last definition is taken, and the others are told of.
TEST(Checker, FunctionsUnderConditions) {
  const std::string head = "import triton\nimport triton.language as tl\nfrom elsewhere.utils import FAST\n";
  const std::string twice = "@triton.jit\ndef f(x):\n    return x * 2\n",
                    again = "@triton.jit\ndef f(x):\n    return x * 3\n";
  const std::string kernel = "@triton.jit\ndef k(x):\n    tl.store(x, f(tl.load(x)))\n";
  auto indented = [](std::string text) {
    for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) text.insert(at, "    ");
    return text;
  };
  auto checked = [&](const std::string& definitions, std::vector<ConstexprArg> given = {}) {
    Diagnostics diags;
    SourceFile source(head + definitions + kernel, "test.py", diags, std::move(given));
    const auto [name, spec] = parse_spec("k x=*f32");
    const auto func = check(source, name, spec, diags);
    return (func ? ir::print(*func) : "") + diags.render();
  };
  const std::string hint = "hint: --global FAST=VALUE gives that of the condition";
  const std::string both = "if FAST:\n" + indented(twice) + "else:\n" + indented(again);
  std::string out = checked(both);
  EXPECT_CONTAINS(out, "value = 3.0");
  EXPECT_CONTAINS(out, "test.py:6:9: warning: this value of 'f' is left out: its condition cannot be evaluated\n");
  EXPECT_CONTAINS(out, hint);
  out = checked(both, {{"FAST", true}});
  EXPECT_CONTAINS(out, "value = 2.0");
  EXPECT_EQ(out.find("warning"), out.npos) << out;
  out = checked("if not FAST:\n" + indented(twice) + "else:\n    f = tl.abs\n");
  EXPECT_CONTAINS(out, "abs");
  EXPECT_CONTAINS(out, "test.py:6:9: warning: this value of 'f' is left out");
  EXPECT_CONTAINS(out, hint);
  out = checked("if FAST:\n    f = tl.abs\nelse:\n" + indented(twice));
  EXPECT_CONTAINS(out,
                  "test.py:8:5: error: whether this is run is not known: the condition in line 4 is not evaluated");
  EXPECT_EQ(checked(twice).find("warning"), std::string::npos);
  EXPECT_EQ(checked("if FAST:\n" + indented(twice)).find("warning"), std::string::npos);
}

TEST(Checker, StatementsThatKernelsLackStopTheirKernelAlone) {
  const std::string text =
      "import triton\nimport triton.language as tl\n@triton.jit\ndef bad(x, B: tl.constexpr):\n"
      "    if B:\n        try:\n            tl.store(x, 1)\n        except ValueError:\n            pass\n"
      "    tl.store(x, 2)\n"
      "@triton.jit\ndef gen(x, **kwargs):\n    yield x\n"
      "@triton.jit\ndef k(x):\n    tl.store(x, 3)\n";
  EXPECT_NE(check_text(text, "k x=*f32").find("store"), std::string::npos);
  EXPECT_NE(check_text(text, "bad x=*f32 B=0").find("store"), std::string::npos) << "where it is not reached";
  EXPECT_NE(check_text(text, "bad x=*f32 B=1").find("test.py:6:9: error: 'try' is not part of the kernel language"),
            std::string::npos);
  const std::string out = check_text(text, "gen x=*f32");
  EXPECT_NE(out.find("a kernel function cannot take '**' parameters"), out.npos) << out;
  EXPECT_NE(out.find("'yield' is not part of the kernel language"), out.npos) << out;
}

TEST(Checker, AnotherSpecialisationOfTheSameTreeIsIndependent) {
  std::string text =
      "import triton\nimport triton.language as tl\nSCALE: tl.constexpr = 2\n@triton.jit\n"
      "def k(x, B: tl.constexpr):\n    i = tl.arange(0, B * SCALE)\n    tl.store(x + i, i)\n";
  EXPECT_NE(check_text(text, "k x=*f32 B=32").find("end = 64"), std::string::npos);
  EXPECT_NE(check_text(text, "k x=*f32 B=64").find("end = 128"), std::string::npos);
}

TEST(Checker, RunawayUnrollingIsAnError) {
  std::string out = check_text(
      "import triton\nimport triton.language as tl\n@triton.jit\ndef k(x):\n"
      "    for i in tl.static_range(1000000000):\n        j = i\n",
      "k x=*f32");
  EXPECT_NE(out.find("statements after inlining and unrolling"), out.npos) << out;
}

}  // namespace
}  // namespace tegula::language
