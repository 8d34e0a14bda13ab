// label: device
// The C++ front end as a library: it has all functions of the language, is used by many threads, and is tuned.
#include <unistd.h>

#include <filesystem>
#include <set>
#include <thread>

#include "dsl/semantics/sema.h"
#include "runtime/tuning/tuning_store.h"
#include "tests/dsl/front_ends_support.h"
#include "tests/runtime/fake_gpu.h"

namespace tegula {
namespace {

using namespace front_ends;

// By the same macros as in tile.h: what is missing there does not compile here.
TEST(CppKernel, HasAllFunctionsOfTheLanguage) {
  std::map<std::string, Tile (*)(const Operand&)> functions;
  auto add = [&](std::string name, Tile (*f)(const Operand&)) {
    if (name.back() == '_') name.pop_back();
    functions[name] = f;
  };
#define TEGULA_FN(name, params, method, doc) add(#name, &tegula::name<>);
#include "dsl/semantics/functions.def"
#define TEGULA_OP(...)
#define TEGULA_UNARY(...)
#define TEGULA_BINARY(...)
#define TEGULA_TERNARY(...)
#define TEGULA_FUNCTION_UNARY(Name, text, rule, traits, doc) add(#text, &tegula::text<>);
#define TEGULA_FUNCTION_BINARY(Name, text, rule, traits, doc) add(#text, &tegula::text<>);
#define TEGULA_FUNCTION_TERNARY(Name, text, names, rule, traits, doc) add(#text, &tegula::text<>);
#include "codegen/ir/ops.def"
#define TEGULA_LIBDEVICE(name, signature, body, doc) add("libdevice." #name, &tegula::libdevice::name<>);
#define TEGULA_LIBDEVICE_TOO(...)
#include "codegen/ir/libdevice.def"

  for (const dsl::FunctionInfo& info : dsl::function_table()) {
    ASSERT_TRUE(functions.contains(info.name)) << info.name << " of the language is no function of C++";
    // The call arrives at the row of that name, which finds its first argument missing.
    bool needs_argument = !info.params.empty() && info.params[0].required;
    if (!needs_argument) continue;
    static Tile (*function)(const Operand&);
    function = functions[info.name];
    auto k = kernel("k", [](Ptr<"x">) { function(detail::Absent()); });
    std::vector<ArgType> types{ArgType{Elem::F32, true}};
    std::string message = message_of([&] { k.kernel().tile_ir(types, {}); });
    EXPECT_NE(message.find(fmt::format("{} lacks its argument '{}'", info.name, info.params[0].name)),
              std::string::npos)
        << message;
  }
}

template <int factor>
auto scale() {
  return kernel("scale", [](Ptr<"out"> out, Ptr<"x"> x, Int<"n"> n, Const<"BLOCK"> BLOCK) {
    Tile i = program_id(0) * BLOCK + arange(0, BLOCK);
    Tile v = load(x + i, i < n);
    for (Tile k : range(0, n, 100)) v += k * 0;
    store(out + i, v * factor, i < n);
  });
}

// One of eight functions, which differ in a number.
auto scale(int factor) {
  return [&]<int... kFactors>(std::integer_sequence<int, kFactors...>) {
    return std::array{&scale<kFactors>...}.at(size_t(factor))();
  }
  (std::make_integer_sequence<int, 8>());
}

TEST(CppKernel, IsBuiltInManyThreads) {
  auto shared = scale(3);
  std::vector<ArgType> types{{Elem::F32, true}, {Elem::F32, true}, {Elem::I32}};
  auto ir = [&](const Kernel& k, int block) { return k.tile_ir(types, {.constexprs = {{"BLOCK", block}}}); };
  std::vector<std::string> same(8), own(8);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        same[size_t(t)] = ir(shared, 64);
        own[size_t(t)] = ir(scale(t), 128 << t);
      }
    });
  for (std::thread& t : threads) t.join();
  for (int t = 0; t < 8; ++t) {
    EXPECT_EQ(same[size_t(t)], ir(shared, 64));
    EXPECT_EQ(own[size_t(t)], ir(scale(t), 128 << t));
  }
}

// What is known of a kernel belongs to its IR: other objects with the same code find it, other code does not.
TEST(CppKernel, TuningIsRememberedByTheCode) {
  auto folder = std::filesystem::temp_directory_path() / fmt::format("tegula_cpp_tuning_{}", getpid());
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  {
    auto store = std::make_shared<TuningStore>(TuningStore::Options{folder / "t.sqlite", {}});
    FakeGpu gpu;
    gpu.cost = [](const KernelImage& image, Grid) { return image.num_warps == 4 ? 10.0 : 15.0 + image.num_warps; };
    Autotune tuning;
    for (int warps : {1, 2, 4, 8}) tuning.configs.push_back(config({{"BLOCK", 256}}, num_warps(warps)));
    tuning.key = {"n"};
    Buffer x(gpu, 4000), y(gpu, 4000);
    auto timed = [&](int factor) {
      Kernel k = scale(factor).autotune(tuning);
      k.set_cache(nullptr);
      k.set_tuning_store(store);
      const std::array<Arg, 3> args{Arg(y.as<float>()), Arg(x.as<float>()), Arg(1000)};
      auto grid = [](const Config& c) { return Grid{unsigned((1000 + c["BLOCK"] - 1) / c["BLOCK"])}; };
      TuneReport report = k.tune(gpu, detail::GridRef(grid), {}, args);
      EXPECT_EQ(report.best.num_warps, 4);
      return report.timed;
    };
    EXPECT_EQ(timed(2), 4);
    EXPECT_EQ(timed(2), 0);
    EXPECT_EQ(timed(3), 4);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tegula
