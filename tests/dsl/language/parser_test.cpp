// The parser of the kernel language: trees, places, messages, and that no input breaks it.
// heavy: ParserRobustness.LongLinesTakeLinearTime ParserRobustness.DeepTreesAreRefusedAtOnce
#include "dsl/language/parser.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>

#include "dsl/language/dump.h"
#include "dsl/language/splitter.h"

namespace tegula::language {
namespace {

namespace fs = std::filesystem;

const fs::path kGolden = fs::path(TEGULA_SOURCE_DIR) / "tests/golden/parser";
const std::string kMark = "==== expected\n";

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string input_of(const std::string& golden) {
  std::string text = read(kGolden / golden);
  return text.substr(0, text.find(kMark));
}

std::string parse_to_text(const std::string& text, bool places) {
  Diagnostics diags;
  Module module = parse(text, "k.py", diags);
  return dump(module, places) + diags.render();
}

/// Parses one kernel with this body (indented by four) and returns what is reported.
std::string errors_of(const std::string& body) {
  std::string text = "@triton.jit\ndef k(x, n):\n";
  for (size_t begin = 0; begin < body.size();) {
    size_t end = std::min(body.find('\n', begin), body.size());
    text += "    " + body.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  Diagnostics diags;
  parse(text, "k.py", diags);
  return diags.render();
}

/// The tree of an expression that stands in line 3, column 3.
std::string expr(const std::string& text, bool places = false) {
  Diagnostics diags;
  Module m = parse("@triton.jit\ndef k():\n  " + text + "\n", "k.py", diags);
  EXPECT_EQ(diags.render(), "");
  if (m.functions.size() != 1 || m.functions[0].body.size() != 1) return "?";
  return dump(*m.functions[0].body[0]->value, places);
}

/// Input and expected text stand in one file; TEGULA_BLESS=1 rewrites the expected part. Files whose name ends
/// in _places are dumped with the place of every node.
TEST(Parser, Golden) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(kGolden)) {
    SCOPED_TRACE(entry.path().filename());
    std::string text = read(entry.path());
    size_t mark = text.find(kMark);
    ASSERT_NE(mark, std::string::npos);
    bool places = entry.path().stem().string().ends_with("_places");
    std::string got = parse_to_text(text.substr(0, mark), places);
    if (std::getenv("TEGULA_BLESS")) {
      std::ofstream(entry.path(), std::ios::binary) << text.substr(0, mark) << kMark << got;
    } else {
      EXPECT_EQ(text.substr(mark + kMark.size()), got) << "TEGULA_BLESS=1 rewrites the file";
    }
    ++files;
  }
  EXPECT_GE(files, 5);
}

TEST(Parser, KernelsHaveNoDiagnostic) {
  Diagnostics diags;
  Module module = parse(input_of("kernels.txt"), "kernels.py", diags);
  EXPECT_EQ(diags.render(), "");
  EXPECT_EQ(module.functions.size(), 8u);
}

TEST(Parser, Precedence) {
  EXPECT_EQ(expr("-a ** -b ** c"), "(- (** a (- (** b c))))");
  EXPECT_EQ(expr("a | b ^ c & d << e + f * g"), "(| a (^ b (& c (<< d (+ e (* f g))))))");
  EXPECT_EQ(expr("a * b + c << d & e ^ f | g"), "(| (^ (& (<< (+ (* a b) c) d) e) f) g)");
  EXPECT_EQ(expr("a - b - c"), "(- (- a b) c)");
  EXPECT_EQ(expr("a - (b - c)"), "(- a (- b c))");
  EXPECT_EQ(expr("a // b % c @ d / e"), "(/ (@ (% (// a b) c) d) e)");
  EXPECT_EQ(expr("not a == b and c or d"), "(or (and (not (compare a == b)) c) d)");
  EXPECT_EQ(expr("a < b <= c is not d not in e"), "(compare a < b <= c is not d not in e)");
  EXPECT_EQ(expr("a and b and (c and d)"), "(and a b (and c d))");
  EXPECT_EQ(expr("(a and b) and c"), "(and (and a b) c)");
  EXPECT_EQ(expr("a if b else c if d else e"), "(if b a (if d c e))");
  EXPECT_EQ(expr("lambda x, y: x if x else y"), "(lambda [x y] (if x x y))");
  EXPECT_EQ(expr("~x.y(1)[2] ** 3"), "(~ (** (index (call (. x y) 1) 2) 3))");
  EXPECT_EQ(expr("notx + inside + is_a"), "(+ (+ notx inside) is_a)");
}

TEST(Parser, Literals) {
  EXPECT_EQ(expr("0xFF_FF + 0o17 + 0b1_0 + 1_000 + 0"), "(+ (+ (+ (+ 65535 15) 2) 1000) 0)");
  EXPECT_EQ(expr("18446744073709551615"), "18446744073709551615");
  EXPECT_EQ(expr("1. + .5 + 1e5 + 1.5E-3 + 1_0.0_1"), "(+ (+ (+ (+ 1.0 0.5) 100000.0) 0.0015) 10.01)");
  EXPECT_EQ(expr(R"('a' "b" r'\n' f'{x}' '\x41\u00e9\101\q\'')"), R"x((format "ab\\n" x "AéA\\q'"))x");
  EXPECT_EQ(expr("\"\"\"a\n 'b' \"c\\\n d\"\"\""), "\"a\\n 'b' \\\"c d\"");
  EXPECT_EQ(expr("(None, True, False, ...)"), "(tuple None True False ...)");
}

TEST(Parser, BracketsCallsSubscripts) {
  EXPECT_EQ(expr("x[:, None][1:, :2, ::3, a:b:c, ...]"),
            "(index (index x (slice _ _ _) None) (slice 1 _ _) (slice _ 2 _) (slice _ _ 3) (slice a b c) ...)");
  EXPECT_EQ(expr("x[(1, 2)]"), "(index x (tuple 1 2))");
  EXPECT_EQ(expr("f(a, *b, c=1, **d)"), "(call f a (* b) c=1 **=d)");
  EXPECT_EQ(expr("((a)), (b,), (), [], [c,], {'k': v, 1: 2,}"),
            "(tuple a (tuple b) (tuple) (list) (list c) (dict \"k\" v 1 2))");
  EXPECT_EQ(expr("[f(i) for i, j in x if i for k in j]"),
            "(comprehension [ (call f i) for (tuple i j) in x if i for k in j)");
}

TEST(Parser, PlacesAcrossLinesTabsAndNonAscii) {
  EXPECT_EQ(expr("(aa +\n  bb * cc)", true), "(+ aa@3:4-6 (* bb@4:3-5 cc@4:8-10)@4:3-10)@3:4-6");
  EXPECT_EQ(expr("aa + \\\n\tbb", true), "(+ aa@3:3-5 bb@4:2-4)@3:3-5");
  EXPECT_EQ(expr("'üü' + é", true), "(+ \"üü\"@3:3-7 é@3:10-11)@3:3-11");
  std::string crlf =
      "\xEF\xBB\xBF@triton.jit\r\ndef k(x):\r\n\t\"\"\"a\r\n b\"\"\"\r\n\tx = (x +  # c\r\n\r\n\t  1); y = x\r\n";
  EXPECT_EQ(parse_to_text(crlf, true),
            "@ (. triton@1:2-8 jit)@1:2-12\n"
            "def@2:5-6 k(x@2:7-8)\n"
            "  expr@3:2-6 \"a\\n b\"@3:2-6\n"
            "  assign@5:2-3 x@5:2-3 = (+ x@5:7-8 1@7:4-5)@5:7-8\n"
            "  assign@7:8-13 y@7:8-9 = x@7:12-13\n");
}

TEST(Parser, FunctionsOfTheModuleHideMethodsOfTheirName) {
  Diagnostics diags;
  const Module module = parse(
      "import triton\n"
      "@triton.jit\ndef tile(p, i): return p + i\n"
      "class A:\n  def __init__(self, p): pass\n  @triton.jit\n  def tile(self): return tile(self.p, 1)\n"
      "  @triton.jit\n  def other(self): pass\n",
      "k.py", diags);
  EXPECT_FALSE(diags.has_errors());
  ASSERT_EQ(module.functions.size(), 2u);
  EXPECT_EQ(module.functions[0].params.size(), 2u);
  EXPECT_EQ(module.functions[1].name, "other");
}

TEST(Parser, WhichFunctionsAreJit) {
  const std::string text = R"(
import triton as tr
from triton import jit as J, autotune
from numba import jit
from triton.experimental import gluon

@tr.jit
def a(): pass
@J
def b(): pass
@jit
def not_c(): pass
@gluon.jit
def not_d(): pass
@autotune(configs=[C(i) for i in x], key=['n'])
@unknown.decorator(lambda args: args)
@tr.jit(debug=True)
def e(): pass
class X:
    @staticmethod
    @tr.jit
    def f(): pass
    def host(self):
        if True:
            @tr.jit
            def g(): pass
        with open(x) as f: yield (q := 1)
def h(): pass
def not_i(): pass
kernel = tr.autotune([], key=[])(tr.jit(h))
)";
  Diagnostics diags;
  Module m = parse(text, "k.py", diags);
  EXPECT_EQ(diags.render(), "");
  std::vector<std::string> names;
  for (const Function& f : m.functions) names.push_back(f.name);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "e", "f", "g", "h"}));
  EXPECT_EQ(m.functions[2].decorators.size(), 3u);
}

TEST(Parser, SignatureWithoutTheRest) {
  std::string text = input_of("softmax_places.txt") + "\ndef broken(:\n";
  auto f = parse_signature(text, "k.py", "softmax");
  ASSERT_TRUE(f);
  EXPECT_EQ(f->params.size(), 5u);
  EXPECT_EQ(dotted_name(*f->params[4].annotation), "tl.constexpr");
  ASSERT_EQ(f->decorators.size(), 2u);
  EXPECT_EQ(dotted_name(*f->decorators[1].value), "triton.jit");
  EXPECT_TRUE(f->body.empty());
  EXPECT_FALSE(parse_signature(text, "k.py", "softma"));
  EXPECT_FALSE(parse_signature(text, "k.py", "broken"));
}

TEST(Parser, GlobalsAndImports) {
  const std::string text = R"(
import a.b, c.d as e
from . import f
from .g import (h as i,
                j,)
try:
    import k
except ImportError: k = None
A, (B, C) = 1, (2, 3)
D: tl.constexpr = tl.constexpr(4)
E = F = A + 1
G = 1
G += 1
H = 1
if E: H = 2
I = yield_ + +
J = [x async for x in y]
class K: L = 1
)";
  EXPECT_EQ(parse_to_text(text, false),
            "import a = a\nimport e = c.d\nimport f = .f\nimport i = .g.h\nimport j = .g.j\nimport k = k\n"
            "assign k = None\nassign (tuple A (tuple B C)) = (tuple 1 (tuple 2 3))\n"
            "annotate D : (. tl constexpr) = (call (. tl constexpr) 4)\n"
            "assign E F = (+ A 1)\nassign G = 1\naugment G += 1\nassign H = 1\ntest E\nassign H = 2\n"
            "not known: I\nnot known: J\n");
}

TEST(Parser, MessagesPointAtTheToken) {
  EXPECT_EQ(errors_of("y = n +\nz = (n"),
            "k.py:3:12: error: expected an expression after '+', found end of line\n"
            "        y = n +\n"
            "               ^\n"
            "k.py:4:9: error: '(' was never closed\n"
            "        z = (n\n"
            "            ^\n");
  EXPECT_EQ(errors_of("f(n) = x"),
            "k.py:3:5: error: cannot assign to a call\n"
            "        f(n) = x\n"
            "        ^~~~\n");
}

TEST(Parser, NothingOfAHostFunctionIsReported) {
  EXPECT_EQ(parse_to_text("def f(:\n  x = = 3\n   with\n 3 = )\n\ty\n", false), "");
}

// ---- Robustness: every input ends in a tree and messages.

void survive(const std::string& text) {
  Diagnostics diags;
  Module module = parse(text, "random.py", diags);
  dump(module, true);
  diags.render();
}

std::string sample() { return input_of("features.txt") + input_of("softmax_places.txt"); }

TEST(ParserRobustness, Truncations) {
  std::string text = sample();
  std::mt19937 random(1);
  for (int i = 0; i < 40; ++i) survive(text.substr(0, random() % text.size()));
}

TEST(ParserRobustness, ByteFlips) {
  const std::string original = sample(), signs = "()[]{}'\"\\\n\t:;,=#.@ \r";
  std::mt19937 random(2);
  for (int i = 0; i < 40; ++i) {
    std::string text = original;
    for (unsigned n = 1 + random() % 20; n; --n) {
      char& c = text[random() % text.size()];
      c = random() % 2 ? char(random()) : signs[random() % signs.size()];
    }
    survive(text);
  }
}

TEST(ParserRobustness, TokenSoup) {
  const std::vector<std::string> tokens = {"(", ")", "[",   "]",   "{",    "}",   ",",    ":",     "=",      "+",
                                           "-", "*", "**",  "if",  "else", "for", "in",   "not",   "is",     "lambda",
                                           "x", "1", "1.5", "'s'", ".",    "...", "==",   "+=",    "return", "def",
                                           "@", ";", "and", "~",   "as",   "\n",  "\n  ", "import"};
  std::mt19937 random(3);
  for (int i = 0; i < 600; ++i) {
    std::string text = "@triton.jit\ndef k(x):\n  ";
    for (unsigned n = random() % 30; n; --n) text += tokens[random() % tokens.size()] + " ";
    survive(text);
  }
}

std::string repeat(const std::string& s, int n) {
  std::string out;
  while (n--) out += s;
  return out;
}

TEST(ParserRobustness, DeepNesting) {
  const std::string deep = "the expression is nested too deeply", brackets = "brackets are nested more than 64 deep";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"(", brackets}, {"f([", brackets},  {"{1: ", brackets},     {"-", deep},    {"not ", deep},
      {"a ** ", deep}, {"lambda: ", deep}, {"a if b else ", deep}, {"a + ", deep},
  };
  for (const auto& [text, message] : cases) {
    SCOPED_TRACE(text);
    EXPECT_NE(errors_of("y = " + repeat(text, 20000) + "a").find(message), std::string::npos);
  }
  EXPECT_NE(errors_of("y = a" + repeat(".b", 20000)).find(deep), std::string::npos);
  EXPECT_NE(errors_of("y = a" + repeat("()", 20000)).find(deep), std::string::npos);
  EXPECT_EQ(errors_of("y = " + repeat("(", 64) + "a" + repeat(")", 64)), "");
  EXPECT_EQ(errors_of("y = " + repeat("f([", 32) + "a" + repeat("])", 32)), "");
  EXPECT_EQ(errors_of("y = a" + repeat(" + a", 300)), "");
  std::string blocks;
  for (int i = 0; i < 300; ++i) blocks += std::string(size_t(i), ' ') + "if a:\n";
  EXPECT_NE(errors_of(blocks).find("blocks are nested more than 100 deep"), std::string::npos);
  EXPECT_NE(errors_of("if a: pass\n" + repeat("elif b: pass\n", 5000)).find("more than 300 branches"),
            std::string::npos);
}

std::string repeated(int count, const std::function<std::string(int)>& part) {
  std::string out;
  for (int i = 0; i < count; ++i) out += part(i);
  return out;
}

// Sizes at which a step that looks back over the whole line, or at all names before, takes minutes.
TEST(ParserRobustness, LongLinesTakeLinearTime) {
  constexpr int kMany = 100'000;
  auto name = [](const char* form) { return [form](int i) { return fmt::format(fmt::runtime(form), i); }; };
  EXPECT_EQ(errors_of("f(" + repeated(kMany, name("a{0}=1, ")) + ")"), "");
  EXPECT_EQ(errors_of("t = (" + repeated(kMany, name("{}, ")) + ")"), "");
  EXPECT_EQ(errors_of("t = (" + repeated(kMany, name("'\u00e4{}', ")) + ")"), "");
  EXPECT_EQ(errors_of("t = (" + repeated(kMany, name("{},\n")) + ")"), "");
  EXPECT_EQ(errors_of("t = x" + repeated(kMany, name(" and x{}"))), "");
  EXPECT_EQ(errors_of(repeated(kMany, name("x{} = 1; "))), "");
  Diagnostics diags;
  Module module = parse("@triton.jit\ndef k(" + repeated(kMany, name("a{}, ")) + "):\n  pass\n", "k.py", diags);
  EXPECT_EQ(diags.render(), "");
  EXPECT_EQ(module.functions[0].params.size(), size_t(kMany));
  parse(repeated(kMany, name("from m import f{}\n")) + repeated(kMany, name("@f{}\ndef g(): pass\n")), "k.py", diags);
  EXPECT_EQ(diags.render(), "");
}

TEST(ParserRobustness, DeepTreesAreRefusedAtOnce) {
  const std::string sum = errors_of("t = x" + repeated(1'000'000, [](int) { return "+x"; }));
  EXPECT_NE(sum.find("the expression is nested too deeply"), sum.npos) << sum.substr(0, 200);
  const std::string calls = errors_of("t = f" + repeated(100'000, [](int) { return "()"; }));
  EXPECT_NE(calls.find("the expression is nested too deeply"), calls.npos) << calls.substr(0, 200);
  // Each level of keys was parsed twice.
  const int depth = 40;
  EXPECT_EQ(errors_of("t = " + std::string(depth, '{') + "1" + repeated(depth, [](int) { return ": 1}"; })), "");
  const std::string set = errors_of("t = {a, b: c}");
  EXPECT_NE(set.find("a dict has a value for each key, a set for none"), set.npos) << set;
}

TEST(Splitter, LinesAndPlaces) {
  const std::string* file = intern_file("s.py");
  std::vector<LogicalLine> lines =
      split("a = (1, # one\n  2)\n\n  # only this\nif x: b; c ;\n  'x;\\\ny'\\\n  + 1\n", file);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].text, "a = (1,  2)");
  EXPECT_EQ(lines[0].loc(9, 10), (Loc{file, 2, 3, 4}));
  EXPECT_EQ(lines[1].pieces.size(), 2u);
  EXPECT_EQ(lines[1].indent, 0);
  EXPECT_EQ(lines[2].text, "'x;\\\ny' + 1");
  EXPECT_EQ(lines[2].indent, 2);
  EXPECT_EQ(lines[2].pieces.size(), 1u);
}

}  // namespace
}  // namespace tegula::language
