// What was made last is kept, and made once for all who ask for it.
#include "dsl/last_made.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "runtime/base/error.h"

namespace tegula {
namespace {

TEST(LastMade, KeepsTheLastAskedFor) {
  dsl::LastMade<std::string> all(500);
  int made = 0;
  auto get = [&](const std::string& key) {
    return all.get(key, [&] {
      ++made;
      return "made of " + key;
    });
  };
  EXPECT_EQ(get("first"), "made of first");
  for (int i = 0; i < 1000; ++i) get(std::to_string(i)), get("first");
  EXPECT_EQ(made, 1001);
  get("999");
  EXPECT_EQ(made, 1001);
  get("0");
  EXPECT_EQ(made, 1002) << "long ago";
  EXPECT_THROW(all.get("new", []() -> std::string { throw LaunchError("no"); }), LaunchError);
  EXPECT_EQ(get("new"), "made of new");
}

TEST(LastMade, WhoWaitsForAnotherLeavesItsProcessorToIt) {
  dsl::LastMade<int> all(1);
  std::vector<std::unique_ptr<ProcessorSlot>> others;
  for (unsigned i = 1; i < processors(); ++i) others.push_back(std::make_unique<ProcessorSlot>());
  // One processor is left: the second thread takes it and asks for what the first one makes, which needs it too.
  std::thread first, second;
  first = std::thread([&] {
    EXPECT_EQ(all.get("key",
                      [&] {
                        second = std::thread([&] {
                          ProcessorSlot slot;
                          EXPECT_EQ(all.get("key", [] { return 2; }), 1);
                        });
                        std::this_thread::sleep_for(std::chrono::milliseconds(20));  // so that it waits
                        ProcessorSlot slot;
                        return 1;
                      }),
              1);
  });
  first.join();
  second.join();
}

}  // namespace
}  // namespace tegula
