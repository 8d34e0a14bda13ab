// label: device
// Names of other files: helpers, constants and classes of a package; tuples and named tuples as arguments of launches.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "dsl/tegula.h"
#include "runtime/store/image_cache.h"

namespace tegula {
namespace {

namespace fs = std::filesystem;

const std::string kFile = TEGULA_SOURCE_DIR "/tests/kernels/package/ops/kernels.py";

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    std::string text = error.what();
    for (size_t at; (at = text.find(TEGULA_SOURCE_DIR "/tests/kernels/")) != text.npos;)
      text.erase(at, sizeof(TEGULA_SOURCE_DIR "/tests/kernels/") - 1);
    return text;
  }
  return "no error";
}

std::vector<float> elementwise(const Program& program) {
  auto device = default_device();
  Buffer x(*device, std::vector<float>{1, 2, 3, 4}), out(*device, 4 * sizeof(float));
  program.kernel("elementwise").launch(*device, {1}, {.constexprs = {{"N", 4}}}, out.as<float>(), x.as<float>());
  return out.download<float>();
}

TEST(Imports, NamesOfOtherFiles) {
  // (2 x + 2), backwards, times 3, plus a default of 0.5
  EXPECT_EQ(elementwise(Program::load(kFile)), (std::vector<float>{30.5, 24.5, 18.5, 12.5}));
  // Another value of a global, in all files; it is no other kernel's.
  EXPECT_EQ(elementwise(Program::load(kFile, {{"FAST", true}})), (std::vector<float>{12006.5, 9006.5, 6006.5, 3006.5}));
  EXPECT_EQ(elementwise(Program::load(kFile, {{"MODE", 1}})), (std::vector<float>{10.5, 8.5, 6.5, 4.5}));
}

TEST(Imports, OfTheTarget) {
  const Kernel kernel = Program::load(kFile).kernel("of_the_target");
  const std::vector<ArgType> types{{Elem::I32, true, 16}};
  EXPECT_NE(kernel.tile_ir(types, {}, "sm_90a").find("value = 0"), std::string::npos);
  EXPECT_NE(kernel.tile_ir(types, {}, "sm_100a").find("value = 1"), std::string::npos);
  EXPECT_EQ(message_of([&] { kernel.tile_ir(types, {}, "nothing"); }),
            "unknown target 'nothing'\n  hint: Tegula knows sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_120a");
}

TEST(Imports, Mistakes) {
  const Program program = Program::load(kFile);
  const std::vector<ArgType> types{{Elem::F32, true, 16}, {Elem::F32, true, 16}};
  auto message = [&](const char* kernel) { return message_of([&] { program.kernel(kernel).tile_ir(types, {}); }); };
  EXPECT_EQ(message("factor"),
            "package/settings.py:26:10: error: 'ask' comes from 'some_library.ask', outside this file\n"
            "    FACTOR = ask(\"how much\")\n"
            "             ^~~\n"
            "  package/settings.py:47:16: note: in the value of the global 'FACTOR', which may be given: --global "
            "FACTOR=VALUE\n"
            "        return x * FACTOR\n"
            "                   ^~~~~~\n"
            "  package/ops/kernels.py:33:19: note: in the call from package/ops/kernels.py:33\n"
            "        tl.store(out, scaled(tl.load(x)))\n"
            "                      ^~~~~~~~~~~~~~~~~~\n");
  EXPECT_EQ(message("uses_broken"),
            "package/settings.py:42:15: error: expected an expression after '+', found '*'\n"
            "        return x +* 1\n"
            "                  ^\n"
            "  package/ops/kernels.py:38:19: note: in the function 'broken', which is called here\n"
            "        tl.store(out, broken(tl.load(x)))\n"
            "                      ^~~~~~~~~~~~~~~~~~\n");
  EXPECT_EQ(
      message("uses_missing"),
      "package/ops/kernels.py:43:19: error: 'missing' comes from '.nowhere.missing', outside this file\n"
      "        tl.store(out, missing(tl.load(x)))\n"
      "                      ^~~~~~~\n"
      "  hint: a kernel can use triton.language, math, and the globals and functions of its file and of the files "
      "that this imports from; --global missing=VALUE gives a value\n"
      "  see docs/language.md#names-of-other-files\n");
  EXPECT_EQ(message("uses_unknown"),
            "package/ops/kernels.py:48:19: error: 'package/settings.py' has no name 'nothing'\n"
            "        tl.store(out, settings.nothing)\n"
            "                      ^~~~~~~~~~~~~~~~\n");
  EXPECT_NE(Program::load(kFile, {{"FACTOR", 2.0}}).kernel("factor").tile_ir(types, {}).find("value = 2"),
            std::string::npos);
}

// A compiled kernel of the cache is not taken where an imported file has changed.
TEST(Imports, ChangedFiles) {
  const fs::path folder = fs::temp_directory_path() / ("tegula-imports-" + std::to_string(getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / "kernel.py") << "import triton\nimport triton.language as tl\nfrom helper import N\n"
                                         "@triton.jit\ndef k(out):\n    tl.store(out, N)\n";
  auto cache = std::make_shared<ImageCache>(ImageCache::Options{folder / "cache", -1, {}});
  auto device = default_device();
  for (int n : {3, 4, 4, 5}) {
    std::ofstream(folder / "helper.py") << "N = " << n << "\n";
    Program program = Program::load(folder / "kernel.py");
    program.set_cache(cache);
    Buffer out(*device, 4);
    program.kernel("k").launch(*device, {1}, {}, out.as<int32_t>());
    EXPECT_EQ(out.download<int32_t>()[0], n);
  }
  fs::remove_all(folder);
}

// Packages that lie elsewhere; the file's own ones come first. Of Triton's own only tools are looked up there.
TEST(Imports, FromOtherFolders) {
  const fs::path folder = fs::temp_directory_path() / ("tegula-folders-" + std::to_string(getpid()));
  fs::create_directories(folder / "installed/library/ops");
  fs::create_directories(folder / "installed/triton/language");
  fs::create_directories(folder / "own");
  std::ofstream(folder / "installed/library/ops/helpers.py")
      << "from .sizes import N\nimport triton\n@triton.jit\ndef twice(x):\n    return x + x * N\n";
  std::ofstream(folder / "installed/library/ops/sizes.py") << "N = 5\n";
  std::ofstream(folder / "installed/local.py") << "M = 1\n";
  std::ofstream(folder / "installed/triton/language/__init__.py") << "exp = 3\n";
  fs::create_directories(folder / "installed/triton/tools");
  std::ofstream(folder / "installed/triton/tools/places.py")
      << "import triton\n@triton.jit\ndef place(x):\n    return x + 11\n";
  std::ofstream(folder / "own/local.py") << "M = 7\n";
  const std::string text =
      "import triton\nimport triton.language as tl\nfrom library.ops import helpers\n"
      "from local import M\nfrom triton.language.random import uint_to_uniform_float as uniform\n"
      "from triton.tools.places import place\n@triton.jit\n"
      "def k(x):\n    tl.store(place(x), tl.exp(helpers.twice(tl.load(x))) * M * uniform(tl.program_id(0)))\n";
  const std::vector<ArgType> types{{Elem::F32, true, 16}};
  const std::vector<std::string> folders{folder / "nowhere", folder / "installed"};
  const auto ir = [&](const std::string& name, const std::vector<std::string>& where) {
    return Program::parse(text, name, {}, where).kernel("k").tile_ir(types, {});
  };
  EXPECT_NE(ir(folder / "own/kernel.py", folders).find("value = 7"), std::string::npos);
  EXPECT_NE(ir(folder / "own/kernel.py", folders).find("value = 5"), std::string::npos);
  EXPECT_NE(ir("<text>", folders).find("exp"), std::string::npos);
  EXPECT_NE(ir("<text>", folders).find("value = 11"), std::string::npos);
  EXPECT_NE(message_of([&] { ir(folder / "own/kernel.py", {}); }).find("comes from 'library.ops"), std::string::npos);
  fs::remove_all(folder);
}

// Files that import from each other end somewhere.
TEST(Imports, InCircles) {
  const fs::path folder = fs::temp_directory_path() / ("tegula-circle-" + std::to_string(getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / "a.py") << "import triton\nimport triton.language as tl\nfrom b import M\nfrom b import N\n"
                                    "@triton.jit\ndef k(out):\n    tl.store(out, N)\n"
                                    "@triton.jit\ndef l(out):\n    tl.store(out, M)\n";
  std::ofstream(folder / "b.py") << "from a import M\nfrom c import *\n";
  std::ofstream(folder / "c.py") << "from b import *\nN = 7\n";
  const Program program = Program::load(folder / "a.py");
  const std::vector<ArgType> types{{Elem::I32, true, 16}};
  EXPECT_NE(program.kernel("k").tile_ir(types, {}).find("value = 7"), std::string::npos);
  EXPECT_NE(message_of([&] { program.kernel("l").tile_ir(types, {}); }).find("'M' comes from"), std::string::npos);
  fs::remove_all(folder);
}

// Where a library looks for libdevice itself.
TEST(Imports, OfModulesByTheirSpecs) {
  const Kernel kernel = Program::parse(R"(
import importlib.util
import triton
import triton.language as tl

def find(name):
    for place in ("triton.nowhere", "triton.language.extra.libdevice", "triton.language.math"):
        if spec := importlib.util.find_spec(place):
            module = importlib.util.module_from_spec(spec)
            assert spec.loader is not None
            spec.loader.exec_module(module)
            return getattr(module, name)
    raise ImportError(name)

rsqrt = find("rsqrt")

@triton.jit
def k(x):
    tl.store(x, rsqrt(tl.load(x)))
)",
                                       "specs.py")
                            .kernel("k");
  EXPECT_NE(kernel.tile_ir(std::vector<ArgType>{{Elem::F32, true, 16}}, {}).find("rsqrt"), std::string::npos);
}

// Modules of mathematical functions that a library chooses when it starts.
TEST(Imports, OfTritonsModulesHandedOn) {
  const Kernel kernel = Program::parse(
                            "from library.utils import tl, triton, tl_extra_shim\n_tan = tl_extra_shim.tan\n"
                            "@triton.jit\ndef k(x):\n    tl.store(x, _tan(tl.load(x)))\n")
                            .kernel("k");
  EXPECT_NE(kernel.tile_ir(std::vector<ArgType>{{Elem::F32, true, 16}}, {}).find("tan"), std::string::npos);
}

// A file of the package may have Triton's name; a module that imports Triton hands that on.
TEST(Imports, FilesOfPackagesCalledTriton) {
  const fs::path folder = fs::temp_directory_path() / ("tegula_imports_" + std::to_string(getpid()));
  fs::create_directories(folder / "own" / "gguf");
  std::ofstream(folder / "own" / "__init__.py");
  std::ofstream(folder / "own" / "gguf" / "__init__.py");
  std::ofstream(folder / "own" / "gguf" / "triton.py")
      << "import triton\nimport triton.language as tl\n@triton.jit\ndef twice(v): return v + v\n";
  std::ofstream(folder / "own" / "utils.py") << "import triton\nimport triton.language as tl\n";
  std::ofstream(folder / "own" / "kernels.py") << "from own.gguf import triton as gguf\nfrom .utils import triton, tl\n"
                                                  "@triton.jit\ndef k(x):\n    tl.store(x, gguf.twice(tl.load(x)))\n";
  const Kernel kernel = Program::load((folder / "own" / "kernels.py").string()).kernel("k");
  EXPECT_NE(kernel.tile_ir(std::vector<ArgType>{{Elem::F32, true, 16}}, {}).find("add"), std::string::npos);
  fs::remove_all(folder);
}

// ---- Tuples as arguments

constexpr const char* kTuples = R"(
import collections
import typing
import triton
import triton.language as tl

class Point(typing.NamedTuple):
    x: tl.tensor
    y: tl.tensor
    scale: tl.constexpr = 2

Size = collections.namedtuple("Size", ["rows", "cols"])

@triton.jit
def _sum(p: Point):
    tl.static_assert(isinstance(p, Point) and isinstance(p, tuple) and not isinstance(p, Size))
    return (p.x + p.y) * p.scale

@triton.jit
def kernel(out, xs, p, FORM: tl.constexpr, n):
    tl.static_assert(len(xs) == 4 and xs[2] is None)
    total = xs[1] + n
    for q in tl.static_range(2):
        total += tl.load(xs[0] + q)
    inner = xs[3]
    total += inner[0] * FORM[0] + FORM.cols
    best = Point(total, 1)
    for k in range(3):
        best = Point(best.x + p.x, best.y + p.y, best.scale)
    tl.store(out, _sum(best))
    size = Size(rows=3, cols=xs[1])
    tl.store(out + 1, size.rows + size[1])
)";

TEST(Tuples, AsArguments) {
  auto device = default_device();
  Buffer x(*device, std::vector<int32_t>{10, 20}), out(*device, 8);
  const Kernel kernel = Program::parse(kTuples, "t.py").kernel("kernel");
  const ConstexprTuple point{{NextArg(), NextArg()}, "Point", {"x", "y"}};
  const ConstexprTuple xs{{NextArg(), NextArg(), std::monostate(), ConstexprTuple{{NextArg()}}}};
  const LaunchOptions options{
      .constexprs = {{"xs", xs}, {"p", point}, {"FORM", ConstexprTuple{{4, 5}, "Size", {"rows", "cols"}}}}};
  auto run = [&](int one, int inner, int px, int py, int n) {
    kernel.launch(*device, {1}, options, out.as<int32_t>(), x.as<int32_t>(), one, inner, px, py, n);
    return out.download<int32_t>();
  };
  // total = xs[1] + n + 30 + inner * 4 + 5; the sum doubled
  EXPECT_EQ(run(1, 2, 3, 4, 5), (std::vector<int32_t>{2 * (1 + 5 + 30 + 8 + 5 + 9 + 1 + 12), 4}));
  EXPECT_EQ(run(7, 100, 0, 1, 16), (std::vector<int32_t>{2 * (7 + 16 + 30 + 400 + 5 + 0 + 1 + 3), 10}));
  EXPECT_EQ(kernel.written_args(std::vector<Arg>{out.as<int32_t>(), x.as<int32_t>(), 1, 1, 1, 1, 1}, options),
            (std::vector<bool>{true, false, false, false, false, false, false}));
}

// std::tuple and std::pair in place of the forms.
TEST(Tuples, OfCpp) {
  auto device = default_device();
  Buffer x(*device, std::vector<int32_t>{10, 20}), out(*device, 8);
  const Kernel kernel = Program::parse(kTuples, "t.py").kernel("kernel");
  const LaunchOptions options{.constexprs = {{"p", ConstexprTuple{{NextArg(), NextArg()}, "Point", {"x", "y"}}},
                                             {"FORM", ConstexprTuple{{4, 5}, "Size", {"rows", "cols"}}}}};
  const std::vector<ConstexprArg> before = options.constexprs;
  for (int one : {1, 7}) {
    const std::tuple xs(x.as<int32_t>(), one, std::monostate(), std::tuple(2));
    kernel.launch(*device, {1}, options, out.as<int32_t>(), xs, 3, 4, 5);
    EXPECT_EQ(out.download<int32_t>()[0], 2 * (one + 5 + 30 + 8 + 5 + 9 + 1 + 12));
  }
  EXPECT_EQ(options.constexprs, before);
  EXPECT_EQ(message_of([&] { kernel.launch(*device, {1}, options, out.as<int32_t>(), std::pair(1, 2)); }),
            "kernel 'kernel' takes 6 arguments (out, xs, xs, p, p, n), found 3");
}

TEST(Tuples, OfCppWithTexts) {
  auto device = default_device();
  Buffer out(*device, 8);
  const Kernel kernel = Program::parse(R"(
import triton
import triton.language as tl
@triton.jit
def kernel(out, how, N: tl.constexpr):
    tl.static_assert(how[0] == "twice" and how[1] == tl.float32 and how[2] is None and len(how[3]) == 2)
    tl.store(out, how[3][0] * 2 + how[3][1] + N)
)",
                                       "t.py")
                            .kernel("kernel");
  kernel.launch(
      *device, [](const Config& c) { return Grid{unsigned(c["N"])}; }, {.constexprs = {{"N", 1}}}, out.as<float>(),
      std::tuple(std::string("twice"), Elem::F32, std::monostate(), std::pair(2.5f, 3)));
  EXPECT_EQ(out.download<float>()[0], 9.0f);
}

TEST(Tuples, Mistakes) {
  auto device = default_device();
  Buffer out(*device, 8);
  const Kernel kernel = Program::parse(kTuples, "t.py").kernel("kernel");
  const ConstexprTuple pair{{NextArg(), NextArg()}};
  auto message = [&](std::vector<ConstexprArg> constexprs, std::vector<Arg> args) {
    return message_of(
        [&] { kernel.launch(*device, detail::GridRef(Grid{1}), {.constexprs = std::move(constexprs)}, args); });
  };
  EXPECT_EQ(message({{"xs", pair}, {"p", pair}, {"FORM", ConstexprTuple{{NextArg()}}}}, {}),
            "kernel 'kernel': the tuple for the constexpr parameter 'FORM' holds arguments of the launch\n"
            "  hint: all its items are known at compile time");
  EXPECT_EQ(message({{"xs", pair}, {"p", pair}, {"FORM", 1}}, {out.as<int32_t>(), 1, 2}),
            "kernel 'kernel' takes 6 arguments (out, xs, xs, p, p, n), found 3");
  EXPECT_EQ(
      message({{"xs", ConstexprTuple{{1, 2, std::monostate(), ConstexprTuple{{1}}}}}, {"p", pair}, {"FORM", pair}},
              {out.as<int32_t>(), 1, 2, 3})
          .substr(0, 61),
      "kernel 'kernel': the tuple for the constexpr parameter 'FORM'");
  const ConstexprTuple point{{NextArg(), NextArg()}, "Point", {"x", "y"}};
  const ConstexprTuple xs{{NextArg(), NextArg(), std::monostate(), ConstexprTuple{{NextArg()}}}};
  Program program = Program::parse(std::string(kTuples) + "    tl.store(out + 1, p.z)\n    Point(1, z=2)\n", "t.py");
  EXPECT_EQ(
      message_of([&] {
        program.kernel("kernel").launch(
            *device, {1},
            {.constexprs = {{"xs", xs}, {"p", point}, {"FORM", ConstexprTuple{{1, 2}, "Size", {"rows", "cols"}}}}},
            out.as<int32_t>(), out.as<int32_t>(), 1, 2, 3, 4, 5);
      }),
      "t.py:33:23: error: 'Point' has no field 'z'\n"
      "        tl.store(out + 1, p.z)\n"
      "                          ^~~\n"
      "  hint: its fields are x, y\n"
      "  see docs/language.md#statements\n"
      "t.py:34:14: error: Point has no argument 'z'\n"
      "        Point(1, z=2)\n"
      "                 ^\n"
      "  hint: its arguments are x, y, scale\n"
      "  see docs/language.md#statements\n");
}

// ---- Objects

// Classes of triton.language.core._aggregate: constructor, methods, operators, in loops and branches.
TEST(Aggregates, MadeAndCarried) {
  auto device = default_device();
  Buffer out(*device, 32);
  const Kernel kernel = Program::parse(R"(
import triton
import triton.language as tl
from triton.language.core import _aggregate as aggregate

@triton.jit
def twice(x):
    return 2 * x

@aggregate
class Range:
    """From a number to a number."""
    low: tl.tensor
    high: tl.tensor
    step: tl.constexpr

    @triton.constexpr_function
    def __init__(self, low, high, step=tl.constexpr(1)):
        self.low = low
        self.high = high
        self.step = tl.constexpr(step)

    @triton.jit
    def size(self):
        return (self.high - self.low) // self.step

    @triton.jit
    def wider(self, by):
        return Range(self.low - by, self.high + twice(by), self.step)

    @triton.jit
    def __add__(self, other):
        return Range(self.low + other.low, self.high + other.high, self.step)

    @staticmethod
    @triton.jit
    def to(high):
        return Range(0, high)

@triton.jit
def sum_of(r):
    total = 0
    for i in range(r.low, r.high, r.step):
        total += i
    return total

@triton.jit
def kernel(out, n):
    r = Range(n, 3 * n, step=2)
    tl.static_assert(isinstance(r, Range) and r.step == 2)
    tl.store(out, r.size())
    tl.store(out + 1, sum_of(r))
    for i in range(n):
        r = r.wider(i)
    tl.store(out + 2, r.low)
    tl.store(out + 3, r.high)
    if n > 3:
        s = r + Range.to(n)
    else:
        s = r
    tl.store(out + 4, s.low)
    tl.store(out + 5, s.high)
    t = Range(1, 2)
    tl.static_assert(t.low.dtype == tl.int32 and t.step + 0 == 1)
    tl.store(out + 6, t.size() + Range.to(t.high).wider(n).size())
)",
                                       "objects.py")
                            .kernel("kernel");
  for (int n : {3, 5}) {
    kernel.launch(*device, {1}, {}, out.as<int32_t>(), n);
    int sum = 0, by = n * (n - 1) / 2;
    for (int i = n; i < 3 * n; i += 2) sum += i;
    const int low = n - by, high = 3 * n + 2 * by;
    std::vector<int32_t> got = out.download<int32_t>();
    got.resize(7);
    EXPECT_EQ(got, (std::vector<int32_t>{n, sum, low, high, low, high + (n > 3 ? n : 0), 1 + 2 + 3 * n}));
  }
}

}  // namespace
}  // namespace tegula
