// Python that decorators call: its lists and dicts, its bounds, and the errors within it.
#include <fmt/format.h>

#include <tuple>

#include "tests/dsl/language/decorators_fixture.h"

namespace tegula::language {
namespace {

TEST(HostCode, DictsAreUnpackedInDicts) {
  auto tuning = autotune(
      "BASE = {'BLOCK': 64, 'EVEN': False}\n"
      "@triton.autotune([triton.Config({**BASE, 'BLOCK': 32}), triton.Config({'BLOCK': 32, **BASE})], key=['n'])");
  ASSERT_TRUE(tuning);
  EXPECT_EQ(configs_text(tuning->configs),
            "BLOCK=32 EVEN=False num_warps=4 num_stages=3\nBLOCK=64 EVEN=False num_warps=4 num_stages=3\n");
  EXPECT_EQ(autotune_error("@triton.autotune([triton.Config({**2})], key=['n'])"),
            "k.py:4:36: error: '**' takes a dict, found the int 2\n"
            "    @triton.autotune([triton.Config({**2})], key=['n'])\n"
            "                                       ^\n"
            "  hint: give the configurations in C++: kernel.autotune(...)\n"
            "  see docs/language.md#decorators\n");
}

// A list that doubles itself does not take all memory.
TEST(HostCode, BoundedMemory) {
  const std::string text = R"(import triton

def configs():
    out = [triton.Config({'BLOCK': 1})]
    for i in range(60):
        out = out + out
    return out

)";
  EXPECT_NE(autotune_error(text + "@triton.autotune(configs(), ['n'])")
                .find("the result has 131072 elements, more than 65536"),
            std::string::npos);
  EXPECT_NE(autotune_error(R"(import triton

def configs():
    out = 1
    for i in range(200):
        out = [out, out]
    return str(out)

@triton.autotune(configs(), ['n']))")
                .find("the text has"),
            std::string::npos);
}

TEST(HostCode, ErrorsInHostFunctionsSayWhoCalledThem) {
  EXPECT_EQ(autotune_error("def configs():\n  return [triton.Config({'BLOCK': b}) for b in sizes]\n"
                           "@triton.autotune(configs(), ['n'])"),
            "k.py:5:48: error: unknown name 'sizes'\n"
            "      return [triton.Config({'BLOCK': b}) for b in sizes]\n"
            "                                                   ^~~~~\n"
            "  k.py:6:18: note: in the call of 'configs'\n"
            "    @triton.autotune(configs(), ['n'])\n"
            "                     ^~~~~~~~~\n"
            "  hint: give the configurations in C++: kernel.autotune(...)\n"
            "  see docs/language.md#decorators\n");
  // The `except` of a `try` is taken never to run.
  EXPECT_NE(autotune_error("def configs():\n  try:\n    n = b\n  except KeyError:\n    return []\n"
                           "@triton.autotune(configs(), ['n'])")
                .find("k.py:6:9: error: unknown name 'b'"),
            std::string::npos);
  std::string text = autotune_error("def configs():\n  del x\n  return []\n@triton.autotune(configs(), ['n'])");
  EXPECT_NE(text.find("k.py:5:3: error: 'del' is not part of the kernel language"), text.npos) << text;
  EXPECT_NE(text.find("in the call of 'configs'"), text.npos) << text;
  text = autotune_error("def configs():\n  x = +\n  return []\n@triton.autotune(configs(), ['n'])");
  EXPECT_NE(text.find("k.py:5:8: error: expected an expression after '+'"), text.npos) << text;
  EXPECT_NE(text.find("in the function 'configs', which a decorator uses"), text.npos) << text;
  text = autotune_error("def configs():\n  while True:\n    pass\n@triton.autotune(configs(), ['n'])");
  EXPECT_NE(text.find("a decorator takes more than 1000000 steps"), text.npos) << text;
  text = autotune_error("def f():\n  l = [1]\n  while True:\n    l = l + l\n@triton.autotune(f(), ['n'])");
  EXPECT_NE(text.find("the result has 131072 elements, more than 65536"), text.npos) << text;
  text = autotune_error("def f():\n  s = 'a'\n  while True:\n    s = s + s\n@triton.autotune(f(), ['n'])");
  EXPECT_NE(text.find("the result has 131072 elements, more than 65536"), text.npos) << text;
  text =
      autotune_error("def f():\n  all = []\n  while True:\n    all.append([0] * 60000)\n@triton.autotune(f(), ['n'])");
  EXPECT_NE(text.find("lists, tuples, dicts and strings of more than 2097152 items are made here"), text.npos) << text;
  text = autotune_error("def f():\n  d = {}\n  while True:\n    d = {**d, len(d): 1}\n@triton.autotune(f(), ['n'])");
  EXPECT_NE(text.find("lists, tuples, dicts and strings of more than 2097152 items are made here"), text.npos) << text;
  text = autotune_error("def f():\n  s = 'a'\n  while True:\n    s = f'{s}{s}'\n@triton.autotune(f(), ['n'])");
  EXPECT_NE(text.find("the text has 131072 characters, more than 65536"), text.npos) << text;
  text = autotune_error("def f(n):\n  return f(n)\n@triton.autotune(f(1), ['n'])");
  EXPECT_NE(text.find("calls are nested more than 64 deep"), text.npos) << text;
}

// Sizes at which copying the list or the dict for each item, or looking through all keys, takes minutes.
TEST(HostCode, ListsAndDictsGrowInLinearTime) {
  const std::string text = autotune_error(R"(
def f():
    items, places = [], {}
    for i in range(60000):
        items.append(i)
        places[i] = len(items)
    assert len(items) == 60000 and items[59999] == 59999
    assert len(places.keys()) == 60000 and places[0] == 1 and places[59999] == 60000
    return 'done'
@triton.autotune(f(), ['n']))");
  EXPECT_NE(text.find("'done'"), text.npos) << text;
}

// As in Python, all names of a dict see what is changed by one of them.
TEST(HostCode, PruningChangesConfigurations) {
  auto tune = autotune(
      "def double(values):\n"
      "  values['BLOCK'] *= 2\n"
      "def prune(configs, args):\n"
      "  kept = []\n"
      "  for c in configs:\n"
      "    values = c.kwargs\n"
      "    values['BLOCK'] = values['BLOCK'] * 2\n"
      "    double(values)\n"
      "    copy = values.copy()\n"
      "    copy['BLOCK'] = 7\n"
      "    values.update({'SIZE': 3}, MORE=4)\n"
      "    c.kwargs['SIZE'] += 1\n"
      "    if c.kwargs['BLOCK'] == 32 and c.all_kwargs()['SIZE'] == 4 and copy['BLOCK'] == 7:\n"
      "      kept.append(c)\n"
      "  return kept\n"
      "@triton.autotune([triton.Config({'BLOCK': 1}), triton.Config({'BLOCK': 8})], ['n'], "
      "prune_configs_by={'early_config_prune': prune})");
  ASSERT_TRUE(tune && tune->prune);
  for (int time : {1, 2})
    EXPECT_EQ(configs_text(tune->prune(tune->configs, {})), "BLOCK=32 MORE=4 SIZE=4 num_warps=4 num_stages=3\n")
        << time;
}

// What a dict holds may hold the dict.
TEST(HostCode, DictsThatHoldThemselves) {
  auto tune = autotune(
      "def configs():\n"
      "  shared = {'BLOCK': 1}\n"
      "  out = [triton.Config(shared)]\n"
      "  shared['BLOCK'] = 2\n"
      "  names = {}\n"
      "  names['size'] = lambda n: n * 4\n"
      "  names['all'] = (1, [names])\n"
      "  return out + [triton.Config({'BLOCK': names['size'](len(names))})]\n"
      "@triton.autotune(configs(), ['n'])");
  ASSERT_TRUE(tune);
  EXPECT_EQ(configs_text(tune->configs), "BLOCK=2 num_warps=4 num_stages=3\nBLOCK=8 num_warps=4 num_stages=3\n");
}

// Each number is one of Python's.
TEST(HostCode, DictsChangeAsInPython) {
  auto tune = autotune(
      "def count(c):\n"
      "  c['c'] += 1\n"
      "  return c['c']\n"
      "def replaced(d):\n"
      "  d['a'] = {'x': 5}\n"
      "  return 7\n"
      "def joined():\n"
      "  d = {'a': 1}\n"
      "  e = d\n"
      "  d |= {'a': 2, 'b': 3}\n"
      "  return len(e) * 10 + e['a']\n"
      "def counted():\n"
      "  k = {'c': 0}\n"
      "  z = {1: 10, 2: 20, 3: 30}\n"
      "  z[count(k)] += 1\n"
      "  return k['c'] * 10000 + z[1] * 100 + z[2]\n"
      "def in_order():\n"
      "  d = {'a': {'x': 1}}\n"
      "  old = d['a']\n"
      "  d['a']['y'] = replaced(d)\n"
      "  return len(d['a']) * 10 + len(old)\n"
      "def many():\n"
      "  big = [{i: i} for i in range(3000)]\n"
      "  d = {}\n"
      "  for i in range(3000): d[i] = big\n"
      "  return len(d)\n"
      "@triton.autotune([triton.Config({'BLOCK': f()}) for f in (joined, counted, in_order, many)], ['n'])");
  ASSERT_TRUE(tune);
  const char* expected =
      "BLOCK=22 num_warps=4 num_stages=3\nBLOCK=11120 num_warps=4 num_stages=3\n"
      "BLOCK=21 num_warps=4 num_stages=3\nBLOCK=3000 num_warps=4 num_stages=3\n";
  EXPECT_EQ(configs_text(tune->configs), expected);
}

TEST(HostCode, ADictThatHoldsItselfHasOneName) {
  const std::string text = message_of<CompileError>([] {
    autotune(
        "def configs():\n"
        "  n = {}\n"
        "  e = n\n"
        "  n['f'] = lambda: len(n)\n"
        "  return [triton.Config({'BLOCK': len(e)})]\n"
        "@triton.autotune(configs(), ['n'])");
  });
  EXPECT_NE(text.find("a dict that holds itself is not evaluated here"), std::string::npos) << text;
}

TEST(HostCode, KeywordsOfHostFunctionsAreADict) {
  auto tune = autotune(
      "def sized(base, **more):\n  return triton.Config({'BLOCK': base * more['times']}, num_warps=more.get('warps', "
      "2))\n"
      "@triton.autotune([sized(16, times=4), sized(base=8, times=2, warps=1)], ['n'])");
  ASSERT_TRUE(tune);
  EXPECT_EQ(configs_text(tune->configs), "BLOCK=64 num_warps=2 num_stages=3\nBLOCK=16 num_warps=1 num_stages=3\n");
}

// What the functions give is what Python gives.
TEST(HostCode, ListsChangeAsInPython) {
  auto tune = autotune(R"(
def grown(l, n):
    l.append(n)
    l.extend([n, n])
    return len(l)
def named():
    a = [1]
    b = a
    a.append(2)
    b += (3, 4)
    a[0] = 7
    return len(a) * 100 + len(b) * 10 + b[0]
def by_callee():
    a = []
    return grown(a, 1) * 1000 + grown(a, 2) * 100 + len(a) * 10 + a[3]
def in_containers():
    a = [1]
    d = {'l': a, 'm': [a, a]}
    d['l'].append(2)
    d['m'][0].append(3)
    d['m'][1][0] += 5
    d['l'] += [4]
    return len(a) * 100 + len(d['m'][1]) * 10 + a[0]
def rows():
    all = [[0] * 2] * 3
    all[1][1] = 4
    other = [list(r) for r in all]
    other[0][0] = 9
    return all[0][1] * 100 + all[2][0] * 10 + other[0][0]
def copies():
    a = [1, 2]
    b, c, d, e = a[:], list(a), a + [], [*a]
    for x in (b, c, d, e):
        x.append(3)
    a *= 2
    return len(a) * 100 + len(b + c + d + e) * 1
def while_running():
    a = [1]
    for x in a:
        if x < 4:
            a.append(x + 1)
    return len(a) * 10 + a[-1]
def in_order():
    a = [1, 2]
    k = [0]
    def_ = {'n': 0}
    a[grown(k, 1) - 4] += len(k)
    return a[0] * 100 + a[1] * 10 + len(k)
def rebound():
    a = [1]
    b = a
    a = a + [2]
    a.append(3)
    return len(a) * 10 + len(b)
@triton.autotune([triton.Config({'BLOCK': f()}) for f in (
    named, by_callee, in_containers, rows, copies, while_running, in_order, rebound)], ['n']))");
  ASSERT_TRUE(tune);
  std::string expected;
  for (int number : {447, 3662, 446, 409, 412, 44, 524, 31})
    expected += "BLOCK=" + std::to_string(number) + " num_warps=4 num_stages=3\n";
  EXPECT_EQ(configs_text(tune->configs), expected);
}

TEST(HostCode, EqualKeysAndValuesAreThoseOfPython) {
  auto tune = autotune(R"(
def keys():
    d = {1: 'a', True: 'b', (1, 2): 3, tl.float16: 4}
    d[1.0] = 7
    d[(1, 2)] += 5
    d[tl.float16] += 1
    return len(d) * 1000 + d[1] * 100 + d[(1, 2)] * 10 + d[tl.float16]
def equal():
    a, b = [1, 2], [1, 2]
    c = a
    ones = [a == b, (1, 2) == (1, 2), {'a': [1]} == {'a': [1]}, a is c, 1 == True, [1] in [[1]], {} != {'a': 1}]
    zeros = [a == (1, 2), {'a': 1} == {'a': 2}, a is b, (1,) in [[1]], {} is {}]
    return sum([1 for x in ones if x]) * 10 + sum([1 for x in zeros if x])
def texts():
    return len(str([1])) * 100 + len(str((1, 2))) * 10 + len(f"{[1, 'a']}")
def classes():
    n, xs = 3, [1]
    ones = [isinstance(n, int), isinstance(xs, list), isinstance((1,), tuple), isinstance(xs, (tuple, list)), type(xs) == list]
    zeros = [isinstance(xs, tuple), isinstance((1,), list), type(xs) == tuple, isinstance(n, float)]
    return sum([1 for x in ones if x]) * 10 + sum([1 for x in zeros if x])
def reals():
    d = {0.5: 1, 1e20: 2, -0.0: 3}
    d[10**20] = 7
    d[0] = 4
    return len(d) * 100 + d[1e20] * 10 + d[0.0]
@triton.autotune([triton.Config({'BLOCK': f()}) for f in (keys, equal, texts, classes, reals)], ['n']))");
  ASSERT_TRUE(tune);
  EXPECT_EQ(configs_text(tune->configs),
            "BLOCK=3785 num_warps=4 num_stages=3\nBLOCK=70 num_warps=4 num_stages=3\n"
            "BLOCK=368 num_warps=4 num_stages=3\nBLOCK=50 num_warps=4 num_stages=3\n"
            "BLOCK=374 num_warps=4 num_stages=3\n");
}

TEST(HostCode, LambdasReadWhatTheirNamesAreThen) {
  auto tune = autotune(R"(
def later():
    n = 1
    f = lambda k: n + k
    n = 5
    xs = [1]
    g = lambda: len(xs)
    xs = xs + [2]
    return f(10) * 10 + g()
def last():
    return sum([f() for f in [lambda: i for i in range(4)]])
def handed_on():
    fs = []
    for i in (1, 2):
        fs.append(lambda: i)
    return fs
@triton.autotune([triton.Config({'BLOCK': later()}), triton.Config({'BLOCK': last()}),
                  triton.Config({'BLOCK': handed_on()[0]()})], ['n']))");
  ASSERT_TRUE(tune);
  EXPECT_EQ(
      configs_text(tune->configs),
      "BLOCK=152 num_warps=4 num_stages=3\nBLOCK=12 num_warps=4 num_stages=3\nBLOCK=2 num_warps=4 num_stages=3\n");
}

// The names of its clauses are a comprehension's own.
TEST(HostCode, LambdasReadNoNamesOfOtherComprehensions) {
  auto tune = autotune(R"(
def ahead():
    x = 5
    f = lambda: x
    return sum([f() + x for x in (1, 2)])
def within():
    n = 5
    fs = [lambda: i + n for i in range(3)]
    i = 100
    n = 7
    return fs[0]()
def of_a_dict():
    k = 1
    f = lambda: k
    d = {k: k for k in (4, 5)}
    return f() * 10 + d[5]
@triton.autotune([triton.Config({'BLOCK': f()}) for f in (ahead, within, of_a_dict)], ['n']))");
  ASSERT_TRUE(tune);
  EXPECT_EQ(configs_text(tune->configs),
            "BLOCK=13 num_warps=4 num_stages=3\nBLOCK=9 num_warps=4 num_stages=3\nBLOCK=15 num_warps=4 num_stages=3\n");
  const std::string text = autotune_error(R"(
def f():
    return len([lambda: i for i in range(30000)])
@triton.autotune(f(), ['n']))");
  EXPECT_NE(text.find("of more than 2097152 items are made here"), text.npos) << text;
}

// Loops change what they have had of a list or dict that they run over.
TEST(HostCode, IteratorsOverWhatChangesBehindThem) {
  auto tune = autotune(R"(
def numbered():
    a = [1, 2, 3]
    for i, x in enumerate(a):
        a[i] = x * 2
    return a[0] * 100 + a[1] * 10 + a[2]
def zipped():
    a, b = [1, 2], [3, 4]
    for i, (x, y) in enumerate(zip(a, b)):
        a[i] = x + y
        b[-2 + i] = 0
    return a[0] * 10 + a[1] + b[0] + b[1]
def entries():
    d = {'a': 1, 'b': 2}
    for k, v in d.items():
        d[k] = v * 2
    for k in d.keys():
        d[k] += 1
    return d['a'] * 10 + d['b']
@triton.autotune([triton.Config({'BLOCK': f()}) for f in (numbered, zipped, entries)], ['n']))");
  ASSERT_TRUE(tune);
  EXPECT_EQ(
      configs_text(tune->configs),
      "BLOCK=246 num_warps=4 num_stages=3\nBLOCK=46 num_warps=4 num_stages=3\nBLOCK=35 num_warps=4 num_stages=3\n");
  for (const char* body : {
           "for i, x in enumerate(a):\n    a[i - 1] = x",
           "for i, (x, y) in enumerate(zip(a, b)):\n    a[2 - i] = x",
           "items = d.items()\n  for k, v in items:\n    d[k] = v * 2\n  for k, v in items:\n    a[0] = v",
           "items = d.items()\n  for k, v in items:\n    for l, w in items:\n      pass\n    d[2] = v",
           "for i, x in enumerate(a):\n    a.append(x)",
       }) {
    const std::string text =
        autotune_error(std::string("def f():\n  a, b, d = [1, 2, 3], [4, 5, 6], {1: 1, 2: 2}\n  ") + body +
                       "\n  return []\n@triton.autotune(f(), ['n'])");
    EXPECT_NE(text.find("changes before an iterator over it has given its items"), text.npos) << body << text;
  }
}

// The statements of the module run in their order, whichever of its names is asked for.
TEST(HostCode, GlobalsWithOneListChangeTogether) {
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
TEST(HostCode, GlobalsThatOtherStatementsChange) {
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

TEST(HostCode, WhatOthersWouldSeeDoesNotChange) {
  auto error_of = [](const std::string& text) { return autotune_error(text + "@triton.autotune(f(), ['n'])"); };
  const std::pair<const char*, const char*> cases[] = {
      {"def f(to=[]):\n  to.append(1)\n  return to\n", "the default of 'to' changes here, which is not evaluated"},
      {"def f(to={'a': []}):\n  to['a'].append(1)\n", "the default of 'to' changes here, which is not evaluated"},
      {"ALL = []\ndef f():\n  ALL.append(1)\n", "the global 'ALL' changes here, which is not evaluated"},
      {"ALL = {}\ndef f():\n  ALL['a'] = 1\n", "the global 'ALL' changes here, which is not evaluated"},
      {"ALL = {}\ndef g(d):\n  d['a'] = 1\ndef f():\n  g(ALL)\n",
       "the global 'ALL' changes here, which is not evaluated"},
      {"ALL = [1, 2]\nlast = ALL.pop()\ndef f():\n  return [triton.Config({'B': ALL[0]})]\n",
       "(1, 2) has no method 'pop'"},
      {"ALL = [1, 2]\ndel ALL[0]\ndef f():\n  return [triton.Config({'B': ALL[0]})]\n",
       "this statement is not evaluated, and with it what it may change"},
      {"def f():\n  x = 3\n  x[0] = 1\n", "cannot assign to an element of the int 3"},
      {"def f():\n  x = (3,)\n  x[0] = 1\n", "the elements of a tuple cannot be assigned"},
      {"def f():\n  x = [1, 2]\n  x[0:1] = [1]\n", "a list's elements are assigned one at a time"},
      {"def f():\n  x = []\n  y = x\n  x.append((1, [y]))\n", "a list that holds itself is not evaluated here"},
      {"def f():\n  z = zip([1], [2])\n  a = zip(z)\n  return len(list(z))\n",
       "an iterator, as zip() and map() give, has its items once"},
      {"def f():\n  x = [1]\n  m = map(lambda v: v, x)\n  x.append(2)\n  return sum(m)\n",
       "a list or dict changes before an iterator over it has given its items"},
      {"def f():\n  x = [1]\n  for i, v in enumerate(x):\n    x.append(v)\n",
       "a list or dict changes before an iterator over it has given its items"},
      {"def f():\n  d = {'a': 1}\n  for k in d:\n    d[k + 'a'] = 1\n",
       "the dict gets other keys while a loop runs over them"},
      {"def f():\n  z = map(lambda v: v, [1, 2])\n  for a in z: break\n  return [*z]\n",
       "an iterator, as zip() and map() give, has its items once"},
      {"def f():\n  z = zip([1], [2])\n  return [1 in z, 1 in z]\n",
       "an iterator, as zip() and map() give, has its items once"},
      {"def f():\n  z = zip([1], [2])\n  return z[0]\n", "an iterator, as zip() and map() give, has no places"},
      {"def f():\n  k = 1\n  m = map(lambda v: v + k, [1])\n  k = 2\n  return list(m)\n",
       "a list or dict changes before an iterator over it has given its items"},
      {"def f():\n  k = [1]\n  m = (v + k[0] for v in [1])\n  k[0] = 2\n  return list(m)\n",
       "a list or dict changes before an iterator over it has given its items"}};
  for (const auto& [text, message] : cases)
    EXPECT_NE(error_of(text).find(message), std::string::npos) << text << error_of(text);
}

// What Python gives the expression behind the statements.
TEST(HostCode, StatementsOfTheModuleRunInTheirOrder) {
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
  };
  for (const auto& [text, expression, expected] : cases) {
    auto tune =
        autotune(fmt::format("{}\n@triton.autotune([triton.Config({{'BLOCK': str({})}})], [])", text, expression));
    ASSERT_TRUE(tune) << text;
    EXPECT_EQ(std::get<std::string>(tune->configs[0].constexprs[0].value), expected) << text;
  }
}

// What a statement may change that is not evaluated is not known behind it: an error, and no old value.
TEST(HostCode, WhatIsNotEvaluatedMakesWhatItMayChangeUnknown) {
  const std::pair<const char*, const char*> cases[] = {
      {"def put(p, x):\n  p.append(x)\nP = []\nB = put(P, foo.bar())", "P"},
      {"Q = []\nQ.append([1].count(1))", "Q"},
      {"x = 1\ndef f():\n  global x\n  x = 2\nf()", "x"},
      {"G = []\ndef f():\n  G.append(1)\ndef g():\n  f()\n  return foo.x()\nH = g()", "G"},
      {"P = [1, 3]\nassert P.pop() == 3", "P"},
      {"P = [1]\nwith foo(P) as f:\n  P.append(3)", "P"},
      {"S = [x for x in {3, 1}]", "S"},
      {"class M:\n  A = 1\nM.A = 2", "M.A"},
      {"X = 1\nclass M:\n  A = X\nX = 2", "M.A"},
      {"S = 1\nf = lambda x=S: x\nS = 2\nA = f()", "A"},
      {"def f(): return 1\nA = f()\ndef f(): return 2\nB = f()", "(A, B)"},
      {"A = [1]\nif foo.bar():\n  A.append(2)", "A"},
      {"class M:\n  A = 1\nB = M.A\nclass M:\n  A = 2", "B"},
      {"G = (len(L) for x in [1, 2])\nL = []\nG = (len(L) for x in [1, 2])\nL.extend(G)", "L"},
      {"A = [1]\nmatch A:\n  case [1]:\n    A.append(2)", "A"},
      {"Y = 1\nmatch Y:\n  case 2:\n    Y = 2", "Y"},
      {"R = []\ndef reg(f):\n  R.append(1)\n  return f\n@reg\ndef g(): pass", "R"},
      {"def dbl(f): return lambda: 5\n@dbl\ndef g(): return 1\nA = g()", "A"},
      {"L = [1]\nimport random\nrandom.shuffle(L)", "L"},
      {"L = [1]\nM = (L,)\nfoo.x(M)", "L"},
      {"L = [1]\nf = lambda: L\nfoo.x(f)", "L"},
      {"L = [1]\nglobals()['L'] = [2]", "L"},
      {"L = [1]\nexec('L.append(2)')", "L"},
      {"I = map(lambda x: K + x, [1])\nK = 2\nK = 3\nA = list(I)", "A"},
      {"K = 2\ndef f(x): return x + K\nI = map(f, [1])\nK = 3\nA = list(I)", "A"},
      {"L = []\nI = map(L.append, [1])\nA = len(L)", "A"},
      {"L = [3]\nI = iter(L)\nA = next(I)", "A"},
      {"A = str(range(3))", "A"},
      {"s = t = {1}\ns |= {2}", "len(t)"},
      {"try:\n  X = foo.y()\nexcept ImportError:\n  X = 2", "X"},
      {"import os\nos.environ['TG_X'] = '64'\nX = os.environ.get('TG_X', '3')", "X"},
      {"C = [[1]]\nX = C.copy()\nX[0].append(2)", "C"},
      {"C = [1]\nf = C.append\nf(2)", "C"},
      {"C = [1]\nf = functools.partial(C.append, 2)\nf()", "C"},
      {"C = [1]\nf = getattr(C, 'append')\nf(2)", "C"},
      {"class K:\n  def log(self, x): x.append(1)\nC = [1]\nK().log(C)", "C"},
      {"C = [[1]]\n[c.append(2) for c in C if foo.bar()]", "C"},
      {"L = [1]\nsorted(L, key=lambda x: L.append(x))", "L"},
      {"L = [1]\nmax(L, key=foo.bar)", "L"},
      {"A = 1\nimport foo as A\nB = 2", "A"},
  };
  for (const auto& [text, expression] : cases)
    EXPECT_NE(
        autotune_error(fmt::format("{}\n@triton.autotune([triton.Config({{'BLOCK': str({})}})], [])", text, expression))
            .find("error: "),
        std::string::npos)
        << text;
}

TEST(HostCode, AnUnknownGlobalSaysWhyAndWhere) {
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

// The names of a lambda within another are those of the function around both.
TEST(HostCode, LambdasInLambdas) {
  auto tune = autotune(
      "def f():\n"
      "  n = 1\n"
      "  outer = lambda k: (lambda: n + k)\n"
      "  inner = outer(10)\n"
      "  n, k = 2, 5\n"
      "  return inner() * 100 + outer(20)()\n"
      "@triton.autotune([triton.Config({'BLOCK': f()})], ['n'])");
  ASSERT_TRUE(tune);
  EXPECT_EQ(configs_text(tune->configs), "BLOCK=1222 num_warps=4 num_stages=3\n");
}

// 2^60 items, by as many ways: the text of a key is made of each tuple once.
TEST(HostCode, KeysThatHoldEachOtherOften) {
  auto tune = autotune(
      "def doubled():\n"
      "  t = (0,)\n"
      "  for i in range(60): t = (t, t)\n"
      "  return t\n"
      "def of_tuples():\n"
      "  d = {doubled(): 1}\n"
      "  d[doubled()] = 2\n"
      "  d[(1, 2)] = 3\n"
      "  return len(d) * 10 + d[doubled()]\n"
      "@triton.autotune([triton.Config({'BLOCK': of_tuples()})], ['n'])");
  ASSERT_TRUE(tune);
  EXPECT_EQ(configs_text(tune->configs), "BLOCK=22 num_warps=4 num_stages=3\n");
}

}  // namespace
}  // namespace tegula::language
