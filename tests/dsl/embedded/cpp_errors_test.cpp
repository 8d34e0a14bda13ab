// label: unit
// What users of the C++ front end are told, with its full text.
#include <filesystem>

#include "tests/dsl/front_ends_support.h"

namespace tegula {
namespace {

/// Source lines are found by the path that the compiler was given, which may be relative to a folder of the build: goes
/// to one that it leads from, above the program or below where it was started (a program may be run beside its
/// sources).
const bool found_sources = [] {
  namespace fs = std::filesystem;
  auto leads = [](const fs::path& folder) { return fs::exists(folder / __FILE__); };
  fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  while (!leads(folder) && folder.has_relative_path()) folder = folder.parent_path();
  if (!leads(folder)) {
    for (auto it = fs::recursive_directory_iterator("."); it != fs::recursive_directory_iterator(); ++it) {
      if (it.depth() == 1) it.disable_recursion_pending();
      if (it->is_directory() && leads(it->path())) {
        folder = it->path();
        break;
      }
    }
  }
  fs::current_path(folder);
  return true;
}();

/// What recording the kernel for a float32 pointer "x" and int32 numbers reports; the path of this file is left out.
std::string errors_of(const Kernel& kernel, const LaunchOptions& options = {}) {
  std::vector<ArgType> types;
  for (const KernelParam& p : kernel.params())
    if (!p.is_constexpr) types.push_back(p.name == "x" ? ArgType{Elem::F32, true, 16} : ArgType{Elem::I32});
  std::string text = message_of([&] { kernel.tile_ir(types, options); });
  const std::string file = std::string(__FILE__) + ":";
  for (size_t at; (at = text.find(file)) != std::string::npos;) text.erase(at, file.size());
  return text;
}

TEST(CppErrors, TypeChangesInALoop) {
  const int line = __LINE__ + 3;
  auto k = kernel("k", [](Ptr<"x"> x, Int<"n"> n) {
    Tile a = 0;
    for (Tile k : range(0, n)) a = a + 1.5f;
    store(x, a);
  });
  EXPECT_EQ(
      errors_of(k),
      fmt::format(R"({}: error: the type of a Tile changes in the loop: int32 before it, float32 at the end of its body
        for (Tile k : range(0, n)) a = a + 1.5f;
  hint: give it its final type before the loop, or cast it back with .to(...)
  see docs/cpp.md
)",
                  line));
}

TEST(CppErrors, ValuesOfLoopsAndBranchesEndWithThem) {
  const int line = __LINE__ + 3;
  auto loop = kernel("k", [](Ptr<"x"> x, Int<"n"> n) {
    Tile a;
    store(x, a);
    for (Tile k : range(0, n)) a = k;
    store(x + 1, a);
    std::vector<Tile> v;
    auto read = [&] { store(x, v[0]); };
    if_(
        n > 1, [&] { v.push_back(load(x)); }, read);
    Tile c;
    while_([&] { return c = n > 1; }, [&] { n -= 1, store(x, c); });
    Tile last = Tile(none);
    for (Tile k : range(n)) store(x, last), last = k;
  });
  EXPECT_EQ(errors_of(loop), fmt::format(R"({}: error: this Tile has no value yet
        store(x, a);
{}: error: this Tile has a value only inside the loop or branch that gave it one
        store(x + 1, a);
{}: error: this Tile has a value only inside the loop or branch that gave it one
        auto read = [&] {{ store(x, v[0]); }};
{}: error: this Tile has a value only inside the condition of the loop
        while_([&] {{ return c = n > 1; }}, [&] {{ n -= 1, store(x, c); }});
{}: error: this Tile is None before the loop and gets another value in its body, so it has no one value here
        for (Tile k : range(n)) store(x, last), last = k;
)",
                                         line, line + 2, line + 4, line + 8, line + 10));
}

TEST(CppErrors, LoopsThatAreLeft) {
  const int line = __LINE__ + 2;
  auto k = kernel("k", [](Ptr<"x"> x, Int<"n"> n) {
    for (Tile k : range(0, n)) {
      store(x, k);
      break;
    }
    store(x, 1.0f);
  });
  EXPECT_EQ(errors_of(k), fmt::format(R"({}: error: a loop of the kernel is left by break, goto, return or an exception
        for (Tile k : range(0, n)) {{
  hint: its body is recorded once: use while_ for a loop that may end early, or a plain C++ loop for one that ends when the kernel is recorded
  see docs/cpp.md
)",
                                      line));
  auto caught = kernel("k", [](Ptr<"x"> x, Int<"n"> n) {
    try {
      while_([&] { return n > 1; },
             [&] {
               n -= 1;
               throw 3;
             });
    } catch (int) {
    }
    store(x, n);
  });
  EXPECT_NE(errors_of(caught).find("error: a loop or branch of the kernel is left by an exception"), std::string::npos);
}

TEST(CppErrors, LoopsThatNeverEnd) {
  auto k = kernel("k", [](Ptr<"x"> x) { while_([] { return Tile(true); }, [&] { store(x, 1.0f); }); });
  EXPECT_NE(errors_of(k).find("error: the condition of while_ is always true: the loop would never end"),
            std::string::npos);
}

TEST(CppErrors, SeveralInOneRun) {
  const int line = __LINE__ + 2;
  auto k = kernel("k", [](Ptr<"x"> x, Int<"n"> n) {
    Tile a = arange(0, 16) + arange(0, 32);
    for (Tile k : range(0, 1.5)) store(x, k);
    if_(arange(0, 8), [&] { n += 1; });
    Tile b = load(n, "mosk"_a = n > 1);
    store(x, a + b);
    static_assert_(cdiv(3, 2) == 1, "two");
    store(x, Tile(~uint64_t(0)) + -1);
    for (Tile k : range(0, n, 1, {.num_stages = -1})) store(x, k);
  });
  EXPECT_EQ(errors_of(k), fmt::format(R"({}: error: shapes [16] and [32] do not fit together at dimension 0: 16 and 32
        Tile a = arange(0, 16) + arange(0, 32);
  hint: extents must be equal or 1; x[:, None] and x[None, :] add a dimension of extent 1
  see docs/language.md#operators
{}: error: range takes integers, found the float 1.5
        for (Tile k : range(0, 1.5)) store(x, k);
{}: error: a condition must be one value, found a tile of [8] int32
        if_(arange(0, 8), [&] {{ n += 1; }});
  hint: use tl.where for a choice element by element, or reduce the tile first
  see docs/cpp.md
{}: error: load has no argument 'mosk'
        Tile b = load(n, "mosk"_a = n > 1);
  hint: did you mean 'mask'?
  see docs/language.md#functions
{}: error: static_assert failed: two
        static_assert_(cdiv(3, 2) == 1, "two");
{}: error: the number -1 does not fit uint64
        store(x, Tile(~uint64_t(0)) + -1);
  hint: convert the unsigned operand to a signed type first
  see docs/language.md#operators
{}: error: num_stages is -1, expected 0 to 32
        for (Tile k : range(0, n, 1, {{.num_stages = -1}})) store(x, k);
)",
                                      line, line + 1, line + 2, line + 3, line + 5, line + 6, line + 7));
}

TEST(CppErrors, CombineFunctionsSeeTheirArgumentsAlone) {
  const int line = __LINE__ + 3;
  auto k = kernel("k", [](Ptr<"x"> x) {
    Tile o = load(x), t = load(x + arange(0, 8));
    store(x, reduce(t, 0, [&](Tile a, Tile b) { return a + b + o; }));
    store(x, reduce(t, 0, [&](Tile a, Tile) { return o = a; }));
  });
  EXPECT_EQ(errors_of(k), fmt::format(R"({}: error: the combine function uses a Tile that is not among its arguments
        store(x, reduce(t, 0, [&](Tile a, Tile b) {{ return a + b + o; }}));
{}: error: the combine function assigns a Tile that is not its own
        store(x, reduce(t, 0, [&](Tile a, Tile) {{ return o = a; }}));
)",
                                      line, line + 1));
}

TEST(CppErrors, ArgumentsAndConstexprs) {
  auto k = kernel("k", [](Ptr<"x"> x, Const<"BLOCK"> BLOCK) { store(x, BLOCK); });
  EXPECT_EQ(errors_of(k), R"(kernel 'k': the constexpr parameter 'BLOCK' has no value
  hint: give it at the launch: .constexprs = {{"BLOCK", value}} in C++, --constexpr BLOCK=VALUE on the command line, BLOCK=value in Python)");
  EXPECT_EQ(errors_of(k, {.constexprs = {{"BLOCK", "abc"}}}),
            "the constexpr parameter 'BLOCK' is \"abc\", expected an integer");
  EXPECT_NE(errors_of(k, {.constexprs = {{"BLOCK", 1}, {"BLOK", 1}}}).find("did you mean 'BLOCK'?"), std::string::npos);
  const int line = __LINE__ + 1;
  auto typed = kernel("k", [](Ptr<"x", int> x, Float<"f"> f, Bool<"b"> b) { store(x, f + b); });
  std::string source = R"(
      auto typed = kernel("k", [](Ptr<"x", int> x, Float<"f"> f, Bool<"b"> b) { store(x, f + b); });
)";
  EXPECT_EQ(errors_of(typed),
            fmt::format("{0}: error: the argument 'x' is a pointer to float32, expected a pointer to int32{1}"
                        "{0}: error: the argument 'f' is int32, expected a floating-point number{1}"
                        "{0}: error: the argument 'b' is int32, expected a bool{1}",
                        line, source));
  EXPECT_EQ(message_of([] { kernel("k", [](Ptr<"x">, Int<"x">) {}); }), "kernel 'k' has two parameters 'x'");
}

TEST(CppErrors, TilesLiveInOneRecording) {
  EXPECT_EQ(message_of([] { Tile t = 3; }),
            "a Tile outside of a kernel\n  hint: Tiles exist while a kernel is recorded: use them in the function that "
            "is given to tegula::kernel, and in what it calls");
  static std::vector<Tile> kept;
  static const auto keep = kernel("k", [](Ptr<"x"> x) { kept.push_back(Tile(3)), store(x, 1.0f); });
  EXPECT_EQ(errors_of(keep), "no error");
  EXPECT_EQ(errors_of(kernel("k", [](Ptr<"x"> x) { store(x, kept[0]); })),
            "a Tile of another kernel\n  hint: a Tile lives as long as the recording that it was made in");
  EXPECT_EQ(errors_of(kernel("k", [](Ptr<"x">) { kept[0] = 3; })), "an assignment to a Tile of another kernel");
  std::vector<Tile> moved = std::move(kept);
  moved.emplace_back(std::move(moved[0]));  // outside of a recording, Tiles may still move and end
  auto inside = kernel("outer", [](Ptr<"x">) { errors_of(keep), keep.kernel().tile_ir({{{Elem::F32, true}}}, {}); });
  EXPECT_EQ(errors_of(inside),
            "kernel 'k' is to be recorded while kernel 'outer' is\n  hint: launch kernels outside the functions that "
            "are kernels");
  EXPECT_EQ(errors_of(keep), "no error");
}

TEST(CppErrors, ExceptionsOfTheUsersFunctionPassThrough) {
  static bool fail = true;
  auto k = kernel("k", [](Ptr<"x"> x, Int<"n"> n) {
    for (Tile k : range(n)) {
      if_(k > 1, [&] {
        store(x, k);
        if (fail) throw std::runtime_error("mine");
      });
    }
  });
  EXPECT_THROW(errors_of(k), std::runtime_error);
  fail = false;
  EXPECT_EQ(errors_of(k), "no error");
}

}  // namespace
}  // namespace tegula
