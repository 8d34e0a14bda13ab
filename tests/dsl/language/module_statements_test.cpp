// Statements of a module, on which the values of its names depend.
// heavy: ModuleStatements.ThousandsThatAreNotEvaluatedTakeLinearTime
#include <fmt/format.h>

#include <tuple>

#include "tests/dsl/language/decorators_fixture.h"

namespace tegula::language {
namespace {

// The statements of the module run in their order, whichever of its names is asked for.
TEST(ModuleStatements, GlobalsWithOneListChangeTogether) {
  auto tune = autotune(R"(
A = [1]
B = A
TABLE = {'a': A}
B.append(2)
for x in (3, 4):
    TABLE['a'].append(x + len(A))
    TABLE['n'] = len(B)
A[0] = 6
A += [TABLE['n']]
def add(to, what):
    to.append(what)
add(B, 8)
TABLE.update(k=1)
print(A)
@triton.autotune([triton.Config({'BLOCK': 1000 * A[3] + 100 * B[-1] + 10 * len(TABLE['a']) + B[0] + len(TABLE)})], ['n']))");
  ASSERT_TRUE(tune);
  EXPECT_EQ(configs_text(tune->configs), "BLOCK=7869 num_warps=4 num_stages=3\n");
}

// So do those that change a global by way of another one, of a function or of a condition.
TEST(ModuleStatements, GlobalsThatOtherStatementsChange) {
  auto tune = autotune(R"(
A = [1]
BEFORE = len(A)
A.append(2)
ROWS = [[1]]
for row in ROWS:
    row.append(5)
IF = [1]
if len(IF) == 1:
    IF.append(3)
CALLED = []
def change():
    CALLED.append(7)
    return CALLED
change()
change().append(8)
def put(to, what):
    to.append(what)
BY_VALUE = [1]
ignored = put(BY_VALUE, 3)
DEEP = [1]
HOLDER = {'k': [DEEP]}
HOLDER['k'][0].append(4)
CHOSEN = [1]
OTHER = CHOSEN if len(CHOSEN) == 1 else []
OTHER.append(2)
ONE_LINE = [1]; ONE_LINE.append(2)
def digits(*all):
    number = 0
    for x in all:
        number = number * 10 + x
    return number
@triton.autotune([triton.Config({'BLOCK': digits(BEFORE, len(A), len(ROWS[0]), len(IF), len(CALLED), len(BY_VALUE), len(DEEP), len(CHOSEN), len(ONE_LINE))})], ['n']))");
  ASSERT_TRUE(tune);
  EXPECT_EQ(configs_text(tune->configs), "BLOCK=122232222 num_warps=4 num_stages=3\n");
}

// What Python gives the expression behind the statements.
TEST(ModuleStatements, StatementsOfTheModuleRunInTheirOrder) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"A = 1; B = A; A = 5", "B", "1"},
      {"Q = [1, 2, 3]\nQ[0], Q[-1] = Q[-1], 9", "Q", "[3, 2, 9]"},
      {"A = 1\nA, B = 2, A", "(A, B)", "(2, 1)"},
      {"E = {}\nI = iter_ = map(lambda x: x, [1, 2])\nS = sum(I)\nE.update({1: sum(I)})", "E", "{1: 0}"},
      {"def put(p, x):\n  p.append(x)\nP = []\nJ = zip([1], [2])\nK = list(J)\nput(P, sum(J))", "P", "[0]"},
      {"G = []\ndef f():\n  G.append(1)\nH = f()", "G", "[1]"},
      {"P = [1]\nP and P.append(3)", "P", "[1, 3]"},
      {"P = [1]\nwith open('x') as f:\n  P.append(3)", "P", "[1, 3]"},
      {"P = [1]\n[P.append(i) for i in range(2)]", "P", "[1, 0, 1]"},
      {"P = [1]\nP.append(2) if P else None", "P", "[1, 2]"},
      {"S = str({1: 2})", "S", "{1: 2}"},
      {"a = b = [1]\na.append(2)", "b", "[1, 2]"},
      {"S = {1, 1, 2}", "len(S)", "2"},
      {"n = 1; R = n == 'a'", "R", "False"},
      {"n = 1; R = n != 'a'", "R", "True"},
      {"n = 1; R = 'a' in [n]", "R", "False"},
      {"(x := 3)\nY = x", "Y", "3"},
      {"Y = (x := 3) + x", "(Y, x)", "(6, 3)"},
      {"x = 0\nL = [x := i for i in range(3)]", "x", "2"},
      {"S = 1\ndef f(x=S): return x\nS = 2\nA = f()", "A", "1"},
      {"A = 1\ndel A\nA = 3", "A", "3"},
      {"A = [1, 2]\nwhile len(A) < 4: A.append(7)", "A", "[1, 2, 7, 7]"},
      {"for i in range(3):\n  Z = i", "Z", "2"},
      {"f = 3\ndef f(): return 1\nA = f()", "A", "1"},
      {"def f(): return 1\nf = 3", "f", "3"},
      {"R = range(3)\nA = R == (0, 1, 2)", "A", "False"},
      {"A = f'{[1, 2]}{ {1: (1,)} }'", "A", "[1, 2]{1: (1,)}"},
      {"I = zip()\nA = 1 if I else 2", "A", "1"},
      {"a = [1]\nb = a\na = a + [2]\nb.append(3)", "(a, b)", "([1, 2], [1, 3])"},
      {"A = {1} == {1}", "A", "True"},
      {"A = {2, 1} == {1, 2}", "A", "True"},
      {"A = {1} == [1]", "A", "False"},
      {"A = sorted({2, 1} | {5})", "A", "[1, 2, 5]"},
      {"X = 1\nif X == 1:\n  X = 2\n  Y = 5\nelse:\n  Y = 6", "(X, Y)", "(2, 5)"},
      {"X = 1\nif X == 1:\n  X = 2\nelif X == 2:\n  X = 3", "X", "2"},
      {"try:\n  import foo\n  X = 1\nexcept ImportError:\n  X = 2", "X", "1"},
      {"L = [1]\ntry:\n  L.append(2)\nfinally:\n  L.append(3)", "L", "[1, 2, 3]"},
      {"x = 5\ndef f():\n  x = 7\n  return x\nA = f()", "(A, x)", "(7, 5)"},
      {"A = [1]\nA[0] += (B := 3)", "(A, B)", "([4], 3)"},
      {"if __name__ == '__main__':\n  foo.run(L)\nL = [1]", "L", "[1]"},
      {"L = [1]\nif __name__ == '__main__':\n  L.append(2)", "L", "[1]"},
      {"A = B = C = 1\nB += 1", "(A, B, C)", "(1, 2, 1)"},
      {"*A, B = [1, 2, 3]", "(A, B)", "([1, 2], 3)"},
      {"A = [1]\n(A)[0] = 5", "A", "[5]"},
      {"def f(n):\n  return [] if n == 0 else f(n - 1) + [n]\nA = f(3)", "A", "[1, 2, 3]"},
      {"x = y = z = []\nx += [1]\ny = y + [2]", "(x, y, z)", "([1], [1, 2], [1])"},
      {"N = 2\nL = [lambda: N]\nN = 3\nA = L[0]()", "A", "3"},
      {"L = [lambda: i for i in range(3)]\nA = L[0]()", "A", "2"},
      {"i = 9\nL = [i for i in range(3)]", "i", "9"},
      {"C = [1]\nlogger.info('%s', C)\nX = C.copy()\nsys.stdout.write(f'{C}')\nH = hash(tuple(C))\nC.append(2)", "C",
       "[1, 2]"},
      {"import json\nC = [1]\nT = json.dumps(C) + str(C.index(1))\nwarnings.warn(T)", "C", "[1]"},
      {"import pytest\nS = [1]\n@pytest.mark.parametrize('s', S)\ndef test(s): pass", "S", "[1]"},
      {"C = [1]\nclass F:\n  def g(): C.append(2)\nf = F.g", "C", "[1]"},
      {"A = isinstance(triton.Config({}), triton.Config)", "A", "True"},
      {"L = [1]\nL2 = L * 2\nL *= 2\nL2.append(1)", "(L, L2)", "([1, 1], [1, 1, 1])"},
      {"class A:\n  v = [1]\nA.v.append(2)", "A.v", "[1, 2]"},
      {"class A:\n  d = {}\nA.d[2] = 1", "A.d", "{2: 1}"},
      {"class A:\n  v = [1]\ndef f():\n  A.v.append(2)\nf()", "A.v", "[1, 2]"},
      {"class A:\n  v = [1]\nx = A.v\nx.append(2)", "(A.v, x)", "([1, 2], [1, 2])"},
      {"class A:\n  v = [1]\nB = A\nB.v.append(2)", "A.v", "[1, 2]"},
      {"class A:\n  v = [1]\nfor i in range(2):\n  A.v.append(i)", "A.v", "[1, 0, 1]"},
      {"L = [1]\nclass A:\n  v = L\nL.append(2)\nA.v.append(3)", "(A.v, L)", "([1, 2, 3], [1, 2, 3])"},
      {"X = 1\nclass A:\n  X = 2\n  Y = X + 1", "(X, A.Y)", "(1, 3)"},
      {"class A:\n  n = 1\n  n = n + 4", "A.n", "5"},
      {"class A:\n  n = 3\n  d = {}\n  def __init__(self):\n    self.x = 1\na = A()", "A.n", "3"},
      {"X = 1\ntry:\n  X = 2\n  raise KeyError\nexcept KeyError:\n  pass", "X", "2"},
      {"try:\n  X = 1\nexcept KeyError:\n  X = 2\nelse:\n  X += 4\nfinally:\n  X += 8", "X", "13"},
      {"import foo\nX = 1\ntry:\n  foo.setup()\n  X = 2\nexcept ImportError:\n  X = 3", "X", "2"},
      {"import foo\nL = [1]\ntry:\n  foo.setup()\n  L.append(2)\nexcept ImportError:\n  Y = 3", "L", "[1, 2]"},
      {"x = 1\ntry:\n  x = 2\nexcept KeyError:\n  x = 3\nelse:\n  x += 5\nfinally:\n  x *= 2", "x", "14"},
      {"try:\n  import numpy as np\n  H = True\n  np.random.seed(3)\nexcept ImportError:\n  H = False", "H", "True"},
  };
  for (const auto& [text, expression, expected] : cases) {
    auto tune =
        autotune(fmt::format("{}\n@triton.autotune([triton.Config({{'BLOCK': str({})}})], [])", text, expression));
    ASSERT_TRUE(tune) << text;
    EXPECT_EQ(std::get<std::string>(tune->configs[0].constexprs[0].value), expected) << text;
  }
}

// A text with the word is no `global` statement.
TEST(ModuleStatements, TextsDeclareNoGlobals) {
  for (const char* body : {"\"\"\"A global x, local or len.\"\"\"", "raise ValueError('no: global x')",
                           "raise ValueError(f'global x or len')", "foo.bar(\"x\")  # global x"}) {
    auto tune = autotune("x = 1\ndef f():\n    " + std::string(body) +
                         "\nf()\nfoo.bar(f)\n"
                         "@triton.autotune([triton.Config({'BLOCK': x + len([2])})], ['n'])");
    ASSERT_TRUE(tune) << body;
    EXPECT_EQ(configs_text(tune->configs), "BLOCK=2 num_warps=4 num_stages=3\n") << body;
  }
}

// What a statement may change that is not evaluated is not known behind it: an error, and no old value.
TEST(ModuleStatements, WhatIsNotEvaluatedMakesWhatItMayChangeUnknown) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"def put(p, x):\n  p.append(x)\nP = []\nB = put(P, foo.bar())", "P", "unknown name 'foo'"},
      {"Q = []\nQ.append([1].count(1))", "Q", "(1,) has no method 'count'"},
      {"x = 1\ndef f():\n  global x\n  x = 2\nf()", "x", "'global' is not part of the kernel language"},
      {"x = 1\ndef f(): pass; global x, y; x = foo()\nf()", "x", "'global' is not part of the kernel language"},
      {"x = 1\ndef f():\n  if foo: global x\n  x = 2\nf()", "x", "unknown name 'foo'"},
      {"G = []\ndef f():\n  G.append(1)\ndef g():\n  f()\n  return foo.x()\nH = g()", "G", "unknown name 'foo'"},
      {"P = [1, 3]\nassert P.pop() == 3", "P", "(1, 3) has no method 'pop'"},
      {"P = [1]\nwith foo(P) as f:\n  P.append(3)", "P", "unknown name 'foo'"},
      {"S = [x for x in {3, 1}]", "S", "the order of a set is not followed"},
      {"class M:\n  A = 1\nM.A = 2", "M.A", "cannot assign to the attribute 'A'"},
      {"X = 1\nclass M:\n  A = X\nX = 2", "M.A", "'A' depends on names that have other values behind the class"},
      {"S = 1\nf = lambda x=S: x\nS = 2\nA = f()", "A", "the lambda takes 1 arguments, found 0"},
      {"def f(): return 1\nA = f()\ndef f(): return 2\nB = f()", "(A, B)",
       "the function 'f' is defined more than once, and which one counts is not followed"},
      {"A = [1]\nif foo.bar():\n  A.append(2)", "A",
       "whether this is run is not known: the condition in line 5 is not evaluated"},
      {"class M:\n  A = 1\nB = M.A\nclass M:\n  A = 2", "B",
       "the class 'M' is defined more than once, and which one counts is not followed"},
      {"G = (len(L) for x in [1, 2])\nL = []\nG = (len(L) for x in [1, 2])\nL.extend(G)", "L",
       "a list or dict changes before an iterator over it has given its items"},
      {"A = [1]\nmatch A:\n  case [1]:\n    A.append(2)", "A",
       "this statement is not evaluated, and with it what it may change"},
      {"Y = 1\nmatch Y:\n  case 2:\n    Y = 2", "Y", "this statement is not evaluated, and with it what it may change"},
      {"R = []\ndef reg(f):\n  R.append(1)\n  return f\n@reg\ndef g(): pass", "R",
       "this statement is not evaluated, and with it what it may change"},
      {"def dbl(f): return lambda: 5\n@dbl\ndef g(): return 1\nA = g()", "A",
       "'g' is what a function of the file makes of it, which is not evaluated"},
      {"L = [1]\nimport random\nrandom.shuffle(L)", "L",
       "'random.shuffle' cannot be evaluated: Tegula does not run Python"},
      {"L = [1]\nM = (L,)\nfoo.x(M)", "L", "unknown name 'foo'"},
      {"L = [1]\nf = lambda: L\nfoo.x(f)", "L", "unknown name 'foo'"},
      {"L = [1]\nglobals()['L'] = [2]", "L", "unknown name 'globals'"},
      {"L = [1]\nexec('L.append(2)')", "L", "unknown name 'exec'"},
      {"I = map(lambda x: K + x, [1])\nK = 2\nK = 3\nA = list(I)", "A", "unknown name 'K'"},
      {"K = 2\ndef f(x): return x + K\nI = map(f, [1])\nK = 3\nA = list(I)", "A",
       "a list or dict changes before an iterator over it has given its items"},
      {"L = []\nI = map(L.append, [1])\nA = len(L)", "A", "() has no attribute 'append'"},
      {"L = [3]\nI = iter(L)\nA = next(I)", "A", "unknown name 'iter'"},
      {"A = str(range(3))", "A", "the text of an iterator is not evaluated"},
      {"s = t = {1}\ns |= {2}", "len(t)", "a set does not change here"},
      {"try:\n  X = foo.y()\nexcept ImportError:\n  X = 2", "X", "unknown name 'foo'"},
      {"import os\nos.environ['TG_X'] = '64'\nX = os.environ.get('TG_X', '3')", "X",
       "the file gives the variable 'TG_X' a value, which is not followed"},
      {"C = [[1]]\nX = C.copy()\nX[0].append(2)", "C", "((1,),) has no method 'copy'"},
      {"C = [1]\nf = C.append\nf(2)", "C", "(1,) has no attribute 'append'"},
      {"C = [1]\nf = functools.partial(C.append, 2)\nf()", "C", "unknown name 'functools'"},
      {"C = [1]\nf = getattr(C, 'append')\nf(2)", "C", "(1,) has no attribute 'append'"},
      {"class K:\n  def log(self, x): x.append(1)\nC = [1]\nK().log(C)", "C", "the class 'K' makes no values here"},
      {"C = [[1]]\n[c.append(2) for c in C if foo.bar()]", "C", "unknown name 'foo'"},
      {"L = [1]\nsorted(L, key=lambda x: L.append(x))", "L", "sorted is evaluated of a list, and with reverse"},
      {"L = [1]\nmax(L, key=foo.bar)", "L", "unknown name 'foo'"},
      {"A = 1\nimport foo as A\nB = 2", "A", "'A' comes from 'foo', outside this file"},
      {"class A:\n  v = [1]\n  def m():\n    A.v.append(2)\nA.m()", "A.v", "the class 'A' has no method 'm'"},
      {"class A:\n  v = [1]\n  def m(self):\n    self.v.append(2)\nA().m()", "A.v",
       "the class 'A' makes no values here"},
      {"class A:\n  v = [1]\n  def m(x):\n    A.v.append(x)\nG = A.v\nA.m(foo)", "G", "unknown name 'foo'"},
      {"class A:\n  n = 1\ndef f():\n  A.n = 2\nf()", "A.n", "cannot assign to the attribute 'n'"},
      {"class A:\n  n = 1\n  def m(self):\n    setattr(A, 'n', 2)\nfoo.x(A)", "A.n", "unknown name 'foo'"},
      {"class A:\n  v = [1]\nx = A.v\nfoo.y(x)", "A.v", "unknown name 'foo'"},
      {"class A:\n  v = []\ndef reg(c):\n  A.v.append(c)\n  return c\n@reg\nclass B: pass", "len(A.v)",
       "this statement is not evaluated, and with it what it may change"},
      {"L = [1]\nclass A:\n  n = len(L)\nL.append(2)", "A.n",
       "'n' depends on names that have other values behind the class"},
      {"class A:\n  n = 1\n  n += 1", "A.n", "what the body of the class makes of 'n' is not followed"},
      {"class A:\n  v = [1]\n  v.append(2)", "A.v", "what the body of the class makes of 'v' is not followed"},
      {"class A:\n  n = 1\n  if True:\n    n = 2", "A.n", "what the body of the class makes of 'n' is not followed"},
      {"try:\n  raise KeyError\n  X = 2\nexcept KeyError:\n  X = 3", "X",
       "whether this is run is not known: the statement of the same 'try' in line 5 is not evaluated"},
      {"X = 1\ntry:\n  int('a')\n  X = 2\nexcept ValueError:\n  X = 3", "X",
       "whether this is run is not known: the statement of the same 'try' in line 6 is not evaluated"},
      {"X = 1\ntry:\n  X = 2\n  Y = {}['a']\nexcept KeyError:\n  X = 4", "X",
       "whether this is run is not known: the statement of the same 'try' in line 7 is not evaluated"},
      {"L = [1]\ntry:\n  L.append(2)\n  raise KeyError\nexcept KeyError:\n  L.append(4)", "L",
       "whether this is run is not known: the statement of the same 'try' in line 7 is not evaluated"},
      {"x = 1\ndef f():\n  global x\n  x = 2\n  return 5\ny = f()", "x", "'global' is not part of the kernel language"},
      {"x = 1\ndef f():\n  global x\n  x = 2\ng = f\ng()", "x", "'global' is not part of the kernel language"},
      {"x = 1\ndef f(v):\n  global x\n  x = v\nd = {'a': f}\nd['a'](1)", "x",
       "'global' is not part of the kernel language"},
      {"x = 1\ndef f(v):\n  global x\n  x = v\nL = list(map(f, [2]))", "x",
       "'global' is not part of the kernel language"},
      {"x = 1\ndef f():\n  global x\n  x = 2\ndef g(a=f()): pass", "x",
       "a default is not evaluated, and with it what it may change"},
      {"X = 1\nwhile True: X = 2", "X", "the statements of the module take more than 1000000 steps"},
  };
  for (const auto& [text, expression, message] : cases) {
    const std::string error = autotune_error(
        fmt::format("{}\n@triton.autotune([triton.Config({{'BLOCK': str({})}})], [])", text, expression));
    EXPECT_NE(error.find(fmt::format("error: {}\n", message)), std::string::npos) << text << error;
  }
}

// Sizes at which looking through all names for each statement takes minutes.
TEST(ModuleStatements, ThousandsThatAreNotEvaluatedTakeLinearTime) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += fmt::format("L{0} = M{0} = [{0}]\n", i);
  for (int i = 0; i < 5000; ++i) text += fmt::format("M{}.append(1)\nfoo.x(L{}, L9)\n", i, i);
  EXPECT_NE(autotune_error(text + "@triton.autotune([triton.Config({'BLOCK': len(M4999)})], [])").find("unknown name"),
            std::string::npos);
}

TEST(ModuleStatements, AnUnknownGlobalSaysWhyAndWhere) {
  EXPECT_EQ(
      autotune_error("Q = []\nQ.append([1].count(1))\n@triton.autotune([triton.Config({'BLOCK': len(Q)})], ['n'])"),
      "k.py:5:10: error: (1,) has no method 'count'\n"
      "    Q.append([1].count(1))\n"
      "             ^~~~~~~~~\n"
      "  k.py:6:47: note: in the value of the global 'Q', which may be given: --global Q=VALUE\n"
      "    @triton.autotune([triton.Config({'BLOCK': len(Q)})], ['n'])\n"
      "                                                  ^\n"
      "  hint: give the configurations in C++: kernel.autotune(...)\n"
      "  see docs/language.md#decorators\n");
}

}  // namespace
}  // namespace tegula::language
