// Python that decorators call: its lists and dicts, its bounds, and the errors within it.
// heavy: HostCode.ListsAndDictsGrowInLinearTime HostCode.ErrorsInHostFunctionsSayWhoCalledThem
#include <fmt/format.h>

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
