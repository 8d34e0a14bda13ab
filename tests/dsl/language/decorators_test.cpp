// @triton.autotune and @triton.heuristics of text kernels: what they evaluate to, and what is said where they cannot
// be.
#include <fstream>
#include <iterator>

#include "dsl/program.h"
#include "tests/dsl/language/decorators_fixture.h"

namespace tegula::language {
namespace {

/// The arguments that golden/decorators/with_triton.py launches with, as far as the kernel has them.
LaunchArgs sample_args(const Function& function) {
  const std::vector<std::pair<std::string, LaunchArgs::Value>> all = {{"x", PointerArg{Elem::F16, 4096}},
                                                                      {"y", PointerArg{Elem::F32, 4100}},
                                                                      {"bias", PointerArg{}},
                                                                      {"n", int64_t(1000)},
                                                                      {"M", int64_t(1000)},
                                                                      {"N", int64_t(512)},
                                                                      {"K", int64_t(4096)},
                                                                      {"causal", true},
                                                                      {"eps", 1e-5}};
  LaunchArgs args;
  for (const auto& [name, value] : all)
    for (const Param& p : function.params)
      if (p.name == name) args.set(name, value);
  return args;
}

void add_config(LaunchArgs& args, const Config& config) {
  for (const ConstexprArg& c : config.constexprs) args.set_constexpr(c.name, c.value);
}

TEST(Decorators, ConfigurationsChosenByPythonsFunctionsAndTheDevice) {
  const auto found = autotune(
      "import itertools\n"
      "configs = [triton.Config({'BLOCK': b}, num_warps=w) for b, w in itertools.product([4, 8], repeat=2)]\n"
      "def keep(c):\n"
      "  return not (torch.cuda.get_device_capability()[0] >= 8 and c.kwargs['BLOCK'] == 8 and c.num_warps == 8)\n"
      "if torch.version.hip is None: MORE = {16, 32, 16}\n"
      "else: MORE = {1}\n"
      "@triton.autotune(list(filter(keep, configs)) + [triton.Config({'BLOCK': b}) for b in sorted(MORE)], ['n'],\n"
      "                 prune_configs_by={'prune_num_stages_by': None})");
  ASSERT_TRUE(found);
  EXPECT_EQ(configs_text(found->configs),
            "BLOCK=4 num_warps=4 num_stages=3\nBLOCK=4 num_warps=8 num_stages=3\nBLOCK=8 num_warps=4 num_stages=3\n"
            "BLOCK=16 num_warps=4 num_stages=3\nBLOCK=32 num_warps=4 num_stages=3\n");
}

TEST(Decorators, ConfigurationsThatTheModuleCollects) {
  const auto found = autotune(
      "TABLE = dict(zip(('a', 'b'), (1, 2)))\n"
      "TABLE['b'] = 4\n"
      "def make(block, **more):\n"
      "  all = {'BLOCK': block}\n"
      "  all.update(more)\n"
      "  return triton.Config(all | {'EVEN': True}, num_stages=1)\n"
      "configs = []\n"
      "for b in (8, 16):\n"
      "  for w in (1, 2):\n"
      "    if (b, w) != (8, 2):\n"
      "      configs.append(make(b))\n"
      "configs.append(make(TABLE['b']))\n"
      "configs += [make(1, EVEN=False)]\n"
      "@triton.autotune(configs, ['n'])");
  ASSERT_TRUE(found);
  std::string text = configs_text(found->configs);
  EXPECT_EQ(text,
            "BLOCK=8 EVEN=True num_warps=4 num_stages=1\nBLOCK=16 EVEN=True num_warps=4 num_stages=1\n"
            "BLOCK=16 EVEN=True num_warps=4 num_stages=1\nBLOCK=4 EVEN=True num_warps=4 num_stages=1\n"
            "BLOCK=1 EVEN=True num_warps=4 num_stages=1\n");
}

TEST(Decorators, NumbersOfALaunchAreInts) {
  const File file = kernel_file("@triton.heuristics({'BLOCK': lambda args: 32 if isinstance(args['n'], int) else 1})");
  const auto found = find_heuristics(file, file->module().functions.back());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(to_string(found[0].value(sample_args(file->module().functions.back()))), "32");
}

TEST(Decorators, SamplesAreWhatTritonMakesOfThem) {
  std::ifstream in(TEGULA_SOURCE_DIR "/tests/golden/decorators/samples.py", std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::string marker = "# ---- expected\n";
  File file = parse_file(text);
  std::string found;
  auto line = [&](std::string s) { found += "# " + s.substr(0, s.find_last_not_of(' ') + 1) + "\n"; };
  for (const Function& f : file->module().functions) {
    line("kernel " + f.name);
    LaunchArgs args = sample_args(f);
    if (auto tune = find_autotune(file, f)) {
      line(fmt::format("  key {}", fmt::join(tune->key, " ")));
      if (!tune->reset_to_zero.empty()) line(fmt::format("  reset_to_zero {}", fmt::join(tune->reset_to_zero, " ")));
      if (!tune->restore_value.empty()) line(fmt::format("  restore_value {}", fmt::join(tune->restore_value, " ")));
      for (const Config& c : tune->configs) line("  config " + c.to_string());
      if (tune->prune)
        for (const Config& c : tune->prune(tune->configs, args)) line("  kept " + c.to_string());
      add_config(args, tune->configs[0]);
    }
    for (const Heuristic& h : find_heuristics(file, f)) {
      Constexpr value = h.value(args);
      args.set_constexpr(h.param, value);
      line(fmt::format("  heuristic {}={}", h.param, to_string(value)));
    }
  }
  EXPECT_EQ(found, text.substr(text.find(marker) + marker.size()));
}

TEST(Decorators, TimesAndDefaults) {
  auto tune = autotune("@triton.autotune([triton.Config({'BLOCK': 64})], ['n'], warmup=5, rep=12.5, do_bench=None)");
  ASSERT_TRUE(tune);
  EXPECT_EQ(tune->warmup_ms, 5);
  EXPECT_EQ(tune->rep_ms, 12.5);
  EXPECT_EQ(autotune("@triton.autotune([triton.Config({'BLOCK': 64})], ['n'])")->rep_ms, Autotune().rep_ms);
  EXPECT_FALSE(autotune("@triton.heuristics({})"));
}

TEST(Decorators, OptionsInTheDictOfAConfigurationHaveNoEffect) {
  auto tuning =
      autotune("@triton.autotune([triton.Config({'BLOCK': 64, 'num_stages': 5, 'num_warps': 8})], key=['n'])");
  ASSERT_TRUE(tuning);
  EXPECT_EQ(configs_text(tuning->configs), "BLOCK=64 num_warps=4 num_stages=3\n");
}

TEST(Decorators, OtherNamesOfTheDecorators) {
  File file = parse_file(
      "import triton as t\nfrom triton import jit, autotune as tune, Config as C, next_power_of_2\n"
      "@tune([C({'B': next_power_of_2(n)}, num_warps=2) for n in (5, 9)], key=['n'])\n@jit\ndef k(n, B: "
      "t.language.constexpr):\n  pass\n");
  EXPECT_EQ(configs_text(find_autotune(file, file->module().functions[0])->configs),
            "B=8 num_warps=2 num_stages=3\nB=16 num_warps=2 num_stages=3\n");
}

TEST(Decorators, AreEvaluatedOnlyWhenAskedFor) {
  Program program = Program::parse(kHead +
                                   "from elsewhere import configs\n@triton.autotune(configs=configs(), key=['n'])\n"
                                   "@triton.jit\ndef k(x, n, BLOCK: tl.constexpr):\n  tl.store(x, BLOCK)\n");
  LaunchOptions options;
  options.constexprs = {{"BLOCK", 64}};
  std::vector<ArgType> types = {{Elem::I32, true, 16, {}}, {Elem::I32, false, 1, {}}};
  EXPECT_NE(program.kernel("k").tile_ir(types, options).find("64"), std::string::npos);
}

TEST(Decorators, ErrorsOfConfigurations) {
  EXPECT_EQ(autotune_error("@triton.autotune(configs=get_configs(), key=['n'])"),
            "k.py:4:26: error: unknown name 'get_configs'\n"
            "    @triton.autotune(configs=get_configs(), key=['n'])\n"
            "                             ^~~~~~~~~~~\n"
            "  hint: give the configurations in C++: kernel.autotune(...)\n"
            "  see docs/language.md#decorators\n");
  auto first_line = [](const std::string& text) { return text.substr(0, text.find('\n')); };
  auto hint = [](const std::string& text) {
    size_t at = text.find("hint: ");
    return at == text.npos ? "" : text.substr(at + 6, text.find('\n', at) - at - 6);
  };
  struct Case {
    std::string decorators, message, hint;
  };
  const std::string instead = "give the configurations in C++: kernel.autotune(...)";
  const Case cases[] = {
      {"from fla import configs\n@triton.autotune(configs, ['n'])",
       "k.py:5:18: error: 'configs' comes from "
       "'fla.configs', outside this file",
       instead},
      {"@triton.autotune([triton.Config({'BLOCK': 1}, num_warp=4)], ['n'])",
       "k.py:4:47: error: triton.Config has no argument 'num_warp'", "did you mean 'num_warps'?; or " + instead},
      {"@triton.autotune([triton.Config({'BLOK': 1})], ['n'])", "k.py:4:19: error: kernel 'k' has no argument 'BLOK'",
       "did you mean 'BLOCK'?; or " + instead},
      {"@triton.autotune([triton.Config({'n': 1})], ['n'])",
       "k.py:4:19: error: argument 'n' of kernel 'k' is not a tl.constexpr, so it is no matter of tuning",
       "annotate it: n: tl.constexpr; or " + instead},
      {"@triton.autotune([triton.Config({'BLOCK': 1}, pre_hook=3)], ['n'])",
       "k.py:4:47: error: the pre_hook of triton.Config takes a function of the file, found the int 3", instead},
      {"@triton.autotune([triton.Config({'BLOCK': 1}, num_ctas=3)], ['n'])",
       "k.py:4:47: error: num_ctas is 3, expected 1, 2, 4, 8 or 16", instead},
      {"@triton.autotune([triton.Config({'BLOCK': 1}, num_warps='4')], ['n'])",
       "k.py:4:47: error: num_warps takes an int, found '4'", instead},
      {"@triton.autotune([triton.Config(128)], ['n'])",
       "k.py:4:33: error: triton.Config takes a dict of argument values, found the int 128", instead},
      {"@triton.autotune([triton.Config({'BLOCK': lambda x: x})], ['n'])",
       "k.py:4:33: error: triton.Config takes a dict of names and their values, found 'BLOCK': a lambda", instead},
      {"@triton.autotune([3], ['n'])", "k.py:4:18: error: configs takes a list of triton.Config, found the int 3 in it",
       instead},
      {"@triton.autotune([triton.Config({'BLOCK': torch.cuda.mem(0)})], ['n'])",
       "k.py:4:43: error: 'torch.cuda.mem' cannot be evaluated: Tegula does not run Python", instead},
      {"@triton.autotune([triton.Confg({'BLOCK': 1})], ['n'])",
       "k.py:4:19: error: 'triton.Confg' cannot be evaluated: Tegula does not run Python",
       "did you mean 'Config'?; or " + instead},
  };
  for (const Case& c : cases) {
    std::string text = autotune_error(c.decorators);
    EXPECT_EQ(first_line(text), c.message) << text;
    EXPECT_EQ(hint(text), c.hint);
  }
}

TEST(Decorators, Hooks) {
  const std::string configs = "@triton.autotune([triton.Config({'BLOCK': 1}, ir_override=None)], key=['n'], ";
  auto tune = autotune(configs + "pre_hook=lambda a: 0, restore_value=['x'])");
  ASSERT_TRUE(tune);
  EXPECT_TRUE(tune->pre_hook);
  EXPECT_FALSE(tune->post_hook);
  EXPECT_EQ(tune->restore_value, std::vector<std::string>{"x"});
  tune = autotune(configs + "post_hook=lambda a, exception: 0)");
  ASSERT_TRUE(tune);
  EXPECT_TRUE(tune->post_hook);
  tune = autotune(configs + "do_bench=lambda f, q: 0, prune_configs_by={'perf_model': lambda a: 0, 'top_k': 3})");
  ASSERT_TRUE(tune);
  EXPECT_FALSE(tune->pre_hook);
  EXPECT_FALSE(tune->prune);
  EXPECT_EQ(tune->top_k, 3);
  EXPECT_EQ(tune->within, 0);
  tune = autotune(configs + "prune_configs_by={'within': 1.5})");
  ASSERT_TRUE(tune);
  EXPECT_EQ(tune->within, 1.5);
  tune = autotune(configs + "prune_configs_by={'within': 2})");
  ASSERT_TRUE(tune);
  EXPECT_EQ(tune->within, 2);
  tune = autotune(
      "@triton.autotune([triton.Config({'BLOCK': 1}, pre_hook=lambda a: 0), triton.Config({'BLOCK': 2})], ['n'])");
  ASSERT_TRUE(tune);
  ASSERT_EQ(tune->configs.size(), 2u);
  EXPECT_TRUE(tune->configs[0].pre_hook);
  EXPECT_FALSE(tune->configs[1].pre_hook);
}

TEST(Decorators, ForeignOnesMaySayMore) {
  auto tune = autotune("@other.autotune(configs=[triton.Config({'BLOCK': 1})], key=['n'], nearest_power_of_two=True)");
  ASSERT_TRUE(tune);
  EXPECT_EQ(tune->configs.size(), 1u);
  EXPECT_FALSE(autotune("@other.autotune(strategy='fast')"));
}

TEST(Decorators, DoNotSpecialize) {
  for (const char* names : {"['n', 'm']", "[1, 2]", "(NAMES + ['m'])"}) {
    const Program program = Program::parse(fmt::format("import triton\nimport triton.language as tl\nNAMES = ['n']\n\n"
                                                       "@triton.jit(do_not_specialize={}, "
                                                       "do_not_specialize_on_alignment=['k', 'x'])\n"
                                                       "def f(x, n, m, k, i):\n    tl.store(x, n + m + k + i)\n",
                                                       names),
                                           "k.py");
    const Kernel kernel = program.kernel("f");
    const Arg args[] = {Arg::pointer(256, Elem::I32), 1, 32, 32, 32};
    const std::vector<ArgType> types = kernel.classify(args, {});
    EXPECT_EQ(types[0].divisible_by, 1) << names;
    EXPECT_FALSE(types[1].constant) << names;
    EXPECT_EQ(types[2].divisible_by, 1) << names;
    EXPECT_EQ(types[3].divisible_by, 1) << names;
    EXPECT_EQ(types[4].divisible_by, 16) << names;
    const Arg ones[] = {Arg::pointer(256, Elem::I32), 1, 32, 1, 32};
    EXPECT_EQ(kernel.classify(ones, {})[3].constant, 1) << names;
    for (const auto& [value, divisor] : {std::pair(0, 256), {512, 256}, {48, 16}, {24, 8}, {-4, 4}, {6, 2}, {7, 1}}) {
      const Arg other[] = {Arg::pointer(256, Elem::I32), 1, value, value, value};
      const std::vector<ArgType> found = kernel.classify(other, {});
      EXPECT_EQ(found[3].divisible_by, 1) << value;
      EXPECT_EQ(found[4].divisible_by, divisor) << value;
    }
  }
}

TEST(Decorators, ErrorsOfTheTuner) {
  const std::string configs = "@triton.autotune([triton.Config({'BLOCK': 1})], ";
  const std::pair<std::string, std::string> cases[] = {
      {"keys=['n'])", "@triton.autotune has no argument 'keys'\nhint: did you mean 'key'?; or "},
      {"key='n')", "'key' takes a list of argument names, found 'n'\nhint: "},
      {"key=['n'], reset_to_zero=['out'])",
       "kernel 'k' has no argument 'out'\nhint: its arguments are x, bias, n, BLOCK, EVEN; or "},
      {"key=['n'], warmup='1')", "warmup takes milliseconds, found '1'\nhint: "},
      {"key=['n'], prune_configs_by={'early_prune': 0})", "prune_configs_by has no entry 'early_prune'\nhint: "},
  };
  for (const auto& [arguments, expected] : cases) {
    try {
      autotune(configs + arguments);
      ADD_FAILURE() << arguments;
    } catch (const CompileError& e) {
      ASSERT_EQ(e.diags().size(), 1u) << e.what();
      EXPECT_EQ(e.diags()[0].message + "\nhint: " + e.diags()[0].hint,
                expected + "give the configurations in C++: kernel.autotune(...)");
      EXPECT_EQ(e.diags()[0].loc.line, 4);
    }
  }
}

std::vector<Heuristic> heuristics(const std::string& decorators) {
  File file = kernel_file(decorators);
  return find_heuristics(file, file->module().functions.back());
}

TEST(Decorators, ErrorsOfHeuristics) {
  LaunchArgs args;
  args.set("x", LaunchArgs::Value(PointerArg{Elem::F32, 256}));
  args.set("n", LaunchArgs::Value(int64_t(100)));
  auto run = [&](const std::string& lambda) {
    return message_of<CompileError>(
        [&] { heuristics("@triton.heuristics({'BLOCK': lambda args: " + lambda + "})")[0].value(args); });
  };
  EXPECT_EQ(run("args['m'] + 1"),
            "k.py:4:48: error: the arguments of the launch have no 'm'\n"
            "    @triton.heuristics({'BLOCK': lambda args: args['m'] + 1})\n"
            "                                                   ^~~\n"
            "  hint: there is x, n; or give the value at the launch\n"
            "  see docs/language.md#decorators\n");
  EXPECT_NE(run("args['x'].shape[0]").find("error: 'shape' of the tensor 'x' is not known: a launch gets pointers"),
            std::string::npos);
  EXPECT_NE(run("args['x'].stride(0)").find("error: 'stride' of the tensor 'x' is not known"), std::string::npos);
  EXPECT_NE(run("{'a': args['n']}").find("error: the heuristic of 'BLOCK' gives a dict, which no constexpr can be"),
            std::string::npos);
  EXPECT_NE(run("args['n'] // 0").find("error: division by zero"), std::string::npos);
  EXPECT_EQ(run("args['n'] // 3"), "no error");
  EXPECT_NE(message_of<CompileError>([&] {
              heuristics("@triton.heuristics({'BLOK': lambda a: 1})");
            }).find("error: kernel 'k' has no argument 'BLOK'"),
            std::string::npos);
  EXPECT_NE(message_of<CompileError>([&] {
              heuristics("@triton.heuristics({'BLOCK': 3})");
            }).find("error: @triton.heuristics takes names and functions of the arguments, found 'BLOCK': the int 3"),
            std::string::npos);
}

TEST(Decorators, ValuesOfHeuristicsHaveTheirTypes) {
  LaunchArgs args;
  args.set("x", LaunchArgs::Value(PointerArg{Elem::BF16, 256}));
  args.set("n", LaunchArgs::Value(int64_t(100)));
  auto value = [&](const std::string& lambda) {
    return heuristics("@triton.heuristics({'BLOCK': lambda args: " + lambda + "})")[0].value(args);
  };
  EXPECT_EQ(value("args['n'] / 8"), Constexpr(12.5));
  EXPECT_EQ(value("args['x'].dtype"), Constexpr(Elem::BF16));
  EXPECT_EQ(value("None"), Constexpr());
  EXPECT_EQ(value("'bias' in args"), Constexpr(false));
  EXPECT_EQ(value("args['n'] > 3 and args['n'] < 200 or not args['n']"), Constexpr(true));
  EXPECT_EQ(value("tl.float32 if args['x'].dtype == tl.bfloat16 else tl.float16"), Constexpr(Elem::F32));
}

TEST(Decorators, ParametersCalledAsOptionsGetTheirValues) {
  File file =
      parse_file(kHead +
                 "@triton.autotune([triton.Config({'B': 64, 'num_stages': 5}, num_warps=8)], key=['n'])\n@triton.jit\n"
                 "def kernel(x, n, B: tl.constexpr, num_warps: tl.constexpr, num_stages: tl.constexpr):\n  pass\n");
  auto tuning = find_autotune(file, file->module().functions.back());
  ASSERT_TRUE(tuning);
  EXPECT_EQ(configs_text(tuning->configs), "B=64 num_stages=3 num_warps=8 num_warps=8 num_stages=3\n");
}

TEST(Decorators, PruningGetsTheArgumentsByKeywordsToo) {
  auto tune = autotune(
      "def prune(configs, args, **kwargs):\n  return [c for c in configs if c.kwargs['BLOCK'] <= kwargs['n']]\n"
      "@triton.autotune([triton.Config({'BLOCK': 1}), triton.Config({'BLOCK': 8})], ['n'], "
      "prune_configs_by={'early_config_prune': prune})");
  ASSERT_TRUE(tune && tune->prune);
  LaunchArgs args;
  args.set("n", int64_t(4));
  EXPECT_EQ(configs_text(tune->prune(tune->configs, args)), "BLOCK=1 num_warps=4 num_stages=3\n");
}

TEST(Decorators, TheArgumentsOfALaunchAreADict) {
  const std::pair<const char*, const char*> cases[] = {
      {"limit({**args, **config.kwargs})", "the two dicts in one"},
      {"limit(dict(args) | config.kwargs)", "their union"},
      {"of_all(**args) and config.kwargs['BLOCK'] <= args['n']", "keywords"},
      {"config.kwargs['BLOCK'] <= dict(args.items())['n'] and 'n' in list(args) and len(args) == 2", "their items"},
      {"limit(joined(args, config))", "a copy that is changed"}};
  for (const auto& [condition, what] : cases) {
    SCOPED_TRACE(what);
    auto tune = autotune(
        fmt::format("def limit(all):\n  return all['BLOCK'] <= all['n']\n"
                    "def of_all(n, **others):\n  return n == 4 and others['m'] == 9\n"
                    "def joined(args, config):\n  all = args.copy()\n  all.update(config.kwargs)\n  return all\n"
                    "def prune(configs, args):\n  return [config for config in configs if {}]\n"
                    "@triton.autotune([triton.Config({{'BLOCK': 1}}), triton.Config({{'BLOCK': 8}})], ['n'], "
                    "prune_configs_by={{'early_config_prune': prune}})",
                    condition));
    ASSERT_TRUE(tune && tune->prune);
    LaunchArgs args;
    args.set("n", int64_t(4));
    args.set("m", int64_t(9));
    EXPECT_EQ(configs_text(tune->prune(tune->configs, args)), "BLOCK=1 num_warps=4 num_stages=3\n");
  }
}

TEST(Decorators, WhatTritonsAutotuneTakesCanBeAsked) {
  auto tune = autotune(
      "import inspect\nCACHES = 'cache_results' in inspect.signature(triton.autotune).parameters\n"
      "more = {'cache_results': True} if CACHES else {}\n"
      "@triton.autotune([triton.Config({'BLOCK': 32 if CACHES else 16})], ['n'], **more)");
  ASSERT_TRUE(tune);
  EXPECT_EQ(configs_text(tune->configs), "BLOCK=32 num_warps=4 num_stages=3\n");
}

TEST(Decorators, PruningThatCannotBeEvaluatedIsAnError) {
  auto tune = autotune(
      "def prune(configs, args):\n  return [c for c in configs if c.kwargs['BLOCK'] <= more['n']]\n"
      "@triton.autotune([triton.Config({'BLOCK': 1})], ['n'], prune_configs_by={'early_config_prune': prune})");
  ASSERT_TRUE(tune && tune->prune);
  std::string text = message_of<CompileError>([&] { tune->prune(tune->configs, LaunchArgs()); });
  EXPECT_NE(text.find("k.py:5:54: error: unknown name 'more'"), text.npos) << text;
  EXPECT_NE(text.find("hint: narrow them down in C++ with Autotune::prune"), text.npos) << text;
  EXPECT_NE(
      message_of<CompileError>([&] {
        auto none = autotune(
            "@triton.autotune([triton.Config({'BLOCK': 1})], [], prune_configs_by={'early_config_prune': lambda c, "
            "a: []})");
        none->prune(none->configs, LaunchArgs());
      }).find("early_config_prune leaves no configuration"),
      std::string::npos);
}

}  // namespace
}  // namespace tegula::language
