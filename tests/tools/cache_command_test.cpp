// tegula cache, run as a user runs it: compiled kernels and tuning results, shown, carried and merged.
#include <cstdlib>

#include "tests/tools/command_fixture.h"

namespace tegula {
namespace {

using Result = CommandResult;

TEST_F(Command, CacheShowsAndClears) {
  Result r = tegula("cache");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.out, "kernels  0\n");
  r = tegula("run add.py::scale --random x=f32[100] --arg factor=2.0 --arg n=100 --constexpr BLOCK=128");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(tegula("cache").out, "kernels  1\n");
  r = tegula("cache --clear");
  EXPECT_EQ(r.status, 0);
  EXPECT_HAS(r.out, "cleared\n");
  EXPECT_HAS(tegula("cache").out, "kernels  0\n");
}

TEST_F(Command, CacheCarriesTuningResults) {
  write(
      "rows.jsonl",
      R"({"kernel":"k 12","key":"*f32 | n=8","gpu":"G","driver":"d 1","config":"B=1","status":"timed","winner":true,)"
      R"("times_us":[1.5,2.0],"predicted_us":1.0,"registers":32,"spill_bytes":0,"shared_bytes":0,"measured_at":1700000000})"
      "\n"
      R"({"kernel":"k 12","key":"*f32 | n=8","gpu":"G","driver":"d 1","config":"B=2","status":"failed","reason":"no",)"
      R"("times_us":[],"predicted_us":0.0,"registers":-1,"spill_bytes":-1,"shared_bytes":-1,"measured_at":1700000000})"
      "\n");
  EXPECT_HAS(tegula("cache").out, "tuned    0 problems, 0 results\n");
  Result r = tegula("cache --import rows.jsonl --tuning");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.out,
            "2 tuning results read from rows.jsonl\n"
            "k 12\n  key     *f32 | n=8\n  on      G, d 1\n  known   2 candidates\n  winner  B=1\n");
  EXPECT_HAS(tegula("cache").out, "tuned    1 problems, 2 results\n");
  EXPECT_EQ(tegula("cache --export out.jsonl").out, "2 tuning results written to out.jsonl\n");
  EXPECT_EQ(file("out.jsonl"), file("rows.jsonl"));
  EXPECT_EQ(tegula("cache --export -").out, file("rows.jsonl"));
  EXPECT_HAS(tegula("cache --clear").out, "cleared\n");
  EXPECT_HAS(tegula("cache").out, "tuned    1 problems, 2 results\n");  // by its own flag alone
  EXPECT_EQ(tegula("cache --clear-tuning").out, "tuning results cleared\n");
  EXPECT_EQ(tegula("cache --tuning").out, "");
  write("bad.jsonl", "{}\n");
  r = tegula("cache --import bad.jsonl");
  EXPECT_EQ(r.status, 3);
  EXPECT_HAS(r.err, "bad.jsonl:1: no tuning result");
  EXPECT_HAS(tegula("cache --import none.jsonl").err, "cannot read 'none.jsonl': No such file or directory");
}

TEST_F(Command, CachesOfOthersAreTakenIn) {
  setenv("TEGULA_WARNINGS", "off", 1);
  EXPECT_EQ(tegula("run add.py::leave --zeros x=f32[1]").status, 0);
  fs::rename(folder_ / "cache", folder_ / "other");
  write("rows.jsonl",
        R"({"kernel":"k 1","key":"*f32","gpu":"G","driver":"d","config":"B=1","status":"timed","winner":true,)"
        R"("times_us":[1.5],"measured_at":7})"
        "\n");
  EXPECT_EQ(tegula("cache --import rows.jsonl").status, 0);
  fs::rename(folder_ / "cache" / "tuning.sqlite", folder_ / "other" / "tuning.sqlite");
  fs::remove_all(folder_ / "cache");
  Result r = tegula("cache --merge other --tuning");
  EXPECT_HAS(r.out, " entries and 1 tuning results taken from other\nk 1\n");
  EXPECT_HAS(r.out, "winner  B=1\n");
  EXPECT_HAS(tegula("cache").out, "kernels  1\n");
  EXPECT_HAS(tegula("cache --merge none").err, "'none' is no folder");
  unsetenv("TEGULA_WARNINGS");
}

}  // namespace
}  // namespace tegula
