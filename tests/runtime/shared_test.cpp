// label: unit
#include "runtime/base/shared.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/function.h"
#include "runtime/base/std_shared.h"

namespace tegula {
namespace {

/// Counts those that live.
struct Living {
  explicit Living(int& count, int number = 0) : number(number), count(&count) { ++count; }
  Living(const Living& other) : number(other.number), count(other.count) { ++*count; }
  virtual ~Living() { --*count; }
  int number;
  int* count;
};
struct Derived : Living {
  using Living::Living;
};

TEST(Shared, LivesAsLongAsItsLastOwner) {
  int living = 0;
  Shared<Living> a = Shared<Living>::make(living, 7);
  {
    Shared<const Living> b = a, c;
    c = b;
    EXPECT_EQ(b, c);
    EXPECT_EQ(c->number, 7);
    a = nullptr;
    EXPECT_EQ(living, 1);
    b = std::move(c);
    EXPECT_FALSE(c);  // NOLINT: moved from
    EXPECT_EQ(living, 1);
  }
  EXPECT_EQ(living, 0);
  EXPECT_EQ(a, nullptr);
}

TEST(Shared, TakesOverPointersOfTheStandardLibrary) {
  int living = 0;
  {
    Shared<Living> one = std::make_unique<Derived>(living);
    auto given = std::make_shared<Derived>(living);
    Shared<Living> two = given;
    EXPECT_EQ(two.get(), given.get());
    given.reset();
    EXPECT_EQ(living, 2);
    const std::shared_ptr<Living> back = std_shared(two);
    EXPECT_EQ(back.get(), two.get());
    one = two = nullptr;
    EXPECT_EQ(living, 1);
  }
  EXPECT_EQ(living, 0);
  EXPECT_FALSE(Shared<Living>(std::shared_ptr<Living>()));
  EXPECT_FALSE(std_shared(Shared<Living>()));
}

TEST(Shared, OwnersOfManyThreads) {
  int living = 0;
  {
    const Shared<Living> shared = Shared<Living>::make(living);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 10000; ++i) Shared<Living> mine = shared;
      });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(living, 1);
  }
  EXPECT_EQ(living, 0);
}

int twice(int x) { return 2 * x; }

TEST(Function, CopiesShareWhatItHolds) {
  int living = 0;
  {
    Function<int(int)> add = [held = Living(living, 3), calls = 0](int x) mutable { return held.number + x + ++calls; };
    EXPECT_EQ(living, 1);
    Function<int(int)> copy = add;
    EXPECT_EQ(add(10), 14);
    EXPECT_EQ(copy(10), 15);
    add = nullptr;
    EXPECT_FALSE(add);
    EXPECT_EQ(copy(10), 16);
    EXPECT_EQ(living, 1);
  }
  EXPECT_EQ(living, 0);
}

TEST(Function, ConvertsAsTheFunctionDoes) {
  const Function<double(const std::string&)> length = [](std::string_view s) { return s.size(); };
  EXPECT_EQ(length("four"), 4.0);
  int called = 0;
  const Function<void(int)> ignoring = [&](int x) { return called = x; };
  ignoring(5);
  EXPECT_EQ(called, 5);
  const Function<int(int)> plain = twice, of_standard = std::function<int(int)>(twice);
  EXPECT_EQ(plain(4) + of_standard(5), 18);
  const Function<std::unique_ptr<int>(std::unique_ptr<int>)> moves = [](std::unique_ptr<int> p) { return p; };
  EXPECT_EQ(*moves(std::make_unique<int>(6)), 6);
  static_assert(!std::is_constructible_v<Function<int(int)>, int (*)(std::string)>);
  static_assert(!std::is_constructible_v<Function<std::string()>, int (*)()>);
}

TEST(Function, OfNothingIsEmptyAndRefusesACall) {
  int (*null)(int) = nullptr;
  const std::vector<Function<int(int)>> empty{{}, nullptr, null, std::function<int(int)>(), Function<long(int)>()};
  for (const auto& f : empty) {
    EXPECT_FALSE(f);
    EXPECT_TRUE(f == nullptr);
    EXPECT_THROW(f(1), Error);
  }
}

int through(FunctionRef<int(int)> f) { return f ? f(20) : -1; }

TEST(FunctionRef, RefersToFunctionsOfAllKinds) {
  int offset = 2;
  EXPECT_EQ(through([&](int x) { return x + offset; }), 22);
  EXPECT_EQ(through(twice), 40);
  EXPECT_EQ(through(&twice), 40);
  EXPECT_EQ(through(std::function<int(int)>(twice)), 40);
  EXPECT_EQ(through(Function<int(int)>(twice)), 40);
  EXPECT_EQ(through({}), -1);
  EXPECT_EQ(through(nullptr), -1);
  EXPECT_EQ(through(std::function<int(int)>()), -1);
  EXPECT_THROW(FunctionRef<int(int)>()(1), Error);
}

}  // namespace
}  // namespace tegula
