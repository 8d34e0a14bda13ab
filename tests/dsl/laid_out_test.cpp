// What is kept of configurations that were laid out.
#include "dsl/laid_out.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace tegula {
namespace {

TEST(LaidOutFuncs, KeepTheLastAskedFor) {
  dsl::LaidOutFuncs all;
  int made = 0;
  auto get = [&](const std::string& key) {
    return all.get(key, [&] {
      ++made;
      return dsl::LaidOut{nullptr, "code of " + key, ""};
    });
  };
  EXPECT_EQ(get("first").code, "code of first");
  for (int i = 0; i < 1000; ++i) get(std::to_string(i)), get("first");
  EXPECT_EQ(made, 1001);
  get("999");
  EXPECT_EQ(made, 1001);
  get("0");
  EXPECT_EQ(made, 1002) << "long ago";
  EXPECT_THROW(all.get("new", []() -> dsl::LaidOut { throw LaunchError("no"); }), LaunchError);
  EXPECT_EQ(get("new").code, "code of new");
}

}  // namespace
}  // namespace tegula
